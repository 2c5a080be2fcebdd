"""Compares moments with the query at their own, steady speed.

An alignment pairs whole timesteps: at other speeds than those of its steps, its path has a stair whose cost an exact
copy would not have. So the query is also read between its timesteps, at as many as the moment has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import Pieces
from bridge.alignment.arrays import Paths
from bridge.search.moments.refine import Moment, combine_costs, measure_differences

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.search.moments.lane_rows import PreparedRows

_MOVED: Final = 2  # timesteps, at most, by which bounds move
_MOVES: Final = np.array(
    sorted(
        ((a, b) for a in range(-_MOVED, _MOVED + 1) for b in range(-_MOVED, _MOVED + 1)), key=lambda m: (m != (0, 0), m)
    )
)
_POINTS: Final = 12  # of the query, at which all moves are compared
_SHORTEST: Final = 2  # timesteps
_NUMBERS: Final = 1 << 18  # read at once: lanes may have many channels


def steady(
    query: PreparedRows, weights: Rows, moments: Sequence[Moment], lanes: Mapping[int, PreparedRows]
) -> list[Moment]:
    """Return the moments, those with other bounds, cost and path that are nearer at a steady speed.

    weights: of the query's values, as `refine` returns them. Costs are multiplied by the change of speed: few rows are
    like others more often, and an exact copy is one at any.
    """
    length = len(query.rows)
    others = [
        one
        for one in moments
        if one.cost > 0 and one.stop - one.start >= _SHORTEST and abs(one.stop - one.start - length) > _MOVED
    ]
    if not others:
        return [*moments]
    rows = [lanes[moment.episode].rows for moment in others]
    spans = np.array([(moment.start, moment.stop) for moment in others])
    lengths = np.array([*map(len, rows)])
    firsts = np.maximum(0, spans[:, 0] - _MOVED)
    pieces = Pieces.of([one[first:stop] for one, first, stop in zip(rows, firsts, spans[:, 1] + _MOVED, strict=True)])
    spans = _fit(query.rows, pieces, spans - firsts[:, None], lengths - firsts)
    steps = spans[:, 1] - spans[:, 0]
    ends = np.cumsum(steps)
    numbers = np.arange(ends[-1]) - np.repeat(ends - steps, steps)
    times = numbers * np.repeat((len(query.rows) - 1) / (steps - 1), steps)
    places = numbers + np.repeat(spans[:, 0], steps)
    paths = Paths(np.stack([np.arange(ends[-1]), places], axis=1), ends)
    nearest = np.round(times).astype(np.int64)
    read = _read(query.rows, times)
    own, shared = (measure_differences(read, pieces, paths, weights=one) for one in (None, weights[nearest]))
    speeds = len(query.rows) / steps
    costs = np.maximum(speeds, 1 / speeds) * combine_costs(own, shared, len(query.rows))
    pairs = Paths(np.stack([nearest, places + np.repeat(firsts, steps)], axis=1), ends)
    found = {
        id(moment): Moment(moment.episode, int(start), int(stop), float(cost), path)
        for moment, (start, stop), cost, path in zip(others, spans + firsts[:, None], costs, pairs, strict=True)
        if cost < moment.cost
    }
    return [found.get(id(moment), moment) for moment in moments]


def _fit(query: Rows, pieces: Pieces, spans: Ints, lengths: Ints) -> Ints:
    """Return the spans in pieces [m, 2] that are nearest to the query at a steady speed, bounds moved a little."""
    points, rows = np.linspace(0, 1, _POINTS), pieces.rows
    wanted, found = _read(query, points * (len(query) - 1)), spans.copy()
    rises = np.diff(rows, axis=0, append=rows[-1:])
    # Of what is read a share s after a row, the squared distance is near + s * (slopes + s * bends) there.
    near = np.einsum("td,td->t", rows, rows)[:, None] - 2 * rows @ wanted.T + (wanted**2).sum(axis=1)
    slopes = 2 * (np.einsum("td,td->t", rows, rises)[:, None] - rises @ wanted.T)
    bends = np.einsum("td,td->t", rises, rises)
    size = max(1, _NUMBERS // (len(_MOVES) * _POINTS))
    for first in range(0, len(spans), size):
        part = slice(first, first + size)
        moved = spans[part, None] + _MOVES
        steps = moved[..., 1] - moved[..., 0]
        fits = (moved[..., 0] >= 0) & (moved[..., 1] <= lengths[part, None]) & (steps >= _SHORTEST)
        begins = np.where(fits, moved[..., 0], 0) + pieces.edges[:-1][part, None]
        times = begins[..., None] + points * np.where(fits, steps - 1, 0)[..., None]
        below = times.astype(np.int64)
        shares, places = times - below, _POINTS * below + np.arange(_POINTS)
        squares = near.take(places) + shares * (slopes.take(places) + shares * bends.take(below))
        costs = np.sqrt(np.maximum(squares, 0)).mean(axis=2)
        costs[~fits] = np.inf
        found[part] = moved[np.arange(len(moved)), costs.argmin(axis=1)]
    return found


def _read(rows: Rows, times: NDArray[np.float64]) -> Rows:
    """Return rows at times [..., D], between timesteps by both."""
    below = np.minimum(times.astype(np.int64), len(rows) - 1)
    above = np.minimum(below + 1, len(rows) - 1)
    values: Rows = rows[below] + (times - below)[..., None] * (rows[above] - rows[below])
    return values
