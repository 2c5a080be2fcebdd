"""When two values that hold arrays are equal: dataclasses compare their fields, arrays their shapes and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import NDArray

from wshard.arguments import array_of


class EqualByValue:
    """A base of dataclasses with eq=False: equal where all compared fields are, which may hold arrays and NaN."""

    __hash__: ClassVar[None]  # type: ignore[assignment]  # they can be changed

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
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
    """One value per timestep, [T]: an array whose `.data` is the plain array, as that of a Channel is.

    Parts of it are of its kind; what is calculated from it are plain arrays and numbers.
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


class StepField:
    """A field of an Episode that takes every form StepArray.of does, and None; it gives StepArrays."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    @overload
    def __get__(self, episode: None, owner: type) -> None: ...
    @overload
    def __get__(self, episode: object, owner: type) -> StepArray | None: ...
    def __get__(self, episode: object | None, owner: type) -> StepArray | None:
        found: StepArray | None = None if episode is None else getattr(episode, self._name)
        return found

    def __set__(self, episode: object, values: Any) -> None:
        setattr(episode, self._name, None if values is None else StepArray.of(values))


class PackedBits(np.ndarray[Any, np.dtype[Any]]):
    """uint8 [n]: equal to bytes of the same values as bytes are; with anything else it compares as arrays do."""

    __hash__ = None  # as of all arrays

    @staticmethod
    def of(given: Any) -> PackedBits:
        """Return an array, or the values of anything bytes-like, without copying."""
        return (given if isinstance(given, np.ndarray) else np.frombuffer(given, np.uint8)).view(PackedBits)

    def __eq__(self, other: object) -> Any:
        return self.tobytes() == other if isinstance(other, (bytes, bytearray, memoryview)) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.tobytes() != other if isinstance(other, (bytes, bytearray, memoryview)) else super().__ne__(other)
