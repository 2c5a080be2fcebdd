"""Episodes in rows of all of them: between flags, by labels, in replay buffers too."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LayoutError, LimitError
from wshard.formats.d4rl.source import FlatSpan, flatten_flags, split_at_flags
from wshard.formats.layouts.step_values import as_flags, read_by_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.layout import EpisodeLayout, RingRule

_MAX_EPISODES: Final = 1 << 20  # of a file
_MAX_VALUES: Final = 1 << 28  # of an array that is read whole: a file of a few bytes can claim any number of equal ones
_WHOLE: Final = 2.0**53  # from here on, floating-point numbers leave out whole ones
_CHUNK: Final = 1 << 24  # bytes of rows that are compared at a time


def check_count(count: int, where: str) -> None:
    """Raise LimitError for more episodes than a file can have."""
    if count > _MAX_EPISODES:
        raise LimitError(f"{where}: expected at most {_MAX_EPISODES} episodes in a file, found {count}: split the file")


def check_spans(starts: Array, stops: Array, count: int, where: str) -> dict[str, FlatSpan]:
    """Return the spans of rows by number; raises FormatError unless each row of `count` is in one at most."""
    if len(starts) != len(stops):
        raise FormatError(f"{where}: expected as many starts as stops, found {len(starts)}, {len(stops)}")
    wrong = np.flatnonzero((starts < 0) | (stops < starts) | (stops > count))
    if len(wrong):
        at = wrong[0]
        raise FormatError(f"{where}: episode {at}: expected rows of 0 to {count}, found {starts[at]} to {stops[at]}")
    check_count(len(starts), where)
    order = np.argsort(starts, kind="stable")
    shared = np.flatnonzero(starts[order][1:] < stops[order][:-1])
    if len(shared):
        first, second = order[shared[0]], order[shared[0] + 1]
        raise FormatError(
            f"{where}: expected each row in one episode, found episodes {first}, "
            f"{starts[first]} to {stops[first]}, and {second}, {starts[second]} to {stops[second]}"
        )
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return {str(number): FlatSpan(start, stop) for number, (start, stop) in enumerate(pairs)}


def read_whole(column: RowArray, where: str) -> Array:
    """Return all values of an array that says where episodes are; raises LimitError for too many."""
    if math.prod(column.shape) > _MAX_VALUES:
        raise LimitError(f"{where}: expected at most {_MAX_VALUES} values, found {list(column.shape)}: split the file")
    return np.asarray(column[()])


def labels_in(values: Array, where: str) -> Array:
    """Return the values of a column of episodes: numbers, texts or dates, one in every row; raises FormatError."""
    kind = values.dtype.kind
    if kind not in "biufMmOSU":
        raise FormatError(f"{where}: expected numbers or texts, found {values.dtype}")
    if kind in "biu":
        return values
    is_absent = ~np.isfinite(values) if kind in "fMm" else np.array([not text for text in values.tolist()], bool)
    if np.any(is_absent):
        row = int(np.argmax(is_absent))
        raise FormatError(f"{where}: row {row}: expected an episode, found {values[row] or 'none'}")
    return values


def rows_by_label(values: Array, rows: Array | None, where: str) -> dict[str, tuple[int, int, Array | None]]:
    """Return (start, stop, None) of the rows of each label; (0, count, rows) where they lie apart, in their order.

    rows: those that count, in another order. Raises LimitError.
    """
    values = values if rows is None else values[rows]
    if not len(values):
        return {}
    starts = np.append(0, np.flatnonzero(values[1:] != values[:-1]) + 1)
    firsts = values[starts]
    if len(starts) > _MAX_EPISODES:
        ordered = np.sort(firsts)
        check_count(1 + int(np.count_nonzero(ordered[1:] != ordered[:-1])), where)
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in _labels(firsts)], np.int64)
    stops = np.append(starts[1:], len(values))
    if len(numbers) == len(starts) and rows is None:
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        return {label: (start, stop, None) for label, (start, stop) in zip(numbers, spans, strict=True)}
    of_rows = np.repeat(codes, stops - starts)
    order = np.argsort(of_rows, kind="stable")
    parts = np.split(order if rows is None else rows[order], np.cumsum(np.bincount(of_rows))[:-1])
    return {label: (0, len(part), part) for label, part in zip(numbers, parts, strict=True)}


def _labels(values: Array) -> list[str]:
    """Return the keys of values in a column of episodes: whole numbers have no decimals."""
    if values.dtype.kind == "f" and (values == np.rint(values)).all() and (np.abs(values) < _WHOLE).all():
        values = values.astype(np.int64)
    elif values.dtype.kind in "Mm":
        seconds = values.astype(f"{values.dtype.kind}8[s]")
        values = (seconds if (seconds == values).all() else values).astype(str)
    return [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in values.tolist()]


def read_flags(layout: EpisodeLayout, found: dict[str, RowArray], count: int, where: str) -> Array:
    """Return the flags [count] of the arrays of the rule that a file has, one set where any of them is."""
    if not found:
        raise LayoutError(
            f"{where}: layout {layout.name!r}: expected {' or '.join(layout.episodes.arrays)}, found neither"
        )
    flags = []
    for path, column in found.items():
        at = f"{where}: {path!r}"
        flags.append(flatten_flags(read_whole(as_flags(read_by_rule(column, layout.rule_of(path)), at), at), count, at))
    is_set: Array = np.logical_or.reduce(flags)
    return is_set


def split_rows(
    flags: Array, where: str, *, horizon: int, parts: list[Array] | None
) -> Iterator[tuple[FlatSpan, Array | None]]:
    """Yield (span, rows) of the episodes: rows of a replay buffer, of which the span is a part, else None."""
    limit = horizon or None
    check_count(int(np.count_nonzero(flags)) + (len(flags) // horizon if horizon else 0), where)
    if parts is None:
        yield from ((span, None) for span in split_at_flags(flags, horizon=limit).values())
        return
    for rows in parts:
        for span in split_at_flags(flags[rows], horizon=limit).values():
            taken = rows[span.start : span.stop]
            yield FlatSpan(0, len(taken), span.end), taken


def find_breaks(rows: RowArray, following: RowArray, where: str) -> Array:
    """Return flags of the rows whose following row is another than stated: an episode ends there."""
    if tuple(rows.shape) != tuple(following.shape):
        raise FormatError(f"{where}: expected next observations of {list(rows.shape)}, found {list(following.shape)}")
    count = rows.shape[0]
    step = max(1, _CHUNK // max(1, int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.dtype.itemsize))
    breaks = np.zeros(count, np.bool_)
    for start in range(0, count - 1, step):
        stop = min(start + step, count - 1)
        differs = np.asarray(rows[start + 1 : stop + 1]) != np.asarray(following[start:stop])
        breaks[start:stop] = differs.reshape(stop - start, -1).any(axis=1)
    if 2 * np.count_nonzero(breaks) > count:
        raise FormatError(
            f"{where}: expected the observations of the rows after, found others in {np.count_nonzero(breaks)} of "
            f"{count}: transitions in no order have no episodes"
        )
    return breaks


def rows_in_order(ring: RingRule, file: ArrayFile, count: int, where: str) -> list[Array] | None:
    """Return the rows of each part of a replay buffer, the oldest first; None for a file that is no buffer."""
    last, filled = _stated(file, ring.last), _stated(file, ring.filled)
    if last is None and filled is None:
        return None
    if last is None or filled is None:
        raise FormatError(
            f"{where}: expected {' or '.join(ring.filled if filled is None else ring.last)}, found neither"
        )
    parts = _stated(file, ring.parts)
    starts = np.zeros(1, np.int64) if parts is None else parts
    if not len(last) == len(filled) == len(starts):
        raise FormatError(f"{where}: expected the state of {len(starts)} parts, found {len(last)} and {len(filled)}")
    ordered = []
    for start, size, newest, used in zip(starts, np.diff(np.append(starts, count)), last, filled, strict=True):
        if not 0 <= used <= size or (used and not start <= newest < start + size):
            raise FormatError(f"{where}: expected {used} of {size} rows from {start}, found the newest at {newest}")
        ordered.append(start + (newest - start - np.arange(used)[::-1]) % max(size, 1))
    return ordered


def _stated(file: ArrayFile, names: tuple[str, ...]) -> Array | None:
    """Return the numbers of the first of these arrays or attributes that a file has, None for neither."""
    attributes, paths = file.attributes(), {*file.paths()}
    for name in names:
        value: Any = file.column(name)[()] if name in paths else attributes.get(name.removeprefix("@"))
        if value is not None:
            return np.asarray(value).reshape(-1).astype(np.int64)
    return None
