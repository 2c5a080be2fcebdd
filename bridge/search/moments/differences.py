"""Measures how much a query and pieces of episodes differ along the paths of their alignments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.search.moments.lane_rows import SMOOTHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.align import Pieces
    from bridge.alignment.arrays import Ints, Rows


def measure_differences(
    query: Rows, pieces: Pieces, paths: Sequence[Ints], every: int = 1, weights: Rows | None = None
) -> Rows:
    """Return the mean difference of the pairs of each path, each as often as it advances.

    Differences are averaged over the pairs around each first, so that noise cancels out.
    """
    pairs = np.concatenate([path + np.array([0, edge]) for path, edge in zip(paths, pieces.edges, strict=False)])
    lengths = [*map(len, paths)]
    begins = np.cumsum([0, *lengths[:-1]])
    advanced = np.diff(pairs, axis=0, prepend=0).sum(axis=1)
    advanced[begins] = 2
    apart = query[pairs[:, 0]] - pieces.rows[pairs[:, 1]]
    apart = _smooth_along(apart, np.repeat(np.arange(len(paths)), lengths), SMOOTHED // (2 * every)) ** 2
    each = np.sqrt(apart.mean(axis=1) if weights is None else (weights[pairs[:, 0]] * apart).sum(axis=1))
    return np.asarray(np.add.reduceat(advanced * each, begins) / np.add.reduceat(advanced, begins))


def _smooth_along(rows: Rows, owners: Ints, around: int) -> Rows:
    """Return each row averaged with so many of the same owner before and behind it."""
    total, counts = rows.copy(), np.ones((len(rows), 1))
    for apart in range(1, around + 1):
        same = (owners[apart:] == owners[:-apart])[:, None]
        total[apart:] += np.where(same, rows[:-apart], 0.0)
        total[:-apart] += np.where(same, rows[apart:], 0.0)
        counts[apart:] += same
        counts[:-apart] += same
    return total / counts
