"""Read and write the message tf.train.Example: its five small message types, without a protobuf compiler.

Values are read lazily, so that a description of an episode reads no frame.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

BYTES, FLOATS, INTS = 1, 2, 3
"""Kinds of features, by their field numbers."""

_VARINT, _FIXED64, _LENGTH_DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types
_MAX_VARINT: Final = 10
_MAX_FEATURES: Final = 1 << 14
_MAX_ITEMS: Final = 1 << 20


@dataclass(frozen=True)
class ExampleFeature:
    """A feature of an Example: its kind, and the bytes of its list."""

    kind: int
    data: memoryview
    where: str

    @cached_property
    def items(self) -> list[memoryview]:
        """The items of a list of bytes."""
        views = []
        for number, value in _fields(self.data, self.where):
            if number == 1:
                views.append(_expect_bytes(value, self.where))
            if len(views) > _MAX_ITEMS:
                raise LimitError(f"{self.where}: expected at most {_MAX_ITEMS} items, found more")
        return views

    def count(self) -> int:
        """Return the number of values; for bytes, of items."""
        if self.kind == BYTES:
            return len(self.items)
        if self.kind == FLOATS:
            return sum(len(part) for part in self._packed) // 4
        return int(sum(np.count_nonzero(np.frombuffer(part, np.uint8) < 128) for part in self._packed))

    def numbers(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return values [start, stop) as float32 or int64."""
        parts = [self._decode(part) for part in self._packed]
        values = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
        return values[start:stop]

    def _decode(self, part: memoryview) -> NDArray[Any]:
        if self.kind == FLOATS:
            if len(part) % 4:
                raise FormatError(f"{self.where}: expected floats of 4 bytes, found {len(part)} bytes")
            return np.frombuffer(part, "<f4")
        return _decode_varints(part, self.where)

    @cached_property
    def _packed(self) -> list[memoryview]:
        """The runs of packed numbers; numbers that are not packed form one run at the end."""
        runs: list[memoryview] = []
        unpacked = bytearray()
        for number, value in _fields(self.data, self.where):
            if number != 1:
                continue
            if isinstance(value, memoryview):
                runs.append(value)
            else:
                unpacked += struct.pack("<I", value & 0xFFFFFFFF) if self.kind == FLOATS else encode_varint(value)
        return [*runs, memoryview(bytes(unpacked))] if unpacked else runs


def parse_example(data: memoryview, where: str) -> dict[str, ExampleFeature]:
    """Return the features by name; their values are not read. Raises FormatError."""
    features_by_name: dict[str, ExampleFeature] = {}
    for number, features in _fields(data, where):
        if number != 1:
            continue
        for inner, entry in _fields(_expect_bytes(features, where), where):
            if inner != 1:
                continue
            parts = {key: _expect_bytes(value, where) for key, value in _fields(_expect_bytes(entry, where), where)}
            name = _name(parts.get(1, memoryview(b"")), where)
            if len(features_by_name) >= _MAX_FEATURES:
                raise FormatError(f"{where}: expected at most {_MAX_FEATURES} features, found more")
            for kind, values in _fields(parts.get(2, memoryview(b"")), where):
                features_by_name[name] = ExampleFeature(kind, _expect_bytes(values, where), f"{where}: {name}")
    return features_by_name


def _name(data: memoryview, where: str) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{where}: expected names of features in UTF-8: {error}") from error


def _expect_bytes(value: int | memoryview, where: str) -> memoryview:
    if not isinstance(value, memoryview):
        raise FormatError(f"{where}: expected bytes in a tf.train.Example, found a number")
    return value


def _fields(data: memoryview, where: str) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field of a protobuf message; raises FormatError."""
    position, size = 0, len(data)
    while position < size:
        tag, position = _varint(data, position, where)
        wire = tag & 7
        if wire == _VARINT:
            value, position = _varint(data, position, where)
            yield tag >> 3, value
            continue
        length, position = (
            _varint(data, position, where)
            if wire == _LENGTH_DELIMITED
            else ({_FIXED64: 8, _FIXED32: 4}.get(wire, -1), position)
        )
        if length < 0 or length > size - position:
            raise FormatError(
                f"{where}: expected a tf.train.Example, found a field of {length} bytes at byte {position}"
            )
        part = data[position : position + length]
        position += length
        yield tag >> 3, part if wire == _LENGTH_DELIMITED else int.from_bytes(part, "little")


def _varint(data: memoryview, position: int, where: str) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 127) << (7 * shift)
        if byte < 128:
            return value, position
    raise FormatError(f"{where}: expected a tf.train.Example, found a number without end at byte {position}")


def _decode_varints(data: memoryview, where: str) -> NDArray[np.int64]:
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 128)
    starts = np.concatenate([[0], ends + 1])
    if starts[-1] != len(raw):
        raise FormatError(f"{where}: expected whole numbers, found one without end")
    starts, sizes = starts[:-1], np.diff(starts)
    if sizes.max(initial=0) > _MAX_VARINT:
        raise FormatError(f"{where}: expected numbers of at most {_MAX_VARINT} bytes")
    values = np.zeros(len(starts), np.uint64)
    for part in range(int(sizes.max(initial=0))):
        longer = sizes > part
        bits = (raw[starts[longer] + part] & 127).astype(np.uint64)
        values[longer] |= bits << np.uint64(7 * part)
    return values.view(np.int64)


# ---- writing -------------------------------------------------------------------------------------------------------


def encode_example(features: Mapping[str, Sequence[bytes] | NDArray[Any]]) -> bytes:
    """Return an Example with features of bytes, float32 or int64, in the order of their names."""
    entries = []
    for name, values in sorted(features.items()):
        if isinstance(values, np.ndarray):
            is_float = values.dtype.kind == "f"
            kind = FLOATS if is_float else INTS
            packed = values.astype("<f4").tobytes() if is_float else _encode_varints(values.astype(np.int64))
            inner = _encode_field(1, packed)
        else:
            kind, inner = BYTES, b"".join(_encode_field(1, value) for value in values)
        entries.append(_encode_field(1, _encode_field(1, name.encode()) + _encode_field(2, _encode_field(kind, inner))))
    return _encode_field(1, b"".join(entries))


def _encode_field(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | _LENGTH_DELIMITED) + encode_varint(len(data)) + data


def encode_varint(value: int) -> bytes:
    """Return a number of up to 64 bits as a protobuf varint."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def _encode_varints(values: NDArray[np.int64]) -> bytes:
    remaining = values.ravel().view(np.uint64)
    table = np.zeros((len(remaining), _MAX_VARINT), np.uint8)
    shifts = np.arange(_MAX_VARINT, dtype=np.uint64) * np.uint64(7)
    table[:] = (remaining[:, None] >> shifts) & np.uint64(127)
    sizes = np.maximum(_MAX_VARINT - np.argmax(table[:, ::-1] != 0, axis=1), 1)
    sizes[remaining == 0] = 1
    column = np.arange(_MAX_VARINT)
    table[column < sizes[:, None] - 1] |= 128
    packed: bytes = table[column < sizes[:, None]].tobytes()
    return packed
