"""The walk over the rows of some episodes, compiled by numba (extra "align"): what `sift.py` does with numpy.

Knows: outlines and codes, number by number. The rows that it leaves may be a few more or less than numpy's, but all of
the best are among them. Compiled once per machine, then read from numba's cache. Imported only where numba is installed,
and only by `kernel.py`: that takes up to a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types

if TYPE_CHECKING:
    from collections.abc import Callable

_FREE = {"reassoc", "contract", "nsz"}  # the order of a sum is free: bounds have room for any


def _read(dtype: Any, axes: int) -> Any:
    return types.Array(dtype, axes, "C", readonly=True)


_RANGES = _read(types.int64, 2)
_FRAMES = types.Tuple((_read(types.uint8, 1), _read(types.float64, 3), _read(types.float32, 2)))
_CODES = types.Tuple((_read(types.int8, 2), _read(types.float32, 1), types.float32))
_AIM = types.Tuple((_read(types.float32, 1), types.int64, types.float32, types.boolean))
_BOUNDS = types.Tuple((types.float32[::1], types.float32[::1], types.float32[:, ::1]))


def _compiled(signature: Any = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(signature, cache=True, nogil=True, fastmath=_FREE)(function)
        except RuntimeError:  # nowhere may this user write a cache: compiled once per process then
            return numba.njit(signature, nogil=True, fastmath=_FREE)(function)

    return make


@_compiled()
def _product(left, right):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (numba types it and takes no keywords)
    total = np.float32(0)
    for number in range(len(right)):
        total += np.float32(left[number]) * right[number]
    return total


@_compiled()
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


@_compiled()
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


@_compiled(_BOUNDS(_RANGES, _FRAMES, _read(types.float32, 1)))
def bounds(ranges, frames, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the bounds of all rows, the greatest of each range, and the query's own outlines [F, P + 1].

    ranges int64 [3, n]: first row, the one after the last, and what makes a row the place of its bound. frames: which
    frame is each row's, the axes of each, outlines.
    """
    which, axes, outlines = frames
    count = ranges.shape[1]
    found = np.empty(ranges[1, count - 1] + ranges[2, count - 1], np.float32)
    tops = np.empty(count, np.float32)
    sides, known = np.empty((len(axes), outlines.shape[1]), np.float32), np.zeros(len(axes), np.bool_)
    for number in range(count):
        top = np.float32(-np.inf)
        for row in range(ranges[0, number], ranges[1, number]):
            frame = which[row]
            if not known[frame]:
                _side(axes[frame], query, sides[frame])
                known[frame] = True
            bound = _product(outlines[row], sides[frame])
            found[row + ranges[2, number]] = bound
            top = max(top, bound)
        tops[number] = top
    return found, tops, sides


@_compiled()
def _keep(rows, most, begun, kept, goal):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move together the rows from `begun` to `kept` that reach the goal; return where they end."""
    end = begun
    for place in range(begun, kept):
        if most[place] >= goal:
            rows[end], most[end] = rows[place], most[place]
            end += 1
    return end


@_compiled(types.int64[::1](_RANGES, _read(types.int64, 1), types.Tuple((_BOUNDS, _FRAMES, _CODES)), _AIM))
def near(ranges, order, known, aim):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the rows of the ranges that can be among the best; a range's rows are one episode's.

    order: of the ranges, by falling greatest bound. known: what `bounds` returned, its frames, the codes, their steps
    and how many of these a product may be off. aim: query, top_k, slack, distinct.
    """
    (found, tops, sides), (which, _, outlines), (codes, steps, off) = known
    query, top_k, slack, distinct = aim
    best, threshold, last = np.full(top_k, np.float32(-np.inf)), np.float32(-np.inf), outlines.shape[1] - 1
    rows, most, kept = np.empty(len(found), np.int64), np.empty(len(found), np.float32), 0
    for number in order:
        if tops[number] < threshold:
            break
        begun, own, goal = kept, np.float32(-np.inf), threshold
        for row in range(ranges[0, number], ranges[1, number]):
            bound = found[row + ranges[2, number]]
            if bound < goal:
                continue
            rest = outlines[row, last] * sides[which[row], last]
            product = bound - rest + steps[row] * _product(codes[row], query)
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
        kept = _keep(rows, most, begun, kept, max(goal, threshold))
    return rows[: _keep(rows, most, 0, kept, threshold)]
