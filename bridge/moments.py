"""Moments like a query: from windows that look alike to spans with exact bounds, each with its alignment.

Knows: prepared rows, candidate windows and how they are refined. Does not know: archives, files, vectors.

1. Every candidate is aligned with the query, near its window's bounds and diagonal.
2. The best few are averaged along their alignments into a consensus: what they share is what makes the moment, where
   they differ (the way there, the way back) counts less. Every candidate is aligned with it too.
3. The best by both are aligned anew, starting from the bounds found, at half to twice their speed: these are the hits.

The cost of a hit is that of the query to the power 1 - CONSENSUS, times that of the consensus to the power CONSENSUS:
exactly 0 where the query itself is found. Its score is 1 / (1 + cost).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import FREE, LIMITED, Alignment, Piece, Rule, align, align_all
from bridge.overlap import suppress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.alignment.align import Ints, Rows
    from bridge.lane_rows import Prepared

CONSENSUS: Final = 0.8
_FRIENDS: Final = 5  # moments that make the consensus
_DOUBT: Final = 0.2  # variance that any step is thought to have, in variances of the archive
_FINALISTS: Final = 12  # moments whose bounds are found, at least
_APART: Final = 0.3  # overlap above which two candidates are one moment
_MARGIN: Final = 1 / 3  # of a window, to each side of it: how far bounds may move
_RANKING: Final = Rule(band=0.15, end_penalty=1.0)
_SLOWER: Final = 2.0  # what half to twice the speed may cost more than any speed
_BOUNDS: Final = Rule(LIMITED, detour=4 / 3, band=0.15, end_penalty=0.8, row_gain=2.0)  # the last two in costs


@dataclass(frozen=True, eq=False)
class Moment:
    """A span [start, stop) of an episode. path: int64 [P, 2], (query step, episode step); cost: 0 = equal."""

    episode: int
    start: int
    stop: int
    cost: float
    path: Ints

    @property
    def score(self) -> float:
        """1 for an exact match, falling towards 0."""
        return 1.0 / (1.0 + self.cost)


@dataclass(frozen=True)
class Wanted:
    """How many moments, how much two of one episode may overlap, and how many of one episode (None = any)."""

    top_k: int
    max_overlap: float
    per_episode: int | None


@dataclass(frozen=True, eq=False)
class _Near:
    """A candidate: the window where the moment is expected, and how it aligns; `first` is the episode's step of row 0.

    cost: the query's at first, then that of query and consensus; agreed: the consensus' alone.
    """

    episode: int
    window: tuple[int, int]
    first: int
    found: Alignment
    cost: float
    agreed: float = 0.0

    @property
    def span(self) -> tuple[int, int]:
        """Timesteps [start, stop) that matched."""
        return self.first + self.found.start, self.first + self.found.stop


def refine(
    query: Prepared,
    windows: Sequence[tuple[int, int, int]],
    rows_of: Callable[[int], Prepared],
    wanted: Wanted,
) -> list[Moment]:
    """Return the moments best first, at most wanted.top_k of them.

    query: of n timesteps; windows: (episode, start, stop) of the candidates; rows_of: gives an episode's rows.
    """
    near = _aligned(query.smooth, [(episode, (start, stop)) for episode, start, stop in windows], rows_of)
    if not near:
        return []
    consensus, heed = _consensus(query.smooth, _spread(near, Wanted(_FRIENDS, _APART, None)), near, rows_of)
    again = align_all(consensus, [_piece(rows_of(one.episode).smooth, one.window)[0] for one in near], _RANKING, heed)
    both = [
        replace(one, cost=_joint(one.cost, found.cost), agreed=found.cost)
        for one, found in zip(near, again, strict=True)
        if found is not None
    ]
    most = max(_FINALISTS, 2 * wanted.top_k)
    best = _spread(both, Wanted(most, max(_APART, wanted.max_overlap), wanted.per_episode))
    same = _identical(query.rows, dict.fromkeys(episode for episode, _, _ in windows), rows_of)
    return [_moment(one) for one in _spread(same + _bounded(query.rows, best, rows_of), wanted)]


def _aligned(
    query: Rows, windows: Sequence[tuple[int, tuple[int, int]]], rows_of: Callable[[int], Prepared]
) -> list[_Near]:
    """Return how candidates align with the query, near their windows."""
    cut = [_piece(rows_of(episode).smooth, window) for episode, window in windows]
    aligned = align_all(query, [piece for piece, _ in cut], _RANKING)
    return [
        _Near(episode, window, first, found, found.cost)
        for (episode, window), (_, first), found in zip(windows, cut, aligned, strict=True)
        if found is not None
    ]


def _identical(query: Rows, episodes: Iterable[int], rows_of: Callable[[int], Prepared]) -> list[_Near]:
    """Return every stretch of the episodes that equals the query value by value: no window need be exactly there."""
    steps = len(query)
    same = []
    for episode in episodes:
        rows, behind = rows_of(episode).rows, 0
        begins = rows[: max(0, len(rows) - steps + 1), 0] == query[0, 0]  # one channel settles most
        ends = rows[steps - 1 :, -1] == query[-1, -1]
        for start in np.flatnonzero(begins & ends).tolist():
            if start >= behind and np.array_equal(rows[start : start + steps], query):
                behind = start + steps  # where nothing moves, the next step would begin another one
                path = np.repeat(np.arange(steps)[:, None], 2, axis=1)
                same.append(_Near(episode, (start, behind), start, Alignment(0, steps, 0.0, path), 0.0))
    return same


def _piece(rows: Rows, window: tuple[int, int]) -> tuple[Piece, int]:
    """Return the rows of a window and what lies around it, and the timestep of the first of them."""
    start, stop = window
    margin = int((stop - start) * _MARGIN)
    first, last = max(0, start - margin), min(len(rows), stop + margin)
    return Piece(rows[first:last], start - first, stop - first), first


def _spread(near: Sequence[_Near], wanted: Wanted) -> list[_Near]:
    """Return the best of candidates that do not overlap, best first."""
    ranked = sorted(near, key=lambda one: (one.cost, one.episode, one.span))
    episodes, spans = np.array([one.episode for one in ranked]), np.array([one.span for one in ranked])
    kept = suppress(episodes, spans, wanted.max_overlap, wanted.top_k, per_episode=wanted.per_episode)
    return [ranked[place] for place in kept]


def _consensus(
    query: Rows, friends: Sequence[_Near], near: Sequence[_Near], rows_of: Callable[[int], Prepared]
) -> tuple[Rows, Rows]:
    """Return the weighted mean [n, D] of query and friends along their alignments, and what each value of it counts.

    A friend counts the more, the cheaper it is than a middling candidate; the query counts as one that costs nothing.
    """
    middling = float(np.median([one.cost for one in near]))
    trust = [1.0] + [max(0.0, 1.0 - one.cost / middling) if middling else 1.0 for one in friends]
    rows = [query] + [_along(one, rows_of(one.episode).smooth, len(query)) for one in friends]
    weights = np.array(trust)[:, None, None] / sum(trust)
    stacked = np.stack(rows)
    mean = (weights * stacked).sum(axis=0)
    spread = (weights * (stacked - mean) ** 2).sum(axis=0)
    heed = 1.0 / (_DOUBT + spread)
    return mean, heed / heed.mean() / query.shape[1]


def _along(one: _Near, rows: Rows, steps: int) -> Rows:
    """Return rows [steps, D] of a friend at the query's pace: the mean of the rows that each query step meets."""
    asked, met = one.found.path[:, 0], one.found.path[:, 1] + one.first
    total = np.zeros((steps, rows.shape[1]))
    np.add.at(total, asked, rows[met])
    return total / np.bincount(asked, minlength=steps)[:, None]


def _bounded(query: Rows, best: Sequence[_Near], rows_of: Callable[[int], Prepared]) -> list[_Near]:
    """Align the best anew, on rows as they are, from the bounds found so far."""
    again = []
    for one in best:
        piece, first = _piece(rows_of(one.episode).rows, one.span)
        # What bounds cost is measured by what the match costs: next to nothing where it is next to exact.
        penalty, gain = _BOUNDS.end_penalty * one.found.cost, _BOUNDS.row_gain * one.found.cost
        rule = replace(_BOUNDS, end_penalty=penalty, row_gain=gain)
        found = align(query, piece, rule)
        free = align(query, piece, replace(rule, steps=FREE, detour=1.0))
        if free is not None and (found is None or free.cost * _SLOWER < found.cost):
            found = free  # a pause, or more than twice the speed
        if found is not None:
            again.append(replace(one, first=first, found=found, cost=_joint(found.cost, one.agreed)))
    return again


def _joint(own: float, agreed: float) -> float:
    return float(own ** (1.0 - CONSENSUS) * agreed**CONSENSUS)


def _moment(one: _Near) -> Moment:
    path = one.found.path + np.array([0, one.first])
    return Moment(one.episode, *one.span, one.cost, path)
