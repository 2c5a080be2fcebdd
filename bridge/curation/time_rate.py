"""Compare two recordings at different rates: where one lies in the other, and what remains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.curation.arrays import Floats, Ids
    from bridge.curation.time_shift import Rows

_MAX_MISSING: Final = 0.3  # share of either recording that the other may lack, at both ends together
_MIN_STEPS: Final = 8  # timesteps of the coarser recording
_FEW: Final = 6  # timesteps that all positions are compared by
_SAMPLED: Final = 24  # timesteps that the best of these are compared by
_KEPT: Final = 32
_REFINED: Final = 3
_ROUNDS: Final = 8
_STILL: Final = 1e-2  # timesteps: a position that moves by less is found, as the next round would move it far less
_AROUND: Final = np.array([[0.0], [-0.5], [0.5]])  # timesteps between which slopes are measured
_FARTHEST: Final = 0.5  # standard deviations: a position farther away than this is not refined
_RATIOS: Final = sorted({over / under for under, over in product((1, 2, 3, 4), range(1, 25)) if 1 <= over / under <= 6})
"""Ratios of rates that are usual: 3 for 30 and 10 Hz, 2.5 for 50 and 20."""


@dataclass(frozen=True)
class Rescaled:
    """right[t] is left[t * rate + start]; apart: root mean square of the difference, in standard deviations."""

    rate: float
    start: float
    apart: float


def find_rescaled(left: Rows, right: Rows) -> Rescaled | None:
    """Return how one recording [T, D] is the other [U, D] at another rate, cut at its ends by up to 30 %; None if not.

    The coarser one is compared with the finer one, interpolated at its times, so that a copy by every second timestep,
    or by linear interpolation, differs in nothing.
    """
    fine, coarse = (left, right) if len(left) >= len(right) else (right, left)
    if len(coarse) < _MIN_STEPS:
        return None
    found = _locate(fine.astype(np.float64), coarse.astype(np.float64))
    if found is None or fine is left:
        return found
    return Rescaled(1 / found.rate, -found.start / found.rate, found.apart)


def _locate(fine: Floats, coarse: Floats) -> Rescaled | None:
    starts, rates = _positions(len(fine), len(coarse))
    for count, most in ((_FEW, _KEPT), (_SAMPLED, _REFINED)):
        steps = np.unique(np.linspace(0, len(coarse) - 1, count).astype(np.int64))
        squares = _mean_squares(fine, coarse, steps, starts[:, None] + rates[:, None] * steps)
        best = squares.argsort(kind="stable")[:most]
        starts, rates, squares = starts[best], rates[best], squares[best]
    near = np.flatnonzero(squares <= _FARTHEST**2).tolist()
    refined = [one for place in near if (one := _refine(fine, coarse, starts[place], rates[place]))]
    return min(refined, key=lambda one: one.apart, default=None)


@lru_cache(maxsize=256)
def _positions(fine: int, coarse: int) -> tuple[Floats, Floats]:
    """Return the positions to try: where the coarse recording starts in the fine one, and steps of it per timestep."""
    starts, rates = [], []
    own = {(fine - 1) / (coarse - 1), fine / coarse}
    for rate in sorted({*_RATIOS, *own}):
        covered, longest = rate * (coarse - 1), max(fine - 1, rate * (coarse - 1))
        if min(fine - 1, covered) < (1 - _MAX_MISSING) * longest:
            continue
        spare = _MAX_MISSING * longest / 2
        low, high = (-1.0, 1.0) if rate in own else (-spare, fine - 1 - covered + spare)
        found = np.arange(math.ceil(2 * low), math.floor(2 * high) + 1) / 2
        starts.append(found)
        rates.append(np.full(len(found), rate))
    return np.concatenate(starts), np.concatenate(rates)


def _mean_squares(fine: Floats, coarse: Floats, steps: Ids, times: Floats) -> Floats:
    """Return per row of times [n, k] the mean square difference of those steps that are inside, if half are."""
    inside = (times >= 0) & (times <= len(fine) - 1)
    squares = np.square(interpolate(fine, times) - coarse[steps]).mean(axis=2)
    counts = inside.sum(axis=1)
    means: Floats = np.where(inside, squares, 0.0).sum(axis=1) / np.maximum(counts, 1)
    means[2 * counts < len(steps)] = np.inf
    return means


def _refine(fine: Floats, coarse: Floats, start: float, rate: float) -> Rescaled | None:
    """Return the position nearby with the least difference, by Gauss and Newton; None if it leads away."""
    steps, is_found = np.arange(len(coarse)), False
    for number in range(_ROUNDS + 1):
        times = start + rate * steps
        inside = (times >= 0) & (times <= len(fine) - 1)
        if inside.sum() < max(_MIN_STEPS, (1 - _MAX_MISSING) * len(steps)):
            return None
        there, before, after = interpolate(fine, times[inside] + _AROUND)
        apart = there - coarse[inside]
        if is_found or number == _ROUNDS:
            break
        slopes = after - before
        design = np.stack([slopes, slopes * steps[inside, None]], axis=-1).reshape(-1, 2)
        moved = np.linalg.lstsq(design.T @ design, -design.T @ apart.ravel(), rcond=None)[0]
        start, rate = start + float(moved[0]), rate + float(moved[1])
        is_found = np.abs(moved) @ (1, len(steps)) < _STILL
    return Rescaled(rate, start, float(np.sqrt(np.square(apart).mean())))


def interpolate(rows: Floats, times: NDArray[np.floating]) -> Floats:
    """Return rows [T, D] at times of any shape, linearly; the first and the last row outside."""
    times = np.clip(times, 0, len(rows) - 1)
    before = np.minimum(times.astype(np.int64), len(rows) - 2)
    share = (times - before)[..., None]
    between: Floats = rows[before] * (1 - share) + rows[before + 1] * share
    return between
