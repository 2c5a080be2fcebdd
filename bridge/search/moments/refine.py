"""Refines windows that look like a query to moments: spans with exact bounds, each with its alignment.

1. Every candidate is aligned with the query, near its window's bounds and diagonal.
2. The best of them are references for weights: where they all are near the query, a difference counts, where they
   differ (the way there, the way back), it counts less. Every candidate is aligned with the query again, so weighted.
3. The best by both costs are aligned once more around the bounds of 2., at half to twice the speed: the hits.

Candidates that are free resemble the query except for a constant offset. They are aligned after their mean difference
from it has been removed, for a penalty: only nearly equal ones then rank before unshifted candidates.

The cost of a hit is the mean distance along its path to the power 1 - SHARED, times the weighted one of 2. to the power
SHARED: exactly 0 if the query itself is found. Its score is 1 / (1 + cost).
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
_REFERENCES: Final = 20  # best moments that determine the weights of the query steps
_MIN_VARIANCE: Final = 0.02  # of a value of the query, in variances of the archive: bounds the weights
_STEPS: Final = 64  # of a query, at most, compared before bounds are sought: adjacent timesteps are similar
_FINALISTS: Final = 12  # least number of moments whose bounds are sought
_SAME_MOMENT: Final = 0.3  # overlap above which two candidates are one moment
_MARGIN: Final = 1 / 3  # of the length of a window, on each side: how far bounds may move
_PAUSE_FACTOR: Final = 2.0  # ratio of costs above which a path of any speed replaces one of half to twice the speed
_ROUNDING: Final = 1e-4  # standard deviations by which values rounded to float32 may differ
_DOUBLE_ROUNDING: Final = 3e-4  # the same for differences of two rounded values, with a margin
_MIN_CHANGE: Final = 1e-2  # standard deviations between adjacent timesteps that cannot be rounding
RANKING: Final = Rule(band=0.15, end_penalty=1.0)
# Penalty and gain are relative to the cost, so that they vanish for a nearly exact match. Approaches to a goal differ
# more than what follows: with a gain below three per matched row they would be cut off.
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

    first: the first so many candidates win ties of cost.
    """

    episodes: Ints
    spans: Ints
    costs: Rows
    first: int = 0

    def best(self, limits: MomentLimits) -> Ints:
        """Return the places of the best that do not overlap, best first."""
        is_behind = np.arange(len(self.costs)) >= self.first
        order = np.lexsort((self.spans[:, 1], self.spans[:, 0], self.episodes, is_behind, self.costs))
        return order[suppress(self.episodes[order], self.spans[order], limits)]


@dataclass(frozen=True, eq=False)
class Windows:
    """Candidates: episodes [m] and spans [m, 2]; free [m]: whether an offset from the query may be removed."""

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

    query: of n timesteps; lanes: the rows of the candidates' episodes, and of others that may have copies of the query;
    source: the episode and the first timestep of the query itself, if that may be a hit.
    """
    episodes, spans, rows_of = windows.episodes, windows.spans, lanes.__getitem__
    if not len(episodes):
        return []
    stride = min(1 + len(query.smooth) // _STEPS, int((spans[:, 1] - spans[:, 0]).min()))
    thinned = query.smooth[::stride]
    raw_pieces, firsts = cut_around(spans, [rows_of(episode).smooth for episode in episodes.tolist()], stride)
    offsets = Offsets.of(thinned, raw_pieces, windows.free)
    traced = align_all(thinned, offsets.add_to(raw_pieces), RANKING, traced=True)
    offsets = offsets.along(thinned, raw_pieces, traced)
    pieces = offsets.add_to(raw_pieces)
    own = offsets.weigh(measure_differences(thinned, pieces, traced.paths, stride))
    references = _Candidates(episodes, traced.spans * stride + firsts, own).best(
        MomentLimits(_REFERENCES, _SAME_MOMENT)
    )
    weights = _step_weights(thinned, pieces, traced, references)
    shared = align_all(thinned, pieces.worthy(traced.costs), _WEIGHTED, weights, traced=True)
    weighted = offsets.weigh(measure_differences(thinned, pieces, shared.paths, stride, weights))
    ranked = _Candidates(episodes, shared.spans * stride + firsts, _combine_costs(own, weighted))
    max_count = max(_FINALISTS, 2 * limits.top_k)
    best = ranked.best(MomentLimits(max_count, max(_SAME_MOMENT, limits.max_overlap), limits.per_episode))
    finalists = _Candidates(episodes[best], ranked.spans[best], shared.costs[best])
    weights = np.repeat(weights, stride, axis=0)[: len(query.rows)]
    own_moments = [] if source is None else _find_source(query.rows, *source, rows_of)
    moments = [
        *own_moments,
        *_find_identical(query.rows, lanes),
        *_find_bounds(query.rows, weights, finalists, rows_of, (offsets.take(best), weighted[best])),
    ]
    candidates = _Candidates(
        np.array([moment.episode for moment in moments], np.int64),
        np.array([(moment.start, moment.stop) for moment in moments], np.int64).reshape(-1, 2),
        np.array([moment.cost for moment in moments]),
        len(own_moments),
    )
    return [moments[place] for place in candidates.best(limits)]


def cut_around(spans: Ints, rows: Sequence[Rows], stride: int = 1) -> tuple[Pieces, Ints]:
    """Return every stride-th row in and around each span of its episode [T, D], and the first timesteps [m, 1]."""
    margins = ((spans[:, 1] - spans[:, 0]) * _MARGIN).astype(np.int64)
    firsts = np.maximum(spans[:, 0] - margins, 0)
    lasts = (spans[:, 1] + margins).tolist()
    pieces = [episode[first:last:stride] for episode, first, last in zip(rows, firsts.tolist(), lasts, strict=True)]
    return Pieces.of(pieces, (spans - firsts[:, None]) // stride), firsts[:, None]


def _step_weights(query: Rows, pieces: Pieces, own: Alignments, references: Ints) -> Rows:
    """Return the weight of each value of the query [n, D].

    Weights are inverse variances, scaled so that the references have the same mean square as unweighted. The variance
    of a value is the median of the references' squared differences from it, so that half of them may be wrong.
    """
    squares = (
        np.stack([pieces.rows[_last_rows(own.paths[place]) + pieces.edges[place]] for place in references]) - query
    )
    squares **= 2
    variance = np.median(squares, axis=0)
    weights = 1.0 / (_MIN_VARIANCE + variance)
    weighted = float((weights * squares).sum())
    weights *= float(squares.sum()) / weighted / query.shape[1] if weighted else _MIN_VARIANCE / query.shape[1]
    return weights


def _last_rows(path: Ints) -> Ints:
    """Return the last row that is paired with each query step."""
    rows = np.empty(path[-1, 0] + 1, np.int64)
    rows[path[:, 0]] = path[:, 1]
    return rows


def _find_source(query: Rows, episode: int, start: int, rows_of: Callable[[int], PreparedRows]) -> list[Moment]:
    """Return the span that the query is from, which short windows, being similar, need not lead to."""
    stop = start + len(query)
    same = np.array_equal(rows_of(episode).rows[start:stop], query)
    return [_diagonal_moment(episode, start, stop)] if same else []


def _diagonal_moment(episode: int, start: int, stop: int, cost: float = 0.0) -> Moment:
    return Moment(episode, start, stop, cost, np.arange(stop - start)[:, None] + np.array([0, start]))


def _find_identical(query: Rows, lanes: Mapping[int, PreparedRows]) -> list[Moment]:
    """Return all spans of the episodes that equal the query except for an offset: no window need cover them exactly."""
    steps, identical = len(query), []
    changes = np.diff(query, axis=0)
    place, channel = np.unravel_index(np.abs(changes).argmax(), changes.shape) if steps > 1 else (0, 0)
    is_moving = steps > 1 and abs(changes[place, channel]) > _MIN_CHANGE  # the largest change is the most selective
    long_enough = {episode: prepared.rows for episode, prepared in lanes.items() if len(prepared.rows) >= steps}
    for episode, starts in _find_starts(query, long_enough, (int(place), int(channel)), is_moving=is_moving):
        rows, last_stop = long_enough[episode], 0
        for start in (_keep_equal_changes(rows, starts, changes) if is_moving else starts).tolist():
            if start < last_stop:
                continue  # where nothing moves, a copy would start at every timestep
            offsets = query - rows[start : start + steps]
            offset = offsets.mean(axis=0)
            if np.abs(offsets - offset).max() > _ROUNDING:
                continue
            equal = np.array_equal(rows[start : start + steps], query)
            if equal or is_moving:
                last_stop = start + steps
                cost = 0.0 if equal else SHIFT_COST * float(np.sqrt((offset**2).mean()))
                identical.append(_diagonal_moment(episode, start, last_stop, cost))
    return identical


def _keep_equal_changes(rows: Rows, starts: Ints, changes: Rows) -> Ints:
    """Keep the start timesteps from which the largest change of every channel equals the query's."""
    for channel, step in enumerate(np.abs(changes).argmax(axis=0).tolist()):
        if not len(starts):
            break
        found_changes = rows[starts + step + 1, channel] - rows[starts + step, channel]
        starts = starts[np.abs(found_changes - changes[step, channel]) <= _DOUBLE_ROUNDING]
    return starts


def _find_starts(
    query: Rows, lanes: Mapping[int, Rows], step: tuple[int, int], *, is_moving: bool
) -> Iterator[tuple[int, Ints]]:
    """Yield episodes and the timesteps at which a copy of the query may start in them; none is shorter than the query.

    step: timestep and channel of the largest change in the query. If nothing moves, every constant span would be equal
    except for an offset, so the first timestep must be equal.
    """
    if not is_moving:
        for episode, rows in lanes.items():
            last = len(rows) - len(query) + 1
            yield episode, np.flatnonzero((rows[:last] == query[0]).all(axis=1))
        return
    place, channel = step
    expected_change = query[place + 1, channel] - query[place, channel]
    columns = [rows[place : place + len(rows) - len(query) + 2, channel] for rows in lanes.values()]
    ends = np.cumsum([0, *map(len, columns)])
    changes = np.diff(
        np.concatenate([*columns, np.zeros(1)])
    )  # the last of each column leads into the next one: dropped below
    places = np.flatnonzero(np.abs(changes - expected_change) <= _ROUNDING)
    owners = ends.searchsorted(places, side="right") - 1
    places, owners = places[places < ends[owners + 1] - 1], owners[places < ends[owners + 1] - 1]
    episodes, starts = [*lanes], places - ends[owners]
    for owner in np.unique(owners).tolist():
        yield episodes[owner], starts[owners == owner]


def _find_bounds(
    query: Rows,
    weights: Rows,
    best: _Candidates,
    rows_of: Callable[[int], PreparedRows],
    offsets_and_costs: tuple[Offsets, Rows],
) -> list[Moment]:
    """Align the best candidates again at every timestep, around their present bounds.

    best.costs: of the weighted alignments. offsets_and_costs: offsets, and the weighted costs along the paths.
    """
    offsets, weighted = offsets_and_costs
    rows = [
        rows_of(episode).rows + added for episode, added in zip(best.episodes.tolist(), offsets.values, strict=True)
    ]
    pieces, firsts = cut_around(best.spans, rows)
    limited = align_all(query, pieces.worthy(best.costs), _BOUNDS, weights, traced=True)
    paths = list(limited.paths)
    slow = np.flatnonzero(limited.costs > _PAUSE_FACTOR * best.costs)
    if len(slow):  # a pause, or more than twice the speed
        free = align_all(
            query, cut_around(best.spans[slow], [rows[place] for place in slow])[0], _PAUSES, weights, traced=True
        )
        for number in np.flatnonzero(free.costs * _PAUSE_FACTOR < limited.costs[slow]).tolist():
            paths[slow[number]] = free.paths[number]
    costs = _combine_costs(offsets.weigh(measure_differences(query, pieces, paths)), weighted)
    return [
        Moment(episode, first + int(path[0, 1]), first + int(path[-1, 1]) + 1, cost, path + np.array([0, first]))
        for episode, first, cost, path in zip(
            best.episodes.tolist(), firsts[:, 0].tolist(), costs.tolist(), paths, strict=True
        )
    ]


def _combine_costs(own: Rows, shared: Rows) -> Rows:
    return np.asarray(own ** (1.0 - SHARED) * shared**SHARED)
