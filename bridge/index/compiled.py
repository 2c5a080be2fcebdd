"""The walk over the rows of some episodes, compiled by numba (extra "align"): what `sift.py` does with numpy.

Knows: outlines and codes, number by number. It may leave some rows more or less than numpy, but all of the best are
among them. Compiled once per machine, which takes seconds, then read from numba's cache. Imported by `kernel.py` alone.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

_TYPES: Any = numba.types
_FREE = {"reassoc", "contract", "nsz"}  # the order of a sum is free: bounds have room for any
_LINE = 64  # bytes that the processor reads at once
_AHEAD = 4  # rows whose codes are asked for before they are needed: waiting for memory takes longer than multiplying


def _read(dtype: Any, axes: int) -> Any:
    return _TYPES.Array(dtype, axes, "C", readonly=True)


_RANGES = _TYPES.Tuple((_read(_TYPES.int64, 1), _read(_TYPES.int64, 1), _TYPES.int64))
_FRAMES = _TYPES.Tuple((_read(_TYPES.uint8, 1), _read(_TYPES.float64, 3), _read(_TYPES.float32, 2)))
_CODES = _TYPES.Tuple((_read(_TYPES.int8, 2), _read(_TYPES.float32, 1), _TYPES.float32))
_AIM = _TYPES.Tuple((_read(_TYPES.float32, 1), _TYPES.int64, _TYPES.float32, _TYPES.boolean))


def _part(function: Any) -> Any:
    return numba.njit(nogil=True, fastmath=_FREE)(function)


def _whole(function: Any) -> Any:
    signature = _TYPES.int64[::1](_RANGES, _FRAMES, _CODES, _AIM)
    try:
        return numba.njit(signature, cache=True, nogil=True, fastmath=_FREE)(function)
    except RuntimeError:  # nowhere may this user write a cache: compiled once per process then
        return numba.njit(signature, nogil=True, fastmath=_FREE)(function)


def _prefetching(_typing, array, row, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Ask for the line that holds array[row, place] of a C array of bytes, and do not wait for it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(found.strides, 0))
        line = builder.gep(found.data, [builder.add(start, arguments[2])])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        to_read, into_all_caches, data = number(0), number(3), number(1)
        builder.call(ask, [line, to_read, into_all_caches, data])
        return context.get_dummy_value()

    return _TYPES.void(array, row, place), generate


_prefetch: Any = intrinsic(_prefetching)


@_part
def _ask(codes, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    for place in range(0, codes.shape[1], _LINE):
        _prefetch(codes, row, place)


@_part
def _product(left, right):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (numba types it and takes no keywords)
    total = np.float32(0)
    for number in range(len(right)):
        total += np.float32(left[number]) * right[number]
    return total


@_part
def _side(axes, query, side):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the query's outline in the frame of these axes [P, E], as Outlines.sides does."""
    rest = 0.0
    for number in range(len(query)):
        rest += np.float64(query[number]) * query[number]
    for axis in range(len(axes)):
        within = 0.0
        for number in range(len(query)):
            within += axes[axis, number] * query[number]
        side[axis] = within
        rest -= within * within
    side[len(axes)] = np.sqrt(max(rest, 0.0) + len(query) * 2.0**-50) * (1 + 2.0**-22)


@_part
def _push(heap, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Put a value in the place of the least of a heap."""
    here, count = 0, len(heap)
    while 2 * here + 1 < count:
        below = 2 * here + 1
        if below + 1 < count and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= value:
            break
        heap[here] = heap[below]
        here = below
    heap[here] = value


@_part
def _bounds(ranges, frames, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bounds of all rows, one range after another, the greatest of each range, and the query's outlines."""
    starts, stops, count = ranges
    which, axes, outlines = frames
    bounds, tops = np.empty(count, np.float32), np.empty(len(starts), np.float32)
    sides, known = np.empty((len(axes), outlines.shape[1]), np.float32), np.zeros(len(axes), np.bool_)
    place = 0
    for number in range(len(starts)):
        top = np.float32(-np.inf)
        for row in range(starts[number], stops[number]):
            frame = which[row]
            if not known[frame]:
                _side(axes[frame], query, sides[frame])
                known[frame] = True
            bounds[place] = _product(outlines[row], sides[frame])
            top = max(top, bounds[place])
            place += 1
        tops[number] = top
    return bounds, tops, sides


@_part
def _keep(rows, most, begun, kept, goal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move together the rows from `begun` to `kept` that reach the goal; return where they end."""
    end = begun
    for place in range(begun, kept):
        if most[place] >= goal:
            rows[end], most[end] = rows[place], most[place]
            end += 1
    return end


@_part
def _visit(range_, known, coded, aim, held):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take in the rows of one range; return how many rows are held then, and the score that it takes from then on."""
    start, stop, place = range_
    bounds, sides, which, outlines = known
    codes, steps, off = coded
    query, slack, distinct = aim
    best, rows, most, some, kept, threshold = held
    begun, own, goal, good, last = kept, np.float32(-np.inf), threshold, 0, outlines.shape[1] - 1
    for row in range(start, stop):
        some[good] = row
        good += bounds[place + row - start] >= threshold  # no branch: it would be mispredicted half of the time
    for ahead in range(min(_AHEAD, good)):
        _ask(codes, some[ahead])
    for number in range(good):
        if number + _AHEAD < good:
            _ask(codes, some[number + _AHEAD])
        row = some[number]
        rest = outlines[row, last] * sides[which[row], last]
        product = bounds[place + row - start] - rest + steps[row] * _product(codes[row], query)
        if product + steps[row] * off < goal:
            continue
        rows[kept], most[kept] = row, product + steps[row] * off
        kept += 1
        least = product - steps[row] * off
        own = max(own, least)
        if distinct:
            goal = max(goal, own - 2 * slack)
        elif least > best[0]:
            _push(best, least)
            goal = max(goal, best[0] - 2 * slack)
    if distinct and own > best[0]:
        _push(best, own)
    threshold = max(threshold, best[0] - 2 * slack)
    return _keep(rows, most, begun, kept, max(goal, threshold)), threshold


@_whole
def near(ranges, frames, coded, aim):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the rows of the ranges that can be among the best; a range's rows are one episode's.

    ranges: starts, stops, how many rows in all. frames: which is each row's, the axes of each, outlines. coded: codes,
    steps, how many of these a product may be off. aim: query, top_k, slack, distinct. The ranges of the greatest bounds
    are visited first; of each range the rows whose outlines leave a chance are compared by their codes.
    """
    starts, stops, count = ranges
    query, top_k, slack, distinct = aim
    bounds, tops, sides = _bounds(ranges, frames, query)
    best = np.full(top_k, np.float32(-np.inf))
    for top in tops:
        if top > best[0]:
            _push(best, top)
    first, threshold, kept = best[0], np.float32(-np.inf), 0
    best[:] = threshold
    some, rows, most = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.float32)
    for turn in range(2):
        place = 0
        for number in range(len(starts)):
            if tops[number] >= threshold and (tops[number] >= first) == (turn == 0):
                held = (best, rows, most, some, kept, threshold)
                range_, known = (starts[number], stops[number], place), (bounds, sides, frames[0], frames[2])
                kept, threshold = _visit(range_, known, coded, (query, slack, distinct), held)
            place += stops[number] - starts[number]
    return rows[: _keep(rows, most, 0, kept, threshold)]
