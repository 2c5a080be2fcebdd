"""The scans of sketches and residual codes, compiled by numba (extra "align"); loaded by `kernel.py` alone.

Their results may differ from those of numpy by a few rows, but always include all of the best. Compiled once per
machine, which takes seconds, then read from numba's cache.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from bridge.support.numba_compile import compile_part, compile_whole, read_only

_TYPES: Any = numba.types
_FASTMATH = {"reassoc", "contract", "nsz"}  # sums may be reordered: bounds allow for any order
_CACHE_LINE = 64  # bytes
_ROWS_AHEAD = 8  # rows whose codes are prefetched: waiting for memory takes longer than multiplying
_MAX_PREFETCHED = 128  # sketches of the next range prefetched while one is read; most ranges have fewer
_RANGES_AHEAD = 4  # whose ends are prefetched before that, as TLB misses are slow
_BATCH_ROWS = 256  # rows gathered before their codes are compared
_INITIAL_CAPACITY = np.int64(256)  # rows
_WIDTH, _UNIT = 16, 32_000  # as in sketches.py, repeated as numba's cache would miss changes there
_PER_STEP = 1 / _UNIT
# Subtracted from thresholds: adding it to each product takes 7 % more time.
_SKETCH_ERROR = np.float32(np.sqrt(_WIDTH) / (2 * _UNIT))
_ZERO = np.int64(0)  # int64: a literal 0 has its own type, for which functions would be compiled again

PROVEN, ENDED, USELESS, TOO_MANY = range(4)  # how a scan of lists ends
_NO_BOUND, _BELOW_ALL = -2.0, -1.5  # less than any cosine


_FLOATS, _NUMBERS, _FLAGS = read_only(_TYPES.float32, 1), read_only(_TYPES.int64, 1), read_only(_TYPES.boolean, 1)
_SKETCHES = read_only(_TYPES.int16, 2)
_OWNERS = read_only(_TYPES.int32, 1)
_RANGES = _TYPES.Tuple((_NUMBERS, _NUMBERS, _TYPES.int64))
_AXES = read_only(_TYPES.float64, 3)
_FRAMES = _TYPES.Tuple((read_only(_TYPES.uint8, 1), _AXES, _SKETCHES))
_CODES = _TYPES.Tuple((read_only(_TYPES.int8, 2), _FLOATS, _TYPES.float32))
_TARGET = _TYPES.Tuple((_FLOATS, _TYPES.int64, _TYPES.float32, _TYPES.boolean))
_LISTS = _TYPES.Tuple((_SKETCHES, read_only(_TYPES.float64, 1), _NUMBERS, _NUMBERS, _TYPES.float64))
_MEMBERS = _TYPES.Tuple((_OWNERS, _OWNERS, _SKETCHES))
_VISITED = _TYPES.UniTuple(_TYPES.boolean[::1], 2)
_LIMITS = _TYPES.Tuple((_FLAGS, _TYPES.UniTuple(_TYPES.int64, 4)))
_SCANNED_RANGES = _TYPES.Tuple((_TYPES.int64[::1], _TYPES.boolean))
_SCANNED_LISTS = _TYPES.Tuple((_TYPES.int64[::1], _TYPES.int64, _TYPES.int64))


_part = compile_part(fastmath=_FASTMATH)


def _build_prefetch(_typing, array, row, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Prefetch the cache line of byte `place` of array[row] of a C array."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(struct.strides, 0))
        data = builder.bitcast(struct.data, ir.IntType(8).as_pointer())
        line = builder.gep(data, [builder.add(start, arguments[2])])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        to_read, near_by, data = number(0), number(2), number(1)
        builder.call(prefetch, [line, to_read, near_by, data])
        return context.get_dummy_value()

    return _TYPES.void(array, row, place), generate


_prefetch: Any = intrinsic(_build_prefetch)


def _build_multiply_sketch(_typing, sketch, query_sketch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the product of arrays of _WIDTH numbers, int16 and float32: such a short loop would not be vectorised."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        def load(number: int, kind: Any) -> Any:
            data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
            vector = builder.load(builder.bitcast(data, ir.VectorType(kind, _WIDTH).as_pointer()))
            vector.align = 2  # bytes, the only alignment known of a sketch
            return vector

        real = ir.FloatType()
        reals = ir.VectorType(real, _WIDTH)
        products = builder.fmul(builder.sitofp(load(0, ir.IntType(16)), reals), load(1, real))
        kind = ir.FunctionType(real, [real, reals])
        total = builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.v{_WIDTH}f32", (), kind)
        return builder.call(total, [real(0.0), products], fastmath=tuple(sorted(_FASTMATH)))

    return _TYPES.float32(sketch, query_sketch), generate


_multiply_sketch: Any = intrinsic(_build_multiply_sketch)


@_part
def _prefetch_code(codes, steps, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    _prefetch(steps, row, 0)
    for place in range(0, codes.shape[1], _CACHE_LINE):
        _prefetch(codes, row, place)


@_part
def _multiply_code(left, right):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (numba types it and takes no keywords)
    total = np.float32(0)
    for number in range(len(right)):
        total += np.float32(left[number]) * right[number]
    return total


@_part
def _sketch_query(axes, query, query_sketch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the query's sketch in the frame of these axes [P, E], as Sketches.sketch_query does."""
    rest = 0.0
    for number in range(len(query)):
        rest += np.float64(query[number]) * query[number]
    for axis in range(len(axes)):
        within = 0.0
        for number in range(len(query)):
            within += axes[axis, number] * query[number]
        query_sketch[axis] = within * _PER_STEP
        rest -= within * within
    query_sketch[len(query_sketch) - 1] = np.sqrt(max(rest, 0.0) + len(query) * 2.0**-50) * (1 + 2.0**-22) * _PER_STEP


@_part
def _make_heap(top_k, owners):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return a heap of the top_k scores: scores [top_k], their owners, and the place of each owner in it.

    An owner that is not in it has place 0, that of the least score: lower scores are ignored anyway.
    """
    return np.full(top_k, np.float32(-np.inf)), np.full(top_k, -1), np.zeros(owners, np.int64)


@_part
def _offer(tops, owner, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add a score; each owner has one entry, its best score, except for owner -1, whose scores all count."""
    best, owners, spots = tops
    place = spots[owner] if owner >= 0 else 0
    if value <= best[place]:
        return
    count = len(best)
    while 2 * place + 1 < count:
        child = 2 * place + 1
        if child + 1 < count and best[child + 1] < best[child]:
            child += 1
        if best[child] >= value:
            break
        best[place], owners[place] = best[child], owners[child]
        if owners[place] >= 0:
            spots[owners[place]] = place
        place = child
    best[place], owners[place] = value, owner
    if owner >= 0:
        spots[owner] = place


@_part
def _drop_unreachable(near, count, tops, threshold, slack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move the rows that can still be among the best to the front; return their number."""
    rows, owners, upper, _ = near
    best, _, spots = tops
    end = _ZERO
    for place in range(count):
        own_threshold = best[spots[owners[place]]] - 2 * slack if owners[place] >= 0 else threshold
        if upper[place] >= max(threshold, own_threshold):
            rows[end], owners[end], upper[end] = rows[place], owners[place], upper[place]
            end += 1
    return end


@_part
def _double_capacity(near, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the arrays with twice the capacity."""
    wider = _allocate_rows(2 * len(near[0]))
    for place in range(count):  # assigning slices takes seconds to compile
        wider[0][place], wider[1][place], wider[2][place] = near[0][place], near[1][place], near[2][place]
    return wider


@_part
def _allocate_rows(count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Allocate arrays for `count` rows: rows, their owners, and two numbers each."""
    return (
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
    )


@_part
def _multiply(batch, part, encoded, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add the products of their codes to the products of part of a batch of rows within their frames."""
    rows, _, products, _ = batch
    begin, end = part
    codes, steps, _ = encoded
    for ahead in range(begin, min(begin + _ROWS_AHEAD, end)):
        _prefetch_code(codes, steps, rows[ahead])
    for number in range(begin, end):
        if number + _ROWS_AHEAD < end:
            _prefetch_code(codes, steps, rows[number + _ROWS_AHEAD])
        products[number] += steps[rows[number]] * _multiply_code(codes[rows[number]], query)


@_part
def _compare(batch, part, encoded, target, tops, shortlist):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Compare the codes of part of a batch of rows; return the updated shortlist.

    batch: rows, their owners, their products within their frames. shortlist: rows that can be among the best, their
    owners and upper bounds of their products; their number; the threshold that a row must reach.
    """
    rows, owners, products, _ = batch
    _, steps, max_error = encoded
    query, _, slack, distinct = target
    best, _, spots = tops
    near, count, threshold = shortlist
    _multiply(batch, part, encoded, query)
    for number in range(part[0], part[1]):
        row, owner = rows[number], owners[number] if distinct else -1
        margin = steps[row] * max_error
        lower, upper = products[number] - margin, products[number] + margin
        if upper < threshold or (distinct and upper < best[spots[owner]] - 2 * slack):  # not even its owner's best
            continue
        if lower > best[spots[owner] if distinct else 0]:
            _offer(tops, owner, lower)
            threshold = max(threshold, best[0] - 2 * slack)
        if count == len(near[0]):
            count = _drop_unreachable(near, count, tops, threshold, slack)
            if 2 * count > len(near[0]):
                near = _double_capacity(near, count)
        near[0][count], near[1][count], near[2][count] = row, owner, upper
        count += 1
    return near, count, threshold


@_part
def _finish(shortlist, tops, slack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    near, count, threshold = shortlist
    return near[0][: _drop_unreachable(near, count, tops, threshold, slack)]


@_part
def _multiply_sketches(ranges, frames, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the products of sketches, range after range, their parts within the frames, and the maximum per range."""
    starts, stops, count = ranges
    which, axes, sketches = frames
    products, inside, tops = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(len(starts), np.float32)
    query_sketch, is_sketched = np.zeros((len(axes), _WIDTH), np.float32), np.zeros(len(axes), np.bool_)
    place, last = 0, sketches.shape[1] - 1
    for number in range(len(starts)):
        top = np.float32(-np.inf)
        if number + _RANGES_AHEAD < len(starts):
            ahead = number + _RANGES_AHEAD
            _prefetch(which, starts[ahead], 0)
            _prefetch(sketches, starts[ahead], 0)
            _prefetch(sketches, stops[ahead] - 1, 0)
        if number + 1 < len(starts):
            for row in range(starts[number + 1], min(starts[number + 1] + _MAX_PREFETCHED, stops[number + 1])):
                _prefetch(sketches, row, 0)
        for row in range(starts[number], stops[number]):
            frame = which[row]
            if not is_sketched[frame]:
                _sketch_query(axes[frame], query, query_sketch[frame])
                is_sketched[frame] = True
            product = _multiply_sketch(sketches[row], query_sketch[frame])
            products[place], inside[place] = product, product - sketches[row, last] * query_sketch[frame, last]
            top = max(top, product)
            place += 1
        tops[number] = top
    return products, inside, tops


@_part
def _gather(ranges, position, bounds, criteria, batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write rows whose sketches reach the floor to the batch, range after range until it is full.

    position: the next range, and the number of rows before it; bounds: from _multiply_sketches; criteria:
    the floor, the least maximum of likely ranges, and whether to take these or the others. Return the next position,
    and the number of rows written.
    """
    starts, stops, _ = ranges
    whole, within, greatest = bounds
    floor, least_likely, likely = criteria
    rows, owners, products, _ = batch
    number, before = position
    good = _ZERO
    while number < len(starts) and good < _BATCH_ROWS:
        start, count = starts[number], stops[number] - starts[number]
        if greatest[number] >= floor and (greatest[number] >= least_likely) == likely:
            begin = good
            for place in range(before, before + count):
                rows[good] = place
                good += whole[place] >= floor  # no branch: it would be mispredicted half of the time
            for place in range(begin, good):
                products[place] = within[rows[place]]
                rows[place], owners[place] = rows[place] - before + start, number
        number, before = number + 1, before + count
    return (number, before), good


@_part
def _count_reaching(bounds, floor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of bounds that reach the floor."""
    count = _ZERO
    for place in range(len(bounds)):
        count += bounds[place] >= floor
    return count


@compile_whole(_SCANNED_RANGES(_RANGES, _FRAMES, _CODES, _TARGET, _TYPES.int64), fastmath=_FASTMATH)
def scan_ranges(ranges, frames, encoded, target, limit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the rows of the ranges (one per episode) that can be among the best; and True if the limit is exceeded.

    ranges: starts, stops, total number of rows. frames: the frame of each row, axes of each frame, sketches.
    encoded: codes, steps, maximum error of a product in steps. target: query, top_k, slack, distinct. limit:
    maximum number of codes to compare. The ranges with the greatest bounds are scanned first; rows that their sketches
    do not rule out are compared by their codes.
    """
    starts, stops, _ = ranges
    query, top_k, slack, distinct = target
    products = _multiply_sketches(ranges, frames, query)
    greatest = products[2]
    likely_tops, longest = _make_heap(top_k, _ZERO), _ZERO
    least_likely = likely_tops[0]
    for number in range(len(starts)):
        if greatest[number] > least_likely[0]:
            _offer(likely_tops, -1, greatest[number])
        longest = max(longest, stops[number] - starts[number])
    batch, tops = _allocate_rows(_BATCH_ROWS + longest), _make_heap(top_k, len(starts) if distinct else _ZERO)
    shortlist = _allocate_rows(_INITIAL_CAPACITY), _ZERO, np.float32(-np.inf)
    for pass_ in range(2):
        if pass_ == 1 and limit < ranges[2] and _count_reaching(products[0], shortlist[2] - _SKETCH_ERROR) > limit:
            return np.empty(0, np.int64), True
        position = _ZERO, _ZERO
        while position[0] < len(starts):
            criteria = shortlist[2] - _SKETCH_ERROR, least_likely[0], pass_ == 0
            position, good = _gather(ranges, position, products, criteria, batch)
            shortlist = _compare(batch, (_ZERO, good), encoded, target, tops, shortlist)
    return _finish(shortlist, tops, slack), False


@_part
def _bound_cosines(lists, query_sketch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return an upper bound, per list, of the cosine of its members, as InvertedLists.bound_cosines does."""
    midpoints, radii, starts, frames, max_error = lists
    bounds = np.full(len(radii), _NO_BOUND)
    for number in range(len(radii)):
        if starts[number] < starts[number + 1]:
            product = _multiply_sketch(midpoints[number], query_sketch[frames[number]])
            to_centroid = max(-1.0, min(1.0, product + _SKETCH_ERROR + max_error))
            radius = max(-1.0, min(1.0, radii[number] - max_error))
            beside = np.sqrt((1 - to_centroid * to_centroid) * (1 - radius * radius))
            bounds[number] = 1.0 if to_centroid >= radius else to_centroid * radius + beside
    return bounds


@_part
def _gather_members(part, members, query_sketch, allowed, floor, batch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the allowed members of a list whose sketches reach the floor to the batch; return their number."""
    rows, owners, sketches = members
    near, good, last, all_allowed = _ZERO, _ZERO, sketches.shape[1] - 1, len(allowed) == 0
    for place in range(part[0], part[1]):
        product = _multiply_sketch(sketches[place], query_sketch)
        batch[0][near], batch[3][near] = place, product
        near += product >= floor  # no branch: it would be mispredicted half of the time
    for number in range(near):
        place, product = batch[0][number], batch[3][number]
        batch[0][good], batch[1][good], batch[3][good] = rows[place], owners[place], product
        batch[2][good] = product - sketches[place, last] * query_sketch[last]
        good += all_allowed or allowed[owners[place]]
    return good


@_part
def _move_forward(batch, part, floor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move the members in part of a batch whose sketches reach the floor to its front; return where they end."""
    begin, end = part
    for place in range(begin, end):
        if batch[3][place] >= floor:
            for whole in (batch[0], batch[1]):
                whole[begin], whole[place] = whole[place], whole[begin]
            for real in (batch[2], batch[3]):
                real[begin], real[place] = real[place], real[begin]
            begin += 1
    return begin


@_part
def _count_reachable(bounds, starts, threshold):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the number of members of the lists whose bounds reach the threshold."""
    count = _ZERO
    for number in range(len(bounds)):
        if bounds[number] >= threshold:
            count += starts[number + 1] - starts[number]
    return count


@compile_whole(_SCANNED_LISTS(_LISTS, _MEMBERS, _AXES, _CODES, _VISITED, _TARGET, _LIMITS), fastmath=_FASTMATH)
def scan_lists(lists, members, axes, encoded, visited, target, limits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0913, PLR0917
    """Return the rows of lists that can be among the best, the number of sketches read, and how the scan ended.

    lists: sketches of the centroids, radii, starts, frames; maximum error of a cosine. members: row, owner and sketch
    of each member. axes: of the frames. encoded, target: as for scan_ranges. visited: bool per list and per
    owner, set where sketches were read and codes compared. limits: mask of allowed owners (empty: all); sketches after
    which another route is quicker; budget of sketches (-1: none); maximum number of codes to compare; number of codes
    after which their total is extrapolated.
    """
    _, _, starts, frames, _ = lists
    query, top_k, slack, distinct = target
    allowed, (max_sketches, budget, max_codes, min_compared) = limits
    query_sketch, longest = np.zeros((len(axes), _WIDTH), np.float32), _ZERO
    for frame in range(len(axes)):
        _sketch_query(axes[frame], query, query_sketch[frame])
    bounds = _bound_cosines(lists, query_sketch)
    for number in range(len(bounds)):
        longest = max(longest, starts[number + 1] - starts[number])
    batch, tops = _allocate_rows(longest), _make_heap(top_k, len(visited[1]) if distinct else _ZERO)
    shortlist = _allocate_rows(_INITIAL_CAPACITY), _ZERO, np.float32(-np.inf)
    scored, compared, end = 0, 0, PROVEN
    number = bounds.argmax()
    while end == PROVEN and bounds[number] >= max(shortlist[2], _BELOW_ALL):
        begin, part = _ZERO, (starts[number], starts[number + 1])
        floor, sketch = shortlist[2] - _SKETCH_ERROR, query_sketch[frames[number]]
        good = _gather_members(part, members, sketch, allowed, floor, batch)
        if shortlist[2] == -np.inf:  # the members with the highest bounds first
            likely_tops = _make_heap(top_k, _ZERO)
            for place in range(good):
                _offer(likely_tops, -1, batch[3][place])
            begin = _move_forward(batch, (_ZERO, good), likely_tops[0][0])
            shortlist = _compare(batch, (_ZERO, begin), encoded, target, tops, shortlist)
            good = _move_forward(batch, (begin, good), shortlist[2] - _SKETCH_ERROR)
        shortlist = _compare(batch, (begin, good), encoded, target, tops, shortlist)
        visited[0][number] = True
        for place in range(good):
            visited[1][batch[1][place]] = True
        scored, compared, bounds[number] = scored + part[1] - part[0], compared + good, _NO_BOUND
        if budget >= 0 and scored >= budget and shortlist[2] > -np.inf:
            end = ENDED
        elif scored > max_sketches:
            end = USELESS
        elif compared >= min_compared:
            reachable = _count_reachable(bounds, starts, max(shortlist[2], _BELOW_ALL))
            end = TOO_MANY if compared * (scored + reachable) > max_codes * scored else PROVEN
        number = bounds.argmax()
    return _finish(shortlist, tops, slack), scored, end
