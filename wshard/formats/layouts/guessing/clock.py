"""The unit of times, by their name, size and spacing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.formats.layouts.guessing.names import TIME, meaning_of, tokens_of
from wshard.formats.layouts.guessing.survey import NUMBERS, TIMES, ArrayFacts
from wshard.formats.layouts.layout import UNITS, unit_of_words
from wshard.formats.layouts.step_values import rate_of

if TYPE_CHECKING:
    from wshard.core.types import Array

OPEN: Final = "?"
"""A unit that nothing tells."""

_EPOCHS: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_EPOCH: Final = (5e8, 4e9)  # seconds: from 1985 to 2096
_SPACINGS: Final = (("s", 5e-4, 0.5), ("ms", 2.0, 500.0), ("us", 2e3, 5e5), ("ns", 2e6, 5e8))
"""Unit, and the spacings of 2 to 2,000 timesteps per second that no other unit has."""


def unit_of(facts: ArrayFacts, axis: int = 0) -> tuple[str, str]:
    """Return (unit, why) of times whose timesteps are along an axis: OPEN, and why, where two are as likely."""
    if facts.kind == TIMES:
        return "", "has a dtype of time"
    spacing = _spacing(facts.values, axis)
    if unit := unit_of_words(tokens_of(facts.path.rpartition("/")[2])[1:]):
        return unit, f"its name says {unit}"
    if unit := _unit_of_size(facts.values):
        return unit, f"dates in {unit} by their size"
    for unit, low, high in _SPACINGS:
        if low <= spacing <= high:
            return unit, f"in {unit}, as it grows by {spacing:.4g}: {1e9 / (spacing * UNITS[unit]):.4g} Hz"
    return OPEN, f"it grows by {spacing:.4g}, of which unit nothing tells"


def rate_of_clock(name: str, values: Array) -> float | None:
    """Return the rate of a column [T] that is named as a clock, and is one; None for another, and an irregular one."""
    facts = ArrayFacts(name, values.shape, str(values.dtype), NUMBERS, False, meaning_of(name), values)
    if facts.meaning != TIME or not np.isfinite(values).all() or not is_clock(facts, 1):
        return None
    unit, _ = unit_of(facts)
    since = (values[: count_unpadded(values)] - values[0]).astype(np.float64)
    return rate_of(np.rint(since * UNITS[unit]).astype(np.int64)) if unit in UNITS else None


def is_clock(facts: ArrayFacts, episodes: int, axis: int = 0) -> bool:
    """Return True for values that grow, but for the beginnings of episodes, and for padding at the end."""
    if facts.values is None or facts.values.size < 2:
        return False
    steps = np.diff(facts.values[: count_unpadded(facts.values)], axis=axis)
    zero = np.zeros(1, steps.dtype)
    return int((steps < zero).sum()) <= max(episodes - 1, 0) and bool((steps > zero).any())


def count_unpadded(values: Array) -> int:
    """Return how many times come before the end of a column where one value, smaller than the last time, stays."""
    differing = np.flatnonzero(values != values[-1]) if values.ndim == 1 and values.size else np.zeros(0)
    end = int(differing[-1]) + 1 if differing.size else len(values)
    return end if end < len(values) - 1 and bool(values[end] < values[end - 1]) else len(values)


def counts_steps(facts: ArrayFacts) -> bool:
    """Return True for a column that grows by one from row to row, but for the beginnings of episodes."""
    values = facts.numbers
    return values is not None and len(values) > 1 and float(np.median(np.diff(values.astype(np.float64)))) == 1.0


def _spacing(values: Array | None, axis: int) -> float:
    steps = np.diff(values.astype(np.float64), axis=axis) if values is not None else np.zeros(0)
    steps = steps[steps > 0]
    return float(np.median(steps)) if steps.size else 0.0


def _unit_of_size(values: Array | None) -> str:
    size = float(np.nanmedian(values.astype(np.float64))) if values is not None and values.size else 0.0
    return next((unit for unit, factor in _EPOCHS.items() if _EPOCH[0] * factor <= size <= _EPOCH[1] * factor), "")
