"""Arrow arrays of numbers, and of lists of them, as numpy arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.plugins import import_library
from wshard.errors import FormatError

if TYPE_CHECKING:
    from wshard.core.types import Array


def to_array(column: Any, shape: tuple[int, ...], where: str) -> Array:
    """Return an Arrow array of numbers, or of lists of them of one length, as [n, *shape]."""
    rows = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    count, sizes = len(rows), shape
    while True:
        rows = getattr(rows, "storage", rows)
        if rows.null_count:
            raise FormatError(f"{where}: expected a value in every row, found none in {rows.null_count}")
        type_ = rows.type
        if not hasattr(type_, "value_type"):
            break
        size, sizes = (sizes[0] if sizes else -1), sizes[1:]
        # Not flatten(): it is a function of pyarrow.compute, whose import takes up to a tenth of a second.
        if hasattr(type_, "list_size"):
            lengths, first, last = np.full(1, type_.list_size), rows.offset * size, (rows.offset + len(rows)) * size
        else:
            offsets = plain_numbers(rows.offsets)
            lengths, first, last = np.diff(offsets), int(offsets[0]), int(offsets[-1])
        if (lengths != size).any():
            raise FormatError(
                f"{where}: expected {list(shape)} numbers in each row, found a list of {lengths[lengths != size][0]}"
            )
        rows = rows.values.slice(first, last - first)
    values = plain_numbers(rows)
    if values.size != count * math.prod(shape):
        raise FormatError(f"{where}: expected {list(shape)} numbers in each row, found {values.size} in {count}")
    return values.reshape(count, *shape)


def concat_arrays(parts: list[Any]) -> Any:
    """Return Arrow arrays as one."""
    return import_library("pyarrow", "parquet").concat_arrays(parts)


def plain_numbers(rows: Any) -> Array:
    """Return an Arrow array of numbers without nulls as [n]; to_numpy would import pandas, which takes 25 MB.

    Raises TypeError for other values.
    """
    if np.dtype(rows.type.to_pandas_dtype()).kind not in "biuf":
        raise TypeError(f"expected numbers, found {rows.type}")
    if rows.type == "bool":  # bits; a cast would import pyarrow.compute
        bits = np.frombuffer(rows.buffers()[1] or b"", np.uint8)
        flags: Array = np.unpackbits(bits, count=rows.offset + len(rows), bitorder="little")
        return flags[rows.offset :].view(np.bool_)
    numbers: Array = np.from_dlpack(rows)
    return numbers


def storage_type(type_: Any) -> Any:
    """Return the plain type below one of an extension."""
    return getattr(type_, "storage_type", type_)


def count_leaves(type_: Any) -> int:
    """Return the number of leaf columns that a type is stored in."""
    storage = storage_type(type_)
    if hasattr(storage, "value_type") and not hasattr(storage, "index_type"):
        return count_leaves(storage.value_type)
    if hasattr(storage, "key_type"):
        return count_leaves(storage.key_type) + count_leaves(storage.item_type)
    if storage.num_fields and hasattr(storage, "get_field_index"):
        return sum(count_leaves(storage.field(number).type) for number in range(storage.num_fields))
    return 1
