"""The alignment kernel compiled by numba (extra "align"): compiled once per machine, then read from numba's cache.

Its results are those of `numpy_kernel`. Loaded by `align.py` in a thread, where numba is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, PieceArrays, Rows, RuleArrays, Solved


_TYPES: Any = numba.types


def _read_only(dtype: Any, axes: int) -> Any:
    """Return the type of C arrays that a function reads, writable or not."""
    return _TYPES.Array(dtype, axes, "C", readonly=True)


def compile_whole(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator for functions that Python calls, which compiles them at once."""

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(signature, cache=True, nogil=True)(function)
        except RuntimeError:  # nowhere may this user write a cache: compiled once per process then
            return numba.njit(signature, nogil=True)(function)

    return compiled


_REAL, _COUNT = _TYPES.float64, _TYPES.int64
_ROWS, _PAIRS, _EDGES = _read_only(_REAL, 2), _read_only(_COUNT, 2), _read_only(_COUNT, 1)
_RULE = _TYPES.Tuple((_PAIRS, *[_read_only(_REAL, 1)] * 3))
_COLUMNS, _NUMBERS = (_REAL[:, ::1], _REAL[::1]), (_COUNT[:, ::1], _COUNT[::1])
_TABLE = (*_COLUMNS, _COLUMNS[0], _COLUMNS[0], _NUMBERS[0], _TYPES.int8[:, ::1])
_TO_SOLVE = (_ROWS, _ROWS, _TYPES.Tuple((_ROWS, _EDGES, _PAIRS)), _read_only(_COUNT, 3), _RULE)
_TO_MEASURE = (_ROWS, _ROWS, _TYPES.Tuple((_ROWS, _EDGES)), _TYPES.Tuple((_PAIRS, _EDGES)), _COUNT)
_SOLVED = _TYPES.Tuple((*_TABLE, _COLUMNS[1], _NUMBERS[0], *_NUMBERS))
_WITHIN: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # only compiled functions call them
_part: Any = numba.njit(nogil=True, **_WITHIN)


@_part
def _write_distances(step, weights, columns, low, high, distances):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the weighted distances of one query step to the rows [low, high)."""
    for j in range(low, high):
        distances[j] = 0.0
    for channel in range(len(columns)):
        value, weight = step[channel], weights[channel]
        for j in range(low, high):
            difference = value - columns[channel, j]
            distances[j] += weight * (difference * difference)
    for j in range(low, high):
        distances[j] = np.sqrt(distances[j])


@_part
def _advance(step, first, high, distances, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Apply one kind of step to the rows [first, high), where it is cheaper than the best path found so far."""
    before, here, along, price, gained, number = step
    reached, spent, begun, by = table
    for j in range(first, high):  # without branches, which would be mispredicted
        paid, best = price * distances[j], reached[here, j]
        cost = reached[before, j - along] + (paid - gained)
        is_less = cost < best
        reached[here, j], by[j] = cost if is_less else best, number if is_less else by[j]
        spent[here, j] = spent[before, j - along] + paid if is_less else spent[here, j]
        begun[here, j] = begun[before, j - along] if is_less else begun[here, j]


@_part
def _end(reached, spent, begun, width, query_length, expectation):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    _, stop, penalty, _ = expectation
    end, least, nearest = -1, np.inf, 0
    for j in range(width):
        if reached[j] == np.inf:
            continue
        matched = j - begun[j] + 1
        mean = (reached[j] + penalty * abs(j + 1 - stop)) / (query_length + matched)
        if mean < least or (mean == least and abs(matched - query_length) < nearest):
            end, least, nearest = j, mean, abs(matched - query_length)
    if end < 0:
        return np.inf, 0, 0
    return spent[end] / (query_length + end - begun[end] + 1), begun[end], end + 1


@_part
def _fill(query, weights, width, bounds, rule, expectation, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
    """Return cost, start and stop of the best path; write the step to each cell to `taken`, if that has all rows."""
    advances, prices = rule[0], rule[1]
    start, _, penalty, gain = expectation
    columns, distances, reached, spent, begun, taken = table
    query_length = len(query)
    for i in range(query_length):
        # Unsigned, so that no index can be negative (relative to the end): only then the loop is vectorised.
        here, by = i % 3, taken[i % len(taken)]
        low, high = np.uint64(bounds[i, 0]), np.uint64(bounds[i, 1])
        _write_distances(query[i], weights[i], columns, low, high, distances)
        for j in range(width):
            reached[here, j], by[j] = np.inf, -1
        if i == 0:
            for j in range(low, high):
                spent[here, j], begun[here, j] = 2.0 * distances[j], j
                reached[here, j] = penalty * abs(np.int64(j) - start) + 2.0 * distances[j] - gain
        for number in range(len(prices)):
            back, along = i - advances[number, 0], np.uint64(advances[number, 1])
            if back >= 0:
                step = (back % 3, here, along, prices[number], gain * advances[number, 1], number)
                _advance(step, max(low, along), high, distances, (reached, spent, begun, by))
    last = (query_length - 1) % 3
    return _end(reached[last], spent[last], begun[last], width, query_length, expectation)


@_part
def _trace(taken, advances, end, path):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the pairs of the path that ends at row `end`, first to last; return their number."""
    length, i, j = 0, len(taken) - 1, end
    while True:
        path[length, 0], path[length, 1] = i, j
        length += 1
        by = taken[i, j]
        if by < 0:
            break
        i, j = i - advances[by, 0], j - advances[by, 1]
    for place in range(length // 2):
        for side in range(2):
            first, last = path[place, side], path[length - 1 - place, side]
            path[place, side], path[length - 1 - place, side] = last, first
    return length


@compile_whole(_COUNT(*_TO_SOLVE, _SOLVED))
def _solve(query, weights, pieces, bounds, rule, buffers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (numba types it and takes no keywords)
    rows, edges, expected = pieces
    penalties, gains = rule[2], rule[3]
    columns, distances, reached, spent, begun, taken, costs, spans, paths, ends = buffers
    table, used = (columns, distances, reached, spent, begun, taken), 0
    for number in range(len(costs)):
        edge, width = edges[number], edges[number + 1] - edges[number]
        for channel in range(rows.shape[1]):
            for j in range(width):
                columns[channel, j] = rows[edge + j, channel]
        expectation = (expected[number, 0], expected[number, 1], penalties[number], gains[number])
        costs[number], start, stop = _fill(query, weights, width, bounds[number], rule, expectation, table)
        spans[number, 0], spans[number, 1] = start, stop
        if len(paths) and stop:
            used += _trace(taken, rule[0], stop - 1, paths[used:])
        ends[number] = used
    return used


@_part
def _subtract(query, rows, path, edge, around, differences):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the differences of a path's pairs, with zeros before and after them."""
    length, channels = len(path), query.shape[1]
    for place in range(around):
        for channel in range(channels):
            differences[place, channel], differences[around + length + place, channel] = 0.0, 0.0
    for place in range(length):
        i, j = path[place, 0], edge + path[place, 1]
        for channel in range(channels):
            differences[around + place, channel] = query[i, channel] - rows[j, channel]


@compile_whole(_TYPES.void(*_TO_MEASURE, _TYPES.Tuple((*_COLUMNS, _COLUMNS[1]))))
def _measure(query, weights, pieces, paths, around, buffers):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    rows, edges = pieces
    pairs, ends = paths
    differences, totals, means = buffers
    begin, channels = 0, query.shape[1]
    for number in range(len(ends)):
        path, edge = pairs[begin : ends[number]], edges[number]
        begin, length = ends[number], len(path)
        _subtract(query, rows, path, edge, around, differences)
        spent, advanced, before = 0.0, 0, -2
        for place in range(length):
            after = path[place, 0] + path[place, 1]
            steps = 2 if place == 0 else after - before
            count = min(place, around) + min(length - 1 - place, around) + 1
            squares, weight = 0.0, weights[path[place, 0]]
            for channel in range(channels):  # each loop but the last, whose order counts, is vectorised
                totals[channel] = differences[around + place, channel]
            for away in range(1, around + 1):
                for channel in range(channels):
                    total = totals[channel] + differences[around + place - away, channel]
                    totals[channel] = total + differences[around + place + away, channel]
            for channel in range(channels):
                totals[channel] = weight[channel] * (totals[channel] * totals[channel])
            for channel in range(channels):
                squares += totals[channel]
            spent += steps * (np.sqrt(squares) / count)
            advanced, before = advanced + steps, after
        means[number] = spent / advanced


def _as_contiguous(*arrays: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return arrays in C order, as the compiled functions require."""
    return tuple(map(np.ascontiguousarray, arrays))


def solve(query: Rows, weights: Rows, pieces: PieceArrays, bounds: Ints, rule: RuleArrays, traced: bool) -> Solved:  # noqa: FBT001  (as numpy_kernel's)
    """Do what `numpy_kernel.solve` does."""
    edges = pieces[1]
    count, query_length, longest = len(edges) - 1, len(query), int(np.diff(edges).max())
    # All arrays are allocated here: NumPy functions that allocate arrays take numba longest to compile.
    costs, spans, ends = np.empty(count), np.empty((count, 2), np.int64), np.empty(count, np.int64)
    paths = np.empty((count * (query_length + longest) if traced else 0, 2), np.int64)
    taken = np.empty((query_length if traced else 1, longest), np.int8)
    columns, distances = np.empty((query.shape[1], longest)), np.empty(longest)
    # No step advances more than two query steps, so three rows are enough. Values of an earlier piece are never read.
    reached, spent, begun = np.empty((3, longest)), np.empty((3, longest)), np.empty((3, longest), np.int64)
    buffers = (columns, distances, reached, spent, begun, taken)
    query, weights, bounds = _as_contiguous(query, weights, bounds)
    to_solve = (query, weights, _as_contiguous(*pieces), bounds, _as_contiguous(*rule))
    used = _solve(*to_solve, (*buffers, costs, spans, paths, ends))
    return costs, spans, paths[:used], ends


def measure(query: Rows, weights: Rows, pieces: tuple[Rows, Ints], paths: tuple[Ints, Ints], around: int) -> Rows:
    """Do what `numpy_kernel.measure` does."""
    ends, channels = paths[1], query.shape[1]
    longest = int(max(ends[0], np.diff(ends).max(initial=0)))
    buffers = (np.empty((longest + 2 * around, channels)), np.empty(channels), np.empty(len(ends)))
    to_measure = (*_as_contiguous(query, weights), _as_contiguous(*pieces), _as_contiguous(*paths))
    _measure(*to_measure, around, buffers)
    return buffers[-1]
