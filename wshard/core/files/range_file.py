"""A range of a larger buffer or file as a file object that libraries can read and seek in."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, eq=False)
class BufferOpener:
    """Opens bytes in memory, or mapped into it, as a file; they are copied when it is pickled."""

    data: Buffer

    def __call__(self) -> IO[bytes]:
        """Return the file."""
        return cast("IO[bytes]", RangeFile(lambda start, stop: self.data[start:stop], len(self.data)))

    def __reduce__(self) -> tuple[type[BufferOpener], tuple[bytes]]:
        return BufferOpener, (bytes(self.data),)


class RangeFile(io.RawIOBase):
    """A read-only file of `size` bytes; `read_range(start, stop)` returns a range of them."""

    def __init__(self, read_range: Callable[[int, int], Buffer], size: int) -> None:
        self._read_range = read_range
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, clipped to the file; returns it."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = min(max(base + offset, 0), self._size)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return up to `size` bytes."""
        start = self._position
        stop = self._size if size is None or size < 0 else min(start + size, self._size)
        self._position = stop
        return bytes(self._read_range(start, stop)) if start < stop else b""

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, or less of it at the end; return the number of bytes."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
