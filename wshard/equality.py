"""When two values that hold arrays are equal: dataclasses compare their fields, arrays their shapes and values.

Does not know: episodes; which bits a NaN has (testing.assert_same_episode compares bit for bit).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar

import numpy as np


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
