"""The alignment kernel in numpy alone: many pieces at once, diagonal by diagonal.

Knows: the recursion that bridge/alignment/align.py describes. The cells of a diagonal do not need each other, so that
each is a few operations over all pieces. Adds and compares in the order of `compiled`: equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.align import Ints, Rows

    Expected = Sequence[tuple[int, int]]
    Solved = tuple[float, Ints] | None

_CELLS: Final = 2_000_000  # of all pieces in one go: bounds the memory


def solve_all(
    query: Rows,
    weights: Rows,
    pieces: Sequence[Rows],
    bounds: Sequence[Ints],
    rule: tuple[Rows, float, float, Expected],
) -> list[Solved]:
    """Return cost and path of the best alignment with every piece, None where there is no path.

    rule: what Rule.costs returns, the penalty of ends, the gain of a row, and where each match is expected.
    """
    costs, penalty, gain, expected = rule
    solved: list[Solved] = []
    for part in _batches(len(query), [len(rows) for rows in pieces]):
        local = _local(query, weights, pieces[part], bounds[part])
        begins = np.array([start for start, _ in expected[part]])
        table = _fill(local, costs, (penalty, gain), begins)
        for number, (_, stop) in enumerate(expected[part]):
            end = _end(table, number, (penalty, gain, stop))
            solved.append(None if end is None else _path(table.taken[number], end, costs, local[number]))
    return solved


def _batches(asked: int, lengths: Sequence[int]) -> Iterator[slice]:
    start = 0
    while start < len(lengths):
        stop, longest = start, 0
        while stop < len(lengths):
            longest = max(longest, lengths[stop])
            if stop > start and (stop + 1 - start) * asked * longest > _CELLS:
                break
            stop += 1
        yield slice(start, stop)
        start = stop


def _local(query: Rows, weights: Rows, pieces: Sequence[Rows], bounds: Sequence[Ints]) -> Rows:
    """Return what every pair costs: [pieces, query steps, rows], infinite outside the bounds."""
    longest = max(map(len, pieces))
    padded = np.zeros((query.shape[1], len(pieces), longest))
    for number, rows in enumerate(pieces):
        padded[:, number, : len(rows)] = rows.T
    total = np.zeros((len(pieces), len(query), longest))
    for channel, values in enumerate(padded):
        apart = query[None, :, None, channel] - values[:, None, :]
        apart *= apart
        apart *= weights[None, :, None, channel]
        total += apart
    np.sqrt(total, out=total)
    low, high = np.stack(bounds)[:, :, 0, None], np.stack(bounds)[:, :, 1, None]
    places = np.arange(longest)
    total[(places < low) | (places >= high)] = np.inf
    return total


@dataclass(frozen=True, eq=False)
class _Table:
    """ends, begun [pieces, rows]: totals and starts of the paths to the last query step; taken: steps by cell."""

    ends: Rows
    begun: Ints
    taken: NDArray[np.int8]


def _fill(local: Rows, costs: Rows, ends: tuple[float, float], starts: Ints) -> _Table:
    penalty, gain = ends
    count, asked, longest = local.shape
    table = _Table(np.full((count, longest), np.inf), np.full((count, longest), -1), np.full(local.shape, -1, np.int8))
    # The last four diagonals by query step; a step reaches back three at most.
    reached, begun = np.full((4, count, asked), np.inf), np.full((4, count, asked), -1)
    for diagonal in range(asked + longest - 1):
        i = np.arange(max(0, diagonal - longest + 1), min(diagonal, asked - 1) + 1)
        now = diagonal % 4
        here = local[:, i, diagonal - i]
        best, origin, by = np.full(here.shape, np.inf), np.full(here.shape, -1), np.full(here.shape, -1, np.int8)
        if i[0] == 0:
            best[:, 0] = penalty * np.abs(diagonal - starts) + 2.0 * here[:, 0] - gain
            origin[:, 0] = np.where(np.isfinite(best[:, 0]), diagonal, -1)
        for number, (over, along, cost, gained) in enumerate(costs.tolist()):
            inside = (i >= over) & (diagonal - i >= along)
            before, back = int(diagonal - over - along) % 4, i[inside] - int(over)
            cost_then = reached[before][:, back] + cost * here[:, inside] - gained
            better = np.zeros(here.shape, np.bool_)
            better[:, inside] = cost_then < best[:, inside]
            chosen = better[:, inside]
            best[better], by[better] = cost_then[chosen], number
            origin[better] = begun[before][:, back][chosen]
        reached[now], begun[now] = np.inf, -1
        reached[now][:, i], begun[now][:, i] = best, origin
        table.taken[:, i, diagonal - i] = by
        if i[-1] == asked - 1:
            table.ends[:, diagonal - asked + 1], table.begun[:, diagonal - asked + 1] = best[:, -1], origin[:, -1]
    return table


def _end(table: _Table, number: int, about: tuple[float, float, int]) -> int | None:
    penalty, gain, stop = about
    ends, begun = table.ends[number], table.begun[number]
    asked = table.taken.shape[1]
    places = np.flatnonzero(begun >= 0)
    if not len(places):
        return None
    matched = places - begun[places] + 1
    means = (ends[places] + gain * matched + penalty * np.abs(places + 1 - stop)) / (asked + matched)
    return int(places[np.lexsort((places, np.abs(matched - asked), means))[0]])


def _path(taken: NDArray[np.int8], end: int, costs: Rows, local: Rows) -> tuple[float, Ints]:
    """Return what the path to the last query step at this row costs, and its pairs."""
    steps = [(int(over), int(along), cost) for over, along, cost, _ in costs.tolist()]
    i, j, spent = taken.shape[0] - 1, end, 0.0
    path = [(i, j)]
    while (by := int(taken[i, j])) >= 0:
        spent += steps[by][2] * float(local[i, j])
        i, j = i - steps[by][0], j - steps[by][1]
        path.append((i, j))
    spent += 2.0 * float(local[i, j])
    return spent / (taken.shape[0] + end - j + 1), np.array(path[::-1], np.int64)
