"""The copies that benchmark RB-C hides among the episodes of RB-A: with noise, cut, encoded anew, under wrong labels.

Does not know: how they are found.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from rb_a_data import Recorded, choose_channels

from wshard.core.episode.file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.curation.duplicates import Twin

    Rows = NDArray[np.float64]
    Pair = frozenset[str]

CUT: Final = 0.05
MISLABELED: Final = 0.05
LARGEST_NOISE: Final = 1e-2
COPIES: Final = 40  # of each kind
EXACT: Final = ("the same file", "saved again")


def _noisy(size: float) -> Callable[[Rows, Rows, np.random.Generator], Rows]:
    return lambda rows, spread, rng: rows + size * spread * rng.standard_normal(rows.shape)


def _trimmed(front: float) -> Callable[[Rows, Rows, np.random.Generator], Rows]:
    """Return what takes 5 % away, so much of it in front."""

    def trim(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (all have one signature)
        gone = max(1, int(CUT * len(rows)))
        first = int(front * gone)
        return rows[first : len(rows) - (gone - first)]

    return trim


def _halved(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (as above)
    return rows.astype(np.float16).astype(np.float64)


def _rounded(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (as above)
    """Return the rows as 12-bit integers over the range of each channel would give them back."""
    low, step = rows.min(axis=0), np.maximum(np.ptp(rows, axis=0), 1e-9) / 4095
    rounded: Rows = np.round((rows - low) / step) * step + low
    return rounded


NEAR: Final = {
    "noise 0.001": _noisy(1e-3),
    "noise 0.003": _noisy(3e-3),
    "noise 0.01": _noisy(LARGEST_NOISE),
    "5 % cut in front": _trimmed(1.0),
    "5 % cut at the end": _trimmed(0.0),
    "5 % cut on both sides": _trimmed(0.5),
    "encoded in 16-bit floats": _halved,
    "encoded in 12-bit integers": _rounded,
}


def as_episode(name: str, task: str, rows: Rows) -> Episode:
    """Return rows [T, D] as an episode with one lane."""
    lane = Channel.of("state", rows.astype(np.float32))
    return Episode(name, task, len(rows), observations={"state": lane}, metadata={"task": task})


@dataclass(frozen=True, eq=False)
class Originals:
    """Episodes of which none is a copy of another: rows [T, D], tasks, and the standard deviation of each channel."""

    rows: list[Rows]
    tasks: NDArray[np.str_]
    spread: Rows

    def episode(self, number: int) -> Episode:
        """Return one as it was recorded."""
        return as_episode(f"e{number}", str(self.tasks[number]), self.rows[number])


def distinct(recorded: Sequence[Recorded], channels: str) -> Originals:
    """Return the episodes that are not recorded twice already.

    Some goals differ in nothing that the channels show: a later episode of a task that is within the largest noise
    of an earlier one, on whatever both have at some offset of up to 15 %, would be a copy that nobody made.
    """
    every = [choose_channels(episode, channels) for episode in recorded]
    spread = np.concatenate(every).std(axis=0)
    units = np.where(spread < 1e-6, 1.0, spread)
    chosen: list[int] = []
    for number, rows in enumerate(every):
        same_task = (other for other in chosen if recorded[other].task == recorded[number].task)
        if not any(_doubled(every[other] / units, rows / units) for other in same_task):
            chosen.append(number)
    print(f"  {channels}: {len(every) - len(chosen)} of {len(every)} episodes are recorded twice already", flush=True)
    return Originals([every[n] for n in chosen], np.array([recorded[n].task for n in chosen]), spread)


def _doubled(left: Rows, right: Rows) -> bool:
    most = int(0.15 * max(len(left), len(right)))
    for one, other in ((left, right), (right, left)):
        for shift in range(most + 1):
            both = min(len(one) - shift, len(other))
            if both > 0 and np.sqrt(((one[shift : shift + both] - other[:both]) ** 2).mean()) <= LARGEST_NOISE:
                return True
    return False


def save_all(folder: Path, originals: Originals, seed: int) -> dict[str, set[Pair]]:
    """Save the episodes and copies of some of them, each original at most once; return the pairs by kind."""
    episodes, tasks = originals.rows, originals.tasks
    rng = np.random.default_rng(seed)
    labels = tasks.copy()
    swapped = rng.permutation(len(episodes))[: int(MISLABELED * len(episodes))]
    for number in swapped:
        labels[number] = rng.choice(np.unique(tasks[tasks != tasks[number]]))
    for number, rows in enumerate(episodes):
        one = as_episode(f"e{number}", str(labels[number]), rows)
        one.metadata["swapped"] = bool(number in set(swapped.tolist()))
        save_wshard(one, folder / f"e{number}.wshard")
    unused = iter(rng.permutation(len(episodes)).tolist())
    pairs: dict[str, set[Pair]] = {}
    for kind in (*EXACT, *NEAR):
        for _ in range(min(COPIES, len(episodes) // (len(NEAR) + 2))):
            number = next(unused)
            target = folder / f"copy-{number}.wshard"
            if kind == "the same file":
                shutil.copy(folder / f"e{number}.wshard", target)
            else:
                rows = NEAR[kind](episodes[number], originals.spread, rng) if kind in NEAR else episodes[number]
                save_wshard(as_episode(f"c{number}", str(tasks[number]), rows), target, compression="zstd")
            pairs.setdefault(kind, set()).add(frozenset({f"e{number}", f"copy-{number}"}))
    return pairs


def pair_of(twin: Twin) -> Pair:
    """Return the names of the two files that were found to be alike."""
    return frozenset({Path(twin.left.path).stem, Path(twin.right.path).stem})
