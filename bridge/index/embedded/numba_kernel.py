"""The scans of sketches and residual codes, compiled by numba (extra "align"); loaded by `kernel.py` alone.

They may leave some rows more or less than the scans with numpy, but all of the best are among them. Compiled once per
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
_FREE = {"reassoc", "contract", "nsz"}  # the order of a sum is free: bounds have room for any
_LINE = 64  # bytes that the processor reads at once
_AHEAD = 8  # rows whose codes are asked for before they are needed: waiting for memory takes longer than multiplying
_FIRST = 128  # sketches of the next range that are asked for while one is read: more than most have
_RANGES_AHEAD = 4  # whose ends are asked for before that: where a page of memory lies takes long to find out
_TOGETHER = 256  # rows whose codes are compared one after another, if there are that many
_ROOM = np.int64(256)  # rows that there is room for at first
_WIDTH, _UNIT = 16, 32_000  # of sketches.py, whose changes would not reach what numba keeps of this file
_PER_STEP = 1 / _UNIT
_OFF = np.float32(np.sqrt(_WIDTH) / (2 * _UNIT))  # goes into thresholds: added to each product it takes 7 % more time
_NONE = np.int64(0)  # a plain 0 has a type of its own, for which functions are compiled once more

PROVEN, ENDED, USELESS, HOPELESS = range(4)  # how a scan of lists ends
_NO_LIST, _ANY = -2.0, -1.5  # less than any cosine


_FLOATS, _NUMBERS, _FLAGS = read_only(_TYPES.float32, 1), read_only(_TYPES.int64, 1), read_only(_TYPES.boolean, 1)
_SKETCHES = read_only(_TYPES.int16, 2)
_OWNERS = read_only(_TYPES.int32, 1)
_RANGES = _TYPES.Tuple((_NUMBERS, _NUMBERS, _TYPES.int64))
_AXES = read_only(_TYPES.float64, 3)
_FRAMES = _TYPES.Tuple((read_only(_TYPES.uint8, 1), _AXES, _SKETCHES))
_CODES = _TYPES.Tuple((read_only(_TYPES.int8, 2), _FLOATS, _TYPES.float32))
_AIM = _TYPES.Tuple((_FLOATS, _TYPES.int64, _TYPES.float32, _TYPES.boolean))
_LISTS = _TYPES.Tuple((_SKETCHES, read_only(_TYPES.float64, 1), _NUMBERS, _NUMBERS, _TYPES.float64))
_LISTED = _TYPES.Tuple((_OWNERS, _OWNERS, _SKETCHES))
_MARKS = _TYPES.UniTuple(_TYPES.boolean[::1], 2)
_LIMITS = _TYPES.Tuple((_FLAGS, _TYPES.UniTuple(_TYPES.int64, 4)))
_SCANNED_RANGES = _TYPES.Tuple((_TYPES.int64[::1], _TYPES.boolean))
_SCANNED_LISTS = _TYPES.Tuple((_TYPES.int64[::1], _TYPES.int64, _TYPES.int64))


_part = compile_part(fastmath=_FREE)


def _build_prefetch(_typing, array, row, place):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Ask for the line that holds byte `place` of array[row] of a C array, and do not wait for it."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.mul(arguments[1], builder.extract_value(found.strides, 0))
        data = builder.bitcast(found.data, ir.IntType(8).as_pointer())
        line = builder.gep(data, [builder.add(start, arguments[2])])
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        to_read, near_by, data = number(0), number(2), number(1)
        builder.call(ask, [line, to_read, near_by, data])
        return context.get_dummy_value()

    return _TYPES.void(array, row, place), generate


_prefetch: Any = intrinsic(_build_prefetch)


def _build_multiply_sketch(_typing, sketch, query_sketch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the product of arrays of _WIDTH numbers, int16 and float32: a loop so short would not be vectorised."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        def loaded(number: int, kind: Any) -> Any:
            data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
            found = builder.load(builder.bitcast(data, ir.VectorType(kind, _WIDTH).as_pointer()))
            found.align = 2  # bytes: all that is known of where a sketch begins
            return found

        real = ir.FloatType()
        reals = ir.VectorType(real, _WIDTH)
        products = builder.fmul(builder.sitofp(loaded(0, ir.IntType(16)), reals), loaded(1, real))
        kind = ir.FunctionType(real, [real, reals])
        total = builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.v{_WIDTH}f32", (), kind)
        return builder.call(total, [real(0.0), products], fastmath=tuple(sorted(_FREE)))

    return _TYPES.float32(sketch, query_sketch), generate


_multiply_sketch: Any = intrinsic(_build_multiply_sketch)


@_part
def _ask(codes, steps, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    _prefetch(steps, row, 0)
    for place in range(0, codes.shape[1], _LINE):
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
def _make_tops(top_k, owners):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the best of so many: a heap of their scores, whose these are, and where in it each owner is.

    An owner that is not in it is at 0: only the least is ever put out, and what is worse than that is of no use.
    """
    return np.full(top_k, np.float32(-np.inf)), np.full(top_k, -1), np.zeros(owners, np.int64)


@_part
def _offer(tops, owner, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take in a score; one owner has one, its best, but each of the owner -1's counts."""
    best, whose, spots = tops
    here = spots[owner] if owner >= 0 else 0
    if value <= best[here]:
        return
    count = len(best)
    while 2 * here + 1 < count:
        below = 2 * here + 1
        if below + 1 < count and best[below + 1] < best[below]:
            below += 1
        if best[below] >= value:
            break
        best[here], whose[here] = best[below], whose[below]
        if whose[here] >= 0:
            spots[whose[here]] = here
        here = below
    best[here], whose[here] = value, owner
    if owner >= 0:
        spots[owner] = here


@_part
def _drop_far(near, count, tops, threshold, slack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move together the rows that can still be among the best; return how many these are."""
    rows, owners, most, _ = near
    best, _, spots = tops
    end = _NONE
    for place in range(count):
        own = best[spots[owners[place]]] - 2 * slack if owners[place] >= 0 else threshold
        if most[place] >= max(threshold, own):
            rows[end], owners[end], most[end] = rows[place], owners[place], most[place]
            end += 1
    return end


@_part
def _widen(near, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return what is near, with room for twice as much."""
    more = _make_space(2 * len(near[0]))
    for place in range(count):  # whole slices take seconds to compile
        more[0][place], more[1][place], more[2][place] = near[0][place], near[1][place], near[2][place]
    return more


@_part
def _make_space(count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return room for so many rows: which, their owners, and two numbers of each."""
    return (
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.float32),
        np.empty(count, np.float32),
    )


@_part
def _multiply(some, part, coded, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Add to what the products of a part of some rows are within their frames what their codes add."""
    rows, _, products, _ = some
    begin, end = part
    codes, steps, _ = coded
    for ahead in range(begin, min(begin + _AHEAD, end)):
        _ask(codes, steps, rows[ahead])
    for number in range(begin, end):
        if number + _AHEAD < end:
            _ask(codes, steps, rows[number + _AHEAD])
        products[number] += steps[rows[number]] * _multiply_code(codes[rows[number]], query)


@_part
def _compare(some, part, coded, target, tops, found):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Compare the codes of a part of some rows; return what is found then.

    some: rows, their owners, what their products are within their frames. found: the rows that can be among the best,
    their owners, the most that their products can be; how many; and the score that it takes.
    """
    rows, owners, products, _ = some
    _, steps, off = coded
    query, _, slack, distinct = target
    best, _, spots = tops
    near, count, threshold = found
    _multiply(some, part, coded, query)
    for number in range(part[0], part[1]):
        row, owner = rows[number], owners[number] if distinct else -1
        room = steps[row] * off
        least, most = products[number] - room, products[number] + room
        if most < threshold or (distinct and most < best[spots[owner]] - 2 * slack):  # not even its owner's best
            continue
        if least > best[spots[owner] if distinct else 0]:
            _offer(tops, owner, least)
            threshold = max(threshold, best[0] - 2 * slack)
        if count == len(near[0]):
            count = _drop_far(near, count, tops, threshold, slack)
            if 2 * count > len(near[0]):
                near = _widen(near, count)
        near[0][count], near[1][count], near[2][count] = row, owner, most
        count += 1
    return near, count, threshold


@_part
def _finish(found, tops, slack):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    near, count, threshold = found
    return near[0][: _drop_far(near, count, tops, threshold, slack)]


@_part
def _multiply_sketches(ranges, frames, query):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the sketches' products, one range after another, what they are within the frames, each range's most."""
    starts, stops, count = ranges
    which, axes, sketches = frames
    whole, within, tops = np.empty(count, np.float32), np.empty(count, np.float32), np.empty(len(starts), np.float32)
    query_sketch, known = np.zeros((len(axes), _WIDTH), np.float32), np.zeros(len(axes), np.bool_)
    place, last = 0, sketches.shape[1] - 1
    for number in range(len(starts)):
        top = np.float32(-np.inf)
        if number + _RANGES_AHEAD < len(starts):
            far = number + _RANGES_AHEAD
            _prefetch(which, starts[far], 0)
            _prefetch(sketches, starts[far], 0)
            _prefetch(sketches, stops[far] - 1, 0)
        if number + 1 < len(starts):
            for row in range(starts[number + 1], min(starts[number + 1] + _FIRST, stops[number + 1])):
                _prefetch(sketches, row, 0)
        for row in range(starts[number], stops[number]):
            frame = which[row]
            if not known[frame]:
                _sketch_query(axes[frame], query, query_sketch[frame])
                known[frame] = True
            product = _multiply_sketch(sketches[row], query_sketch[frame])
            whole[place], within[place] = product, product - sketches[row, last] * query_sketch[frame, last]
            top = max(top, product)
            place += 1
        tops[number] = top
    return whole, within, tops


@_part
def _gather(ranges, at, known, wanted, some):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write down rows whose sketches reach the floor, of one range after another until there are enough.

    at: the range to begin with, and how many rows are before it; known: as _multiply_sketches says; wanted: the floor,
    what the greatest of a likely range reaches, and whether it is these. Return where to go on, and how many rows.
    """
    starts, stops, _ = ranges
    whole, within, greatest = known
    floor, least, likely = wanted
    rows, owners, products, _ = some
    number, before = at
    good = _NONE
    while number < len(starts) and good < _TOGETHER:
        start, count = starts[number], stops[number] - starts[number]
        if greatest[number] >= floor and (greatest[number] >= least) == likely:
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
    """Return how many bounds reach the floor."""
    found = _NONE
    for place in range(len(bounds)):
        found += bounds[place] >= floor
    return found


@compile_whole(_SCANNED_RANGES(_RANGES, _FRAMES, _CODES, _AIM, _TYPES.int64), fastmath=_FREE)
def scan_ranges(ranges, frames, coded, target, limit):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the rows of the ranges that can be among the best, or that this is hopeless; a range is one episode's.

    ranges: starts, stops, how many rows in all. frames: which is each row's, the axes of each, sketches. coded: codes,
    steps, how many of these a product may be off. target: query, top_k, slack, distinct. limit: how many codes it is
    worth to compare. The ranges of the greatest bounds are scanned first; of each range the rows whose sketches leave a
    chance are compared by their codes.
    """
    starts, stops, _ = ranges
    query, top_k, slack, distinct = target
    known = _multiply_sketches(ranges, frames, query)
    greatest = known[2]
    first, longest = _make_tops(top_k, _NONE), _NONE
    likely = first[0]
    for number in range(len(starts)):
        if greatest[number] > likely[0]:
            _offer(first, -1, greatest[number])
        longest = max(longest, stops[number] - starts[number])
    some, tops = _make_space(_TOGETHER + longest), _make_tops(top_k, len(starts) if distinct else _NONE)
    found = _make_space(_ROOM), _NONE, np.float32(-np.inf)
    for turn in range(2):
        if turn == 1 and limit < ranges[2] and _count_reaching(known[0], found[2] - _OFF) > limit:
            return np.empty(0, np.int64), True
        at = _NONE, _NONE
        while at[0] < len(starts):
            at, good = _gather(ranges, at, known, (found[2] - _OFF, likely[0], turn == 0), some)
            found = _compare(some, (_NONE, good), coded, target, tops, found)
    return _finish(found, tops, slack), False


@_part
def _bound_cosines(lists, query_sketch):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the greatest cosine that a member of each list can have, as InvertedLists.bound_cosines does."""
    midpoints, radii, starts, frames, off = lists
    found = np.full(len(radii), _NO_LIST)
    for number in range(len(radii)):
        if starts[number] < starts[number + 1]:
            product = _multiply_sketch(midpoints[number], query_sketch[frames[number]])
            closest = max(-1.0, min(1.0, product + _OFF + off))
            radius = max(-1.0, min(1.0, radii[number] - off))
            beside = np.sqrt((1 - closest * closest) * (1 - radius * radius))
            found[number] = 1.0 if closest >= radius else closest * radius + beside
    return found


@_part
def _gather_members(part, listed, query_sketch, allowed, floor, some):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write down the members of a list that count, if their sketches reach the floor; return how many these are."""
    rows, owners, sketches = listed
    near, good, last, every = _NONE, _NONE, sketches.shape[1] - 1, len(allowed) == 0
    for place in range(part[0], part[1]):
        product = _multiply_sketch(sketches[place], query_sketch)
        some[0][near], some[3][near] = place, product
        near += product >= floor  # no branch: it would be mispredicted half of the time
    for number in range(near):
        place, product = some[0][number], some[3][number]
        some[0][good], some[1][good], some[3][good] = rows[place], owners[place], product
        some[2][good] = product - sketches[place, last] * query_sketch[last]
        good += every or allowed[owners[place]]
    return good


@_part
def _forward(some, part, floor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Move those of a part of some members whose sketches reach the floor before others; return where they end."""
    begin, end = part
    for place in range(begin, end):
        if some[3][place] >= floor:
            for whole in (some[0], some[1]):
                whole[begin], whole[place] = whole[place], whole[begin]
            for real in (some[2], some[3]):
                real[begin], real[place] = real[place], real[begin]
            begin += 1
    return begin


@_part
def _count_left(reach, starts, threshold):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return how many members the lists have that reach the threshold."""
    found = _NONE
    for number in range(len(reach)):
        if reach[number] >= threshold:
            found += starts[number + 1] - starts[number]
    return found


@compile_whole(_SCANNED_LISTS(_LISTS, _LISTED, _AXES, _CODES, _MARKS, _AIM, _LIMITS), fastmath=_FREE)
def scan_lists(lists, listed, axes, coded, met, target, limits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, PLR0913, PLR0917
    """Return the rows of lists that can be among the best, how many sketches were read, and how it ended.

    lists: the sketch of each one's centroid, its radius, where it begins and the next, its frame; what a cosine may be
    off. listed: of each member the row, the owner, the sketch. axes: of the frames. coded, target: as of scan_ranges.
    met: bool per list and per owner, set where sketches were read and codes compared. limits: which owners count (none:
    all do); how many sketches it is worth to read; how many may be read (-1: all); how many codes it is worth to
    compare; and after how many their share tells how many it will be.
    """
    _, _, starts, frames, _ = lists
    query, top_k, slack, distinct = target
    allowed, (worth, budget, limit, telling) = limits
    query_sketch, longest = np.zeros((len(axes), _WIDTH), np.float32), _NONE
    for frame in range(len(axes)):
        _sketch_query(axes[frame], query, query_sketch[frame])
    reach = _bound_cosines(lists, query_sketch)
    for number in range(len(reach)):
        longest = max(longest, starts[number + 1] - starts[number])
    some, tops = _make_space(longest), _make_tops(top_k, len(met[1]) if distinct else _NONE)
    found = _make_space(_ROOM), _NONE, np.float32(-np.inf)
    scored, compared, end = 0, 0, PROVEN
    number = reach.argmax()
    while end == PROVEN and reach[number] >= max(found[2], _ANY):
        begin, part = _NONE, (starts[number], starts[number + 1])
        good = _gather_members(part, listed, query_sketch[frames[number]], allowed, found[2] - _OFF, some)
        if found[2] == -np.inf:  # the likeliest members first
            first = _make_tops(top_k, _NONE)
            for place in range(good):
                _offer(first, -1, some[3][place])
            begin = _forward(some, (_NONE, good), first[0][0])
            found = _compare(some, (_NONE, begin), coded, target, tops, found)
            good = _forward(some, (begin, good), found[2] - _OFF)
        found = _compare(some, (begin, good), coded, target, tops, found)
        met[0][number] = True
        for place in range(good):
            met[1][some[1][place]] = True
        scored, compared, reach[number] = scored + part[1] - part[0], compared + good, _NO_LIST
        if budget >= 0 and scored >= budget and found[2] > -np.inf:
            end = ENDED
        elif scored > worth:
            end = USELESS
        elif compared >= telling:
            left = _count_left(reach, starts, max(found[2], _ANY))
            end = HOPELESS if compared * (scored + left) > limit * scored else PROVEN
        number = reach.argmax()
    return _finish(found, tops, slack), scored, end
