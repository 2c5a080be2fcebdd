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

MAX_NOISE: Final = 0.1
"""Standard deviations; greater differences are not noise."""

_MAX_MISSING: Final = 0.15  # share of the longer recording that may be missing in the other
_SAMPLED_STEPS: Final = 32  # timesteps compared to choose the offset
_AVERAGED: Final = 8  # timesteps
_MIN_MOTION: Final = 0.1  # standard deviations
_MAX_TRIED: Final = 3  # best offsets, compared in full


@dataclass(frozen=True)
class Shift:
    """right[t] is left[t + steps]; apart: root mean square of their difference averaged over 8 timesteps at a time.

    In standard deviations. Noise, which is independent at each timestep, cancels out; a different motion does not.
    """

    steps: int
    apart: float


def is_comparable(left: int, right: int) -> bool:
    """Return True if recordings of these lengths may be cuts of one another: at most 15 % are missing."""
    return min(left, right) >= _least_overlap(left, right)


def find_shift(left: Rows, right: Rows) -> Shift | None:
    """Return the offset at which left [T, D] and right [U, D] differ least; None if lengths differ by over 15 %.

    They overlap by at least 85 % of the longer one. Differences above 0.1 are those of 32 timesteps, not averaged.
    """
    if not is_comparable(len(left), len(right)):
        return None
    steps, sampled = _choose_offsets(len(left), len(right))
    differences = (left[sampled + steps[:, None]] - right[sampled]).reshape(len(steps), -1)
    mean_squares = np.einsum("st,st->s", differences, differences) / differences.shape[1]
    nearest = int(mean_squares.argmin())
    if mean_squares[nearest] > MAX_NOISE**2:
        return Shift(int(steps[nearest]), float(np.sqrt(mean_squares[nearest])))
    shifts = [
        Shift(step, _measure_difference(left, right, step, _overlap(left, right, step)))
        for step in _smallest(mean_squares, steps)
    ]
    return min(shifts, key=lambda shift: (shift.apart, abs(shift.steps), shift.steps))


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
    twice `within`. A piece without motion (of 0.1 standard deviations) is rejected, since all such pieces are
    similar.
    """
    offsets = steps[(start >= steps) & (start + size - steps <= len(right))]
    window = left[start : start + size]
    if not len(offsets) or float(window.std(axis=0).max()) < _MIN_MOTION:
        return None
    sampled = np.unique(np.linspace(0, size - 1, _SAMPLED_STEPS).astype(np.int64))
    differences = (right[start + sampled - offsets[:, None]] - window[sampled]).reshape(len(offsets), -1)
    step = int(offsets[np.einsum("st,st->s", differences, differences).argmin()])
    if _measure_difference(left, right, step, (start, start + size)) > within:
        return None
    first, last = _overlap(left, right, step)
    stop = start + size
    while (
        start > first and _measure_difference(left, right, step, (max(first, start - _AVERAGED), start)) <= 2 * within
    ):
        start = max(first, start - _AVERAGED)
    while stop < last and _measure_difference(left, right, step, (stop, min(last, stop + _AVERAGED))) <= 2 * within:
        stop = min(last, stop + _AVERAGED)
    return Piece(start, stop, step, _measure_difference(left, right, step, (start, stop)))


@lru_cache
def _choose_offsets(left: int, right: int) -> tuple[Ids, Ids]:
    """Return the offsets to try for these lengths, and timesteps of the right that all of them compare; read-only."""
    least = _least_overlap(left, right)
    steps = np.arange(least - right, left - least + 1)
    first, last = max(0, int(-steps[0])), min(right, left - int(steps[-1]))
    sampled = np.unique(np.linspace(first, max(last - 1, first), _SAMPLED_STEPS).astype(np.int64))
    return steps, sampled


def _least_overlap(left: int, right: int) -> int:
    return math.ceil((1 - _MAX_MISSING) * max(left, right))


def _smallest(values: Floats, steps: Ids) -> list[int]:
    smallest: list[int] = steps[np.lexsort((np.abs(steps), values))[:_MAX_TRIED]].tolist()  # of equal ones, the least
    return smallest


def _overlap(left: Rows, right: Rows, step: int) -> tuple[int, int]:
    return max(0, step), min(len(left), len(right) + step)


def _measure_difference(left: Rows, right: Rows, step: int, span: tuple[int, int]) -> float:
    """Return the difference of timesteps [start, stop) of the left from those `step` earlier of the right."""
    part = slice(span[0] - step, span[1] - step)
    differences = left[span[0] : span[1]].astype(np.float64) - right[part]
    sums = np.concatenate([np.zeros((1, differences.shape[1])), differences.cumsum(axis=0)])
    size = min(_AVERAGED, len(differences))
    starts = np.unique([*range(0, len(differences) - size + 1, size), len(differences) - size])
    means = (sums[starts + size] - sums[starts]) / size
    return float(np.sqrt((means * means).mean()))
