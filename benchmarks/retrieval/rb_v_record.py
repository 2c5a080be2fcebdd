"""Rendered episodes of MetaWorld for benchmark RB-V: frames of three cameras, states and tasks.

MuJoCo renders by EGL, without a screen; without multisampling and shadows a frame takes some 15 ms of processor time.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch
from zlib import crc32

import numpy as np
from rb_v_scenes import disturbed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray
    from rb_v_scenes import Disturbance, Solid

    _Shots = Mapping[str, tuple[str, Disturbance | None]]

CAMERAS: Final = {"this camera": "corner2", "other camera": "corner3", "wrist camera": "gripperPOV"}
"""Two fixed cameras, and one that moves with the gripper: how tables call them, and their names in MetaWorld."""

SIZE: Final = 96
_MOST_STEPS: Final = 200
_SUCCESSES: Final = 10
_NOISE: Final = 0.1


class Rendered(NamedTuple):
    """E episodes: tasks [E], states [E, frames, 39], and frames uint8 [E, frames, 96, 96, 3] by camera and by scene.

    Scenes are disturbed ones, as the first camera sees them.
    """

    tasks: NDArray[np.str_]
    states: NDArray[np.float32]
    cameras: dict[str, NDArray[np.uint8]]
    scenes: dict[str, NDArray[np.uint8]]


class Take(NamedTuple):
    """Which frames of which episodes: tasks by number; `spread` frames evenly over each, or its `first` ones.

    Of an episode that is shorter than `first`, the last frame is repeated. part: that many in a row, of the first ones.
    """

    tasks: slice
    episodes: int
    seed: int
    spread: int = 0
    first: int = 0
    part: int = 0

    @property
    def name(self) -> str:
        """The name of its file, without suffix."""
        parts = (self.tasks.start, self.tasks.stop, self.tasks.step, *self[1:])
        return "rb_v-" + "-".join(map(str, parts))

    def start(self, task: str, number: int) -> int:
        """Return where the part of an episode starts, at random."""
        return int(self.random(task, number, 1).integers(0, self.first - self.part + 1))

    def random(self, task: str, number: int, purpose: int = 0) -> np.random.Generator:
        """Return random numbers of an episode."""
        return np.random.default_rng([self.seed, number, crc32(task.encode()), purpose])

    def steps(self, task: str, number: int, length: int) -> NDArray[np.int64]:
        """Return the timesteps of an episode of `length`."""
        if self.spread:
            return np.linspace(0, length - 1, self.spread).round().astype(np.int64)
        steps = np.minimum(np.arange(self.first), length - 1)
        start = self.start(task, number)
        return steps[start : start + self.part] if self.part else steps


def rendered(cache: Path, take: Take, scenes: Mapping[str, Disturbance] | None = None) -> Rendered:
    """Return episodes from all cameras, and in disturbed scenes; they are rendered once into the cache folder."""
    shots = {name: (CAMERAS["this camera"], disturb) for name, disturb in (scenes or {}).items()}
    return _stored(cache / f"{take.name}.npz", take, {name: (camera, None) for name, camera in CAMERAS.items()} | shots)


def rendered_part(cache: Path, take: Take, name: str, disturb: Disturbance) -> Rendered:
    """Return a part of each episode in a disturbed scene alone."""
    return _stored(cache / f"{take.name}.npz", take, {name: (CAMERAS["this camera"], disturb)})


def _stored(file: Path, take: Take, shots: _Shots) -> Rendered:
    if not file.exists():
        os.environ.update(MUJOCO_GL="egl", LP_NUM_THREADS="1")  # before MuJoCo is imported
        made = [_render_task(name, take, shots) for name in _names()[take.tasks]]
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".part.npz")
        np.savez(draft, **{name: np.concatenate([part[name] for part in made]) for name in made[0]})
        draft.replace(file)
    with np.load(file) as stored:
        frames = {name: stored[name] for name in shots}
        scenes = {name: frames.pop(name) for name in shots if name not in CAMERAS}
        return Rendered(stored["tasks"], stored["states"], frames, scenes)


def _names() -> Sequence[str]:
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415  (after the environment is set)

    return sorted(ENV_POLICY_MAP)


def _render_task(name: str, take: Take, shots: _Shots) -> dict[str, NDArray[Any]]:
    import metaworld  # noqa: PLC0415  (as above)
    import mujoco  # noqa: PLC0415

    print(f"  rendering {name}", flush=True)
    with patch.object(metaworld, "_N_GOALS", take.episodes):
        benchmark = metaworld.MT1(name, seed=take.seed)  # type: ignore[no-untyped-call]  # not annotated there
    env: Any = benchmark.train_classes[name]()
    states, frames = [], {shot: list[Any]() for shot in shots}
    renderer: Any = None
    for number in range(take.episodes):
        env.set_task(benchmark.train_tasks[number])
        played, poses = _play(env, name, take.seed * 1000 + number)
        if renderer is None:
            env.model.vis.quality.offsamples = 0
            renderer = mujoco.Renderer(env.model, SIZE, SIZE)
        steps = take.steps(name, number, len(played))
        for shot, (camera, disturb) in shots.items():
            with disturbed(env.model, disturb, take.random(name, number)) as added:
                frames[shot].append([_shoot(env.model, renderer, poses[step], camera, added) for step in steps])
        states.append(played[steps])
    renderer.close()
    about = {"tasks": np.repeat([name], take.episodes), "states": np.stack(states)}
    return about | {one: np.array(frames[one]) for one in shots}


def _shoot(model: Any, renderer: Any, pose: tuple[Any, ...], camera: str, added: Sequence[Solid]) -> NDArray[np.uint8]:
    """Return a picture of a pose, with the added solids on the table."""
    import mujoco  # noqa: PLC0415

    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.mocap_pos[:], data.mocap_quat[:] = pose
    mujoco.mj_forward(model, data)
    renderer.update_scene(data, camera=camera)
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
    for solid in added:
        geom = renderer.scene.geoms[renderer.scene.ngeom]
        kind = getattr(mujoco.mjtGeom, f"mjGEOM_{solid.kind}")
        mujoco.mjv_initGeom(geom, kind, solid.size, solid.place, np.eye(3).ravel(), solid.colour)
        renderer.scene.ngeom += 1
    image: NDArray[np.uint8] = renderer.render().copy()
    return image


def _play(env: Any, name: str, seed: int) -> tuple[NDArray[np.float32], list[tuple[Any, ...]]]:
    """Play an episode by the scripted policy, with some noise; return its states and poses."""
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415

    policy, rng = ENV_POLICY_MAP[name](), np.random.default_rng(seed)
    state, _ = env.reset()
    states, poses, successes = [], [], 0
    while len(states) < _MOST_STEPS and successes < _SUCCESSES:
        states.append(np.asarray(state, np.float32))
        data = env.data
        poses.append(tuple(part.copy() for part in (data.qpos, data.qvel, data.mocap_pos, data.mocap_quat)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # gains of the policies are high on purpose
            action = policy.get_action(state)
        state, _, _, _, info = env.step(np.clip(action + rng.normal(0, _NOISE, 4), -1, 1).astype(np.float32))
        successes += int(info["success"] > 0)
    return np.stack(states), poses
