"""Measures how much a query and pieces of episodes differ along the paths of their alignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.lane_rows import SMOOTHED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.align import Pieces
    from bridge.alignment.arrays import Ints, Rows

_AT_ONCE: Final = 12  # paths: new memory for all of them would take longer than what is done in it


def measure_differences(
    query: Rows, pieces: Pieces, paths: Sequence[Ints], every: int = 1, weights: Rows | None = None
) -> Rows:
    """Return the mean difference of the pairs of each path, each as often as it advances.

    Differences are averaged over the pairs around each first, so that noise cancels out.
    """
    around = SMOOTHED // (2 * every)
    placed = [path + np.array([0, edge]) for path, edge in zip(paths, pieces.edges.tolist(), strict=False)]
    parts = [
        _measure(query, pieces.rows, weights, around, placed[first : first + _AT_ONCE])
        for first in range(0, len(placed), _AT_ONCE)
    ]
    return np.concatenate(parts)


def _measure(query: Rows, rows: Rows, weights: Rows | None, around: int, paths: Sequence[Ints]) -> Rows:
    lengths = np.array([*map(len, paths)])
    begins, owners = np.cumsum([0, *lengths[:-1]]), np.repeat(np.arange(len(paths)), lengths)
    pairs = np.concatenate(paths)
    steps = pairs[:, 0]
    advanced = np.diff(steps + pairs[:, 1], prepend=0)
    advanced[begins] = 2
    before = np.arange(len(owners)) - begins[owners]
    counts = np.minimum(before, around) + np.minimum(lengths[owners] - 1 - before, around) + 1
    places = np.arange(len(owners)) + around * owners  # zeros between paths, so that none is averaged with another one
    apart = np.zeros((places[-1] + 1, query.shape[1]))
    apart[places] = query.take(steps, axis=0) - rows.take(pairs[:, 1], axis=0)
    total = apart.copy()
    for away in range(1, around + 1):
        total[away:] += apart[:-away]
        total[:-away] += apart[away:]
    total = total.take(places, axis=0)
    if weights is None:
        squares = np.einsum("pd,pd->p", total, total) / query.shape[1]
    else:
        squares = np.einsum("pd,pd,pd->p", weights.take(steps, axis=0), total, total)
    each = advanced * np.sqrt(squares) / counts
    return np.asarray(np.add.reduceat(each, begins) / np.add.reduceat(advanced, begins))
