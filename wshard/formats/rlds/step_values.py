"""Read values from the features of a record: numbers, texts and images of steps, and values of the episode."""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import CodecError, FormatError, LimitError
from wshard.formats.hdf5.values import json_value
from wshard.formats.rlds.example import BYTES, ExampleFeature
from wshard.formats.rlds.features import NUMBER, TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.types import Array
    from wshard.formats.rlds.features import TFDSFeature

FLAT: Final = "/ragged_flat_values"
ROWS: Final = "/ragged_row_lengths_0"
MORE_ROWS: Final = "/ragged_row_lengths_1"
_MAX_LISTED: Final = 256
_MAX_STEP_SIZE: Final = 1 << 30


def find_values(feature: TFDSFeature, record: Mapping[str, ExampleFeature]) -> ExampleFeature:
    """Return the values of a feature in a record; raises FormatError if there are none, or of another kind."""
    values = record.get(feature.path) or record.get(feature.path + FLAT)
    if values is None:
        raise FormatError(f"{feature.path}: the episode has none")
    needs_bytes = feature.kind != NUMBER or bool(feature.encoding)
    if (values.kind == BYTES) != needs_bytes:
        raise FormatError(f"{feature.path}: expected {'bytes' if needs_bytes else 'numbers'}, found the other")
    return values


def expect_items(values: ExampleFeature, length: int) -> list[memoryview]:
    """Return the bytes of each step; raises FormatError for another number of them."""
    if len(values.items) != length:
        raise FormatError(f"{values.where}: expected {length} items, one a step, found {len(values.items)}")
    return values.items


def texts_of(values: ExampleFeature, length: int) -> list[str]:
    """Return the text of each step."""
    return [str(item, "utf-8", "replace") for item in expect_items(values, length)]


def step_shape(feature: TFDSFeature, record: Mapping[str, ExampleFeature], length: int) -> tuple[int, ...]:
    """Return the shape of a step; raises FormatError if it varies."""
    unknown = [axis for axis, size in enumerate(feature.shape) if size is None]
    known_size = math.prod(size for size in feature.shape if size is not None)
    if not unknown:
        if known_size > _MAX_STEP_SIZE:
            raise LimitError(f"{feature.path}: expected at most {_MAX_STEP_SIZE} numbers a step, found {known_size}")
        return tuple(size for size in feature.shape if size is not None)
    if len(unknown) > 1 or feature.encoding or feature.path + MORE_ROWS in record:
        raise FormatError(f"{feature.path}: its shape is not stated")
    rows = record.get(feature.path + ROWS)
    sizes = set() if rows is None else set(rows.numbers().tolist())
    count = find_values(feature, record).count()
    if len(sizes) > 1 or not known_size or count % (length * known_size):
        raise FormatError(f"{feature.path}: its size differs from step to step")
    size = count // (length * known_size)
    if sizes - {size}:
        raise FormatError(f"{feature.path}: expected {size} rows a step, found {sizes}")
    return tuple(size if axis in unknown else stated or 0 for axis, stated in enumerate(feature.shape))


def read_numbers(
    values: ExampleFeature, feature: TFDSFeature, shape: tuple[int, ...], *, length: int, steps: slice
) -> Array:
    """Return numbers [n, *shape] of steps in the dtype of the feature, as a new array; raises FormatError."""
    dtype = np.dtype(feature.dtype)
    if feature.encoding:
        items = expect_items(values, length)[steps]
        size = math.prod(shape) * dtype.itemsize
        data = b"".join(_decode(item, feature.encoding, size, values.where) for item in items)
        tensors: Array = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype).reshape(-1, *shape)
        return tensors
    size = math.prod(shape)
    count = values.count()
    if count != length * size:
        raise FormatError(f"{values.where}: expected {length} x {size} numbers, found {count}")
    numbers = values.numbers(steps.start * size, steps.stop * size)
    return np.array(numbers.astype(dtype)).reshape(steps.stop - steps.start, *shape)


def _decode(item: memoryview, encoding: str, size: int, where: str) -> bytes:
    """Return the bytes of a tensor that is stored as bytes, at most `size` of them."""
    data = bytes(item)
    if encoding == "zlib":
        try:
            data = zlib.decompressobj().decompress(data, size + 1)
        except zlib.error as error:
            raise CodecError(f"{where}: zlib: {error}") from error
    elif encoding != "bytes":
        raise FormatError(f"{where}: expected tensors encoded as bytes or zlib, found {encoding!r}")
    if len(data) != size:
        raise FormatError(f"{where}: expected {size} bytes a step, found {len(data)}")
    return data


def values_of(feature: TFDSFeature, record: Mapping[str, ExampleFeature]) -> dict[str, Any]:
    """Return a feature of the whole episode as metadata: a text, a number, or a list of at most 256 of them."""
    values = record.get(feature.path)
    if values is None or feature.encoding or (values.kind == BYTES and feature.kind != TEXT):
        return {}
    if values.count() > _MAX_LISTED:
        return {}
    if feature.kind == TEXT:
        items: list[Any] = [str(item, "utf-8", "replace") for item in values.items]
    elif feature.kind == NUMBER:
        items = json_value(values.numbers().astype(feature.dtype))
    else:
        return {}
    return {feature.name: items[0] if not feature.shape and len(items) == 1 else items}
