"""Rendered episodes of MetaWorld for benchmark RB-V: frames of two cameras, states and tasks.

MuJoCo renders by EGL, without a screen; without multisampling and shadows a frame takes some 15 ms of processor time.
"""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

CAMERAS: Final = ("corner2", "corner3")
SIZE: Final = 96
_MOST_STEPS: Final = 200
_SUCCESSES: Final = 10
_NOISE: Final = 0.1


class Rendered(NamedTuple):
    """E episodes: tasks [E], states [E, frames, 39], and by camera uint8 [E, frames, 96, 96, 3]."""

    tasks: NDArray[np.str_]
    states: NDArray[np.float32]
    cameras: dict[str, NDArray[np.uint8]]


def rendered(cache: Path, tasks: slice, episodes: int, seed: int, *, spread: int = 0, first: int = 0) -> Rendered:
    """Return episodes of some of the tasks, by name; they are rendered once into the cache folder.

    spread: this many frames, evenly over each episode; first: its first frames, the last one repeated if it is shorter.
    """
    file = cache / f"rb_v-{tasks.start}-{tasks.stop}-{tasks.step}-{episodes}-{seed}-{spread}-{first}.npz"
    if not file.exists():
        os.environ.update(MUJOCO_GL="egl", LP_NUM_THREADS="1")  # before MuJoCo is imported
        made = [_render_task(name, episodes, seed, spread, first) for name in _names()[tasks]]
        cache.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(".part.npz")
        columns = {name: np.concatenate([part.cameras[name] for part in made]) for name in CAMERAS}
        tasks_, states = (np.concatenate([getattr(part, name) for part in made]) for name in ("tasks", "states"))
        np.savez(draft, tasks=tasks_, states=states, **columns)
        draft.replace(file)
    with np.load(file) as stored:
        return Rendered(stored["tasks"], stored["states"], {name: stored[name] for name in CAMERAS})


def _names() -> Sequence[str]:
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415  (after the environment is set)

    return sorted(ENV_POLICY_MAP)


def _render_task(name: str, episodes: int, seed: int, spread: int, first: int) -> Rendered:
    import metaworld  # noqa: PLC0415  (as above)
    import mujoco  # noqa: PLC0415

    print(f"  rendering {name}", flush=True)
    with patch.object(metaworld, "_N_GOALS", episodes):
        benchmark = metaworld.MT1(name, seed=seed)  # type: ignore[no-untyped-call]  # not annotated there
    env: Any = benchmark.train_classes[name]()
    states, frames = [], {camera: list[Any]() for camera in CAMERAS}
    renderer: Any = None
    for number in range(episodes):
        env.set_task(benchmark.train_tasks[number])
        played, poses = _play(env, name, seed * 1000 + number)
        if renderer is None:
            env.model.vis.quality.offsamples = 0
            renderer = mujoco.Renderer(env.model, SIZE, SIZE)
        steps = np.linspace(0, len(played) - 1, spread).round().astype(int)
        steps = steps if spread else np.minimum(np.arange(first), len(played) - 1)
        data = mujoco.MjData(env.model)
        for camera, images in frames.items():
            images.append([])
            for step in steps:
                data.qpos[:], data.qvel[:], data.mocap_pos[:], data.mocap_quat[:] = poses[step]
                mujoco.mj_forward(env.model, data)
                renderer.update_scene(data, camera=camera)
                renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
                images[-1].append(renderer.render().copy())
        states.append(played[steps])
    renderer.close()
    return Rendered(np.repeat([name], episodes), np.stack(states), {one: np.array(frames[one]) for one in CAMERAS})


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
