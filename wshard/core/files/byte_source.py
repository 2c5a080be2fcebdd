"""The bytes of one file: of a path, of memory, or of any other place, read range by range.

Input starts here.
"""

from __future__ import annotations

import mmap
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from wshard.core.files.local import LocalPlace
from wshard.core.files.regular import map_file, open_descriptor
from wshard.core.files.schemes import place_of
from wshard.errors import ClosedError, IndexCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wshard.core.files.place import Place
    from wshard.core.files.range_file import Buffer
    from wshard.core.files.schemes import Location

_READ_AT_ONCE_BELOW: Final = 1 << 15  # small files are read and closed: thousands may be open at a time
_READ_WHOLE_BELOW: Final = 1 << 20  # a mapping would pin a file descriptor for as long as its views
_READ_AHEAD: Final = 1 << 12  # bytes read beyond a small range: after the header come the index and the meta blocks
_READ_FAR_AHEAD: Final = 1 << 16  # the same, of a file that is not on this machine
_READ_RANGE_BELOW: Final = 1 << 16  # reading a small range costs less than mapping the file for it
_FETCH_AT_ONCE: Final = 1 << 26  # bytes of several ranges of a file that is far away
_CHUNK: Final = 1 << 20


class OfOneProcess:
    """Base of open files: not copied or pickled, as a copy would close the descriptor twice, or another file's."""

    where: str

    def __reduce__(self) -> NoReturn:
        """Raise TypeError."""
        raise TypeError(f"{self.where}: open files can be neither copied nor sent to another process: send the path")


class MemorySource:
    """Bytes in memory, or mapped into it; reading gives views, never copies."""

    def __init__(self, view: memoryview, where: str) -> None:
        self._view = view
        self.size = len(view)
        self.where = where

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) as a read-only view."""
        return self._view[start:stop]

    def read_each(self, ranges: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
        """Yield ranges as read does."""
        return (self.read(start, stop) for start, stop in ranges)

    def read_into(self, buffer: Any, start: int) -> int:
        """Fill a buffer with the bytes from `start` on; return their number, fewer at the end of the file."""
        return _copy(self._view[start : start + len(buffer)], buffer)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        yield self._view[start:stop]


class PathSource:
    """A file by its descriptor, which it closes: small ranges are read, larger ones are memory-mapped."""

    _descriptor = -1  # as long as an interrupt can come before there is one

    def __init__(self, descriptor: int, size: int, where: str) -> None:
        self._descriptor = descriptor
        self.size = size
        self.where = where
        self.pread = partial(
            os.pread, descriptor
        )  # (size, start): unchecked; returns fewer bytes if the file was truncated
        self._view: memoryview | None = None
        self._read_ahead = (0, memoryview(b""))

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the file; raises IndexCorruptError if it has become shorter.

        Threads may read at the same time: shared state is only replaced, by a single assignment.
        """
        if not 0 <= start <= stop <= self.size:
            raise _cut(self.where, start, stop, max(self.size - start, 0))
        if self._view is not None:
            return self._view[start:stop]
        if stop - start > _READ_RANGE_BELOW:
            self._view = self.whole()
            return self._view[start:stop]
        buffer_start, ahead = self._read_ahead
        if not buffer_start <= start <= stop <= buffer_start + len(ahead):
            buffer_start, ahead = start, self.fetch(start, stop, start + _READ_AHEAD)
            self._read_ahead = (buffer_start, ahead)
        return ahead[start - buffer_start : stop - buffer_start]

    def read_each(self, ranges: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
        """Yield ranges as read does."""
        return (self.read(start, stop) for start, stop in ranges)

    def fetch(self, start: int, stop: int, ahead: int = 0) -> memoryview:
        """Return the bytes [start, stop) as they are in the file now, up to `ahead` if that is more; raises as read."""
        data = self.pread(max(stop, ahead) - start, start)
        if len(data) < stop - start:
            raise _cut(self.where, start, stop, len(data))
        return memoryview(data)

    def read_into(self, buffer: Any, start: int) -> int:
        """Fill a buffer with the bytes from `start` on as they are now; return their number, fewer at the end."""
        view, position = memoryview(buffer).cast("B"), start
        while len(view) and (count := os.preadv(self._descriptor, [view], position)):
            view, position = view[count:], position + count
        return position - start

    def whole(self) -> memoryview:
        """Return all bytes: read, or memory-mapped if the file is large."""
        if self.size <= _READ_WHOLE_BELOW:
            return self.fetch(0, self.size)
        return map_file(self._descriptor, self.where)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        yield self.read(start, stop)


def _copy(data: Any, buffer: Any) -> int:
    memoryview(buffer).cast("B")[: len(data)] = data
    return len(data)


def _cut(where: str, start: int, stop: int, found: int) -> IndexCorruptError:
    size = stop - start
    return IndexCorruptError(f"{where}: expected {size} bytes at offset {start}, found {found}: the file was cut")


class PlaceSource:
    """A file of any place, read range by range; small ranges of a file that is far away with what follows them."""

    def __init__(self, place: Place, *, ahead: int = _READ_FAR_AHEAD) -> None:
        self._place, self._ahead = place.pinned(), ahead
        self.size = self._place.status().size
        self.where = str(place)
        self._read_ahead = (0, memoryview(b""))

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the file; raises IndexCorruptError if it has become shorter."""
        if not 0 <= start <= stop <= self.size:  # a file object may take it, or raise whatever it likes
            raise _cut(self.where, start, stop, max(self.size - start, 0))
        buffer_start, ahead = self._read_ahead  # threads may read at the same time: it is only replaced as a whole
        if not buffer_start <= start <= stop <= buffer_start + len(ahead):
            data = memoryview(self._place.read(start, max(stop, min(start + self._ahead, self.size))))
            if len(data) < stop - start:
                raise _cut(self.where, start, stop, len(data))
            if len(data) > self._ahead:
                return data[: stop - start]
            buffer_start, ahead = self._read_ahead = start, data
        return ahead[start - buffer_start : stop - buffer_start]

    def read_each(self, ranges: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
        """Yield ranges as read does, but fetch them together, some 64 MiB at a time."""
        for group in _in_groups(ranges):
            found = self._place.read_ranges(group)
            for (start, stop), data in zip(group, found, strict=True):
                if len(data) != stop - start:
                    raise _cut(self.where, start, stop, len(data))
                yield memoryview(data)

    def read_into(self, buffer: Any, start: int) -> int:
        """Fill a buffer with the bytes from `start` on; return their number, fewer at the end of the file."""
        return _copy(self.read(start, max(start, min(start + len(buffer), self.size))), buffer)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        for position in range(start, stop, _CHUNK):
            yield self.read(position, min(position + _CHUNK, stop))


def _in_groups(ranges: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    group: list[tuple[int, int]] = []
    size = 0
    for start, stop in ranges:
        group.append((start, stop))
        size += stop - start
        if size >= _FETCH_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group


class ClosedSource:
    """Takes the place of a source after close(): every read raises ClosedError."""

    def __init__(self, size: int, where: str) -> None:
        self.size = size
        self.where = where

    def read(self, start: int, stop: int) -> memoryview:
        """Raise ClosedError."""
        raise ClosedError(f"{self.where}: expected an open file for bytes {start} to {stop}, found it closed")

    def read_each(self, ranges: Iterable[tuple[int, int]]) -> Iterator[memoryview]:
        """Raise ClosedError."""
        return (self.read(start, stop) for start, stop in ranges)

    def read_into(self, _buffer: Any, start: int) -> int:
        """Raise ClosedError."""
        return len(self.read(start, start))

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Raise ClosedError."""
        yield self.read(start, stop)


Source = MemorySource | PathSource | PlaceSource | ClosedSource


def open_source(source: Location | Buffer | mmap.mmap | MemorySource) -> Source:
    """Return a byte source: places and file objects are read on demand, a large local file is memory-mapped.

    A MemorySource is returned unchanged, with its name for messages. A file object that cannot seek (a pipe) is read
    completely. Raises OSError, UnknownSchemeError, FormatError for a file opened as text, for the path of a pipe or
    device, and for unsupported values.
    """
    if isinstance(source, MemorySource):
        return source
    if isinstance(source, (bytes, bytearray, memoryview, mmap.mmap)):
        return MemorySource(memoryview(source).toreadonly().cast("B"), "<bytes>")
    place = place_of(source)
    if isinstance(place, LocalPlace):
        return _open_path(place.uri)
    return PlaceSource(place, ahead=0 if place.reads_ahead else _READ_FAR_AHEAD)


def _open_path(path: str) -> MemorySource | PathSource:
    source = PathSource(*open_descriptor(path), path)
    return source if source.size > _READ_AT_ONCE_BELOW else MemorySource(source.whole(), path)
