"""Where the bytes of a container come from: a path, memory, or a file object that is read range by range.

Knows: how to get bytes [start, stop) of each kind of source without reading the rest. Input starts here.
Does not know: headers, blocks, anything of what the bytes mean.
"""

from __future__ import annotations

import mmap
import os
import threading
from typing import IO, TYPE_CHECKING, Any, Final

from wshard.errors import FormatError, IndexCorruptError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.layout import Buffer

PathOrFile = str | os.PathLike[str] | IO[bytes]
_READ_WHOLE_BELOW: Final = 1 << 20  # small files are read: a mapping would pin a file descriptor as long as its views
_CHUNK: Final = 1 << 20


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


class FileSource:
    """A seekable binary file object; it begins where it stood when it was given, and stays the caller's to close."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self._base = file.tell()
        self.size = file.seek(0, os.SEEK_END) - self._base
        self.where = where
        self._lock = threading.Lock()  # a seek and its read belong together

    def read(self, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of the file; raises IndexCorruptError if it has become shorter."""
        with self._lock:
            self._file.seek(self._base + start)
            data = self._file.read(stop - start)
            while len(data) < stop - start and (more := self._file.read(stop - start - len(data))):
                data += more
        if len(data) != stop - start:
            raise IndexCorruptError(
                f"{self.where}: expected {stop - start} bytes at offset {start}, found {len(data)}: the file was cut"
            )
        return memoryview(data)

    def chunks(self, start: int, stop: int) -> Iterator[memoryview]:
        """Yield the bytes [start, stop) piece by piece."""
        for position in range(start, stop, _CHUNK):
            yield self.read(position, min(position + _CHUNK, stop))


Source = MemorySource | FileSource


def open_source(source: PathOrFile | Buffer | mmap.mmap) -> Source:
    """Return the source's bytes: a path is mapped into memory if larger than 1 MiB, a file object is read on demand.

    A file object that cannot seek (a pipe) is read whole. Raises OSError, FormatError for a file opened as text.
    """
    if isinstance(source, (str, os.PathLike)):
        return _open_path(os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview, mmap.mmap)):
        return MemorySource(memoryview(source).toreadonly().cast("B"), "<bytes>")
    where = str(getattr(source, "name", "<file object>"))
    seekable: Any = getattr(source, "seekable", None)
    binary = isinstance(source.read(0), bytes)
    if not binary:
        raise FormatError(f"{where}: expected a file opened in binary mode, found one that gives text")
    if seekable is not None and seekable():
        return FileSource(source, where)
    return MemorySource(memoryview(source.read()), where)


def _open_path(path: str) -> MemorySource:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        size = os.fstat(descriptor).st_size
        if size <= _READ_WHOLE_BELOW:
            return MemorySource(memoryview(_read_whole(descriptor, size)), path)
        return MemorySource(memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)), path)
    finally:
        os.close(descriptor)


def _read_whole(descriptor: int, size: int) -> bytes:
    data = os.read(descriptor, size)
    while len(data) < size and (more := os.read(descriptor, size - len(data))):
        data += more
    return data
