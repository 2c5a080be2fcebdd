"""Gymnasium's classic control with camera frames, driven by small hand-written controllers.

Defines the controllers, the size of frames and the criteria of success; see demo.tasks for which episodes are played,
demo.record for the files.
"""

from __future__ import annotations

import importlib.metadata
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from demo.simulator import Step
from wshard.core.array_fields import DType
from wshard.core.recording.channel_defs import ChannelDef
from wshard.types import Modality

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from demo.tasks import Job

_MAX_STEPS = 200
_FRAME_HEIGHT = 100  # frames are subsampled to about this many rows

State = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """Controller and criterion of success of one environment.

    tick_hz: rate of the physics. success: which end of an episode is a success: True the terminal state, False the step
    limit, None neither.
    """

    policy: str
    controller: str
    steer: Callable[[State], float]
    tick_hz: float
    success: bool | None


def _balance(state: State) -> float:
    return 1.0 if state[2] + 0.5 * state[3] > 0 else 0.0


def _rock(state: State) -> float:
    return 2.0 if state[1] >= 0 else 0.0


def _pump(state: State) -> float:
    return 2.0 if state[4] < 0 else 0.0


def _swing_up(state: State) -> float:
    cosine, sine, speed = (float(value) for value in state)
    if cosine > 0.9:
        return -10.0 * math.atan2(sine, cosine) - 2.0 * speed
    # Relative to the upright rod at rest (mass 1, length 1).
    missing_energy = 5.0 - (speed * speed / 6.0 + 5.0 * cosine)
    return math.copysign(2.0, speed) * math.copysign(1.0, missing_energy)


RECIPES: Mapping[str, Recipe] = {
    "Acrobot-v1": Recipe("pump", "torque against the speed of the first joint", _pump, tick_hz=5.0, success=True),
    "CartPole-v1": Recipe(
        "balance", "push towards the side to which angle + 0.5 * angular speed points", _balance, 50.0, success=False
    ),
    # The mountain car has no physical time; its playback rate is used instead.
    "MountainCar-v0": Recipe("rock", "push along the velocity", _rock, tick_hz=30.0, success=True),
    "Pendulum-v1": Recipe(
        "swing-up", "pump energy up to the upright one's, then PD control near the top", _swing_up, 20.0, success=None
    ),
}


class Classic:
    """One classic-control environment with its controller; a `demo.simulator.Simulator`."""

    def __init__(self, task: str) -> None:
        self._recipe = RECIPES[task]
        self._env: Any = gymnasium.make(task, render_mode="rgb_array", max_episode_steps=_MAX_STEPS)
        state, _ = self._env.reset(seed=0)
        height, width, _ = self._render().shape
        self._stride = height // _FRAME_HEIGHT
        self.tick_hz = self._recipe.tick_hz
        self.observations = (
            ChannelDef(name="state", dtype=DType.FLOAT32, shape=list(state.shape)),
            ChannelDef("camera/rgb", DType.UINT8, list(self._frame().shape), modality=Modality.RGB),
        )
        self._discrete = isinstance(self._env.action_space, gymnasium.spaces.Discrete)
        self.action = ChannelDef("ctrl", DType.INT64, []) if self._discrete else ChannelDef("ctrl", DType.FLOAT32, [1])
        self.metadata: Mapping[str, Any] = {
            "policy": self._recipe.policy,
            "controller": self._recipe.controller,
            "frames": f"every {self._stride}th row and column of {height}x{width} pixels, seen before the action",
            "simulator": "gymnasium",
            "versions": {name: importlib.metadata.version(name) for name in ("gymnasium", "pygame")},
        }

    def run(self, job: Job, write: Callable[[Step], None]) -> Mapping[str, Any]:
        """Play one episode; `job.seed` gives both the start state and the action noise."""
        rng = np.random.default_rng(job.seed)
        state, _ = self._env.reset(seed=job.seed)
        terminated = truncated = False
        while not (terminated or truncated):
            observations = {"state": state, "camera/rgb": self._frame()}
            action = self._act(state, job.noise, rng)
            state, reward, terminated, truncated, _ = self._env.step(action)
            write(Step(observations, action, float(reward), done=terminated, truncated=truncated))
        stop = "terminal state" if terminated else f"limit of {_MAX_STEPS} steps"
        success = self._recipe.success
        return {"stop": stop} if success is None else {"stop": stop, "success": terminated == success}

    def close(self) -> None:
        """Close the environment and its drawing surface."""
        self._env.close()

    def _act(self, state: State, noise: float, rng: np.random.Generator) -> NDArray[np.float32] | np.int64:
        space = self._env.action_space
        steered = self._recipe.steer(state)
        if self._discrete:
            return np.int64(rng.integers(space.n) if rng.random() < noise else steered)
        noisy = steered + noise * space.high * rng.normal(size=1)
        clipped: NDArray[np.float32] = np.clip(noisy, space.low, space.high).astype(np.float32)
        return clipped

    def _frame(self) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self._render()[:: self._stride, :: self._stride])

    def _render(self) -> NDArray[np.uint8]:
        picture: NDArray[np.uint8] = self._env.render()
        return picture
