"""Episodes of MetaWorld for benchmark RB-W, with failures planted in the simulation, of which no command knows.

What a failed episode stores as actions is what was commanded, and as observations what its sensors said.
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

    Rows = NDArray[np.float32]

KINDS: Final = ("slip", "weak", "delay", "push", "stuck", "turned")
"""The gripper opens for a while; the arm follows by 40 to 70 %; sensors are late; a force acts on the hand; the arm
stands still for a while; it moves along axes that are turned."""

TASKS: Final = (
    *("assembly-v3", "basketball-v3", "bin-picking-v3", "box-close-v3", "hammer-v3", "pick-place-v3"),
    *("pick-place-wall-v3", "push-v3", "shelf-place-v3", "soccer-v3", "stick-push-v3", "sweep-v3"),
)
EPISODES: Final = 24  # per task
FAULTY: Final = 2  # of them, of each kind
_GOAL_SEED: Final = 42
_STEPS: Final = 120
_NOISE: Final = 0.1


@dataclass(frozen=True, eq=False)
class Played:
    """One episode: observations float32 [T, 7] of hand, gripper and object, actions float32 [T, 4]; kind "" = none."""

    task: str
    kind: str
    observations: Rows
    actions: Rows


def load(cache: Path, first: int, workers: int) -> list[Played]:
    """Return the episodes of seeds `first` to first + 23, ordered by task; what `cache` lacks is recorded."""
    os.environ.setdefault("MUJOCO_GL", "disabled")
    cache.mkdir(parents=True, exist_ok=True)
    files = {task: cache / f"rb_w-{task}-{first}.npz" for task in TASKS}
    missing = [task for task in TASKS if not files[task].exists()]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for task in pool.map(partial(_record_task, cache, first), missing):
            print(f"  recorded {task}", flush=True)
    return [episode for task in TASKS for episode in _read(files[task], task)]


def _read(path: Path, task: str) -> list[Played]:
    with np.load(path) as stored:
        cuts = np.cumsum(stored["lengths"])[:-1]
        parts = (np.split(stored[name], cuts) for name in ("observations", "actions"))
        return [Played(task, str(kind), *rows) for kind, *rows in zip(stored["kinds"], *parts, strict=True)]


def _record_task(cache: Path, first: int, task: str) -> str:
    import metaworld  # noqa: PLC0415  (in the worker only: it starts the simulator)

    benchmark = metaworld.MT1(task, seed=_GOAL_SEED)  # type: ignore[no-untyped-call]  # not annotated there
    env = benchmark.train_classes[task]()
    rng = np.random.default_rng([TASKS.index(task), first])
    kinds = [*KINDS * FAULTY, *[""] * (EPISODES - FAULTY * len(KINDS))]
    kinds = [str(kind) for kind in rng.permutation(kinds)]
    played = []
    for number, kind in enumerate(kinds):
        env.set_task(benchmark.train_tasks[(first + number) % len(benchmark.train_tasks)])
        played.append(_play(env, task, kind, rng))
    env.close()
    draft = cache / f"rb_w-{task}-{first}.part.npz"
    observations, actions = (np.concatenate(rows) for rows in zip(*played, strict=True))
    lengths = [len(rows) for rows, _ in played]
    np.savez(draft, observations=observations, actions=actions, lengths=lengths, kinds=kinds)
    draft.replace(cache / f"rb_w-{task}-{first}.npz")
    return task


def _play(env: Any, task: str, kind: str, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Play an episode by the scripted policy, with some noise and a failure; return observations and commands."""
    from metaworld.policies import ENV_POLICY_MAP  # noqa: PLC0415

    policy = ENV_POLICY_MAP[task]()
    state, _ = env.reset()
    states, commands = [state], []
    begin, count = int(rng.integers(20, 70)), int(rng.integers(8, 16))
    late, angle = int(rng.integers(2, 5)) if kind == "delay" else 0, rng.choice([-1, 1]) * rng.uniform(0.3, 0.6)
    gain, force = rng.uniform(0.4, 0.7), rng.normal(size=3)
    force *= rng.uniform(150, 400) / np.linalg.norm(force)
    hand = env.model.body("hand").id
    while len(commands) < _STEPS:
        seen = states[max(0, len(states) - 1 - late)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # gains of the policies are high on purpose
            command = np.clip(policy.get_action(seen) + rng.normal(0, _NOISE, 4), -1, 1)
        executed, is_now = command.copy(), begin <= len(commands) < begin + count
        if kind == "slip" and is_now:
            executed[3] = -1
        elif kind == "weak":
            executed[:3] *= gain
        elif kind == "turned":
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            executed[:2] = turn @ command[:2]
        elif kind == "stuck" and is_now:
            executed[:3] = 0
        env.data.xfrc_applied[hand, :3] = force if kind == "push" and begin <= len(commands) < begin + 4 else 0
        commands.append(command)
        states.append(env.step(executed.astype(np.float32))[0])
    rows = np.stack(states)[np.maximum(np.arange(len(commands)) - late, 0), :7]
    return rows.astype(np.float32), np.stack(commands).astype(np.float32)
