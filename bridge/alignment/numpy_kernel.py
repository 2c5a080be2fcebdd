"""The alignment kernel in numpy alone: many pieces at once, diagonal by diagonal.

The cells of a diagonal do not depend on each other, so a diagonal takes a few array operations for all pieces.
Additions and comparisons have the order of `numba_kernel`, so that results are equal to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, PieceArrays, Rows, RuleArrays, Solved

_MAX_CELLS: Final = 500_000  # of all pieces of a batch: limits the memory, at about 80 bytes per cell
_MAX_PATHS: Final = 12  # of a batch: allocating memory for all paths at once would take longer than the computation


def solve(query: Rows, weights: Rows, pieces: PieceArrays, bounds: Ints, rule: RuleArrays, traced: bool) -> Solved:  # noqa: FBT001  (as the compiled one)
    """Return costs [m], spans [m, 2], all paths concatenated [P, 2] and the end of each in them [m].

    pieces: rows [T, D] of all, their edges [m + 1], the expected matches [m, 2]; bounds: [m, n, 2], the rows with which
    each query step may be paired; rule: steps [s, 2], the price of each [s], the penalty [m] and the gain [m] of a row.
    Without `traced` paths are empty; where no path exists, the cost is infinite.
    """
    rows, edges, expected = pieces
    steps, prices, penalties, gains = rule
    count = len(edges) - 1
    costs, spans = np.full(count, np.inf), np.zeros((count, 2), np.int64)
    paths: list[Ints] = [np.empty((0, 2), np.int64)] * count
    lengths, columns = np.diff(edges), [np.ascontiguousarray(array.T) for array in (query, weights, rows)]
    for part in _batches(len(query), lengths):
        step_ranges = _find_step_ranges(bounds[part], int(lengths[part].max()))
        distances = _distances(columns, edges[part], bounds[part], step_ranges)
        table = _fill(distances, step_ranges, (steps, prices), (expected[part], penalties[part], gains[part]))
        for number in range(part.start, part.stop):
            place = number - part.start
            end = _end(table, place, (int(expected[number, 1]), float(penalties[number])))
            if end is not None:
                costs[number], spans[number] = table.cost(place, end), (table.begun[end, place], end + 1)
                paths[number] = _path(table, place, end, steps) if traced else paths[number]
    return costs, spans, np.concatenate(paths), np.cumsum([len(path) for path in paths])


def _batches(query_length: int, lengths: Ints) -> Iterator[slice]:
    start = 0
    while start < len(lengths):
        stop, longest = start, 0
        while stop < len(lengths):
            longest = max(longest, int(lengths[stop]))
            if stop > start and (stop + 1 - start) * query_length * longest > _MAX_CELLS:
                break
            stop += 1
        yield slice(start, stop)
        start = stop


def _find_step_ranges(bounds: Ints, longest: int) -> Ints:
    """Return [diagonals, 2]: the query steps [first, last) that lie within bounds of any piece; bounds must rise."""
    steps = np.arange(bounds.shape[1])
    diagonals = np.arange(len(steps) + longest - 1)
    ends = (bounds[:, :, 1].max(axis=0) + steps, bounds[:, :, 0].min(axis=0) + steps)
    return np.stack([end.searchsorted(diagonals, side="right") for end in ends], axis=1)


def _distances(columns: Sequence[Rows], starts: Ints, bounds: Ints, edges: Ints) -> Rows:
    """Return the distance of every pair, infinite outside the bounds: [diagonals, query steps from the first, pieces].

    columns: channels of the query, of its weights and of the rows; starts: the first row of each piece.
    """
    widths = np.diff(bounds)
    within = np.arange(int(widths.max())) < widths
    numbers, steps, places = np.nonzero(within)
    places += bounds[numbers, steps, 0]
    at, cost = starts[numbers] + places, np.zeros(len(steps))
    for query_column, weight, column in zip(*columns, strict=True):
        difference = query_column.take(steps) - column.take(at)
        difference *= difference
        difference *= weight.take(steps)
        cost += difference
    diagonals = steps + places
    total = np.full((len(edges), int(np.diff(edges).max()), len(starts)), np.inf)
    total[diagonals, steps - edges[diagonals, 0], numbers] = np.sqrt(cost)
    return total


@dataclass(frozen=True, eq=False)
class _Table:
    """The paths to each row of the last query step.

    edges: as of _find_step_ranges; taken: the number of the last step to each cell, indexed as _distances. ends, spent,
    begun [rows, pieces]: totals with penalty and gain, cost of the pairs, first rows.
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


def _fill(distances: Rows, edges: Ints, steps: tuple[Ints, Rows], ends: tuple[Ints, Rows, Rows]) -> _Table:
    expected, penalties, gains = ends
    query_length = int(edges[-1, 1])
    rows, taken = (len(edges) - query_length + 1, distances.shape[2]), np.full(distances.shape, -1, np.int8)
    table = _Table(edges, taken, np.full(rows, np.inf), np.zeros(rows), np.full(rows, -1))
    # The last four diagonals by query step; a step reaches back three at most.
    shape = (4, query_length, distances.shape[2])
    reached, spent, begun = np.full(shape, np.inf), np.zeros(shape), np.full(shape, -1)
    for diagonal, (first, last) in enumerate(edges.tolist()):
        now = diagonal % 4
        reached[now] = np.inf
        if first == 0 < last:
            start = 2.0 * distances[diagonal, 0]
            reached[now, 0] = penalties * np.abs(diagonal - expected[:, 0]) + start - gains
            spent[now, 0], begun[now, 0] = start, diagonal
        for number, ((over, along), price) in enumerate(zip(steps[0].tolist(), steps[1].tolist(), strict=True)):
            here, before = slice(max(first, over), min(last, diagonal - along + 1)), (diagonal - over - along) % 4
            if here.start >= here.stop:
                continue
            back, cells = slice(here.start - over, here.stop - over), slice(here.start - first, here.stop - first)
            pays = price * distances[diagonal, cells]
            total = reached[before, back] + (pays - gains * along)
            better = total < reached[now, here]
            np.copyto(reached[now, here], total, where=better)
            np.copyto(spent[now, here], spent[before, back] + pays, where=better)
            np.copyto(begun[now, here], begun[before, back], where=better)
            np.copyto(taken[diagonal, cells], number, where=better)
        if first < last == query_length:
            row = diagonal - query_length + 1
            table.ends[row], table.spent[row], table.begun[row] = reached[now, -1], spent[now, -1], begun[now, -1]
    return table


def _end(table: _Table, number: int, expectation: tuple[int, float]) -> int | None:
    stop, penalty = expectation
    ends, query_length = table.ends[:, number], table.query_steps
    places = np.flatnonzero(np.isfinite(ends))
    if not len(places):
        return None
    matched = places - table.begun[places, number] + 1
    means = (ends[places] + penalty * np.abs(places + 1 - stop)) / (query_length + matched)
    return int(places[np.lexsort((places, np.abs(matched - query_length), means))[0]])


def _path(table: _Table, number: int, end: int, steps: Ints) -> Ints:
    """Return the pairs of the path that ends at this row with the last query step."""
    advances, firsts = steps.tolist(), table.edges[:, 0].tolist()
    i, j = table.query_steps - 1, end
    path = [(i, j)]
    while (by := int(table.taken[i + j, i - firsts[i + j], number])) >= 0:
        i, j = i - advances[by][0], j - advances[by][1]
        path.append((i, j))
    return np.array(path[::-1], np.int64)


def measure(query: Rows, weights: Rows, pieces: tuple[Rows, Ints], paths: tuple[Ints, Ints], around: int) -> Rows:
    """Return the mean distance [m] along each path; differences are averaged over up to `around` pairs on each side.

    pieces: rows [T, D] of all, and the first row of each [m]; paths: pairs [P, 2] of all, and the end of each in them
    [m].
    """
    (rows, edges), (pairs, ends) = pieces, paths
    lengths = np.diff(ends, prepend=0)
    absolute_pairs = pairs + np.repeat(edges, lengths)[:, None] * np.array([0, 1])
    parts = []
    for first in range(0, len(ends), _MAX_PATHS):
        batch = lengths[first : first + _MAX_PATHS]
        begin = ends[first] - batch[0]
        parts.append(_measure(query, weights, rows, absolute_pairs[begin : begin + batch.sum()], batch, around))
    return np.concatenate(parts)


def _measure(query: Rows, weights: Rows, rows: Rows, pairs: Ints, lengths: Ints, around: int) -> Rows:
    begins, owners = np.cumsum(lengths) - lengths, np.repeat(np.arange(len(lengths)), lengths)
    steps = pairs[:, 0]
    advanced = np.diff(steps + pairs[:, 1], prepend=0)
    advanced[begins] = 2
    before = np.arange(len(owners)) - begins[owners]
    counts = np.minimum(before, around) + np.minimum(lengths[owners] - 1 - before, around) + 1
    places = (
        np.arange(len(owners)) + around * owners
    )  # zeros between paths, so that paths are not averaged with each other
    differences = np.zeros((places[-1] + 1, query.shape[1]))
    differences[places] = query.take(steps, axis=0) - rows.take(pairs[:, 1], axis=0)
    total = differences.copy()
    for away in range(1, around + 1):
        total[away:] += differences[:-away]
        total[:-away] += differences[away:]
    total = total.take(places, axis=0)
    total *= total
    total *= weights.take(steps, axis=0)
    squares = np.add.reduce(
        np.ascontiguousarray(total.T), axis=0
    )  # in the order of channels, as the compiled kernel adds
    each = advanced * (np.sqrt(squares) / counts)
    return np.bincount(owners, each) / np.bincount(owners, advanced)
