"""The alignment kernel in numpy alone: many pieces at once, diagonal by diagonal.

The cells of a diagonal do not need each other, so that each is a few operations over all pieces. Adds and compares in
the order of `numba_kernel`: equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, PieceArrays, Rows, RuleArrays, Solved

_CELLS: Final = 500_000  # of all pieces in one go: bounds the memory, to some 80 bytes for each
_PATHS: Final = 12  # measured in one go: new memory for all of them would take longer than what is done in it


def solve(query: Rows, weights: Rows, pieces: PieceArrays, bounds: Ints, rule: RuleArrays, traced: bool) -> Solved:  # noqa: FBT001  (as the compiled one)
    """Return costs [m], spans [m, 2], all paths one behind the other [P, 2] and where each ends [m].

    pieces: rows [T, D] of all, their edges [m + 1], where each match is expected [m, 2]; bounds: [m, n, 2], the rows
    that each step may meet; rule: steps [s, 2], what each costs [s], the penalty [m] and the gain [m] of a row.
    Without `traced` paths are empty; where there is no path, the cost is infinite.
    """
    rows, edges, expected = pieces
    steps, prices, penalties, gains = rule
    count = len(edges) - 1
    costs, spans = np.full(count, np.inf), np.zeros((count, 2), np.int64)
    paths: list[Ints] = [np.empty((0, 2), np.int64)] * count
    lengths, columns = np.diff(edges), [np.ascontiguousarray(one.T) for one in (query, weights, rows)]
    for part in _batches(len(query), lengths):
        met = _find_edges(bounds[part], int(lengths[part].max()))
        local = _local(columns, edges[part], bounds[part], met)
        table = _fill(local, met, (steps, prices), (expected[part], penalties[part], gains[part]))
        for number in range(part.start, part.stop):
            place = number - part.start
            end = _end(table, place, (int(expected[number, 1]), float(penalties[number])))
            if end is not None:
                costs[number], spans[number] = table.cost(place, end), (table.begun[end, place], end + 1)
                paths[number] = _path(table, place, end, steps) if traced else paths[number]
    return costs, spans, np.concatenate(paths), np.cumsum([len(path) for path in paths])


def _batches(asked: int, lengths: Ints) -> Iterator[slice]:
    start = 0
    while start < len(lengths):
        stop, longest = start, 0
        while stop < len(lengths):
            longest = max(longest, int(lengths[stop]))
            if stop > start and (stop + 1 - start) * asked * longest > _CELLS:
                break
            stop += 1
        yield slice(start, stop)
        start = stop


def _find_edges(bounds: Ints, longest: int) -> Ints:
    """Return [diagonals, 2]: the query steps [first, last) that some piece may meet on each; bounds rise."""
    steps = np.arange(bounds.shape[1])
    diagonals = np.arange(len(steps) + longest - 1)
    ends = (bounds[:, :, 1].max(axis=0) + steps, bounds[:, :, 0].min(axis=0) + steps)
    return np.stack([one.searchsorted(diagonals, side="right") for one in ends], axis=1)


def _local(columns: Sequence[Rows], starts: Ints, bounds: Ints, edges: Ints) -> Rows:
    """Return what every pair costs, infinite outside the bounds: [diagonals, query steps from the first, pieces].

    columns: those of the query, of its weights and of the rows; starts: where in the rows each piece begins.
    """
    widths = np.diff(bounds)
    within = np.arange(int(widths.max())) < widths
    numbers, steps, places = np.nonzero(within)
    places += bounds[numbers, steps, 0]
    at, cost = starts[numbers] + places, np.zeros(len(steps))
    for asked, weight, values in zip(*columns, strict=True):
        apart = asked.take(steps) - values.take(at)
        apart *= apart
        apart *= weight.take(steps)
        cost += apart
    diagonals = steps + places
    total = np.full((len(edges), int(np.diff(edges).max()), len(starts)), np.inf)
    total[diagonals, steps - edges[diagonals, 0], numbers] = np.sqrt(cost)
    return total


@dataclass(frozen=True, eq=False)
class _Table:
    """The paths to each row of the last query step.

    edges: as of _find_edges; taken: the last step to each cell, as _local has them. ends, spent, begun [rows, pieces]:
    their totals, what their pairs cost, where they start.
    """

    edges: Ints
    taken: NDArray[np.int8]
    ends: Rows
    spent: Rows
    begun: Ints

    @property
    def query_steps(self) -> int:
        """The number of query steps."""
        return int(self.edges[-1, 1])

    def cost(self, number: int, end: int) -> float:
        """Return the mean difference along the path to this row."""
        return float(self.spent[end, number] / (self.query_steps + end - self.begun[end, number] + 1))


def _fill(local: Rows, edges: Ints, steps: tuple[Ints, Rows], ends: tuple[Ints, Rows, Rows]) -> _Table:
    expected, penalties, gains = ends
    asked = int(edges[-1, 1])
    rows, taken = (len(edges) - asked + 1, local.shape[2]), np.full(local.shape, -1, np.int8)
    table = _Table(edges, taken, np.full(rows, np.inf), np.zeros(rows), np.full(rows, -1))
    # The last four diagonals by query step; a step reaches back three at most.
    room = (4, asked, local.shape[2])
    reached, spent, begun = np.full(room, np.inf), np.zeros(room), np.full(room, -1)
    for diagonal, (first, last) in enumerate(edges.tolist()):
        now = diagonal % 4
        reached[now] = np.inf
        if first == 0 < last:
            start = 2.0 * local[diagonal, 0]
            reached[now, 0] = penalties * np.abs(diagonal - expected[:, 0]) + start - gains
            spent[now, 0], begun[now, 0] = start, diagonal
        for number, ((over, along), price) in enumerate(zip(steps[0].tolist(), steps[1].tolist(), strict=True)):
            here, before = slice(max(first, over), min(last, diagonal - along + 1)), (diagonal - over - along) % 4
            if here.start >= here.stop:
                continue
            back, cells = slice(here.start - over, here.stop - over), slice(here.start - first, here.stop - first)
            pays = price * local[diagonal, cells]
            total = reached[before, back] + (pays - gains * along)
            better = total < reached[now, here]
            np.copyto(reached[now, here], total, where=better)
            np.copyto(spent[now, here], spent[before, back] + pays, where=better)
            np.copyto(begun[now, here], begun[before, back], where=better)
            np.copyto(taken[diagonal, cells], number, where=better)
        if first < last == asked:
            row = diagonal - asked + 1
            table.ends[row], table.spent[row], table.begun[row] = reached[now, -1], spent[now, -1], begun[now, -1]
    return table


def _end(table: _Table, number: int, about: tuple[int, float]) -> int | None:
    stop, penalty = about
    ends, asked = table.ends[:, number], table.query_steps
    places = np.flatnonzero(np.isfinite(ends))
    if not len(places):
        return None
    matched = places - table.begun[places, number] + 1
    means = (ends[places] + penalty * np.abs(places + 1 - stop)) / (asked + matched)
    return int(places[np.lexsort((places, np.abs(matched - asked), means))[0]])


def _path(table: _Table, number: int, end: int, steps: Ints) -> Ints:
    """Return the pairs of the path to the last query step at this row."""
    advances, firsts = steps.tolist(), table.edges[:, 0].tolist()
    i, j = table.query_steps - 1, end
    path = [(i, j)]
    while (by := int(table.taken[i + j, i - firsts[i + j], number])) >= 0:
        i, j = i - advances[by][0], j - advances[by][1]
        path.append((i, j))
    return np.array(path[::-1], np.int64)


def measure(query: Rows, weights: Rows, pieces: tuple[Rows, Ints], paths: tuple[Ints, Ints], around: int) -> Rows:
    """Return the mean difference [m] along each path: of every pair averaged with up to `around` to each side of it.

    pieces: rows [T, D] of all, and where each begins [m]; paths: the pairs [P, 2] of all, and where each ends [m].
    """
    (rows, edges), (pairs, ends) = pieces, paths
    lengths = np.diff(ends, prepend=0)
    placed = pairs + np.repeat(edges, lengths)[:, None] * np.array([0, 1])
    parts = []
    for first in range(0, len(ends), _PATHS):
        some = lengths[first : first + _PATHS]
        begin = ends[first] - some[0]
        parts.append(_measure(query, weights, rows, placed[begin : begin + some.sum()], some, around))
    return np.concatenate(parts)


def _measure(query: Rows, weights: Rows, rows: Rows, pairs: Ints, lengths: Ints, around: int) -> Rows:
    begins, owners = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(lengths)), lengths)
    steps = pairs[:, 0]
    advanced = np.diff(steps + pairs[:, 1], prepend=0)
    advanced[begins] = 2
    before = np.arange(len(owners)) - begins[owners]
    counts = np.minimum(before, around) + np.minimum(lengths[owners] - 1 - before, around) + 1
    places = np.arange(len(owners)) + around * owners  # zeros between paths, so that none is averaged with another one
    apart = np.zeros((places[-1] + 1, query.shape[1]))
    apart[places] = query.take(steps, axis=0) - rows.take(pairs[:, 1], axis=0)
    total = apart.copy()
    for away in range(1, around + 1):
        total[away:] += apart[:-away]
        total[:-away] += apart[away:]
    total = total.take(places, axis=0)
    total *= total
    total *= weights.take(steps, axis=0)
    squares = np.add.reduce(np.ascontiguousarray(total.T), axis=0)  # channel by channel, as the compiled one
    each = advanced * (np.sqrt(squares) / counts)
    return np.bincount(owners, each) / np.bincount(owners, advanced)
