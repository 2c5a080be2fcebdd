"""The scans that benchmark RB-B compares with: every span of every episode, one query at a time.

Knows: z-scored rows. Each scan returns candidates (cost [n], start [n], stop [n]) of one episode, the cheapest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from dtw import subsequence_dtw

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Candidates = tuple[Rows, Ints, Ints]
    Profile = Callable[[Rows, Rows], Rows]

ENDS: Final = 400  # of the cheapest per episode
SHORTEST: Final = 8
_STILL: Final = 1e-9


def dtw_scan(*, free: bool) -> Callable[[Rows, Rows], Candidates]:
    """Return subsequence DTW with these steps, see dtw.subsequence_dtw."""

    def scan(query: Rows, rows: Rows) -> Candidates:
        costs, starts = subsequence_dtw(query, rows, free=free)
        stops = np.arange(1, len(rows) + 1)
        good = np.flatnonzero(np.isfinite(costs) & (stops - starts >= SHORTEST))
        best = good[np.argsort(costs[good], kind="stable")[:ENDS]]
        return costs[best], starts[best], stops[best]

    return scan


def profile_scan(profile: Profile) -> Callable[[Rows, Rows], Candidates]:
    """Return a scan by a profile: what a query [n, D] costs at every window [T - n + 1] of rows [T, D]."""

    def scan(query: Rows, rows: Rows) -> Candidates:
        asked = len(query)
        if asked > len(rows):
            return np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
        cost = profile(query, rows)
        starts = np.argsort(cost, kind="stable")[:ENDS]
        return cost[starts], starts, starts + asked

    return scan


def plain_profile(query: Rows, rows: Rows) -> Rows:
    """Return the Euclidean profile: per channel the root of the summed squares, summed over channels."""
    asked = len(query)
    cost = np.zeros(len(rows) - asked + 1)
    for mine, theirs in zip(query.T, rows.T, strict=True):
        squares = np.concatenate([[0.0], np.cumsum(theirs**2)])
        apart = squares[asked:] - squares[:-asked] - 2 * np.correlate(theirs, mine, "valid") + (mine**2).sum()
        cost += np.sqrt(np.maximum(apart, 0.0))
    return cost


def shape_profile(query: Rows, rows: Rows) -> Rows:
    """Return the z-normalised Euclidean profile, as stumpy.mass does: every window by its own mean and spread.

    Summed over channels; a channel that stands still in one of the two is as far as can be, in both it is equal.
    """
    asked = len(query)
    cost = np.zeros(len(rows) - asked + 1)
    for mine, theirs in zip(
        query.T, np.lib.stride_tricks.sliding_window_view(rows, asked, axis=0).swapaxes(0, 1), strict=True
    ):
        spreads = mine.std() * theirs.std(axis=1)
        alike = (theirs @ mine) / asked - mine.mean() * theirs.mean(axis=1)
        moving = spreads > _STILL
        likeness = np.divide(alike, spreads, out=np.full(len(cost), 0.5), where=moving)
        both_still = (mine.std() <= _STILL) & (theirs.std(axis=1) <= _STILL)
        cost += np.sqrt(2 * asked * np.maximum(1.0 - np.where(both_still, 1.0, likeness), 0.0))
    return cost
