"""When two values that hold arrays are equal: dataclasses compare their fields, arrays their shapes and values."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wshard.core.arguments import array_of
from wshard.core.converted_field import ConvertedField
from wshard.errors import EpisodeError, LaneError


class EqualByValue:
    """A base of dataclasses with eq=False: equal where all compared fields are, which may hold arrays and NaN."""

    __hash__: ClassVar[None]  # type: ignore[assignment]  # they can be changed

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._equals(other)

    def _equals(self, other: Self) -> bool:
        names = (field.name for field in fields(self) if field.compare)  # type: ignore[arg-type]  # of a subclass
        return all(are_equal(getattr(self, name), getattr(other, name)) for name in names)


def are_equal(left: Any, right: Any) -> bool:
    """Return True for equal values: arrays where shapes and values are, whatever their dtypes; NaN equals NaN there."""
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        one, other = np.asarray(left), np.asarray(right)
        with np.errstate(invalid="ignore"):  # a NaN of bf16 that signals is a NaN
            return np.array_equal(one, other, equal_nan=_is_numeric(one) and _is_numeric(other))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(are_equal(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and type(left) is type(right):
        return len(left) == len(right) and all(map(are_equal, left, right))
    try:
        return bool(left == right)
    except (ValueError, RuntimeError):  # values of other libraries that hold several
        return left is right


def _is_numeric(array: np.ndarray[Any, Any]) -> bool:
    return array.dtype.kind in "biufc" or array.dtype.name == "bfloat16"


Array = NDArray[Any]


class StepArray(np.ndarray[Any, np.dtype[Any]]):
    """One value per timestep, [T]: an array whose `.data` is the plain array, like that of a Channel.

    Slices keep the type; computed results are plain arrays and numbers.
    """

    @staticmethod
    def of(values: Any) -> StepArray:
        """Return the values of an array, a sequence, or anything that holds them in `.data`; arrays are not copied.

        Raises EpisodeError for masked elements.
        """
        array = values if isinstance(values, np.ndarray) else getattr(values, "data", values)
        return array_of(array, "one value per timestep").view(StepArray)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:  # noqa: FBT001, FBT002  (numpy's protocol)
        """Give the results of arithmetic as plain arrays and numbers."""
        if array is self:  # calculated in place
            return self
        plain = np.asarray(array)
        return plain[()] if return_scalar else plain

    @property
    def data(self) -> Array:  # type: ignore[override]  # numpy's own is a memoryview, which has no arithmetic
        """The values as a plain array."""
        return np.asarray(self)

    @property
    def length(self) -> int:
        """T, the number of timesteps."""
        return self.shape[0] if self.ndim else 0


def as_steps(values: Any, _: object = None) -> StepArray | None:
    """Return one value per timestep, in any form that StepArray.of takes; None for None."""
    return None if values is None else StepArray.of(values)


StepField = ConvertedField[Any, StepArray | None]
"""The type of a field of an Episode that takes every form StepArray.of does, and None; it gives StepArrays."""


def as_times(values: Any, _: object = None) -> Array | None:
    """Return one time per timestep, given as an array or a sequence; None for None. Raises as array_of does."""
    return None if values is None else array_of(values, "one time per timestep")


TimeField = ConvertedField[Any, Array | None]
"""The type of a field of an Episode that takes what as_times does."""


class PackedBits(np.ndarray[Any, np.dtype[Any]]):
    """uint8 [n]: equal to bytes of the same values as bytes are; with anything else it compares as arrays do."""

    __hash__ = None  # like all arrays

    @staticmethod
    def of(given: Any, _: object = None) -> PackedBits:
        """Return an array, or the values of anything bytes-like, without copying."""
        return (given if isinstance(given, np.ndarray) else np.frombuffer(given, np.uint8)).view(PackedBits)

    def __eq__(self, other: object) -> Any:
        return self.tobytes() == other if isinstance(other, (bytes, bytearray, memoryview)) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.tobytes() != other if isinstance(other, (bytes, bytearray, memoryview)) else super().__ne__(other)


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
        """The little-endian numpy dtype; bf16 is ml_dtypes.bfloat16 if that package is installed, else uint16."""
        return _bfloat16() if self is DType.BFLOAT16 else _NUMPY_DTYPES[self]

    @property
    def size(self) -> int:
        """Bytes per element."""
        return _SIZES[self]

    def joined(self, other: DType) -> DType | None:
        """Return the type of lanes of both: the same one, or a float that holds the floats of both; None for others."""
        if other is self:
            return self
        numbers = {self, other}
        if not numbers <= _FLOATS or np.dtype("<u2") in {kind.numpy_dtype for kind in numbers}:  # bits of bf16
            return None
        return DType.FLOAT64 if DType.FLOAT64 in numbers else DType.FLOAT32

    @staticmethod
    def from_numpy(dtype: Any) -> DType:
        """Return the DType of a numpy dtype; raises EpisodeError for others, such as complex, datetime or object."""
        return _of_numpy(np.dtype(dtype))

    @staticmethod
    def parse(name: object, where: str = "dtype", block: str = "") -> DType:
        """Parse a short ("f32") or long ("float32") name, or a numpy dtype; raises LaneError with the block."""
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


DTypeField = ConvertedField[DType | str | np.dtype[Any] | type[np.generic], DType]
"""The type of a field that takes what DType.parse does."""


@lru_cache(maxsize=64)  # numpy takes longer for the name of a dtype than for its hash
def _of_numpy(dtype: np.dtype[Any]) -> DType:
    name = dtype.newbyteorder("=").name
    if name == "bfloat16":
        return DType.BFLOAT16
    try:
        return DType(_SHORT_NAMES[name])
    except KeyError:
        raise EpisodeError(f"dtype: expected one of {', '.join(_SHORT_NAMES)}, found {name}") from None


_FLOATS = {DType.FLOAT64, DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16}
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


def widen_bfloat16(data: NDArray[Any]) -> NDArray[np.float32]:
    """Return values of bf16, which numpy may only know as their bits, as float32."""
    bits = np.ascontiguousarray(data).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)


def check_declared(
    block: str, expected: tuple[int, ...], found: tuple[int, ...], *, declared: DType, dtype: np.dtype[Any]
) -> None:
    """Raise EpisodeError unless data of shape `found` and `dtype` are what a lane [T, *shape] declares."""
    if found[:1] != expected[:1]:
        raise EpisodeError(f"{block}: length mismatch: expected {expected[0]} timesteps, found shape {list(found)}")
    if found[1:] != expected[1:]:
        raise EpisodeError(f"{block}: Shape mismatch: declared {list(expected[1:])} per step, found {list(found[1:])}")
    raw_bits = declared is DType.BFLOAT16 and dtype == np.uint16
    if not raw_bits and DType.from_numpy(dtype) is not declared:
        raise EpisodeError(f"{block}: declared {declared.value}, but the data are {dtype}: convert them first")


@dataclass(eq=False)
class Residual(EqualByValue):
    """Packed residual bits of a channel, e.g. type "sign2nddiff"; data is uint8 [n] as stored, or bytes."""

    channel_id: str
    type: str
    data: ConvertedField[NDArray[Any] | bytes | bytearray | memoryview, PackedBits] = ConvertedField(PackedBits.of)
    scales: NDArray[Any] | None = None
    mask: NDArray[Any] | None = None
