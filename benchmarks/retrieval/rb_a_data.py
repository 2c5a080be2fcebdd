"""The data of benchmark RB-A: scripted MetaWorld episodes of all 50 tasks, recorded once into a cache folder.

Knows: how every episode is seeded, played and stopped; that a finished task is never recorded again.
Does not know: what is measured with them. Needs the extra "demo" (metaworld, mujoco).
"""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

EPISODES: Final = 20  # per task
NOISE: Final = (0.0, 0.1, 0.3)
_GOAL_SEED: Final = 42
_MOST_STEPS: Final = 250
_SUCCESSES: Final = 10


@dataclass(frozen=True, eq=False)
class Recorded:
    """One episode: observations float32 [T, 39], actions float32 [T, 4]."""

    task: str
    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    success: bool


def choose_channels(episode: Recorded, channels: str) -> NDArray[np.float64]:
    """Return "prop" [T, 8]: hand, gripper and action; or "state" [T, 25]: objects and goal too."""
    seen = episode.observations
    parts = [seen[:, :4]] if channels == "prop" else [seen[:, :18], seen[:, 36:39]]
    return np.concatenate([*parts, episode.actions], axis=1).astype(np.float64)


def load(cache: Path, first: int, workers: int) -> list[Recorded]:
    """Return the 1,000 episodes of seeds `first` to first + 19, ordered by task; what `cache` lacks is recorded."""
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415  (loads the simulator)

    names = sorted(ENV_POLICY_MAP)
    folder = cache / f"metaworld-{first}"
    folder.mkdir(parents=True, exist_ok=True)
    missing = [(place, name) for place, name in enumerate(names) if not (folder / f"{name}.npz").exists()]
    if missing:
        print(f"recording {len(missing)} of {len(names)} tasks into {folder}", flush=True)
        os.environ.setdefault("MUJOCO_GL", "disabled")
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            for name in pool.map(partial(_record_task, folder, first), missing):
                print(f"  {name}", flush=True)
    return [episode for name in names for episode in _read(folder / f"{name}.npz", name)]


def _read(path: Path, task: str) -> list[Recorded]:
    with np.load(path) as stored:
        lengths, success = stored["lengths"], stored["success"]
        cuts = np.cumsum(lengths)[:-1]
        pairs = zip(np.split(stored["observations"], cuts), np.split(stored["actions"], cuts), success, strict=True)
        return [Recorded(task, seen, done, bool(won)) for seen, done, won in pairs]


def _record_task(folder: Path, first: int, task: tuple[int, str]) -> str:
    import metaworld  # noqa: PLC0415  (in the worker only: it starts the simulator)
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415

    place, name = task
    # The policies' gains are high on purpose and rely on clipping; they warn about it at almost every step.
    warnings.filterwarnings("ignore", r"Constant\(s\) may be too high", UserWarning)
    benchmark = metaworld.MT1(name, seed=_GOAL_SEED)
    env = benchmark.train_classes[name]()
    played = []
    for episode in range(first, first + EPISODES):
        env.set_task(benchmark.train_tasks[episode % len(benchmark.train_tasks)])
        rng = np.random.default_rng(1000 * place + episode)
        played.append(_play(env, ENV_POLICY_MAP[name](), rng, NOISE[episode % 3]))
    env.close()
    whole = folder / f"{name}.npz"
    part = whole.with_suffix(".partial.npz")
    np.savez(
        part,
        observations=np.concatenate([seen for seen, _, _ in played]),
        actions=np.concatenate([done for _, done, _ in played]),
        lengths=np.array([len(seen) for seen, _, _ in played]),
        success=np.array([won for _, _, won in played]),
    )
    part.replace(whole)
    return name


def _play(
    env: Any, policy: Any, rng: np.random.Generator, sigma: float
) -> tuple[NDArray[np.float32], NDArray[np.float32], bool]:
    state, _ = env.reset()
    seen, done, successes = [], [], 0
    for _ in range(_MOST_STEPS):
        action = np.clip(policy.get_action(state) + rng.normal(0.0, sigma, 4), -1.0, 1.0)
        seen.append(state.astype(np.float32))
        done.append(action.astype(np.float32))
        state, _, _, _, info = env.step(action)
        successes += info["success"] > 0
        if successes == _SUCCESSES:
            break
    return np.stack(seen), np.stack(done), successes > 0
