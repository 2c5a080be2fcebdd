"""Values of timesteps by what they mean: times, flags, numbers that stand for no value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.messages import shown
from wshard.errors import FormatError
from wshard.formats.layouts.columns import RowView
from wshard.formats.layouts.layout import UNITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from wshard.core.types import Array
    from wshard.formats.layouts.columns import RowArray
    from wshard.formats.layouts.layout import ArrayRule

NO_TIME: Final = -(1 << 63)
"""Stands for a time that is missing."""

_WHOLE: Final = 0.01  # how far a rate may be from a whole number of Hz that it is taken for
_REGULAR: Final = 0.6  # of the steps are near the median one, or there is no rate
_DEVIATIONS: Final = 3.0  # of the mean step, which scatter explains
_LATEST: Final = 2.0**63  # nanoseconds
_FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("true", "t", "yes", "y", "1", "1.0", "success", "succeeded"), True),
    **dict.fromkeys(("", "false", "f", "no", "n", "0", "0.0", "failure", "failed", "fail", "nan"), False),
}


def read_by_rule(column: RowArray, rule: ArrayRule) -> RowArray:
    """Return a column as its rule says: NaN for the numbers that stand for no value, flags where it equals a number."""
    if rule.equals is not None and column.dtype.kind in "biuf":
        return RowView(tuple(column.shape), np.bool_, lambda first, last: np.asarray(column[first:last]) == rule.equals)
    if not rule.missing or column.dtype.kind not in "iuf":
        return column
    dtype = column.dtype if column.dtype.kind == "f" else np.dtype(np.float64)

    def read(first: int, last: int) -> Array:
        values = np.array(column[first:last], dtype)
        values[np.isin(values, np.array(rule.missing, dtype))] = np.nan
        return values

    return RowView(tuple(column.shape), dtype, read)


def at_last_step(value: Any, length: int) -> RowArray:
    """Return the flags of an episode that states one: that of the last timestep is it."""
    is_set = bool(np.any(np.asarray(value[()])))
    return RowView((length,), np.bool_, lambda first, last: np.arange(first, last) == (length - 1 if is_set else -1))


def nanoseconds(column: RowArray, unit: str, where: str) -> RowArray:
    """Return times [rows] or [rows, 1] as int64 nanoseconds; what is not finite becomes NO_TIME. Raises FormatError."""
    if column.dtype.kind not in "biufMm" or math.prod(column.shape[1:]) != 1:
        raise FormatError(f"{where}: expected a time a row, found {column.dtype} {list(column.shape)}")
    factor = UNITS[unit]

    def read(first: int, last: int) -> Array:
        values = np.asarray(column[first:last]).reshape(-1)
        if values.dtype.kind in "Mm":
            dates = values.astype(f"{values.dtype.kind}8[ns]")
            wrong = (dates.astype(values.dtype) != values) & ~np.isnat(values)
            times = dates.astype(np.int64)
        elif values.dtype.kind != "f" and factor.is_integer():
            limit = int(_LATEST / factor)
            wrong = (values > limit) | (values.astype(np.int64) < -limit)
            times = np.where(wrong, 0, values).astype(np.int64) * int(factor)
        else:
            exact = np.rint(values.astype(np.float64) * factor)
            is_time = np.isfinite(values)
            wrong = is_time & (np.abs(exact) >= _LATEST)
            times = np.where(is_time & ~wrong, exact, NO_TIME).astype(np.int64)
        if wrong.any():
            raise FormatError(
                f"{where}: row {first + int(np.argmax(wrong))}: expected a time in {unit!r} of less than 292 years, "
                f"found {values[np.argmax(wrong)]}: state its unit, one of {', '.join(UNITS)}"
            )
        return times

    return RowView((column.shape[0],), np.dtype(np.int64), read)


def as_flags(column: RowArray, where: str) -> RowArray:
    """Return numbers or texts as flags; what has no value is False. Raises FormatError for other texts."""
    if column.dtype.kind in "biu" or column.dtype.kind not in "fOSU":
        return column

    def read(first: int, last: int) -> Array:
        values = np.asarray(column[first:last] if column.shape else column[()])
        if values.dtype.kind == "f":
            is_set: Array = (values != 0) & ~np.isnan(values)
            return is_set
        texts = [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in values.ravel()]
        found = [is_true(text, f"{where}: row {row}") for row, text in enumerate(texts, first)]
        return np.array(found, bool).reshape(values.shape)

    return RowView(tuple(column.shape), np.dtype(bool), read)


def is_true(text: str, where: str) -> bool:
    """Return what a text says, such as "true", "no", "1"; raises FormatError for another one."""
    found = _FLAGS.get(text.strip().lower())
    if found is None:
        raise FormatError(f"{where}: expected true or false, found {shown(text)}: a layout can say that it is metadata")
    return found


def rate_of(stamps: NDArray[np.int64]) -> float | None:
    """Return the rate of times in nanoseconds, by their median step; None for irregular ones.

    Where the steps scatter, it is the whole number of Hz within 1 % of the mean rate, if the scatter explains what they
    differ by: episodes of one robot with the clock of a computer have one rate.
    """
    steps = np.diff(stamps)
    step = float(np.median(steps)) if len(steps) else 0.0
    usual = steps[(steps >= step / 2) & (steps <= step * 1.5)]  # without gaps
    if step <= 0 or len(usual) < _REGULAR * len(steps):
        return None
    rate, spread = 1e9 / float(usual.mean()), float(usual.std() / usual.mean())
    explained = min(_WHOLE, _DEVIATIONS * spread / len(usual) ** 0.5)
    return float(round(rate)) if abs(rate - round(rate)) <= explained * round(rate) else 1e9 / step
