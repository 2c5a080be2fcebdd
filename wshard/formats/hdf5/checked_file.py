"""A file object for the HDF5 library that refuses files on which the library would loop forever.

The library's reader of global heaps (texts and lists of variable length) never ends at an object of size 0 (HDF5
2.0.0), so the objects of a heap are checked here when it is read. It allocates as much memory as a list claims to need,
so `check_lists` compares the lengths with the size of the file; and all that a compressed chunk expands to, so large
ones are expanded piece by piece first.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

import numpy as np

from wshard.core.files.byte_source import open_source
from wshard.errors import FormatError
from wshard.formats.hdf5.attribute_lists import find_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.core.files.place import Place

LIST_SIZE: Final = 16
"""Bytes of a list in a dataset: its length and its address."""

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
    """Return the open file to which h5py gave this name, None for a file that the library reads itself."""
    return _OPEN.get(name)


class CheckedFile(io.RawIOBase):
    """A read-only file; raises FormatError for a damaged heap."""

    def __init__(self, place: Place, where: str) -> None:
        self._source = open_source(place)
        self._size, self._where, self._position = self._source.size, where, 0
        self._checked: set[tuple[int, int]] = set()
        self.largest_chunk = 0  # decompressed bytes of the largest chunk of all compressed datasets in use
        _OPEN[repr(self).encode("ascii", "replace")] = self

    def close(self) -> None:
        """Close the file."""
        vars(self).pop("_source", None)
        super().close()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, absolute or relative to the current one or the end."""
        self._position = offset + {io.SEEK_CUR: self._position, io.SEEK_END: self._size}.get(whence, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, or less at the end of the file."""
        start = self._position
        self._position += self._source.read_into(buffer, start)
        if bytes(buffer[: len(_HEAP)]) == _HEAP:
            self._check_heap(start)
        elif self.largest_chunk and len(buffer) * _MAX_EXPANSION > _MAX_EXPANDED:
            self._check_chunk(buffer, start)
        return self._position - start

    def _check_chunk(self, data: Any, start: int) -> None:
        """Raise FormatError for compressed data that expand to more than a chunk."""
        inflate, size, rest = zlib.decompressobj(), 0, bytes(data)
        try:
            while rest and not inflate.eof and size <= self.largest_chunk:
                size += len(inflate.decompress(rest, _READ_AT_ONCE))
                rest = inflate.unconsumed_tail
        except zlib.error:
            return  # not deflated, or damaged, which the library reports
        if size > self.largest_chunk:
            raise FormatError(
                f"{self._where}: byte {start}: {len(data)} bytes expand to more than a chunk of {self.largest_chunk}"
            )

    def check_chunk_of_lists(self, chunk: Any, expand: Callable[[], bytes], where: str) -> None:
        """Raise FormatError if a list in a compressed chunk claims to be longer than the file."""
        if (chunk.byte_offset, chunk.size) not in self._checked:
            if chunk.size > self._size:
                raise FormatError(f"{where}: {chunk.size} bytes do not fit a file of {self._size}")
            self._check_lengths(expand(), where)
            self._checked.add((chunk.byte_offset, chunk.size))

    def check_lists(self, start: int, size: int, where: str) -> None:
        """Raise FormatError if one of the lists stored at an offset claims to be longer than the file."""
        if (start, size) in self._checked:
            return
        if size > self._size - start:
            raise FormatError(f"{where}: byte {start}: {size} bytes do not fit a file of {self._size}")
        for offset in range(start, start + size, _READ_AT_ONCE):
            self._check_lengths(self._read_at(offset, min(_READ_AT_ONCE, start + size - offset)), where)
        self._checked.add((start, size))

    def check_attribute(self, base: int, header: int, name: bytes, count: int, where: str) -> bool:
        """Raise FormatError if one of the `count` texts in an attribute claims to be longer than the file.

        header: the address of the object that has it; base: the offset of address 0. Returns False if it is not found.
        """
        attribute_values = find_values(
            lambda offset, size: self._read_at(base + offset, size), header, name, count * LIST_SIZE
        )
        for rows in attribute_values:
            self._check_lengths(rows, where)
        return bool(attribute_values)

    def _read_at(self, offset: int, size: int) -> bytes:
        data = bytearray(max(min(size, self._size - offset), 0))
        return bytes(data[: self._source.read_into(data, offset)])

    def _check_lengths(self, rows: bytes, where: str) -> None:
        lengths = np.frombuffer(rows, "<u4", len(rows) // LIST_SIZE * 4)[::4]
        if (longest := int(lengths.max(initial=0))) > self._size:
            raise FormatError(f"{where}: expected lists that fit a file of {self._size} bytes, found {longest}")

    def _check_heap(self, start: int) -> None:
        (size,) = _HEAP_SIZE.unpack(self._read_at(start, _HEAP_SIZE.size).ljust(_HEAP_SIZE.size, b"\0"))
        if size > min(_MAX_HEAP_SIZE, self._size - start):
            raise FormatError(f"{self._where}: byte {start}: a heap of {size} bytes does not fit the file")
        data, position = self._read_at(start, size), _HEAP_SIZE.size
        while position + _HEAP_OBJECT.size <= size:
            number, _, _, length = _HEAP_OBJECT.unpack_from(data, position)
            step = length if number == 0 else _HEAP_OBJECT.size + (length + 7) // 8 * 8
            if not 0 < step <= size - position:
                raise FormatError(f"{self._where}: byte {start + position}: {length} bytes do not fit a heap of {size}")
            position += step
