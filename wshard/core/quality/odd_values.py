"""Values of a channel that are certainly wrong, whatever is usual: stand-ins, spikes, a first row apart, stuck sensors.

The time axis of channels is the last one. What may have such values is found by moments, so that most cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.quality.channels import longest_run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

_LARGEST: Final = float(np.finfo(np.float32).max)
_MAGNITUDES: Final = (999.0, 9999.0, 99999.0, 999999.0, 1e9, 1e10, 1e20, 1e30, _LARGEST, 32767.0, 65535.0, 2147483647.0)
_WHOLE: Final = [sign * value for value in _MAGNITUDES for sign in (-1.0, 1.0)] + [-32768.0, -2147483648.0]
_STAND_INS: Final[Numbers] = np.array(sorted({*_WHOLE, *np.array(_WHOLE, np.float32).tolist()}))
"""Values that programs write where they have none; of float32, too."""

APART: Final = 5.0
"""Ranges of all other values by which a value is far from them, at the default limit."""

_FEW: Final = 0.05  # of the timesteps: more than that are no spikes
_REACH: Final = 0.4  # of the largest distance from the mean that one value can have: the root of all squared deviations
_MIN_STEPS: Final = 8
_MIN_STUCK: Final = 0.1  # of the duration
_MIN_MOVING: Final = 16  # steps outside of the time in which a channel is stuck, by which it is known
_CHANGING: Final = 0.9  # of these steps change its value
_NOISY: Final = 0.2  # of these steps go back: noise, which a sensor at rest has, too
_ROUNDING: Final = 1e-6  # of the largest motion, or of the level: no motion; float32 has 6e-8
_CATCH_UP: Final = 5.0  # usual steps at once, at the end of that time


def measure_odd(columns: Numbers, bad: NDArray[np.bool_], spread: Numbers, observed: slice) -> dict[str, Numbers]:
    """Return measures [N, D] of channels [N, D, T] by name, and where each begins.

    placeholder: the share of timesteps with a value that stands for none. apart: how many times the range of all others
    a few values lie beyond it. reset: the first step, in largest other steps. stuck: the longest share of the duration
    in which an observed channel keeps a value while others move, though it always moves otherwise. Invalid numbers are
    `bad`, and filled. spread: standard deviations.
    """
    names = ("placeholder", "placeholder_at", "apart", "apart_at", "reset", "stuck", "stuck_at")
    found = {name: np.zeros(columns.shape[:2]) for name in names}
    for place in map(tuple, np.argwhere(_doubtful(columns, spread)).tolist()):
        known = np.flatnonzero(~bad[place])
        stands_in = _find_stand_ins(columns[place][known])
        if stands_in.any():
            found["placeholder"][place] = stands_in.sum() / columns.shape[-1]
            found["placeholder_at"][place] = known[stands_in.argmax()]
        known = known[~stands_in]
        found["apart"][place], at = _measure_apart(columns[place][known])
        found["apart_at"][place] = known[at] if len(known) else 0
    if columns.shape[-1] >= _MIN_STEPS:
        steps = np.abs(np.diff(columns, axis=-1))
        usual = steps[..., 1:].max(axis=-1)
        found["reset"] = np.nan_to_num(np.divide(steps[..., 0], usual, out=found["reset"], where=usual > 0))
        _measure_stuck(
            columns[:, observed], bad[:, observed], found["stuck"][:, observed], found["stuck_at"][:, observed]
        )
    return found


def _doubtful(columns: Numbers, spread: Numbers) -> NDArray[np.bool_]:
    """Return a mask [N, D] of channels that may have odd values, by their moments; the others have none."""
    low, high, mean = columns.min(axis=-1), columns.max(axis=-1), columns.mean(axis=-1)
    reach = np.maximum(high - mean, mean - low)
    is_far = (spread > 0) & (reach > _REACH * spread * columns.shape[-1] ** 0.5)
    doubtful: NDArray[np.bool_] = np.isin(low, _STAND_INS) | np.isin(high, _STAND_INS) | is_far
    return doubtful


def _find_stand_ins(values: Numbers) -> NDArray[np.bool_]:
    """Return a mask of the values that stand for none: the lowest or highest, far from all others."""
    found = np.zeros(len(values), np.bool_)
    for extreme in (np.min, np.max):
        rest = values[~found]
        value = extreme(rest) if len(rest) else np.nan
        others = rest[rest != value]
        is_apart = not len(others) or np.abs(others - value).min() > APART * np.ptp(others)
        if value in _STAND_INS and is_apart:
            found |= values == value
    return found


def _measure_apart(values: Numbers) -> tuple[float, int]:
    """Return how far a few values are from all others, which differ, in ranges of these, and where the farthest is."""
    if len(values) < _MIN_STEPS:
        return 0.0, 0
    ordered, few = np.sort(values), max(1, int(_FEW * len(values)))
    low, high = ordered[few], ordered[-few - 1]
    beyond = np.maximum(low - values, values - high)
    at = int(beyond.argmax())
    if not low < high or len(np.unique(values[beyond <= APART * (high - low)])) <= 2:
        return 0.0, at
    return max(0.0, float(beyond[at] / (high - low))), at


def _measure_stuck(columns: Numbers, bad: NDArray[np.bool_], shares: Numbers, starts: Numbers) -> None:
    """Write the longest share of the duration in which a channel [N, D, T] is stuck, and where it begins."""
    steps = columns.shape[-1] - 1
    still = (columns[..., 1:] == columns[..., :-1]) & ~bad[..., 1:]
    run, start = longest_run(still)
    is_long = (run >= max(_MIN_STEPS, _MIN_STUCK * steps)) & (steps - run >= max(_MIN_MOVING, steps / 4))
    moves = (np.count_nonzero(still, axis=-1) - run) <= (1 - _CHANGING) * (steps - run)
    for episode, channel in np.argwhere(is_long & moves).tolist():
        first, last = int(start[episode, channel]), int(start[episode, channel] + run[episode, channel])
        spread = columns[episode].std(axis=-1)
        if spread[channel] <= _ROUNDING * max(float(spread.max()), abs(float(columns[episode, channel, first]))):
            continue
        others = ~np.delete(still[episode, :, first:last], channel, axis=0)
        if others.any(axis=0).mean() >= _CHANGING and _is_noisy_or_jumps(columns[episode, channel], first, last):
            shares[episode, channel], starts[episode, channel] = (last - first) / steps, first


def _is_noisy_or_jumps(values: Numbers, first: int, last: int) -> bool:
    """Return whether a channel that keeps its value in [first, last] is noisy otherwise, or catches up by a jump."""
    steps = np.diff(values)
    rest = np.delete(steps, slice(first, last))
    goes_back = np.count_nonzero(rest[1:] * rest[:-1] < 0) >= _NOISY * len(rest)
    jumps = last < len(steps) and abs(steps[last]) > _CATCH_UP * float(np.median(np.abs(rest)))
    return bool(goes_back or jumps)
