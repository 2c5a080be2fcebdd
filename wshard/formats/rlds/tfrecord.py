"""TFRecord files: framing and checksums, without TensorFlow, which takes 1.8 GB of disk."""

from __future__ import annotations

import struct
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import crc32c

from wshard.errors import ChecksumError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from wshard.core.files.place import Place

_HEAD: Final = struct.Struct("<QI")  # length, and its checksum
_CRC: Final = struct.Struct("<I")
_MASK_DELTA: Final = 0xA282EAD8
_MAX_POSITIONS_TRIED: Final = 1 << 18  # positions that are tried to find the next record
_MAX_CANDIDATES: Final = 16


def mask_crc(data: bytes | memoryview) -> int:
    """Return the CRC32C of bytes as TFRecord stores it: turned by 15 bits, plus a constant."""
    crc = crc32c.crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


class TFRecordFile:
    """An open TFRecord file: its records are found by their lengths, once, without reading them."""

    def __init__(self, place: Place) -> None:
        self.where = str(place)
        self._data = place.whole()
        self._damage: dict[int, FormatError] = {}

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """(start, end) of the data of each record, up to a damaged length after which no record is found."""
        collected: list[tuple[int, int]] = []
        try:
            self._collect_spans(collected)
        except FormatError as error:
            self._damage[len(collected)] = error
        return collected

    def _collect_spans(self, spans: list[tuple[int, int]]) -> None:
        position, size = 0, len(self._data)
        while position < size:
            where = f"{self.where}: record {len(spans)} at byte {position}"
            if size - position < _HEAD.size:
                raise FormatError(
                    f"{where}: expected a length of {_HEAD.size} bytes, found {size - position} at the end"
                )
            length, crc = _HEAD.unpack_from(self._data, position)
            if mask_crc(self._data[position : position + 8]) != crc:
                error = ChecksumError(f"{where}: the checksum of its length differs")
                next_start = self._find_next(position)
                if next_start is None:
                    raise error
                self._damage[len(spans)] = error
                length = next_start - _CRC.size - position - _HEAD.size
            end = position + _HEAD.size + length
            if end + _CRC.size > size:
                raise FormatError(f"{where}: expected {length} bytes, found {size - position - _HEAD.size} to the end")
            spans.append((position + _HEAD.size, end))
            position = end + _CRC.size

    def _find_next(self, position: int) -> int | None:
        """Return the start of the record after one of unknown length, if the checksum of the data between proves it."""
        start = position + _HEAD.size
        for end in islice(self._candidate_starts(start + _CRC.size), _MAX_CANDIDATES):
            last = end - _CRC.size
            if mask_crc(self._data[start:last]) == _CRC.unpack_from(self._data, last)[0]:
                return end
        return None

    def _candidate_starts(self, position: int) -> Iterator[int]:
        """Yield positions from a byte on at which a length below 4 GiB has the right checksum, then the file's end."""
        data: Any = self._data
        zeros = position + 3
        for _ in range(_MAX_POSITIONS_TRIED):
            zeros = data.obj.find(bytes(4), zeros + 1)
            if zeros < 0:
                yield len(data)
                return
            head = data[zeros - 4 : zeros + 8]
            if head.nbytes == _HEAD.size and _CRC.unpack_from(head, 8)[0] == mask_crc(head[:8]):
                yield zeros - 4

    def read(self, number: int) -> memoryview:
        """Return the data of a record, memory-mapped, without verifying its checksum; see check.

        Raises FormatError, ChecksumError for a missing record.
        """
        count = len(self.spans)
        damage = self._damage.get(min(number, count))
        if damage is not None:
            raise type(damage)(str(damage))
        if number >= count:
            raise FormatError(f"{self.where}: expected {number + 1} records or more, found {count}")
        start, end = self.spans[number]
        return self._data[start:end]

    def check(self, number: int) -> None:
        """Raise ChecksumError if the data of a record do not match its checksum."""
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
