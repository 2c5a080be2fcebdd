"""Episodes in rows of all of them where flags are set, in replay buffers too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LayoutError
from wshard.formats.d4rl.source import FlatSpan, flatten_flags, split_at_flags
from wshard.formats.layouts.step_values import as_flags, read_by_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.types import Array
    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.layout import EpisodeLayout, RingRule

_CHUNK: Final = 1 << 24  # bytes of rows that are compared at a time


def read_flags(layout: EpisodeLayout, found: dict[str, RowArray], count: int, where: str) -> Array:
    """Return the flags [count] of the arrays of the rule that a file has, one set where any of them is."""
    if not found:
        raise LayoutError(
            f"{where}: layout {layout.name!r}: expected {' or '.join(layout.episodes.arrays)}, found neither"
        )
    flags = [
        flatten_flags(as_flags(read_by_rule(column, layout.rule_of(path)), at := f"{where}: {path!r}")[:], count, at)
        for path, column in found.items()
    ]
    is_set: Array = np.logical_or.reduce(flags)
    return is_set


def split_rows(flags: Array, *, horizon: int, parts: list[Array] | None) -> Iterator[tuple[FlatSpan, Array | None]]:
    """Yield (span, rows) of the episodes: rows of a replay buffer, of which the span is a part, else None."""
    limit = horizon or None
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
