"""Validate arrays: real, finite, and within the range of float32."""

from __future__ import annotations

from math import isfinite
from numbers import Real
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wshard.core.episode.lanes import MAX_GAPS
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

Rows: TypeAlias = NDArray[np.float64]
"""float64 [timesteps, channels]."""

LARGEST: Final = float(np.finfo(np.float32).max)
"""Largest accepted magnitude: vectors are float32, and sums of squares of such numbers cannot overflow float64."""


def is_real(dtype: DTypeLike) -> bool:
    """Return whether values of `dtype` are real numbers: booleans, integers and floats of any width."""
    return np.can_cast(dtype, np.float64, "same_kind")


def first_bad(rows: NDArray[Any]) -> tuple[int, int] | None:
    """Return (row, column) of the first value of `rows` [R, D] that is NaN, infinite or above LARGEST, else None."""
    if rows.size == 0 or (float(rows.max()) <= LARGEST and float(rows.min()) >= -LARGEST):
        return None  # a NaN anywhere makes both extremes NaN, and no comparison with NaN holds
    row, column = np.argwhere(~(np.abs(rows.astype(np.float64)) <= LARGEST))[0]  # LARGEST would overflow in float16
    return int(row), int(column)


def bridge_gaps(rows: NDArray[Any]) -> Rows | None:
    """Return `rows` [T, D] with values that first_bad would refuse interpolated between those before and after them.

    At either end the nearest value continues. None if more than MAX_GAPS of all values are such, or half of a column.
    """
    bad = ~(np.abs(rows.astype(np.float64)) <= LARGEST)
    counts = np.count_nonzero(bad, axis=0)
    if counts.sum() > MAX_GAPS * bad.size or 2 * counts.max(initial=0) > len(rows):
        return None
    bridged, steps = rows.astype(np.float64), np.arange(len(rows))
    for column in np.flatnonzero(bad.any(axis=0)).tolist():
        gaps = bad[:, column]
        bridged[gaps, column] = np.interp(steps[gaps], steps[~gaps], bridged[~gaps, column])
    return bridged


def check_number(value: Any, what: str) -> float:
    """Return a parameter, a number of any library, as a float; raises EmbedderError, naming `what`, for others."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise EmbedderError(f"{what}: expected a finite number, found {value!r}")
    return float(value)
