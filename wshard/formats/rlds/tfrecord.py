"""TFRecord files: framing and checksums, without TensorFlow, which takes 1.8 GB of disk."""

from __future__ import annotations

import os
import struct
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import crc32c

from wshard.container.open_file import map_file, open_descriptor
from wshard.errors import ChecksumError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_HEAD: Final = struct.Struct("<QI")  # length, and its checksum
_CRC: Final = struct.Struct("<I")
_SALT: Final = 0xA282EAD8
_MAX_ZEROS: Final = 1 << 18  # places that are tried to find the next record
_MAX_STARTS: Final = 16


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
        self._damage: dict[int, FormatError] = {}

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Where the data of each record are, up to a damaged length behind which no record is found."""
        found: list[tuple[int, int]] = []
        try:
            self._find(found)
        except FormatError as error:
            self._damage[len(found)] = error
        return found

    def _find(self, found: list[tuple[int, int]]) -> None:
        place, size = 0, len(self._data)
        while place < size:
            where = f"{self.where}: record {len(found)} at byte {place}"
            if size - place < _HEAD.size:
                raise FormatError(f"{where}: expected a length of {_HEAD.size} bytes, found {size - place} at the end")
            length, crc = _HEAD.unpack_from(self._data, place)
            if mask_crc(self._data[place : place + 8]) != crc:
                wrong = ChecksumError(f"{where}: the checksum of its length differs")
                next_place = self._find_next(place)
                if next_place is None:
                    raise wrong
                self._damage[len(found)] = wrong
                length = next_place - _CRC.size - place - _HEAD.size
            end = place + _HEAD.size + length
            if end + _CRC.size > size:
                raise FormatError(f"{where}: expected {length} bytes, found {size - place - _HEAD.size} to the end")
            found.append((place + _HEAD.size, end))
            place = end + _CRC.size

    def _find_next(self, place: int) -> int | None:
        """Return where the record after one of unknown length begins, if the checksum of the data between proves it."""
        start = place + _HEAD.size
        for end in islice(self._list_starts(start + _CRC.size), _MAX_STARTS):
            last = end - _CRC.size
            if mask_crc(self._data[start:last]) == _CRC.unpack_from(self._data, last)[0]:
                return end
        return None

    def _list_starts(self, place: int) -> Iterator[int]:
        """Yield the places from a byte on with the right checksum of a length below 4 GiB, and the end of the file."""
        data: Any = self._data
        zeros = place + 3
        for _ in range(_MAX_ZEROS):
            zeros = data.obj.find(bytes(4), zeros + 1)
            if zeros < 0:
                yield len(data)
                return
            head = data[zeros - 4 : zeros + 8]
            if head.nbytes == _HEAD.size and _CRC.unpack_from(head, 8)[0] == mask_crc(head[:8]):
                yield zeros - 4

    def read(self, number: int) -> memoryview:
        """Return the data of a record, mapped and not compared with its checksum; see check.

        Raises FormatError, ChecksumError for a record that is not there.
        """
        count = len(self.spans)
        wrong = self._damage.get(min(number, count))
        if wrong is not None:
            raise type(wrong)(str(wrong))
        if number >= count:
            raise FormatError(f"{self.where}: expected {number + 1} records or more, found {count}")
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
