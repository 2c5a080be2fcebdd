"""The sets of benchmark RB-T and how they are split: some may be looked at while tuning, the others are reported.

The split was written down before anything was measured, and is never changed to suit a result.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from rb_a_data import choose_channels, load
from rb_a_methods import Archive

from embedders.space import Statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

TUNED: Final = ("tasks", "cheetah", "highway", "hopper", "hand", "pusht", "drone")
REPORTED: Final = ("new tasks", "swimmer", "ant", "arm", "maze", "parking")

FIXTURES: Final = ("cheetah", "swimmer", "highway")
"""Sets that lie in WSHARD_FIXTURES/retrieval; all others are recorded by rb_t_record.py, those of tasks by RB-A."""

REAL: Final = {"real/lp4": "tuned", "real/lp5": "reported"}
"""Recordings of a real robot, in the same folder, and their half; too short for moments, and not in RB-T's tables."""

_TASKS: Final = {"tasks": 0, "new tasks": 1020}  # the first seed; goals repeat modulo 50
_QUERIES: Final = 120


def load_set(name: str, cache: Path) -> Archive | None:
    """Return a set, about 120 of its episodes asking; None where a fixture or the simulators are missing."""
    if name in _TASKS:
        recorded = load(cache, _TASKS[name], os.cpu_count() or 1)
        episodes = [choose_channels(episode, "prop") for episode in recorded]
        return _archive(episodes, [episode.task for episode in recorded])
    fixed = name in FIXTURES or name in REAL
    path = _fixtures() / f"{name}.npz" if fixed else cache / "rb_t" / f"{name}.npz"
    if not path.exists() and not fixed:
        _record(cache)
    if not path.exists():
        print(f"  {name} is skipped: {path} is missing", flush=True)
        return None
    with np.load(path, allow_pickle=False) as stored:
        rows = np.concatenate([stored[part] for part in ("obs", "act") if part in stored], axis=1).astype(np.float64)
        episodes = np.split(rows, np.cumsum(stored["lengths"])[:-1])
        return _archive(episodes, [str(label) for label in stored["labels"]])


def _archive(episodes: list[Rows], labels: list[str]) -> Archive:
    steps = np.concatenate(episodes)
    _, tasks = np.unique(labels, return_inverse=True)
    statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    asking = np.unique(np.linspace(0, len(episodes) - 1, _QUERIES).astype(np.int64))
    return Archive(episodes, statistics, tasks, asking)


def _fixtures() -> Path:
    return Path(os.environ.get("WSHARD_FIXTURES", "fixtures")) / "retrieval"


def _record(cache: Path) -> None:
    python = cache / "venv-sets" / "bin" / "python"
    if python.exists():
        script = Path(__file__).with_name("rb_t_record.py")
        subprocess.run([python, script, cache / "rb_t"], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
