"""Measure an episode's clock: missing, repeated and backward timesteps, jitter, drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.quality.measure_vector import CLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAP = 1.5  # periods between timesteps, above which some are missing
_MIN_STEPS = 8  # with fewer, period and jitter are unreliable


def measure_clock(times: NDArray[Any] | None, unit_s: float) -> NDArray[np.float64]:
    """Return the measures in the order of CLOCK; NaN without a clock.

    times: the times of the timesteps [T], in units of unit_s seconds; ticks count as seconds. The shares of missing,
    repeated and backward timesteps are of all timesteps; jitter and drift are of one period.
    """
    if times is None or len(times) < 2:
        return np.full(len(CLOCK), np.nan)
    steps = (times[1:] - times[:-1]).astype(np.float64)
    forward = np.sort(steps[steps > 0])
    period = float(forward[len(forward) // 2]) if len(forward) else 0.0
    gaps = np.maximum(np.rint(steps / period) - 1, 0) * (steps > _GAP * period) if period else np.zeros_like(steps)
    shares = []
    for faulty in (gaps, steps == 0, steps < 0):
        shares += [float(faulty.sum()) / len(times), float(np.argmax(faulty > 0) + 1)]
    regular = steps[(steps > 0) & (steps <= _GAP * period)]
    jitter = drift = 0.0
    if len(regular) >= _MIN_STEPS:
        period = float(regular.mean())
        jitter = float(np.abs(regular - period).mean()) / period
        positions = np.arange(len(regular)) - (len(regular) - 1) / 2
        drift = abs(float(positions @ regular / (positions @ positions))) * len(regular) / period
    return np.array([*shares, jitter, drift, period * unit_s])
