"""Write a lane as .npy, CSV or JSON."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.types import Array


FIRST_BYTES: Final = {"npy": b"\x93NUMPY", "csv": b"t,", "json": b'{"lane": '}
"""First bytes of the files by format."""


def as_npy(array: Array) -> bytes:
    """Return the array as a .npy file; bfloat16, which .npy does not support, as float32."""
    file = io.BytesIO()
    np.save(file, _plain(array), allow_pickle=False)
    return file.getvalue()


def as_csv(array: Array, first: int, labels: Sequence[str] = ()) -> str:
    """Return one row per timestep: its number, then its values; headings are labels or indices ("1.2" is [1, 2])."""
    indices = itertools.product(*map(range, array.shape[1:]))
    heading = labels or [".".join(map(str, index)) or "value" for index in indices]
    rows = _plain(array).reshape(len(array), len(heading))
    numbers = rows.astype(np.uint8) if rows.dtype == np.bool_ else rows
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["t", *heading])
    writer.writerows([first + step, *map(str, row)] for step, row in enumerate(numbers))
    return text.getvalue()


def as_json(array: Array, metadata: dict[str, Any]) -> str:
    """Return an object with metadata and values of the lane; numbers that JSON lacks are texts ("NaN")."""
    value = {**metadata, "shape": list(array.shape), "values": _values(_plain(array))}
    return json.dumps(value, allow_nan=False) + "\n"


def _plain(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype.kind not in "fiub" else array


def _values(array: Array) -> Any:
    if array.ndim:
        return [_values(row) for row in array]
    value = array.item()
    if array.dtype.kind != "f":
        return value
    if math.isnan(value):
        return "NaN"
    return float(str(array[()])) if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"
