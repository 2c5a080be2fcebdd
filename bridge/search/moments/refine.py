"""Refines windows that look like a query to moments: spans with exact bounds, each with its alignment.

1. Every candidate is aligned with the query, near its window's bounds and diagonal.
2. The best of them tell what makes the moment: where they all come near to the query, a difference counts, where they
   differ (the way there, the way back), it counts less. Every candidate is aligned with the query anew, so weighted.
3. The best by both are aligned once more, starting from the bounds found, at half to twice their speed: the hits.

The cost of a hit is the mean difference of the pairs that meet to the power 1 - SHARED, times the weighted one of 2. to
the power SHARED: exactly 0 where the query itself is found. Its score is 1 / (1 + cost).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import FREE, LIMITED, Pieces, Rule, align_all
from bridge.search.moments.overlap import MomentLimits, suppress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.alignment.align import Alignments
    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.lane_rows import PreparedRows

SHARED: Final = 0.7
_FRIENDS: Final = 20  # moments that tell what they share with the query
_DOUBT: Final = 0.02  # variance that any step is thought to have, in variances of the archive: nothing is sure
_STEPS: Final = 64  # of a query, at most, that are compared before bounds are found: neighbours are alike
_FINALISTS: Final = 12  # moments whose bounds are found, at least
_APART: Final = 0.3  # overlap above which two candidates are one moment
_MARGIN: Final = 1 / 3  # of a window, to each side of it: how far bounds may move
_SLOWER: Final = 2.0  # what half to twice the speed may cost more than any speed
_RANKING: Final = Rule(band=0.15, end_penalty=1.0)
# In costs: bounds are worth next to nothing where a match is next to exact. Approaches differ more than what they lead
# to: with less than three for a matched row they would be left out.
_WEIGHTED: Final = Rule(band=0.15, end_penalty=1.0, row_gain=3.0)
_BOUNDS: Final = Rule(LIMITED, detour=4 / 3, band=0.15, end_penalty=0.8, row_gain=3.0)
_PAUSES: Final = Rule(FREE, band=0.15)


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


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Candidates: episodes [m], timesteps [start, stop) that matched [m, 2], costs [m].

    first: so many of them come before others of the same cost.
    """

    episodes: Ints
    spans: Ints
    costs: Rows
    first: int = 0

    def best(self, limits: MomentLimits) -> Ints:
        """Return the places of the best that do not overlap, best first."""
        behind = np.arange(len(self.costs)) >= self.first
        order = np.lexsort((self.spans[:, 1], self.spans[:, 0], self.episodes, behind, self.costs))
        return order[suppress(self.episodes[order], self.spans[order], limits)]


def refine(
    query: PreparedRows,
    windows: tuple[Ints, Ints],
    rows_of: Callable[[int], PreparedRows],
    limits: MomentLimits,
    source: tuple[int, int] | None = None,
) -> list[Moment]:
    """Return the moments best first, at most limits.top_k of them.

    query: of n timesteps; windows: episodes [m] and spans [m, 2] of the candidates; rows_of: gives an episode's rows;
    source: the episode and the timestep where the query itself begins, if that is a moment too.
    """
    episodes, spans = windows
    if not len(episodes):
        return []
    every = min(1 + len(query.smooth) // _STEPS, int((spans[:, 1] - spans[:, 0]).min()))
    thinned = query.smooth[::every]
    pieces, firsts = _cut(spans, [rows_of(episode).smooth for episode in episodes.tolist()], every)
    own = align_all(thinned, pieces, _RANKING, traced=True)
    friends = _Candidates(episodes, own.spans * every + firsts, own.costs).best(MomentLimits(_FRIENDS, _APART))
    weights = _step_weights(thinned, pieces, own, friends)
    shared = align_all(thinned, pieces.worthy(own.costs), _WEIGHTED, weights)
    near = _Candidates(episodes, shared.spans * every + firsts, _joint(own.costs, shared.costs))
    most = max(_FINALISTS, 2 * limits.top_k)
    best = near.best(MomentLimits(most, max(_APART, limits.max_overlap), limits.per_episode))
    again = _Candidates(episodes[best], near.spans[best], shared.costs[best])
    weights = np.repeat(weights, every, axis=0)[: len(query.rows)]
    itself = [] if source is None else _find_itself(query.rows, *source, rows_of)
    found = [
        *itself,
        *_find_identical(query.rows, dict.fromkeys(episodes.tolist()), rows_of),
        *_find_bounds(query.rows, weights, again, rows_of),
    ]
    moments = _Candidates(
        np.array([one.episode for one in found], np.int64),
        np.array([(one.start, one.stop) for one in found], np.int64).reshape(-1, 2),
        np.array([one.cost for one in found]),
        len(itself),
    )
    return [found[place] for place in moments.best(limits)]


def _cut(spans: Ints, rows: Sequence[Rows], every: int = 1) -> tuple[Pieces, Ints]:
    """Return in and around each span of its episode [T, D] one row of `every`, and where that begins [m, 1]."""
    margins = ((spans[:, 1] - spans[:, 0]) * _MARGIN).astype(np.int64)
    firsts = np.maximum(spans[:, 0] - margins, 0)
    lasts = (spans[:, 1] + margins).tolist()
    pieces = [one[first:last:every] for one, first, last in zip(rows, firsts.tolist(), lasts, strict=True)]
    return Pieces.of(pieces, (spans - firsts[:, None]) // every), firsts[:, None]


def _step_weights(query: Rows, pieces: Pieces, own: Alignments, friends: Ints) -> Rows:
    """Return what each value of the query counts [n, D].

    The variance of a value is the median of the friends' squared differences from it: half of them may be something
    else. Weighted by one over it, friends cost on average what they cost unweighted.
    """
    apart = np.stack([pieces.rows[_last_rows(own.paths[place]) + pieces.edges[place]] for place in friends]) - query
    apart **= 2
    variance = np.median(apart, axis=0)
    weights = 1.0 / (_DOUBT + variance)
    weighted = float((weights * apart).sum())
    weights *= float(apart.sum()) / weighted / query.shape[1] if weighted else _DOUBT / query.shape[1]
    return weights


def _last_rows(path: Ints) -> Ints:
    """Return the last row that each query step meets."""
    rows = np.empty(path[-1, 0] + 1, np.int64)
    rows[path[:, 0]] = path[:, 1]
    return rows


def _find_itself(query: Rows, episode: int, start: int, rows_of: Callable[[int], PreparedRows]) -> list[Moment]:
    """Return the place that the query is from: windows of few timesteps are too much alike to be sure to lead there."""
    stop = start + len(query)
    same = np.array_equal(rows_of(episode).rows[start:stop], query)
    return [_equal(episode, start, stop)] if same else []


def _equal(episode: int, start: int, stop: int) -> Moment:
    return Moment(episode, start, stop, 0.0, np.arange(stop - start)[:, None] + np.array([0, start]))


def _find_identical(query: Rows, episodes: Iterable[int], rows_of: Callable[[int], PreparedRows]) -> list[Moment]:
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
                same.append(_equal(episode, start, behind))
    return same


def _find_bounds(query: Rows, weights: Rows, best: _Candidates, rows_of: Callable[[int], PreparedRows]) -> list[Moment]:
    """Align the best anew, on rows as they are, from the bounds found so far; best.costs: the weighted ones."""
    rows = [rows_of(episode).rows for episode in best.episodes.tolist()]
    pieces, firsts = _cut(best.spans, rows)
    paced = align_all(query, pieces.worthy(best.costs), _BOUNDS, weights, traced=True)
    paths = list(paced.paths)
    hard = np.flatnonzero(paced.costs > _SLOWER * best.costs)
    if len(hard):  # a pause, or more than twice the speed
        free = align_all(
            query, _cut(best.spans[hard], [rows[place] for place in hard])[0], _PAUSES, weights, traced=True
        )
        for number in np.flatnonzero(free.costs * _SLOWER < paced.costs[hard]).tolist():
            paths[hard[number]] = free.paths[number]
    costs = _joint(_apart(query, pieces, paths), best.costs)
    return [
        Moment(episode, first + int(path[0, 1]), first + int(path[-1, 1]) + 1, cost, path + np.array([0, first]))
        for episode, first, cost, path in zip(
            best.episodes.tolist(), firsts[:, 0].tolist(), costs.tolist(), paths, strict=True
        )
    ]


def _apart(query: Rows, pieces: Pieces, paths: Sequence[Ints]) -> Rows:
    """Return the mean difference of the pairs of each path, each as often as it advances, unweighted."""
    pairs = np.concatenate([path + np.array([0, edge]) for path, edge in zip(paths, pieces.edges, strict=False)])
    begins = np.cumsum([0, *map(len, paths[:-1])])
    advanced = np.diff(pairs, axis=0, prepend=0).sum(axis=1)
    advanced[begins] = 2
    apart = np.sqrt(((query[pairs[:, 0]] - pieces.rows[pairs[:, 1]]) ** 2).mean(axis=1))
    return np.asarray(np.add.reduceat(advanced * apart, begins) / np.add.reduceat(advanced, begins))


def _joint(own: Rows, shared: Rows) -> Rows:
    return np.asarray(own ** (1.0 - SHARED) * shared**SHARED)
