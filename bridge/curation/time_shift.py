"""Compare two recordings: the time shift at which they agree best, and the remaining difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.curation.arrays import Floats, Ids

Rows = NDArray[np.float32]

_CUT: Final = 0.15  # of the longer one that may be missing in the other
_SAMPLES: Final = 32  # timesteps that choose the offset
_AVERAGED: Final = 8  # timesteps
_FAR: Final = 0.1  # standard deviations that nobody takes for noise
_STILL: Final = 0.1  # standard deviations
_TRIED: Final = 3  # best offsets that are compared in full


@dataclass(frozen=True)
class Shift:
    """right[t] is left[t + steps]; apart: root mean square of their difference averaged over 8 timesteps at a time.

    In standard deviations. Noise, which is another one at each timestep, cancels; another motion does not.
    """

    steps: int
    apart: float


def is_comparable(left: int, right: int) -> bool:
    """Return True if recordings of these lengths may be cuts of one another: at most 15 % are missing."""
    return min(left, right) >= _least_overlap(left, right)


def find_shift(left: Rows, right: Rows) -> Shift | None:
    """Return the offset at which left [T, D] and right [U, D] differ least; None where lengths differ by over 15 %.

    They overlap by 85 % of the longer one at least. A difference above 0.1 is that of 32 timesteps, not averaged.
    """
    if not is_comparable(len(left), len(right)):
        return None
    steps, sampled = _choose_offsets(len(left), len(right))
    gaps = (left[sampled + steps[:, None]] - right[sampled]).reshape(len(steps), -1)
    apart = np.einsum("st,st->s", gaps, gaps) / gaps.shape[1]
    nearest = int(apart.argmin())
    if apart[nearest] > _FAR**2:
        return Shift(int(steps[nearest]), float(np.sqrt(apart[nearest])))
    tried = [Shift(step, _apart(left, right, step, _overlap(left, right, step))) for step in _smallest(apart, steps)]
    return min(tried, key=lambda shift: (shift.apart, abs(shift.steps), shift.steps))


@dataclass(frozen=True)
class Piece:
    """Timesteps [start, stop) of the left that are timesteps [start - steps, stop - steps) of the right."""

    start: int
    stop: int
    steps: int
    apart: float


def find_shared_piece(left: Rows, right: Rows, start: int, steps: Ids, *, size: int, within: float) -> Piece | None:
    """Return the piece around [start, start + size) of left [T, D] that is also in right [U, D], or None.

    steps: offsets to try (see Piece). The piece grows on both sides by 8 timesteps at a time while these are within
    twice `within`. A piece in which nothing moves (by 0.1 standard deviations) is rejected, since still moments all
    look alike.
    """
    tried = steps[(start >= steps) & (start + size - steps <= len(right))]
    window = left[start : start + size]
    if not len(tried) or float(window.std(axis=0).max()) < _STILL:
        return None
    sampled = np.unique(np.linspace(0, size - 1, _SAMPLES).astype(np.int64))
    gaps = (right[start + sampled - tried[:, None]] - window[sampled]).reshape(len(tried), -1)
    step = int(tried[np.einsum("st,st->s", gaps, gaps).argmin()])
    if _apart(left, right, step, (start, start + size)) > within:
        return None
    first, last = _overlap(left, right, step)
    stop = start + size
    while start > first and _apart(left, right, step, (max(first, start - _AVERAGED), start)) <= 2 * within:
        start = max(first, start - _AVERAGED)
    while stop < last and _apart(left, right, step, (stop, min(last, stop + _AVERAGED))) <= 2 * within:
        stop = min(last, stop + _AVERAGED)
    return Piece(start, stop, step, _apart(left, right, step, (start, stop)))


@lru_cache
def _choose_offsets(left: int, right: int) -> tuple[Ids, Ids]:
    """Return the offsets to try for these lengths, and timesteps of the right that all of them compare; read-only."""
    least = _least_overlap(left, right)
    steps = np.arange(least - right, left - least + 1)
    first, last = max(0, int(-steps[0])), min(right, left - int(steps[-1]))
    sampled = np.unique(np.linspace(first, max(last - 1, first), _SAMPLES).astype(np.int64))
    return steps, sampled


def _least_overlap(left: int, right: int) -> int:
    return math.ceil((1 - _CUT) * max(left, right))


def _smallest(values: Floats, steps: Ids) -> list[int]:
    found: list[int] = steps[np.argsort(values, kind="stable")[:_TRIED]].tolist()
    return found


def _overlap(left: Rows, right: Rows, step: int) -> tuple[int, int]:
    return max(0, step), min(len(left), len(right) + step)


def _apart(left: Rows, right: Rows, step: int, span: tuple[int, int]) -> float:
    """Return how different timesteps [start, stop) of the left are from those `step` earlier of the right."""
    part = slice(span[0] - step, span[1] - step)
    apart = left[span[0] : span[1]].astype(np.float64) - right[part]
    sums = np.concatenate([np.zeros((1, apart.shape[1])), apart.cumsum(axis=0)])
    size = min(_AVERAGED, len(apart))
    starts = np.unique([*range(0, len(apart) - size + 1, size), len(apart) - size])
    means = (sums[starts + size] - sums[starts]) / size
    return float(np.sqrt((means * means).mean()))
