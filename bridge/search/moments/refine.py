"""Refines windows that look like a query to moments: spans with exact bounds, each with its alignment.

1. Every candidate is aligned with the query, near its window's bounds and diagonal.
2. The best of them tell what makes the moment: where they all come near to the query, a difference counts, where they
   differ (the way there, the way back), it counts less. Every candidate is aligned with the query anew, so weighted.
3. The best by both are aligned once more, starting from the bounds found, at half to twice their speed: the hits.

Some candidates are like the query but for an offset. They are aligned after their mean difference from it is taken
away, which costs something: only what is nearly equal then comes before what is like the query as it is.

The cost of a hit is the mean difference of what meets, averaged along its path, to the power 1 - SHARED, times the
weighted one of 2. to the power SHARED: exactly 0 where the query itself is found. Its score is 1 / (1 + cost).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import FREE, LIMITED, Pieces, Rule, align_all
from bridge.search.moments.differences import measure_differences
from bridge.search.moments.offsets import SHIFT_COST, Offsets
from bridge.search.moments.overlap import MomentLimits, suppress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

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
_ROUNDED: Final = 1e-4  # standard deviations by which what was rounded to float32 may differ
_TWICE_ROUNDED: Final = 3e-4  # by which two values may differ that both are rounded, and a little more
_MOVING: Final = 1e-2  # standard deviations from one timestep to the next that are no rounding
RANKING: Final = Rule(band=0.15, end_penalty=1.0)
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


@dataclass(frozen=True, eq=False)
class Windows:
    """Candidates: episodes [m] and spans [m, 2]; free [m]: whether an offset from the query may be taken away."""

    episodes: Ints
    spans: Ints
    free: NDArray[np.bool_]


def refine(
    query: PreparedRows,
    windows: Windows,
    lanes: Mapping[int, PreparedRows],
    limits: MomentLimits,
    source: tuple[int, int] | None = None,
) -> list[Moment]:
    """Return the moments best first, at most limits.top_k of them.

    query: of n timesteps; lanes: the rows of the candidates' episodes, and of others that may hold copies of the query;
    source: the episode and the timestep where the query itself begins, if that is a moment too.
    """
    episodes, spans, rows_of = windows.episodes, windows.spans, lanes.__getitem__
    if not len(episodes):
        return []
    every = min(1 + len(query.smooth) // _STEPS, int((spans[:, 1] - spans[:, 0]).min()))
    thinned = query.smooth[::every]
    cut, firsts = cut_around(spans, [rows_of(episode).smooth for episode in episodes.tolist()], every)
    offsets = Offsets.of(thinned, cut, windows.free)
    traced = align_all(thinned, offsets.taken_from(cut), RANKING, traced=True)
    offsets = offsets.along(thinned, cut, traced)
    pieces = offsets.taken_from(cut)
    own = offsets.weigh(measure_differences(thinned, pieces, traced.paths, every))
    friends = _Candidates(episodes, traced.spans * every + firsts, own).best(MomentLimits(_FRIENDS, _APART))
    weights = _step_weights(thinned, pieces, traced, friends)
    shared = align_all(thinned, pieces.worthy(traced.costs), _WEIGHTED, weights, traced=True)
    weighted = offsets.weigh(measure_differences(thinned, pieces, shared.paths, every, weights))
    near = _Candidates(episodes, shared.spans * every + firsts, _joint(own, weighted))
    most = max(_FINALISTS, 2 * limits.top_k)
    best = near.best(MomentLimits(most, max(_APART, limits.max_overlap), limits.per_episode))
    again = _Candidates(episodes[best], near.spans[best], shared.costs[best])
    weights = np.repeat(weights, every, axis=0)[: len(query.rows)]
    itself = [] if source is None else _find_itself(query.rows, *source, rows_of)
    found = [
        *itself,
        *_find_identical(query.rows, lanes),
        *_find_bounds(query.rows, weights, again, rows_of, (offsets.of_some(best), weighted[best])),
    ]
    moments = _Candidates(
        np.array([one.episode for one in found], np.int64),
        np.array([(one.start, one.stop) for one in found], np.int64).reshape(-1, 2),
        np.array([one.cost for one in found]),
        len(itself),
    )
    return [found[place] for place in moments.best(limits)]


def cut_around(spans: Ints, rows: Sequence[Rows], every: int = 1) -> tuple[Pieces, Ints]:
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


def _equal(episode: int, start: int, stop: int, cost: float = 0.0) -> Moment:
    return Moment(episode, start, stop, cost, np.arange(stop - start)[:, None] + np.array([0, start]))


def _find_identical(query: Rows, lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return every stretch of the episodes that equals the query but for an offset: no window need be exactly there."""
    steps, same = len(query), []
    moves = np.diff(query, axis=0)
    place, channel = np.unravel_index(np.abs(moves).argmax(), moves.shape) if steps > 1 else (0, 0)
    moving = steps > 1 and abs(moves[place, channel]) > _MOVING  # the largest step settles most
    long = {episode: prepared.rows for episode, prepared in lanes.items() if len(prepared.rows) >= steps}
    for episode, starts in _find_begins(query, long, (int(place), int(channel)), moving=moving):
        rows, behind = long[episode], 0
        for start in (_keep_alike(rows, starts, moves) if moving else starts).tolist():
            if start < behind:
                continue  # where nothing moves, the next step would begin another one
            offsets = query - rows[start : start + steps]
            offset = offsets.mean(axis=0)
            if np.abs(offsets - offset).max() > _ROUNDED:
                continue
            equal = np.array_equal(rows[start : start + steps], query)
            if equal or moving:
                behind = start + steps
                cost = 0.0 if equal else SHIFT_COST * float(np.sqrt((offset**2).mean()))
                same.append(_equal(episode, start, behind, cost))
    return same


def _keep_alike(rows: Rows, starts: Ints, moves: Rows) -> Ints:
    """Keep the timesteps from which every channel does the largest of its steps [n, D]: few need a closer look."""
    for channel, step in enumerate(np.abs(moves).argmax(axis=0).tolist()):
        if not len(starts):
            break
        there = rows[starts + step + 1, channel] - rows[starts + step, channel]
        starts = starts[np.abs(there - moves[step, channel]) <= _TWICE_ROUNDED]
    return starts


def _find_begins(
    query: Rows, lanes: Mapping[int, Rows], step: tuple[int, int], *, moving: bool
) -> Iterator[tuple[int, Ints]]:
    """Yield the episodes and the timesteps at which the query may begin in them, of those that are as long.

    step: the largest of the query, and in which channel. Where nothing moves, everything that stands still would be
    equal but for an offset, so that the first timestep must be equal.
    """
    if not moving:
        for episode, rows in lanes.items():
            last = len(rows) - len(query) + 1
            yield episode, np.flatnonzero((rows[:last] == query[0]).all(axis=1))
        return
    place, channel = step
    wanted = query[place + 1, channel] - query[place, channel]
    columns = [rows[place : place + len(rows) - len(query) + 2, channel] for rows in lanes.values()]
    ends = np.cumsum([0, *map(len, columns)])
    paces = np.diff(np.concatenate([*columns, np.zeros(1)]))  # the last one of each leads into the next: left out
    found = np.flatnonzero(np.abs(paces - wanted) <= _ROUNDED)
    owners = ends.searchsorted(found, side="right") - 1
    found, owners = found[found < ends[owners + 1] - 1], owners[found < ends[owners + 1] - 1]
    episodes, starts = [*lanes], found - ends[owners]
    for owner in np.unique(owners).tolist():
        yield episodes[owner], starts[owners == owner]


def _find_bounds(
    query: Rows,
    weights: Rows,
    best: _Candidates,
    rows_of: Callable[[int], PreparedRows],
    known: tuple[Offsets, Rows],
) -> list[Moment]:
    """Align the best anew, at every timestep, from the bounds found so far.

    best.costs: those of the weighted alignments. known: offsets, and the weighted costs along the paths.
    """
    offsets, weighted = known
    rows = [
        rows_of(episode).rows + added for episode, added in zip(best.episodes.tolist(), offsets.values, strict=True)
    ]
    pieces, firsts = cut_around(best.spans, rows)
    paced = align_all(query, pieces.worthy(best.costs), _BOUNDS, weights, traced=True)
    paths = list(paced.paths)
    hard = np.flatnonzero(paced.costs > _SLOWER * best.costs)
    if len(hard):  # a pause, or more than twice the speed
        free = align_all(
            query, cut_around(best.spans[hard], [rows[place] for place in hard])[0], _PAUSES, weights, traced=True
        )
        for number in np.flatnonzero(free.costs * _SLOWER < paced.costs[hard]).tolist():
            paths[hard[number]] = free.paths[number]
    costs = _joint(offsets.weigh(measure_differences(query, pieces, paths)), weighted)
    return [
        Moment(episode, first + int(path[0, 1]), first + int(path[-1, 1]) + 1, cost, path + np.array([0, first]))
        for episode, first, cost, path in zip(
            best.episodes.tolist(), firsts[:, 0].tolist(), costs.tolist(), paths, strict=True
        )
    ]


def _joint(own: Rows, shared: Rows) -> Rows:
    return np.asarray(own ** (1.0 - SHARED) * shared**SHARED)
