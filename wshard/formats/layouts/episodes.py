"""Where the episodes of a location are, by the rule of its layout."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from wshard.core.files.local import LocalPlace
from wshard.core.messages import shown
from wshard.errors import FormatError, LayoutError
from wshard.formats.layouts import layout as rules
from wshard.formats.layouts.columns import path_in
from wshard.formats.layouts.ends import (
    check_count,
    check_spans,
    find_breaks,
    labels_in,
    read_flags,
    read_whole,
    rows_by_label,
    rows_in_order,
    split_rows,
)
from wshard.formats.layouts.layout import ACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from wshard.core.files.place import FileStatus, Place
    from wshard.core.types import Array
    from wshard.formats.d4rl.source import FlatSpan
    from wshard.formats.layouts.columns import ArrayFile, RowArray
    from wshard.formats.layouts.layout import EpisodeLayout


_Found: TypeAlias = tuple[Mapping[str, "EpisodeSlice"], tuple[int, int]]
_LAST: Final = deque[tuple[tuple["EpisodeLayout", LocalPlace, "FileStatus"], _Found]](maxlen=2)


class EpisodeSlice(NamedTuple):
    """Where one episode is: in a file, its group, or the rows [start, stop) of arrays; rows: if they are apart.

    number: of the episode in its file. stop: None for all. end: as that of FlatSpan.
    """

    file: Place
    number: int = 0
    group: str = ""
    start: int = 0
    stop: int | None = None
    rows: Array | None = None
    end: str = ""


class EpisodeFinder:
    """Finds the episodes in an open file. Raises FormatError, LayoutError."""

    counts = (0, 0)
    """The numbers of rows and of episodes, where arrays have those of all episodes; known once they are found."""

    def __init__(self, layout: EpisodeLayout, container: ArrayFile, file: Place) -> None:
        self._layout, self._container, self._file = layout, container, file
        self._rule, self._where = layout.episodes, str(file)

    def find(self) -> dict[str, EpisodeSlice]:
        """Return the episodes by key; "" for the only one of a file."""
        finders = {
            rules.FILE: self._only,
            rules.GROUP: self._grouped,
            rules.NUMBER: self._numbered,
            rules.ROW: self._numbered if self._layout.has_lists else self._in_batch,
            rules.COLUMN: self._by_value,
            rules.ENDS: self._ended,
        }
        return finders.get(self._rule.by, self._between)()

    def _only(self) -> dict[str, EpisodeSlice]:
        return {"": EpisodeSlice(self._file, group=self._layout.root)}

    def _numbered(self) -> dict[str, EpisodeSlice]:
        return {key: EpisodeSlice(self._file, int(key), key) for key in self._container.groups("*")}

    def _grouped(self) -> dict[str, EpisodeSlice]:
        pattern = path_in(self._layout.root, self._rule.group)
        groups = self._container.groups(pattern)
        prefix = _fixed_prefix(pattern)
        return {path.removeprefix(prefix): EpisodeSlice(self._file, number, path) for number, path in enumerate(groups)}

    def _between(self) -> dict[str, EpisodeSlice]:
        spans = self._spans()
        self.counts = self._count_rows(), len(spans)
        return {
            key: EpisodeSlice(self._file, number, self._layout.root, span.start, span.stop, end=span.end)
            for number, (key, span) in enumerate(spans.items())
            if span.length
        }

    def _count_rows(self) -> int:
        """Return the number of rows of all episodes: of the array of timesteps, of actions, or of that of the rule."""
        container, layout = self._container, self._layout
        if self._rule.steps:
            return self._rows_of(self._rule.steps)
        if self._rule.by in (rules.COLUMN, rules.ENDS, rules.STARTS, rules.RESTARTS):
            return self._rows_of(next(iter(self._present()), self._rule.arrays[0]))
        stacked = [path for lane, columns in layout.stack.items() if lane.startswith(ACTION) for path in columns]
        for path in container.paths(layout.root):
            if path in stacked or layout.rule_of(path).role == ACTION:
                return self._rows_of(path)
        raise LayoutError(
            f"{self._where}: expected an array of actions, whose rows are the timesteps; name another one by "
            f"steps = '...' in [episodes]"
        )

    def _rows_of(self, path: str) -> int:
        shape = self._column(path).shape
        if not shape:
            raise FormatError(f"{self._where}: {path!r}: expected rows, found a single value")
        return int(shape[0])

    def _column(self, path: str) -> RowArray:
        try:
            return self._container.column(path_in(self._layout.root, path))
        except FormatError as error:
            raise LayoutError(f"{self._where}: layout {self._layout.name!r}, [episodes]: {error}") from error

    def _values(self, path: str) -> Array:
        return read_whole(self._column(path), f"{self._where}: {path!r}")

    def _numbers(self, path: str) -> Array:
        values = self._values(path).reshape(-1)
        check_count(len(values), f"{self._where}: {path!r}")
        is_whole = values.dtype.kind in "biu" or (
            values.dtype.kind == "f" and bool((np.isfinite(values) & (values == np.rint(values))).all())
        )
        if not is_whole:
            raise FormatError(f"{self._where}: {path!r}: expected whole numbers, found {shown(values)}")
        return values.astype(np.int64)

    def _spans(self) -> Mapping[str, FlatSpan]:
        by, arrays, count = self._rule.by, self._rule.arrays, self._count_rows()
        if by == rules.STARTS:
            starts = np.flatnonzero(read_flags(self._layout, self._present(), count, self._where))
            if not len(starts) or starts[0] != 0:
                raise FormatError(f"{self._where}: {arrays[0]!r}: expected a start in the first row, found none")
            return self._checked(starts, np.append(starts[1:], count), count)
        if by == rules.RESTARTS:
            values = self._values(arrays[0]).reshape(-1)
            if values.dtype.kind not in "biufMm":
                raise FormatError(f"{self._where}: {arrays[0]!r}: expected numbers, found {values.dtype}")
            starts = np.append(0, np.flatnonzero(values[1:] < values[:-1]) + 1)
            return self._checked(starts, np.append(starts[1:], count), count)
        if by == rules.LENGTHS:
            stops = np.cumsum(self._numbers(arrays[0]))
            if len(stops) and stops[-1] != count:
                raise FormatError(f"{self._where}: {arrays[0]!r}: expected lengths of {count} rows, found {stops[-1]}")
            return self._checked(np.append(0, stops[:-1]), stops, count)
        if by == rules.STOPS:
            stops = self._numbers(arrays[0])
            stops = stops if len(stops) and stops[-1] == count else np.append(stops, count)
            starts = np.append(0, stops[:-1])
            if len(starts) > 1 and stops[0] == 0:  # of the starts of all episodes
                starts, stops = starts[1:], stops[1:]
            return self._checked(starts, stops, count)
        return self._checked(self._numbers(arrays[0]), self._numbers(arrays[1]), count)

    def _present(self) -> dict[str, RowArray]:
        """Return those arrays of the rule that the file has: all, except for several flags."""
        names = self._rule.arrays
        if len(names) > 1 and self._rule.by in (rules.ENDS, rules.STARTS):
            paths = {*self._container.paths(self._layout.root)}
            names = tuple(name for name in names if name in paths)
        return {name: self._column(name) for name in names}

    def _ended(self) -> dict[str, EpisodeSlice]:
        layout, present, count = self._layout, self._present(), self._count_rows()
        flags = read_flags(layout, present, count, self._where)
        lacks_ends = len(self._rule.arrays) == 1 or len(present) < len(self._rule.arrays)
        continues = lacks_ends and {*self._rule.continues} & {*self._container.paths(layout.root)}
        if continues and len(continues) == len(self._rule.continues):
            rows, following = map(self._column, self._rule.continues)
            flags |= find_breaks(rows, following, f"{self._where}: {self._rule.continues[1]!r}")
            lacks_ends = False
        found = [
            *split_rows(flags, self._where, horizon=self._rule.horizon if lacks_ends else 0, parts=self._order(count))
        ]
        self.counts = count, len(found)
        return {
            str(number): EpisodeSlice(self._file, number, layout.root, span.start, span.stop, rows, end=span.end)
            for number, (span, rows) in enumerate(found)
            if span.length
        }

    def _order(self, count: int) -> list[Array] | None:
        """Return the rows of each part of a replay buffer, None for other files."""
        ring = self._layout.ring
        return None if ring is None else rows_in_order(ring, self._container, count, self._where)

    def _checked(self, starts: Array, stops: Array, count: int) -> dict[str, FlatSpan]:
        return check_spans(starts, stops, count, f"{self._where}: {', '.join(self._rule.arrays)}")

    def _in_batch(self) -> dict[str, EpisodeSlice]:
        rule = self._rule
        shape = self._batch_example().shape
        if len(shape) <= 1:
            raise FormatError(f"{self._where}: expected arrays [episodes, steps, ...], found {list(shape)}")
        self.counts = steps, count = int(shape[1 - rule.axis]), int(shape[rule.axis])
        check_count(count, self._where)
        lengths = np.full(count, steps)
        if rule.arrays:
            values = self._values(rule.arrays[0])
            if values.ndim == 2:
                mask = values != 0 if rule.axis == 0 else (values != 0).T
                lengths = mask.sum(axis=1)
                if (mask != (np.arange(mask.shape[1]) < lengths[:, None])).any():
                    raise FormatError(f"{self._where}: {rule.arrays[0]!r}: expected a mask of the first timesteps")
            else:
                lengths = self._numbers(rule.arrays[0])
        if len(lengths) != count or (count and not 0 <= lengths.min() <= lengths.max() <= steps):
            raise FormatError(
                f"{self._where}: {rule.arrays[0]!r}: expected {count} lengths of at most {steps}, "
                f"found {shown(lengths)}"
            )
        return {
            str(number): EpisodeSlice(self._file, number, self._layout.root, 0, length)
            for number, length in enumerate(lengths.tolist())
            if length
        }

    def _batch_example(self) -> RowArray:
        if self._rule.steps:
            return self._column(self._rule.steps)
        paths = self._container.paths(self._layout.root)
        chosen = [path for path in paths if self._layout.rule_of(path).role == ACTION] or [
            path for path in paths if len(self._column(path).shape) > 1
        ]
        if not chosen:
            raise LayoutError(
                f"{self._where}: expected an array of actions; name another by steps = '...' in [episodes]"
            )
        return self._column(chosen[0])

    def _by_value(self) -> dict[str, EpisodeSlice]:
        name = self._rule.arrays[0]
        where = f"{self._where}: {name!r}"
        values = labels_in(self._values(name).reshape(-1), where)
        order = self._order(len(values))
        rows = None if order is None else np.concatenate([*order, np.zeros(0, np.int64)])
        found = rows_by_label(values, rows, where)
        self.counts = len(values), len(found)
        root = self._layout.root
        return {
            key: EpisodeSlice(self._file, number, root, start, stop, apart)
            for number, (key, (start, stop, apart)) in enumerate(found.items())
        }


def _fixed_prefix(pattern: str) -> str:
    """Return the part of a pattern of groups before the first one with wildcards, with a slash at its end."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts) - 1)
    return "".join(f"{part}/" for part in parts[:fixed])


def _find_in(layout: EpisodeLayout, file: Place, opened: Callable[[Place], ArrayFile]) -> _Found:
    """Return the episodes of a file by key, and its counts; of the last files they are known while these are unchanged.

    An ingest opens a Source for each batch of episodes, and a file may have 100,000 of them.
    """
    state = (layout, file, file.status()) if isinstance(file, LocalPlace) and file.is_file() else None
    known = next((found for known_state, found in _LAST if state is not None and known_state == state), None)
    if known is None:
        finder = EpisodeFinder(layout, opened(file), file)
        known = finder.find(), finder.counts
        if state is not None:
            _LAST.append((state, known))
    return known


def find_episodes(
    layout: EpisodeLayout, files: Iterable[tuple[str, Place]], opened: Callable[[Place], ArrayFile]
) -> tuple[dict[str, EpisodeSlice], dict[str, tuple[int, int]]]:
    """Return the episodes of all files by key, of several files "NAME" or "NAME/KEY"; and each file's counts.

    These are the numbers of rows and of episodes, by the URI of the file.
    """
    found: dict[str, EpisodeSlice] = {}
    counts: dict[str, tuple[int, int]] = {}
    for name, file in files:
        if layout.episodes.by == rules.FILE:  # not opened before it is read
            found[name] = EpisodeSlice(file, group=layout.root)
            continue
        episodes, counts[file.uri] = _find_in(layout, file, opened)
        found.update({f"{name}/{key}": rows for key, rows in episodes.items()} if name else episodes)
    return found, counts
