"""Whether two recordings are the same one: at which offset of their clocks they agree, and how well.

Knows rows [T, D] of standardised channels on one clock. Does not know: lanes, files, resampled copies (another clock).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.curation.line import Floats, Ids

Rows = NDArray[np.float32]

_CUT: Final = 0.15  # of the longer one that may be missing in the other
_SAMPLES: Final = 32  # timesteps that choose the offset
_AVERAGED: Final = 8  # timesteps
_FAR: Final = 0.1  # standard deviations that nobody takes for noise
_TRIED: Final = 3  # best offsets that are compared in full


@dataclass(frozen=True)
class Shift:
    """right[t] is left[t + steps]; apart: root mean square of their difference averaged over 8 timesteps at a time.

    In standard deviations. Noise, which is another one at each timestep, cancels; another motion does not.
    """

    steps: int
    apart: float


def comparable(left: int, right: int) -> bool:
    """Say whether recordings of so many timesteps may be cuts of one another: at most 15 % are missing."""
    return min(left, right) >= _least_overlap(left, right)


def closest_shift(left: Rows, right: Rows) -> Shift | None:
    """Return the offset at which left [T, D] and right [U, D] differ least; None where lengths differ by over 15 %.

    They overlap by 85 % of the longer one at least. A difference above 0.1 is that of 32 timesteps, not averaged.
    """
    if not comparable(len(left), len(right)):
        return None
    least = _least_overlap(len(left), len(right))
    steps = np.arange(least - len(right), len(left) - least + 1)
    first, last = max(0, int(-steps[0])), min(len(right), len(left) - int(steps[-1]))
    sampled = np.unique(np.linspace(first, max(last - 1, first), _SAMPLES).astype(np.int64))
    gaps = (left[sampled + steps[:, None]] - right[sampled]).reshape(len(steps), -1)
    apart = np.einsum("st,st->s", gaps, gaps) / gaps.shape[1]
    nearest = int(apart.argmin())
    if apart[nearest] > _FAR**2:
        return Shift(int(steps[nearest]), float(np.sqrt(apart[nearest])))
    tried = [Shift(int(step), _apart(left, right, int(step))) for step in steps[_smallest(apart)]]
    return min(tried, key=lambda shift: (shift.apart, abs(shift.steps), shift.steps))


def _least_overlap(left: int, right: int) -> int:
    return math.ceil((1 - _CUT) * max(left, right))


def _smallest(values: Floats) -> Ids:
    return np.argsort(values, kind="stable")[:_TRIED].astype(np.int64)


def _apart(left: Rows, right: Rows, step: int) -> float:
    first, last = max(0, -step), min(len(right), len(left) - step)
    apart = left[first + step : last + step].astype(np.float64) - right[first:last]
    sums = np.concatenate([np.zeros((1, apart.shape[1])), apart.cumsum(axis=0)])
    size = min(_AVERAGED, len(apart))
    starts = np.unique([*range(0, len(apart) - size + 1, size), len(apart) - size])
    means = (sums[starts + size] - sums[starts]) / size
    return float(np.sqrt((means * means).mean()))
