"""Messages of ROS 1 and ROS 2 (CDR) into plain values by their definition.

The library for ROS 1 writes Python code out of the text in the file and imports it, and that for ROS 2 reads arrays
number by number without their dtypes, so these 100 lines do it; tests compare them with both.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from wshard.errors import FormatError
from wshard.formats.topics.ros_definition import HEADER, STAMPS, TEXTS, read_definitions
from wshard.formats.topics.values import Stamp

if TYPE_CHECKING:
    from wshard.formats.topics.ros_definition import Definitions, RosField

_FREE_ITEMS: Final = 1024
_MAX_PADDING: Final = 7


class RosMessages:
    """Decodes the messages of one type: ROS 1 where `ros1`, else CDR."""

    def __init__(self, type_name: str, text: str, *, ros1: bool) -> None:
        self._root, self._types = read_definitions(type_name, text, ros1=ros1)
        self._ros1 = ros1

    def decode(self, data: bytes) -> dict[str, Any]:
        """Return the values by the names of the fields; raises FormatError for other bytes than the type has."""
        reader = _PlainReader(data, self._types) if self._ros1 else _CdrReader(data, self._types)
        try:
            message = reader.read_struct(self._root)
        except (struct.error, IndexError, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"expected a message of type {self._root}, found {len(data)} bytes: {error}") from error
        left = len(data) - reader.offset
        if not 0 <= left <= (0 if self._ros1 else _MAX_PADDING):
            raise FormatError(f"expected a message of type {self._root}, found {left} more bytes than it has")
        return message


class _PlainReader:
    """ROS 1: little-endian, packed, lengths in front."""

    order: Literal["<", ">"] = "<"
    needs_member = False

    def __init__(self, data: bytes, types: Definitions) -> None:
        self.data = data
        self.offset = 0
        self._types = types
        self._items = len(data) + _FREE_ITEMS  # no message has more structs than that

    def read_struct(self, name: str) -> dict[str, Any]:
        self._items -= 1
        if self._items < 0:
            raise FormatError(f"expected at most one struct per byte, found more of {name!r}")
        fields = self._types[name]
        if not fields and self.needs_member:
            self.offset += 1
        values = {field.name: self._read_field(field) for field in fields}
        if name == HEADER:
            values.pop("seq", None)  # of ROS 1: it counts the messages of the writer
        return values

    def _read_field(self, field: RosField) -> Any:
        if not field.is_list:
            if field.dtype is not None:
                return self._numbers(field.dtype, 1)[0]
            return self._read_one(field.type)
        count = field.size or self._length()
        if field.dtype is not None:
            return self._numbers(field.dtype, count)
        if count > self._items:
            raise FormatError(f"expected {field.name!r} within the message, found {count} items")
        return [self._read_one(field.type) for _ in range(count)]

    def _read_one(self, kind: str) -> Any:
        if kind in TEXTS:
            return self._text(kind)
        if kind in STAMPS:
            seconds = int(self._numbers(np.dtype("u4" if kind == "time" else "i4"), 1)[0])
            part = int(self._numbers(np.dtype("i4" if kind == "duration" else "u4"), 1)[0])
            return Stamp.of_seconds(seconds, part)
        return self.read_struct(kind)

    def _numbers(self, dtype: np.dtype[Any], count: int) -> Any:
        if not count:
            return np.zeros(0, dtype)
        self._align(dtype.itemsize)
        values = np.frombuffer(self.data, dtype.newbyteorder(self.order), count, self.offset)
        self.offset += values.nbytes
        return values.view(np.uint8) != 0 if dtype.kind == "b" else values

    def _length(self) -> int:
        return int(self._numbers(np.dtype("u4"), 1)[0])

    def _text(self, kind: str) -> str:
        return self._bytes(self._length()).decode(errors="replace")

    def _bytes(self, size: int) -> bytes:
        found = self.data[self.offset : self.offset + size]
        if len(found) < size:
            raise FormatError(f"expected {size} bytes of text, found {len(found)}")
        self.offset += size
        return found

    def _align(self, size: int) -> None:
        """Do nothing: values follow one another."""


class _CdrReader(_PlainReader):
    """ROS 2: behind an encapsulation header, aligned to their size."""

    needs_member = True

    def __init__(self, data: bytes, types: Definitions) -> None:
        super().__init__(data, types)
        if len(data) < 4 or data[0] or data[1] > 1:
            raise FormatError(f"expected a message in plain CDR, found one that begins with {data[:4]!r}")
        self.order = "<" if data[1] else ">"
        self.offset = 4

    def _align(self, size: int) -> None:
        self.offset += -(self.offset - 4) % size

    def _text(self, kind: str) -> str:
        if kind != "string":
            raise FormatError("expected texts of 8-bit characters, found a wstring")
        return self._bytes(self._length()).rstrip(b"\0").decode(errors="replace")
