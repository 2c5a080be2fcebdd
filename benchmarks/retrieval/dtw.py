"""Dynamic time warping as a baseline: one query against all episodes of an archive at once, in numpy.

Knows z-scored rows; a scan, however it is written. Costs are accumulated in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Padded:
    """Episodes of different lengths in one array [N, longest, D]."""

    rows: Rows
    lengths: NDArray[np.int64]


def pad(episodes: Sequence[Rows]) -> Padded:
    """Return the episodes side by side, the shorter ones filled up with zeros."""
    lengths = np.array([len(rows) for rows in episodes])
    padded = np.zeros((len(episodes), lengths.max(), episodes[0].shape[1]))
    for number, rows in enumerate(episodes):
        padded[number, : len(rows)] = rows
    return Padded(padded, lengths)


def full_dtw(query: Rows, archive: Padded) -> NDArray[np.float64]:
    """Return minus the cost [N] of the best warping path, steps (1,1), (1,0), (0,1), divided by the path's length."""
    cost = _squares(query, archive).transpose(1, 2, 0)
    asked, longest, count = cost.shape
    cost = np.ascontiguousarray(cost).reshape(-1, count)  # diagonals are every (longest - 1)th row
    before, earlier = np.full(
        (2, asked + 1, count), np.inf
    )  # the last two diagonals; row i + 1 stands for query step i
    steps, earlier_steps = np.zeros((2, asked + 1, count))
    earlier[0] = 0.0  # the path enters at its first cell
    ends = np.empty(count)
    for diagonal in range(asked + longest - 1):
        first, last = max(0, diagonal - longest + 1), min(diagonal, asked - 1)
        above, here = slice(first, last + 1), slice(first + 1, last + 2)
        reached, taken = earlier[above].copy(), earlier_steps[above].copy()
        for other, other_steps in ((before[above], steps[above]), (before[here], steps[here])):
            better = other < reached
            np.copyto(reached, other, where=better)
            np.copyto(taken, other_steps, where=better)
        start = first * longest + diagonal - first
        reached += cost[start : last * longest + diagonal - last + 1 : max(longest - 1, 1)]
        now, now_steps = np.full_like(before, np.inf), np.zeros_like(steps)
        now[here], now_steps[here] = reached, taken + 1
        done = archive.lengths - 1 + asked - 1 == diagonal
        ends[done] = now[asked, done] / now_steps[asked, done]
        earlier, before, earlier_steps, steps = before, now, steps, now_steps
    return -ends


def subsequence_dtw(query: Rows, archive: Padded) -> NDArray[np.float64]:
    """Return minus the cost [N] of the best piece, Euclidean, steps (1,1) and (1,2), divided by the query's length.

    Every query step must advance the reference by one or two: an episode that is too short gets minus infinity.
    """
    cost = np.sqrt(_squares(query, archive))
    inside = np.arange(cost.shape[2]) < archive.lengths[:, None]
    row = np.where(inside, cost[:, 0], np.inf)
    for step in range(1, len(query)):
        by_one = np.pad(row, ((0, 0), (1, 0)), constant_values=np.inf)[:, :-1]
        by_two = np.pad(row, ((0, 0), (2, 0)), constant_values=np.inf)[:, :-2]
        row = np.where(inside, np.minimum(by_one, by_two) + cost[:, step], np.inf)
    return -row.min(axis=1) / len(query)


def _squares(query: Rows, archive: Padded) -> NDArray[np.float64]:
    """Return squared Euclidean distances [N, query steps, longest]; rounding never makes them negative."""
    products = query @ archive.rows.transpose(0, 2, 1)
    squares = (query**2).sum(axis=1)[None, :, None] + (archive.rows**2).sum(axis=2)[:, None, :] - 2 * products
    return np.maximum(squares, 0.0)
