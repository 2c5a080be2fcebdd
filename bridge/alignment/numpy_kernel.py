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

_CELLS: Final = 2_000_000  # of all pieces in one go: bounds the memory
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
    for part in _batches(len(query), np.diff(edges)):
        parts = [rows[edges[number] : edges[number + 1]] for number in range(part.start, part.stop)]
        ends = (expected[part], penalties[part], gains[part])
        table = _fill(_local(query, weights, parts, bounds[part]), (steps, prices), ends)
        for number in range(part.start, part.stop):
            place = number - part.start
            end = _end(table, place, (int(expected[number, 1]), float(penalties[number])))
            if end is not None:
                costs[number], spans[number] = table.cost(place, end), (table.begun[place, end], end + 1)
                paths[number] = _path(table.taken[place], end, steps) if traced else paths[number]
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


def _local(query: Rows, weights: Rows, pieces: Sequence[Rows], bounds: Ints) -> Rows:
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
    places = np.arange(longest)
    total[(places < bounds[:, :, :1]) | (places >= bounds[:, :, 1:])] = np.inf
    return total


@dataclass(frozen=True, eq=False)
class _Table:
    """The paths to each row of the last query step.

    ends, spent, begun [pieces, rows]: their totals, what their pairs cost, where they start; taken: steps by cell.
    """

    ends: Rows
    spent: Rows
    begun: Ints
    taken: NDArray[np.int8]

    def cost(self, number: int, end: int) -> float:
        """Return the mean difference along the path to this row."""
        return float(self.spent[number, end] / (self.taken.shape[1] + end - self.begun[number, end] + 1))


def _fill(local: Rows, steps: tuple[Ints, Rows], ends: tuple[Ints, Rows, Rows]) -> _Table:
    expected, penalties, gains = ends
    count, asked, longest = local.shape
    table = _Table(
        np.full((count, longest), np.inf),
        np.zeros((count, longest)),
        np.full((count, longest), -1),
        np.full(local.shape, -1, np.int8),
    )
    # The last four diagonals by query step; a step reaches back three at most.
    reached, spent = np.full((4, count, asked), np.inf), np.zeros((4, count, asked))
    begun = np.full((4, count, asked), -1)
    for diagonal in range(asked + longest - 1):
        i = np.arange(max(0, diagonal - longest + 1), min(diagonal, asked - 1) + 1)
        now = diagonal % 4
        here = local[:, i, diagonal - i]
        best, paid = np.full(here.shape, np.inf), np.zeros(here.shape)
        origin, by = np.full(here.shape, -1), np.full(here.shape, -1, np.int8)
        if i[0] == 0:
            paid[:, 0], origin[:, 0] = 2.0 * here[:, 0], diagonal
            best[:, 0] = penalties * np.abs(diagonal - expected[:, 0]) + 2.0 * here[:, 0] - gains
        for number, ((over, along), price) in enumerate(zip(steps[0].tolist(), steps[1].tolist(), strict=True)):
            inside = (i >= over) & (diagonal - i >= along)
            before, back = (diagonal - over - along) % 4, i[inside] - over
            pays = price * here[:, inside]
            total = reached[before][:, back] + (pays - (gains * along)[:, None])
            better = total < best[:, inside]
            for target, new in (
                (best, total),
                (paid, spent[before][:, back] + pays),
                (origin, begun[before][:, back]),
                (by, np.full(total.shape, number, np.int8)),
            ):
                target[:, inside] = np.where(better, new, target[:, inside])
        reached[now], begun[now] = np.inf, -1
        reached[now][:, i], spent[now][:, i], begun[now][:, i] = best, paid, origin
        table.taken[:, i, diagonal - i] = by
        if i[-1] == asked - 1:
            row = diagonal - asked + 1
            table.ends[:, row], table.spent[:, row], table.begun[:, row] = best[:, -1], paid[:, -1], origin[:, -1]
    return table


def _end(table: _Table, number: int, about: tuple[int, float]) -> int | None:
    stop, penalty = about
    ends, asked = table.ends[number], table.taken.shape[1]
    places = np.flatnonzero(np.isfinite(ends))
    if not len(places):
        return None
    matched = places - table.begun[number, places] + 1
    means = (ends[places] + penalty * np.abs(places + 1 - stop)) / (asked + matched)
    return int(places[np.lexsort((places, np.abs(matched - asked), means))[0]])


def _path(taken: NDArray[np.int8], end: int, steps: Ints) -> Ints:
    """Return the pairs of the path to the last query step at this row."""
    advances = steps.tolist()
    i, j = taken.shape[0] - 1, end
    path = [(i, j)]
    while (by := int(taken[i, j])) >= 0:
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
