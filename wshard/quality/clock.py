"""What is measured of an episode's clock: missing, repeated and backward timesteps, jitter, drift."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.quality.measure_vector import CLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAP = 1.5
_FEWEST = 8  # below, a period and its scatter are guesses


def measure_clock(times: NDArray[Any] | None, unit_s: float) -> NDArray[np.float64]:
    """Return the measures in the order of form.CLOCK; NaN without a clock.

    times: when the timesteps were [T], in units of so many seconds; ticks count as seconds. The shares of missing,
    repeated and backward timesteps are of all timesteps; jitter and drift are of one period.
    """
    found = np.full(len(CLOCK), np.nan)
    if times is None or len(times) < 2:
        return found
    steps = (times[1:] - times[:-1]).astype(np.float64)
    forward = np.sort(steps[steps > 0])
    period = float(forward[len(forward) // 2]) if len(forward) else 0.0
    gaps = np.maximum(np.rint(steps / period) - 1, 0) * (steps > _GAP * period) if period else np.zeros_like(steps)
    shares = []
    for faulty in (gaps, steps == 0, steps < 0):
        shares += [float(faulty.sum()) / len(times), float(np.argmax(faulty > 0) + 1)]
    even = steps[(steps > 0) & (steps <= _GAP * period)]
    jitter = drift = 0.0
    if len(even) >= _FEWEST:
        period = float(even.mean())
        jitter = float(np.abs(even - period).mean()) / period
        places = np.arange(len(even)) - (len(even) - 1) / 2
        drift = abs(float(places @ even / (places @ places))) * len(even) / period
    return np.array([*shares, jitter, drift, period * unit_s])
