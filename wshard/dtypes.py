"""The element types of lanes, and their numpy dtypes."""

from __future__ import annotations

import reprlib
from enum import StrEnum
from typing import Any

import numpy as np

from wshard.errors import EpisodeError, LaneError


class DType(StrEnum):
    """The 13 element types of lanes; values are the short names in the files."""

    FLOAT64 = "f64"
    FLOAT32 = "f32"
    FLOAT16 = "f16"
    BFLOAT16 = "bf16"
    INT64 = "i64"
    INT32 = "i32"
    INT16 = "i16"
    INT8 = "i8"
    UINT64 = "u64"
    UINT32 = "u32"
    UINT16 = "u16"
    UINT8 = "u8"
    BOOL = "bool"

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The little-endian numpy dtype; bf16 is ml_dtypes.bfloat16 if that package is there, else uint16."""
        return _bfloat16() if self is DType.BFLOAT16 else _NUMPY_DTYPES[self]

    @property
    def size(self) -> int:
        """Bytes per element."""
        return _SIZES[self]

    @staticmethod
    def from_numpy(dtype: Any) -> DType:
        """Return the DType of a numpy dtype; raises EpisodeError for complex, datetime, object and the like."""
        plain = np.dtype(dtype).newbyteorder("=")
        if plain.name == "bfloat16":
            return DType.BFLOAT16
        try:
            return DType(_SHORT_NAMES[plain.name])
        except KeyError:
            raise EpisodeError(f"dtype: expected one of {', '.join(_SHORT_NAMES)}, found {plain.name}") from None

    @staticmethod
    def parse(name: object, where: str = "dtype", block: str = "") -> DType:
        """Read a short ("f32") or long ("float32") name, or a numpy dtype; raises LaneError, naming where and block."""
        if isinstance(name, np.dtype):
            name = name.name  # without its byte order: values are converted
        elif isinstance(name, type) and issubclass(name, np.generic):
            name = name.__name__.removesuffix("_")  # numpy 1 has bool_
        kind = _NAMED.get(str(name))
        if kind is None:
            known = ", ".join(kind.value for kind in DType)
            where = f"{where}: {block}: dtype" if block else where
            raise LaneError(f"{where}: expected one of {known}, found {reprlib.repr(name)}")
        return kind


_NUMPY_CODES = {
    DType.FLOAT64: "<f8",
    DType.FLOAT32: "<f4",
    DType.FLOAT16: "<f2",
    DType.INT64: "<i8",
    DType.INT32: "<i4",
    DType.INT16: "<i2",
    DType.INT8: "i1",
    DType.UINT64: "<u8",
    DType.UINT32: "<u4",
    DType.UINT16: "<u2",
    DType.UINT8: "u1",
    DType.BOOL: "?",
}


_NUMPY_DTYPES = {kind: np.dtype(code) for kind, code in _NUMPY_CODES.items()}


_SIZES = {kind: int(dtype.itemsize) for kind, dtype in _NUMPY_DTYPES.items()} | {DType.BFLOAT16: 2}


_SHORT_NAMES = {dtype.name: kind.value for kind, dtype in _NUMPY_DTYPES.items()} | {"bfloat16": "bf16"}


_NAMED = {kind.value: kind for kind in DType} | {long: DType(short) for long, short in _SHORT_NAMES.items()}


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes  # noqa: PLC0415  (an optional dependency, needed for this one dtype only)
    except ImportError:
        return np.dtype("<u2")
    brain_float: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return brain_float
