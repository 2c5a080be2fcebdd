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

    At either end the nearest value continues. Channels with such values in more than half of the timesteps are blank:
    they become NaN. None if half of the channels are blank, or if more than MAX_GAPS of the values of the others are
    such.
    """
    bad = ~(np.abs(rows.astype(np.float64)) <= LARGEST)
    blank = 2 * np.count_nonzero(bad, axis=0) > len(rows)
    if (2 * blank.sum() >= blank.size and blank.any()) or bad[:, ~blank].mean() > MAX_GAPS:
        return None
    bridged, steps = rows.astype(np.float64), np.arange(len(rows))
    bridged[:, blank] = np.nan
    for column in np.flatnonzero(bad.any(axis=0) & ~blank).tolist():
        gaps = bad[:, column]
        bridged[gaps, column] = np.interp(steps[gaps], steps[~gaps], bridged[~gaps, column])
    return bridged


def fill_blank(rows: NDArray[Any], values: NDArray[np.float64] | float = 0.0) -> NDArray[Any]:
    """Return `rows` [T, D] with this value, or that of each channel [D], in channels that are NaN throughout."""
    if not np.isnan(rows[:1]).any() or not (blank := np.isnan(rows).all(axis=0)).any():
        return rows
    return np.where(blank, values, rows)


def check_number(value: Any, what: str) -> float:
    """Return a parameter, a number of any library, as a float; raises EmbedderError, naming `what`, for others."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise EmbedderError(f"{what}: expected a finite number, found {value!r}")
    return float(value)
