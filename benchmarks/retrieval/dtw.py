"""Dynamic time warping as a baseline, compiled by numba: one pair of episodes at a time.

Knows z-scored rows. Does not know: what is asked, or how the costs are ranked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Ints = NDArray[np.int64]


def full_dtw(query: Rows, rows: Rows) -> float:
    """Return the cost of the best warping path, steps (1,1) (1,0) (0,1), squares, divided by the path's length."""
    cost, length = _whole(query, np.ascontiguousarray(rows.T))
    return float(cost / length)


def subsequence_dtw(query: Rows, rows: Rows, *, free: bool) -> tuple[Rows, Ints]:
    """Return for each row, as the last one of a piece, the cost of the best piece [T] and where that begins [T].

    Costs are Euclidean distances, each pair counts once, divided by the query's length. Steps are (1,1) (1,2): every
    step of the query goes on by one or two, and where that leads nowhere the cost is infinite; or, `free`, those of
    full_dtw.
    """
    costs, starts = _pieces(query, np.ascontiguousarray(rows.T), free)
    return costs / len(query), starts


@numba.njit(cache=True)
def _squares(asked, channels):  # noqa: ANN001, ANN202  (numba types it)
    """Return the squared distances [T] of a row [D] from channels [D, T]; this order of loops is the quick one."""
    apart = np.zeros(channels.shape[1])
    for channel in range(len(asked)):
        for j in range(len(apart)):
            apart[j] += (asked[channel] - channels[channel, j]) ** 2
    return apart


@numba.njit(cache=True)
def _whole(query, channels):  # noqa: ANN001, ANN202
    width = channels.shape[1]
    costs, lengths = np.full(width + 1, np.inf), np.zeros(width + 1)  # place j + 1 stands for row j
    costs[0] = 0.0  # the path enters at its first pair
    for i in range(len(query)):
        apart = _squares(query[i], channels)
        corner, corner_length = costs[0], lengths[0]
        costs[0] = np.inf
        for j in range(1, width + 1):
            best, length = corner, corner_length
            corner, corner_length = costs[j], lengths[j]
            if costs[j] < best:
                best, length = costs[j], lengths[j]
            if costs[j - 1] < best:
                best, length = costs[j - 1], lengths[j - 1]
            costs[j], lengths[j] = best + apart[j - 1], length + 1
    return costs[width], lengths[width]


@numba.njit(cache=True)
def _pieces(query, channels, free):  # noqa: ANN001, ANN202
    width = channels.shape[1]
    costs, starts = np.full((2, width + 2), np.inf), np.full((2, width + 2), -1)  # place j + 2 stands for row j
    costs[0, 2:], starts[0, 2:] = np.sqrt(_squares(query[0], channels)), np.arange(width)  # a piece may begin anywhere
    for i in range(1, len(query)):
        apart = np.sqrt(_squares(query[i], channels))
        before, begun, here, entered = costs[1 - i % 2], starts[1 - i % 2], costs[i % 2], starts[i % 2]
        for j in range(width):
            best, start = before[j + 1], begun[j + 1]
            if free and before[j + 2] < best:
                best, start = before[j + 2], begun[j + 2]
            if free and here[j + 1] < best:
                best, start = here[j + 1], entered[j + 1]
            if not free and before[j] < best:
                best, start = before[j], begun[j]
            here[j + 2], entered[j + 2] = best + apart[j], start
    last = (len(query) - 1) % 2
    return costs[last, 2:], starts[last, 2:]
