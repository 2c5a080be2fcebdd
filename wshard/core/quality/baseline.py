"""The baseline of measures: median and spread of those of episodes with the same layout and environment.

The spread reaches from the median to the 85th and to the 15th percentile. A tenth of faulty episodes changes neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.quality.lag import best_shift, fit_response

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.core.quality.lag import LagResponse
    from wshard.core.quality.measure_vector import MeasureLayout, Measures

    Numbers = NDArray[np.float32]

MIN_EPISODES: Final = 8
"""Minimum number of episodes for a baseline."""
MAX_EPISODES: Final = 64
"""Maximum number of episodes of a baseline; more would hardly change it."""
_UPPER_QUANTILE: Final = 0.85
_ROUNDING: Final = 1e-6  # relative to the largest motion in the lane; float32 has 6e-8
_MIN_SCALE: Final = 0.01  # of constant channels, relative to the largest scale in the lane or to the level


@dataclass(frozen=True, eq=False)
class Baseline:
    """Median, and spread above and below it, of every measure, as Measures of one episode each.

    scale: the standard deviation of each channel [D], within episodes and between them; for a constant channel, a
    hundredth of that of the most moving channel in its lane, or of its level. moves [D]: whether a channel moves: less
    than a millionth of the motion of another channel in its lane is rounding. response: see lag.py; None if actions are
    unrelated to the observations. gain: how much better episodes fit it when shifted (best_shift), as the
    85th percentile.
    """

    middle: Measures
    above: Measures
    below: Measures
    scale: NDArray[np.float64]
    moves: NDArray[np.bool_]
    response: LagResponse | None
    gain: float


def fit_baseline(layout: MeasureLayout, vectors: Numbers) -> Baseline | None:
    """Return the baseline of vectors [N, size]; None for fewer than MIN_EPISODES. A measure that none has is NaN."""
    if len(vectors) < MIN_EPISODES:
        return None
    ordered = np.sort(vectors, axis=0)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(vectors), axis=0) - 1, 0)
    ranks = [np.rint(share * last).astype(int)[None] for share in (1 - _UPPER_QUANTILE, 0.5, _UPPER_QUANTILE)]
    low, middle, high = (np.take_along_axis(ordered, rank, axis=0) for rank in ranks)
    with np.errstate(all="ignore"):  # numbers near the limits of a float
        spread = (layout.read(high - middle), layout.read(middle - low))
        measures, median = layout.read(vectors), layout.read(middle)
        response = fit_response(measures.lag)
        moves = _moves(median)
        return Baseline(median, *spread, _scale(measures, moves), moves, response, _gain(measures, response))


def _scale(measures: Measures, moves: NDArray[np.bool_]) -> NDArray[np.float64]:
    if not measures.layout.channels:
        return np.zeros(0)
    phases = measures.phases().astype(np.float64).reshape(-1, measures.layout.channels)
    levels = np.median(phases, axis=0)
    within = np.median(measures.of_channels("std").astype(np.float64) ** 2, axis=0)
    between = np.median((phases - levels) ** 2, axis=0)
    scale: NDArray[np.float64] = np.sqrt(within + between)
    min_scale = _MIN_SCALE * np.maximum(_max_of_lane(measures.layout, scale), np.abs(levels))
    return np.where(moves, scale, np.maximum(scale, min_scale))


def _moves(middle: Measures) -> NDArray[np.bool_]:
    spread = middle.of_channels("std")[0]
    moves: NDArray[np.bool_] = spread > _ROUNDING * _max_of_lane(middle.layout, spread)
    return moves


def _max_of_lane(layout: MeasureLayout, values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return for each channel [D] the largest value of a channel in its lane."""
    ends = np.cumsum([count for _, count in layout.lanes])[:-1]
    maxima = [np.full(len(lane), lane.max(initial=0.0)) for lane in np.split(values, ends)]
    return np.concatenate([np.zeros(0), *maxima])


def _gain(measures: Measures, response: LagResponse | None) -> float:
    if response is None:
        return 0.0
    gains = np.sort(best_shift(measures.lag, response)[1])
    return float(gains[round(_UPPER_QUANTILE * (np.count_nonzero(~np.isnan(gains)) - 1))])
