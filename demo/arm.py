"""MetaWorld: a robot arm with scripted policies, without camera frames.

Seeds, plays and stops single episodes; see demo.tasks for which ones, demo.record for the files.
"""

from __future__ import annotations

import importlib.metadata
import warnings
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import metaworld
import numpy as np
from metaworld.policies import ENV_POLICY_MAP

from demo.simulator import Step
from wshard.core.array_fields import DType
from wshard.core.recording.channel_defs import ChannelDef

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from demo.tasks import Job

_GOAL_SEED = 42
_GOAL_BATCH = 10  # goals drawn at once, as many as the demo plans; each must be simulated
_MAX_STEPS = 250
_SUCCESS_STEPS = 10  # the episode ends after this many, so that it also shows the arm staying at the goal


class Arm:
    """The simulated arm of one task with its scripted policy; a `demo.simulator.Simulator`."""

    observations = (ChannelDef(name="state", dtype=DType.FLOAT32, shape=[39]),)
    action = ChannelDef(name="ctrl", dtype=DType.FLOAT32, shape=[4])

    def __init__(self, task: str) -> None:
        self._benchmark = _draw_goals(task, _GOAL_BATCH)
        self._env: Any = self._benchmark.train_classes[task]()
        self._policy_class: Any = ENV_POLICY_MAP[task]
        self.tick_hz = 1.0 / float(self._env.dt)
        self.metadata: Mapping[str, Any] = {
            "policy": self._policy_class.__name__,
            "goal_seed": _GOAL_SEED,
            "simulator": "metaworld",
            "versions": {name: importlib.metadata.version(name) for name in ("metaworld", "mujoco")},
        }

    def run(
        self,
        job: Job,
        write: Callable[[Step], None],
        respond: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None,
    ) -> Mapping[str, Any]:
        """Play one episode; `job.episode` picks the goal, `job.seed` the action noise.

        respond: a policy, state -> action, by default the scripted one. The environment never terminates, so the
        last step is marked as truncated.
        """
        policy = self._policy_class()
        act = respond or (lambda state: _respond(policy, state))
        rng = np.random.default_rng(job.seed)
        if job.episode >= len(self._benchmark.train_tasks):
            self._benchmark = _draw_goals(job.task, -(-(job.episode + 1) // _GOAL_BATCH) * _GOAL_BATCH)
        self._env.set_task(self._benchmark.train_tasks[job.episode])
        state, _ = self._env.reset()
        successes = 0
        for step in range(1, _MAX_STEPS + 1):
            noisy_action = act(state) + rng.normal(0.0, job.noise, size=4)
            # Rounded before the step, so that replaying the recorded actions gives the recorded states.
            action = np.clip(noisy_action, -1.0, 1.0).astype(np.float32)
            next_state, reward, _, _, info = self._env.step(action)
            successes += int(info["success"] > 0)
            is_last = successes == _SUCCESS_STEPS or step == _MAX_STEPS
            observations = {"state": state.astype(np.float32)}
            write(Step(observations, action, reward=float(reward), done=False, truncated=is_last))
            if is_last:
                break
            state = next_state
        reached_success = successes == _SUCCESS_STEPS
        stop = f"{_SUCCESS_STEPS} successful steps" if reached_success else f"limit of {_MAX_STEPS} steps"
        return {"success": successes > 0, "stop": stop}

    def close(self) -> None:
        """Close the simulation."""
        self._env.close()


def _draw_goals(task: str, count: int) -> Any:
    """Return the benchmark of a task with its first `count` goals only, as each is simulated when drawn."""
    with patch.object(metaworld, "_N_GOALS", count):
        return metaworld.MT1(task, seed=_GOAL_SEED)  # type: ignore[no-untyped-call]  # not annotated there


def _respond(policy: Any, state: NDArray[np.float64]) -> NDArray[np.float64]:
    with warnings.catch_warnings():
        # The policies' gains are high on purpose and rely on clipping; they warn about it at almost every step.
        warnings.filterwarnings(
            "ignore", r"Constant\(s\) may be too high", UserWarning, r"metaworld\.policies\.policy$"
        )
        response: NDArray[np.float64] = policy.get_action(state)
    return response
