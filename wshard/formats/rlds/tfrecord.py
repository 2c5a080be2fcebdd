"""TFRecord files: framing and checksums, without TensorFlow, which takes 1.8 GB of disk."""

from __future__ import annotations

import os
import struct
from functools import cached_property
from typing import TYPE_CHECKING, Final

import crc32c

from wshard.container.open_file import map_file, open_descriptor
from wshard.errors import ChecksumError, FormatError

if TYPE_CHECKING:
    from typing import BinaryIO

_HEAD: Final = struct.Struct("<QI")  # length, and its checksum
_CRC: Final = struct.Struct("<I")
_SALT: Final = 0xA282EAD8


def mask_crc(data: bytes | memoryview) -> int:
    """Return the CRC32C of bytes as TFRecord stores it: turned by 15 bits, plus a constant."""
    crc = crc32c.crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _SALT) & 0xFFFFFFFF


class TFRecordFile:
    """An open TFRecord file: its records are found by their lengths, once, without reading them."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.where = os.fspath(path)
        descriptor, size = open_descriptor(path)
        try:
            self._data = map_file(descriptor, path) if size else memoryview(b"")
        finally:
            os.close(descriptor)
        self._damage: FormatError | None = None

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where the data of each record are, up to a damaged length: where the next record begins is unknown."""
        found: list[tuple[int, int]] = []
        try:
            self._find(found)
        except FormatError as error:
            self._damage = error
        return found

    def _find(self, found: list[tuple[int, int]]) -> None:
        place, size = 0, len(self._data)
        while place < size:
            where = f"{self.where}: record {len(found)} at byte {place}"
            if size - place < _HEAD.size:
                raise FormatError(f"{where}: expected a length of {_HEAD.size} bytes, found {size - place} at the end")
            length, crc = _HEAD.unpack_from(self._data, place)
            if mask_crc(self._data[place : place + 8]) != crc:
                raise ChecksumError(f"{where}: the checksum of its length differs")
            end = place + _HEAD.size + length
            if end + _CRC.size > size:
                raise FormatError(f"{where}: expected {length} bytes, found {size - place - _HEAD.size} to the end")
            found.append((place + _HEAD.size, end))
            place = end + _CRC.size

    def read(self, number: int) -> memoryview:
        """Return the data of a record, mapped and not compared with its checksum; see check.

        Raises FormatError, ChecksumError for a record that is not there.
        """
        if number >= len(self.spans):
            missing = FormatError(f"{self.where}: expected {number + 1} records or more, found {len(self.spans)}")
            raise missing if self._damage is None else type(self._damage)(str(self._damage))
        start, end = self.spans[number]
        return self._data[start:end]

    def check(self, number: int) -> None:
        """Raise ChecksumError where the data of a record differ from its checksum."""
        data = self.read(number)
        if mask_crc(data) != _CRC.unpack_from(self._data, self.spans[number][1])[0]:
            raise ChecksumError(f"{self.where}: record {number}: the checksum of its data differs")

    def close(self) -> None:
        """Release the file; data returned earlier stay valid."""
        self._data = memoryview(b"")


def write_record(file: BinaryIO, data: bytes) -> None:
    """Append a record."""
    length = struct.pack("<Q", len(data))
    file.write(length + _CRC.pack(mask_crc(length)))
    file.write(data)
    file.write(_CRC.pack(mask_crc(data)))
