"""Where the bytes of a container come from: a path, memory, or a file object that is read range by range.

Input starts here.
"""

from __future__ import annotations

import mmap
import os
import threading
from functools import partial
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

from wshard.arguments import file_object
from wshard.container.open_file import map_file, open_descriptor
from wshard.errors import ClosedError, FormatError, IndexCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.container.layout import Buffer

PathOrFile = str | os.PathLike[str] | IO[bytes]
_READ_AT_ONCE_BELOW: Final = 1 << 15  # small files are read and closed: thousands may be open at a time
_READ_WHOLE_BELOW: Final = 1 << 20  # a mapping would pin a file descriptor for as long as its views
_READ_AHEAD: Final = 1 << 12  # bytes read beyond a small range: after the header come the index and the meta blocks
_READ_RANGE_BELOW: Final = 1 << 16  # reading a small range costs less than mapping the file for it
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

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        yield self._view[start:stop]


class PathSource:
    """A file by its descriptor, which it closes: small ranges are read, larger ones are memory-mapped."""

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

    def fetch(self, start: int, stop: int, ahead: int = 0) -> memoryview:
        """Return the bytes [start, stop) as they are in the file now, up to `ahead` if that is more; raises as read."""
        data = self.pread(max(stop, ahead) - start, start)
        if len(data) < stop - start:
            raise _cut(self.where, start, stop, len(data))
        return memoryview(data)

    def whole(self) -> memoryview:
        """Return all bytes: read, or memory-mapped if the file is large."""
        if self.size <= _READ_WHOLE_BELOW:
            return self.fetch(0, self.size)
        return map_file(self._descriptor, self.where)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        yield self.read(start, stop)


def _cut(where: str, start: int, stop: int, found: int) -> IndexCorruptError:
    size = stop - start
    return IndexCorruptError(f"{where}: expected {size} bytes at offset {start}, found {found}: the file was cut")


class FileSource:
    """A seekable binary file object; it starts at its current position, and the caller closes it."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._base = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self._base
        self.where = where
        self._lock = threading.Lock()  # a seek and its read belong together

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the file; raises IndexCorruptError if it has become shorter."""
        if not 0 <= start <= stop <= self.size:  # a file object may take it, or raise whatever it likes
            raise _cut(self.where, start, stop, max(self.size - start, 0))
        with self._lock:
            self._file.seek(self._base + start)
            data = self._file.read(stop - start)
            while len(data) < stop - start and (more := self._file.read(stop - start - len(data))):
                data += more
        if len(data) != stop - start:
            raise _cut(self.where, start, stop, len(data))
        return memoryview(data)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        for position in range(start, stop, _CHUNK):
            yield self.read(position, min(position + _CHUNK, stop))


class ClosedSource:
    """Takes the place of a source after close(): every read raises ClosedError."""

    def __init__(self, size: int, where: str) -> None:
        self.size = size
        self.where = where

    def read(self, start: int, stop: int) -> memoryview:
        """Raise ClosedError."""
        raise ClosedError(f"{self.where}: expected an open file for bytes {start} to {stop}, found it closed")

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Raise ClosedError."""
        yield self.read(start, stop)


Source = MemorySource | PathSource | FileSource | ClosedSource


def open_source(source: PathOrFile | Buffer | mmap.mmap | MemorySource) -> Source:
    """Return a byte source: a path and a file object are read on demand, a large file is memory-mapped.

    A MemorySource is returned unchanged, with its name for messages. A file object that cannot seek (a pipe) is read
    completely. Raises OSError, FormatError for a file opened as text, for the path of a pipe or device, and for
    unsupported values.
    """
    if isinstance(source, MemorySource):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview, mmap.mmap)):
        return MemorySource(memoryview(source).toreadonly().cast("B"), "<bytes>")
    file = file_object(source, "read")
    where = str(getattr(file, "name", "<file object>"))
    seekable: Any = getattr(file, "seekable", None)
    binary = isinstance(file.read(0), bytes)
    if not binary:
        raise FormatError(f"{where}: expected a file opened in binary mode, found one that gives text")
    if seekable is not None and seekable():
        return FileSource(file, where)
    return MemorySource(memoryview(file.read()), where)


def _open_path(path: str) -> MemorySource | PathSource:
    source = PathSource(*open_descriptor(path), path)
    return source if source.size > _READ_AT_ONCE_BELOW else MemorySource(source.whole(), path)
