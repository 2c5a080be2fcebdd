"""The baseline of measures: those of other episodes of the same layout and environment, their middle and spread.

The middle is the median, the spread reaches from there to the 85th and the 15th percentile: neither is moved by a tenth
of faulty episodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.lag import best_shift, fit_response

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.quality.lag import LagResponse
    from wshard.quality.measure_vector import MeasureLayout, Measures

    Numbers = NDArray[np.float32]

FEWEST: Final = 8
"""Fewer episodes say nothing about what is usual."""
MOST: Final = 64
"""More episodes say little more."""
_UPPER: Final = 0.85
_ROUNDING: Final = 1e-6  # of what moves most in the lane; float32 has 6e-8
_STILL: Final = 0.01  # of what moves most in the lane, or of the level: the spread of what usually does not move


@dataclass(frozen=True, eq=False)
class Baseline:
    """Median, and spread above and below it, of every measure, as Measures of one episode each.

    scale: the standard deviation of each channel [D], within episodes and between them; for a constant channel, a
    hundredth of that of the most moving channel in its lane, or of its level. moves [D]: whether a channel moves: less
    than a millionth of the motion of another channel in its lane is rounding. answer: see lag.py; None if actions are
    unrelated to the observations. gain: by how much episodes fit it better when shifted (best_shift), the 85th
    percentile.
    """

    middle: Measures
    above: Measures
    below: Measures
    scale: NDArray[np.float64]
    moves: NDArray[np.bool_]
    answer: LagResponse | None
    gain: float


def fit_baseline(form: MeasureLayout, vectors: Numbers) -> Baseline | None:
    """Return what is usual among episodes [N, size]; None for fewer than FEWEST. A measure that none has is NaN."""
    if len(vectors) < FEWEST:
        return None
    ordered = np.sort(vectors, axis=0)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(vectors), axis=0) - 1, 0)
    places = [np.rint(share * last).astype(int)[None] for share in (1 - _UPPER, 0.5, _UPPER)]
    low, middle, high = (np.take_along_axis(ordered, place, axis=0) for place in places)
    with np.errstate(all="ignore"):  # numbers near the limits of a float
        spread = (form.read(high - middle), form.read(middle - low))
        found, common = form.read(vectors), form.read(middle)
        answer = fit_response(found.lag)
        moves = _moves(common)
        return Baseline(common, *spread, _scale(found, moves), moves, answer, _gain(found, answer))


def _scale(found: Measures, moves: NDArray[np.bool_]) -> NDArray[np.float64]:
    if not found.form.channels:
        return np.zeros(0)
    phases = found.phases().astype(np.float64).reshape(-1, found.form.channels)
    levels = np.median(phases, axis=0)
    within = np.median(found.of_channels("std").astype(np.float64) ** 2, axis=0)
    between = np.median((phases - levels) ** 2, axis=0)
    scale: NDArray[np.float64] = np.sqrt(within + between)
    least = _STILL * np.maximum(_most_of_lane(found.form, scale), np.abs(levels))
    return np.where(moves, scale, np.maximum(scale, least))


def _moves(middle: Measures) -> NDArray[np.bool_]:
    spread = middle.of_channels("std")[0]
    moves: NDArray[np.bool_] = spread > _ROUNDING * _most_of_lane(middle.form, spread)
    return moves


def _most_of_lane(form: MeasureLayout, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return for each channel [D] the largest value of a channel in its lane."""
    ends = np.cumsum([count for _, count in form.lanes])[:-1]
    most = [np.full(len(lane), lane.max(initial=0.0)) for lane in np.split(values, ends)]
    return np.concatenate([np.zeros(0), *most])


def _gain(found: Measures, answer: LagResponse | None) -> float:
    if answer is None:
        return 0.0
    gains = np.sort(best_shift(found.lag, answer)[1])
    return float(gains[round(_UPPER * (np.count_nonzero(~np.isnan(gains)) - 1))])
