"""A file object for the HDF5 library that refuses files on which the library would loop forever.

The library's reader of global heaps (texts and lists of variable length) never ends at an object of size 0 (HDF5
2.0.0), so the objects of a heap are checked here when it is read. It allocates as much memory as a list claims to need,
so `check_lists` compares the lengths with the size of the file; and all that a compressed chunk expands to, so large
ones are expanded piece by piece first.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from wshard.container.open_file import open_descriptor
from wshard.errors import FormatError
from wshard.formats.hdf5.attribute_lists import find_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.formats.base import Location

LIST_SIZE: Final = 16
"""Bytes of a list in a dataset: its length, and where it is."""

_HEAP: Final = b"GCOL"
_HEAP_SIZE: Final = struct.Struct("<8xQ")
_HEAP_OBJECT: Final = struct.Struct("<HHIQ")  # number, references, unused, size; number 0 is the free rest
_MAX_HEAP_SIZE: Final = 1 << 30


_READ_AT_ONCE: Final = 1 << 22
_MAX_EXPANSION: Final = 1032  # of deflate
_MAX_EXPANDED: Final = 1 << 28  # chunks that cannot expand to more are not tried

_OPEN: Final[WeakValueDictionary[bytes, CheckedFile]] = WeakValueDictionary()
"""The open files by the names that h5py gives them."""


def checked_file(name: bytes) -> CheckedFile | None:
    """Return the open file that h5py calls so, None for a file that the library reads itself."""
    return _OPEN.get(name)


class CheckedFile(io.RawIOBase):
    """A read-only file; raises FormatError for a damaged heap."""

    def __init__(self, path: Location, where: str) -> None:
        self._descriptor, self._size = open_descriptor(os.fspath(path))  # type: ignore[arg-type]  # a path
        self._where, self._place = where, 0
        self._checked: set[tuple[int, int]] = set()
        self.largest_chunk = 0  # bytes of a chunk, expanded, of all compressed datasets in use
        _OPEN[repr(self).encode("ascii", "replace")] = self

    def close(self) -> None:
        """Close the file."""
        if not self.closed and "_descriptor" in self.__dict__:
            os.close(self._descriptor)
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, absolute or relative to the current one or the end."""
        self._place = offset + {os.SEEK_CUR: self._place, os.SEEK_END: self._size}.get(whence, 0)
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or less at the end of the file."""
        view, begin = memoryview(buffer).cast("B"), self._place
        while len(view):
            count = os.preadv(self._descriptor, [view], self._place)
            if not count:
                break
            self._place, view = self._place + count, view[count:]
        if bytes(buffer[: len(_HEAP)]) == _HEAP:
            self._check_heap(begin)
        elif self.largest_chunk and len(buffer) * _MAX_EXPANSION > _MAX_EXPANDED:
            self._check_chunk(buffer, begin)
        return self._place - begin

    def _check_chunk(self, data: Any, begin: int) -> None:
        """Raise FormatError for compressed data that expand to more than a chunk."""
        inflate, size, rest = zlib.decompressobj(), 0, bytes(data)
        try:
            while rest and not inflate.eof and size <= self.largest_chunk:
                size += len(inflate.decompress(rest, _READ_AT_ONCE))
                rest = inflate.unconsumed_tail
        except zlib.error:
            return  # other data, or damaged: the library says so
        if size > self.largest_chunk:
            raise FormatError(
                f"{self._where}: byte {begin}: {len(data)} bytes expand to more than a chunk of {self.largest_chunk}"
            )

    def check_chunk_of_lists(self, chunk: Any, expand: Callable[[], bytes], where: str) -> None:
        """Raise FormatError for lists in a compressed chunk of which one is longer than the file."""
        if (chunk.byte_offset, chunk.size) not in self._checked:
            if chunk.size > self._size:
                raise FormatError(f"{where}: {chunk.size} bytes do not fit a file of {self._size}")
            self._check_lengths(expand(), where)
            self._checked.add((chunk.byte_offset, chunk.size))

    def check_lists(self, begin: int, size: int, where: str) -> None:
        """Raise FormatError for lists, stored from a byte on, of which one is longer than the file."""
        if (begin, size) in self._checked:
            return
        if size > self._size - begin:
            raise FormatError(f"{where}: byte {begin}: {size} bytes do not fit a file of {self._size}")
        for place in range(begin, begin + size, _READ_AT_ONCE):
            self._check_lengths(os.pread(self._descriptor, min(_READ_AT_ONCE, begin + size - place), place), where)
        self._checked.add((begin, size))

    def check_attribute(self, base: int, header: int, name: bytes, count: int, where: str) -> bool:
        """Raise FormatError for `count` texts in an attribute of which one is longer than the file.

        header: the address of the object that has it; base: where addresses begin. Returns False where none is found.
        """
        found = find_values(lambda place, size: self._read_at(base + place, size), header, name, count * LIST_SIZE)
        for rows in found:
            self._check_lengths(rows, where)
        return bool(found)

    def _read_at(self, place: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, place) if place <= self._size and size > 0 else b""

    def _check_lengths(self, rows: bytes, where: str) -> None:
        lengths = np.frombuffer(rows, "<u4", len(rows) // LIST_SIZE * 4)[::4]
        if (longest := int(lengths.max(initial=0))) > self._size:
            raise FormatError(f"{where}: expected lists that fit a file of {self._size} bytes, found {longest}")

    def _check_heap(self, begin: int) -> None:
        (size,) = _HEAP_SIZE.unpack(os.pread(self._descriptor, _HEAP_SIZE.size, begin).ljust(_HEAP_SIZE.size, b"\0"))
        if size > min(_MAX_HEAP_SIZE, self._size - begin):
            raise FormatError(f"{self._where}: byte {begin}: a heap of {size} bytes does not fit the file")
        data, place = os.pread(self._descriptor, size, begin), _HEAP_SIZE.size
        while place + _HEAP_OBJECT.size <= size:
            number, _, _, length = _HEAP_OBJECT.unpack_from(data, place)
            step = length if number == 0 else _HEAP_OBJECT.size + (length + 7) // 8 * 8
            if not 0 < step <= size - place:
                raise FormatError(f"{self._where}: byte {begin + place}: {length} bytes do not fit a heap of {size}")
            place += step
