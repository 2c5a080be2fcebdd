"""Representative subsets of vectors by k-center or facility location."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bridge.curation.arrays import Floats, Ids, Vectors

_BATCH_ROWS: Final = 8192  # rows compared at a time
_BATCH_GAINS: Final = 64  # gains computed at once


@dataclass(frozen=True, eq=False)
class Subset:
    """Rows in the order of choice, int64 [n], and the objective after each of them, float64 [n].

    k-center: the greatest distance of any vector to the nearest chosen one. facility-location: the mean cosine of all
    vectors with the nearest chosen one.
    """

    rows: Ids
    reached: Floats


def select_k_center(vectors: Vectors, count: int) -> Subset:
    """Choose `count` of the unit vectors [N, E], each as far as possible from those before, which includes rare ones.

    The first one is the most central. The farthest distance is at most twice the least possible one.
    """
    rows: list[int] = []
    reached: list[float] = []
    best = np.full(len(vectors), -1.0, np.float32)  # cosine with the nearest of the chosen
    chosen = int(np.argmax(vectors @ vectors.mean(axis=0))) if len(vectors) else 0
    for _ in range(min(count, len(vectors))):
        np.maximum(best, vectors @ vectors[chosen], out=best)
        best[chosen] = np.inf
        rows.append(chosen)
        chosen = int(np.argmin(best))
        reached.append(float(np.sqrt(max(0.0, 2 - 2 * min(float(best[chosen]), 1.0)))))  # of unit vectors
    return Subset(np.array(rows, np.int64), np.array(reached))


def select_facility_location(vectors: Vectors, count: int) -> Subset:
    """Choose `count` of the unit vectors [N, E] that are nearest to all others (typical ones).

    Greedy, with lazily evaluated gains; at least 63 % of the best possible sum.
    """
    best = np.full(len(vectors), -1.0, np.float32)
    total = vectors.sum(axis=0, dtype=np.float64)
    bounds = vectors @ total + len(vectors)  # the gain of each as the first one; gains only ever fall
    queue = [(-float(gain), row) for row, gain in enumerate(bounds)]
    heapq.heapify(queue)
    rows: list[int] = []
    reached: list[float] = []
    for _ in range(min(count, len(vectors))):
        chosen = _best_gain(vectors, best, queue) if rows else heapq.heappop(queue)[1]
        np.maximum(best, vectors @ vectors[chosen], out=best)
        rows.append(chosen)
        reached.append(float(best.mean(dtype=np.float64)))
    return Subset(np.array(rows, np.int64), np.array(reached))


METHODS: Final[Mapping[str, Callable[[Vectors, int], Subset]]] = {
    "k-center": select_k_center,
    "facility-location": select_facility_location,
}


def _best_gain(vectors: Vectors, best: Vectors, queue: list[tuple[float, int]]) -> int:
    """Take the row with the largest gain out of the queue of (minus upper bound, row)."""
    fresh: list[tuple[float, int]] = []
    while not fresh or (queue and queue[0] < fresh[0]):
        rows = [heapq.heappop(queue)[1] for _ in range(min(_BATCH_GAINS, len(queue)))]
        for entry in zip((-_gains(vectors, best, rows)).tolist(), rows, strict=True):
            heapq.heappush(fresh, entry)
    _, chosen = heapq.heappop(fresh)
    for entry in fresh:
        heapq.heappush(queue, entry)
    return chosen


def _gains(vectors: Vectors, best: Vectors, rows: list[int]) -> Floats:
    """Return by how much the sum of `best` would grow with each of these rows."""
    selected = vectors[rows].T
    gains = np.zeros(len(rows))
    for start in range(0, len(vectors), _BATCH_ROWS):
        part = slice(start, start + _BATCH_ROWS)
        cosines = vectors[part] @ selected
        gains += np.maximum(cosines - best[part, None], 0.0).sum(axis=0, dtype=np.float64)
    return gains
