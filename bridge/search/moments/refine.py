"""Refines windows that look like a query to moments: spans with exact bounds, each with its alignment.

1. Every candidate is aligned with the query, near its window's bounds and diagonal.
2. The best of them are references for weights: where they all are near the query, a difference counts, where they
   differ (the way there, the way back), it counts less. Every candidate is aligned with the query again, so weighted.
3. The best by both costs are aligned once more around the bounds of 2., at half to twice the speed: the hits. So are
   spans that a scan has found at other speeds.

Candidates that are free resemble the query except for a constant offset. They are aligned after their mean difference
from it has been removed, for a penalty: only nearly equal ones then rank before unshifted candidates.

The cost of a hit is the mean distance along its path to the power 1 - _SHARED, times the weighted one of 2. to the
power _SHARED: exactly 0 if the query itself is found. Its score is 1 / (1 + cost).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import FREE, LIMITED, Pieces, Rule, align_all, measure_all
from bridge.alignment.arrays import Paths
from bridge.search.moments.lane_rows import SHORT, SMOOTHED, PreparedRows
from bridge.search.moments.offsets import Offsets
from bridge.search.moments.overlap import MomentLimits, overlap, suppress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.align import Alignments
    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.block_distances import Nearest

_SHARED: Final = 0.7
_SHARED_SHORT: Final = 0.5  # of short queries, whose best twenty are wrong more often
_REFERENCES: Final = 20  # best moments that determine the weights of the query steps
_MIN_VARIANCE: Final = 0.02  # of a value of the query, in variances of the archive: bounds the weights
_STEPS: Final = 64  # of a query, at most, compared before bounds are sought: adjacent timesteps are similar
_FINALISTS: Final = 12  # least number of moments whose bounds are sought
_SAME_MOMENT: Final = 0.3  # overlap above which two candidates are one moment
_MARGIN: Final = 1 / 3  # of the length of a window, on each side: how far bounds may move
_PAUSE_FACTOR: Final = 2.0  # ratio of costs above which a path of any speed replaces one of half to twice the speed
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

    def apart_from(self, nearest: Nearest, most: float) -> Windows:
        """Return those that overlap none of these spans by more."""
        pairs = np.argwhere(self.episodes[:, None] == nearest.episodes)
        shares = overlap(self.spans[pairs[:, 0]], nearest.spans[pairs[:, 1]].T)
        chosen = np.ones(len(self.episodes), np.bool_)
        chosen[pairs[shares > most, 0]] = False
        return Windows(self.episodes[chosen], self.spans[chosen], self.free[chosen])

    def joined(self, nearest: Nearest, *, free: bool = False) -> Windows:
        """Return these, and spans of a scan."""
        frees = np.concatenate([self.free, np.full(len(nearest.spans), free)])
        episodes = np.concatenate([self.episodes, nearest.episodes])
        return Windows(episodes, np.concatenate([self.spans, nearest.spans]), frees)


def refine(
    query: PreparedRows,
    windows: Windows,
    lanes: Mapping[int, PreparedRows],
    limits: MomentLimits,
) -> tuple[list[Moment], Rows]:
    """Return the moments that the best windows were refined to, some may overlap, and the weight of each query value.

    lanes: rows of their episodes.
    """
    episodes, spans, rows_of = windows.episodes, windows.spans, lanes.__getitem__
    if not len(episodes):
        return [], np.full(query.rows.shape, 1.0 / query.rows.shape[1])
    steps = len(query.rows)
    stride = min(1 + steps // _STEPS, int((spans[:, 1] - spans[:, 0]).min()))
    thinned = query.smooth_for(steps)[::stride]
    raw_pieces, firsts = cut_around(
        spans, [rows_of(episode).smooth_for(steps) for episode in episodes.tolist()], stride
    )
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
    ranked = _Candidates(episodes, shared.spans * stride + firsts, combine_costs(own, weighted, steps))
    max_count = max(_FINALISTS, 2 * limits.top_k)
    best = ranked.best(MomentLimits(max_count, max(_SAME_MOMENT, limits.max_overlap), limits.per_episode))
    finalists = _Candidates(episodes[best], ranked.spans[best], shared.costs[best])
    weights = np.repeat(weights, stride, axis=0)[: len(query.rows)]
    return _find_bounds(query.rows, weights, finalists, rows_of, (offsets.take(best), weighted[best])), weights


def refine_paced(
    nearest: Nearest, query: PreparedRows, weights: Rows, lanes: Mapping[int, PreparedRows]
) -> list[Moment]:
    """Return the moments around the nearest spans at another speed, their paths in steps of the query.

    weights: of the query's values, as `refine` returns them. These spans are few and as near as their scan says, so
    that their bounds alone are sought. Costs are multiplied by the change of speed: few rows are like others more
    often, and an exact copy is one at any.
    """
    if not len(nearest.spans):
        return []
    rows, speed = nearest.query.rows, nearest.query.speed
    steps = np.arange(len(rows)) * (len(query.rows) - 1) / (len(rows) - 1)
    paced = weights[np.round(steps).astype(np.int64)]
    pieces, firsts = cut_around(nearest.spans, [lanes[episode].rows for episode in nearest.episodes.tolist()])
    begins = pieces.edges[:-1] + pieces.expected[:, 0]
    rigid = pieces.rows[begins[:, None] + np.arange(len(rows))] - rows
    found = align_all(
        rows, pieces.worthy(np.sqrt((paced * rigid**2).sum(axis=2)).mean(axis=1)), _BOUNDS, paced, traced=True
    )
    own, shared = (measure_differences(rows, pieces, found.paths, weights=one) for one in (None, paced))
    costs = max(speed, 1 / speed) * combine_costs(own, shared, len(rows))
    pairs, ends = found.paths.pairs, found.paths.ends
    pairs = np.stack([np.round(steps[pairs[:, 0]]).astype(np.int64), pairs[:, 1]], axis=1)
    is_new = (np.diff(pairs, axis=0, prepend=-1) != 0).any(axis=1)
    is_new[ends[:-1]] = True
    return _make_moments(nearest.episodes, firsts, costs, Paths(pairs[is_new], is_new.cumsum()[ends - 1]))


def choose(moments: Sequence[Moment], limits: MomentLimits, first: int) -> list[Moment]:
    """Return the best that do not overlap, best first; the first so many win ties of cost."""
    candidates = _Candidates(
        np.array([moment.episode for moment in moments], np.int64),
        np.array([(moment.start, moment.stop) for moment in moments], np.int64).reshape(-1, 2),
        np.array([moment.cost for moment in moments]),
        first,
    )
    return [moments[place] for place in candidates.best(limits)]


def cut_around(spans: Ints, rows: Sequence[Rows], stride: int = 1) -> tuple[Pieces, Ints]:
    """Return every stride-th row in and around each span of its episode [T, D], and the first timesteps [m, 1]."""
    margins = ((spans[:, 1] - spans[:, 0]) * _MARGIN).astype(np.int64)
    firsts = np.maximum(spans[:, 0] - margins, 0)
    lasts = (spans[:, 1] + margins).tolist()
    pieces = [episode[first:last:stride] for episode, first, last in zip(rows, firsts.tolist(), lasts, strict=True)]
    return Pieces.of(pieces, (spans - firsts[:, None]) // stride), firsts[:, None]


def measure_differences(query: Rows, pieces: Pieces, paths: Paths, every: int = 1, weights: Rows | None = None) -> Rows:
    """Return the mean distance of the pairs of each path, weighted by the steps that each pair advances.

    The differences of a pair are first averaged with those of neighbouring pairs, so that noise cancels out. every: the
    stride with which query and pieces were subsampled.
    """
    return measure_all(query, pieces, paths, weights, SMOOTHED // (2 * every))


def _step_weights(query: Rows, pieces: Pieces, own: Alignments, references: Ints) -> Rows:
    """Return the weight of each value of the query [n, D].

    Weights are inverse variances, scaled so that the references have the same mean square as unweighted. The variance
    of a value is the median of the references' squared differences from it, so that half of them may be wrong.
    """
    squares = (
        np.stack([pieces.rows[_last_rows(own.paths[place]) + pieces.edges[place]] for place in references]) - query
    )
    squares **= 2
    ordered: Rows = np.sort(squares, axis=0)  # several times faster than a median
    variance: Rows = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    weights = 1.0 / (_MIN_VARIANCE + variance)
    weighted = float((weights * squares).sum())
    weights *= float(squares.sum()) / weighted / query.shape[1] if weighted else _MIN_VARIANCE / query.shape[1]
    return weights


def _last_rows(path: Ints) -> Ints:
    """Return the last row that is paired with each query step."""
    rows = np.empty(path[-1, 0] + 1, np.int64)
    rows[path[:, 0]] = path[:, 1]
    return rows


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
    rows = [rows_of(episode).rows for episode in best.episodes.tolist()]
    pieces, firsts = cut_around(best.spans, rows)
    pieces = offsets.add_to(pieces)
    limited = align_all(query, pieces.worthy(best.costs), _BOUNDS, weights, traced=True)
    paths = limited.paths
    slow = np.flatnonzero(limited.costs > _PAUSE_FACTOR * best.costs)
    if len(slow):  # a pause, or more than twice the speed
        around, _ = cut_around(best.spans[slow], [rows[place] for place in slow.tolist()])
        free = align_all(query, offsets.take(slow).add_to(around), _PAUSES, weights, traced=True)
        is_better = (free.costs * _PAUSE_FACTOR < limited.costs[slow]).tolist()
        chosen = zip(slow.tolist(), free.paths, is_better, strict=True)
        others = {place: path for place, path, better in chosen if better}
        paths = Paths.of(others.get(place, path) for place, path in enumerate(paths))
    costs = combine_costs(offsets.weigh(measure_differences(query, pieces, paths)), weighted, len(query))
    return _make_moments(best.episodes, firsts, costs, paths)


def _make_moments(episodes: Ints, firsts: Ints, costs: Rows, paths: Iterable[Ints]) -> list[Moment]:
    """Return moments by their paths in pieces of episodes, which begin at firsts [m, 1]."""
    return [
        Moment(episode, first + int(path[0, 1]), first + int(path[-1, 1]) + 1, cost, path + np.array([0, first]))
        for episode, first, cost, path in zip(
            episodes.tolist(), firsts[:, 0].tolist(), costs.tolist(), paths, strict=True
        )
    ]


def combine_costs(own: Rows, shared: Rows, steps: int) -> Rows:
    """Return the costs of moments: of their mean distance, and of the weighted one; steps: of the query."""
    share = _SHARED if steps >= SHORT else _SHARED_SHORT
    return np.asarray(own ** (1.0 - share) * shared**share)
