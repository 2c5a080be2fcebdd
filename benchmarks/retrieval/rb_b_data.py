"""The data of benchmark RB-B: OGBench scene episodes, recorded once into a cache folder, and the queries cut from them.

Knows: how the recorder is started in its own environment, channels, labels, who asks and how a query is warped.
Does not know: what is measured.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]

EPISODES: Final = 30
PER_LABEL: Final = 16
ARM: Final = slice(6, 12)  # effector position, yaw, gripper opening and contact
_RECORDER: Final = Path(__file__).with_name("rb_b_record.py")
_KNOTS: Final = 6
_FACTOR: Final = 0.6


@dataclass(frozen=True, eq=False)
class Play:
    """One episode: arm float32 [T, 6], action float32 [T, 5], and its segments: labels [n], spans [n, 2]."""

    seed: int
    arm: NDArray[np.float32]
    action: NDArray[np.float32]
    labels: list[str]
    spans: NDArray[np.int64]

    @property
    def rows(self) -> Rows:
        """All channels side by side: float64 [T, 11]."""
        return np.concatenate([self.arm, self.action], axis=1).astype(np.float64)


@dataclass(frozen=True)
class Query:
    """A segment that asks: the number of its episode, its span, its label."""

    label: str
    episode: int
    start: int
    stop: int


def load(cache: Path, speed: str, first: int, python: Path) -> list[Play]:
    """Return the episodes of seeds `first` to first + 29 at "fixed" or "variable" speed; records what is missing.

    python: the interpreter of an environment with ogbench.
    """
    folder = cache / f"ogbench-{speed}"
    seeds = range(first, first + EPISODES)
    missing = [seed for seed in seeds if not (folder / f"{seed}.npz").exists()]
    if missing:
        print(f"recording {len(missing)} episodes into {folder}", flush=True)
        subprocess.run([python, _RECORDER, folder, speed, *map(str, missing)], check=True)
    return [_read(folder / f"{seed}.npz", seed) for seed in seeds]


def _read(path: Path, seed: int) -> Play:
    with np.load(path) as stored:
        labels = [str(label) for label in stored["labels"]]
        return Play(seed, stored["proprio"][:, ARM], stored["actions"], labels, stored["spans"])


def choose(plays: Sequence[Play]) -> list[Query]:
    """Return 16 segments of each label, drawn without replacement, label by label."""
    rng = np.random.default_rng(0)
    found: dict[str, list[Query]] = {}
    for number, play in enumerate(plays):
        for label, (start, stop) in zip(play.labels, play.spans.tolist(), strict=True):
            found.setdefault(label, []).append(Query(label, number, start, stop))
    chosen = []
    for label in sorted(found):
        places = rng.choice(len(found[label]), min(PER_LABEL, len(found[label])), replace=False)
        chosen += [found[label][place] for place in places]
    return chosen


def warped(rows: Rows, number: int) -> Rows:
    """Return the rows of query `number` replayed at a speed that varies, half to twice as long."""
    rng, steps = np.random.default_rng(number), len(rows)
    knots = np.exp(_FACTOR * rng.standard_normal(_KNOTS))
    speed = np.interp(np.linspace(0, _KNOTS - 1, steps), np.arange(_KNOTS), knots)
    clock = np.concatenate([[0.0], np.cumsum(speed)[:-1]])
    clock *= (steps - 1) / clock[-1]
    count = max(8, int(steps * np.exp(rng.uniform(-0.69, 0.69))))
    places = np.interp(np.linspace(0, steps - 1, count), np.arange(steps), clock)
    return np.stack([np.interp(places, np.arange(steps), column) for column in rows.T], axis=1)
