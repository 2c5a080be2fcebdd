"""The embedder `blocks`: path, shape over time and signed areas of a whole episode, in blocks that a search weighs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from embedders.base import LaneEmbedder, Vectors, unit_rows
from embedders.numeric import check_number
from embedders.trajectory.folding import MOST_CHANNELS, fold, folded_shares
from embedders.trajectory.resample import arc_resample, joined, resample, smooth
from embedders.trajectory.spectral import check_resolution, dct_matrix, spectra
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows
    from embedders.trajectory.resample import Spans

_WIDEST: Final = 64
"""Channels of the largest vector: the descriptors of more are folded to the size of theirs."""

_EPSILON: Final = 1e-4
_ZERO_TOLERANCE: Final = 1e-9

_LEVELS: Final = (1, 2, 4)  # parts of equal length: what comes when is known to a quarter
_QUANTILES: Final = 9  # from the minimum to the maximum
_STEPS_WEIGHT: Final = 3.0  # steps are smaller than values
_SHORTEST: Final = 3  # timesteps of a part, which are two steps

_QUANTILES_SIZE: Final = 2 * _QUANTILES * sum(_LEVELS)
"""The number of values that describe one channel."""


@dataclass(frozen=True)
class Blocks(LaneEmbedder):
    """Describe an episode by three blocks of z-scored values, scaled to equal length so that a search can weigh them.

    path: the geometric path, sampled at `length` points of equal arc length over all channels: the first `coefficients`
    of its DCT-II, with damping. shape: the course over time: `time_coefficients` of the DCT-II without the mean.
    areas: which channel leads which: the signed root of the area between each pair of channels, around the mean along
    the path, of rows averaged over `smoothing` timesteps. Path and areas do not depend on speed. The arc is that of
    rows averaged over `arc_smoothing` timesteps, in which a channel counts as much as it moves steadily: positions in
    full, jittering actions and sensors little. Permuting up to 64 channels or their lanes changes no similarity.
    Descriptors of more channels are folded to the size of those of 64, which changes cosines by some hundredths. A
    single channel has no path to speak of, and no areas: it is described by its `quantiles` alone.
    """

    name: ClassVar[str] = "blocks"
    version: ClassVar[int] = 4

    length: int = 64
    coefficients: int = 8
    time_coefficients: int = 16
    damping: float = 0.15
    smoothing: int = 5
    arc_smoothing: int = 9

    def __post_init__(self) -> None:
        check_resolution(self.length, self.coefficients)
        check_resolution(self.length, self.time_coefficients)
        object.__setattr__(self, "damping", check_number(self.damping, "damping"))
        counts = (self.smoothing, self.arc_smoothing)
        odd = all(type(count) is int and count >= 1 and count % 2 == 1 for count in counts)
        if self.damping < 0 or not odd or self.time_coefficients < 2:
            found = f"{self.damping}, {self.smoothing!r}, {self.arc_smoothing!r} and {self.time_coefficients}"
            raise EmbedderError(
                f"damping, smoothing, arc_smoothing, time_coefficients: expected damping >= 0, two odd numbers >= 1, "
                f"and 2 or more, found {found}"
            )

    def blocks(self, channels: int) -> tuple[int, ...]:
        """Return the number of values of each descriptor; a single channel has one."""
        if channels == 1:
            return (_QUANTILES_SIZE,)
        widest = min(channels, _WIDEST)
        return (self.coefficients * widest, (self.time_coefficients - 1) * widest, _pair_count(widest))

    def block_names(self, channels: int) -> tuple[str, ...]:
        """Return the names of the descriptors."""
        return ("quantiles",) if channels == 1 else ("path", "shape", "areas")

    def dim(self, channels: int) -> int:
        """Return the sum of the blocks' sizes."""
        return sum(self.blocks(channels))

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector; an area is shared by its two channels."""
        if channels == 1:
            return np.ones((_QUANTILES_SIZE, 1))
        known = folded_shares([np.arange(channels)], channels, MOST_CHANNELS)
        described = len(known)
        each = np.arange(described)
        path, shape = (np.tile(each, count) for count in (self.coefficients, self.time_coefficients - 1))
        sources = zip(([path], [shape], _pairs(described)), self.blocks(channels), strict=True)
        return np.concatenate([folded_shares(source, described, size) for source, size in sources]) @ known

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, each block of the same length."""
        if windows[0].shape[1] == 1:
            return _unit(np.stack([_quantiles(rows[:, 0]) for rows in windows])).astype(np.float64)
        every, spans = joined(windows)
        rows = fold(every, MOST_CHANNELS)
        steady = np.repeat(steadiness(rows, spans), spans[:, 1] - spans[:, 0], axis=0)
        arcs = smooth(rows, self.arc_smoothing, spans) * steady
        even = arc_resample(rows, spans, self.length, path=arcs, epsilon=_EPSILON)
        damped = np.exp(-self.damping * np.arange(self.coefficients))
        path = spectra(even, damped[:, None] * dct_matrix(self.length, self.coefficients))
        in_time = resample(rows, spans, self.length)
        shape = spectra(in_time, dct_matrix(self.length, self.time_coefficients)[1:])
        between = areas(smooth(rows, self.smoothing, spans), spans)
        sizes = self.blocks(rows.shape[1])
        parts = [_unit(fold(block, size)) for block, size in zip((path, shape, between), sizes, strict=True)]
        return np.concatenate(parts, axis=1, dtype=np.float64) / sqrt(len(parts))


def _unit(block: NDArray[np.float64]) -> Vectors:
    is_zero = np.abs(block).max(axis=1) < _ZERO_TOLERANCE  # rounding errors of zeros
    return unit_rows(np.where(is_zero[:, None], 0.0, block))


def steadiness(rows: Rows, spans: Spans) -> NDArray[np.float64]:
    """Return [N, D] of windows of rows: how steadily each channel moves, from 1 (steps continue) to 0 (it turns back).

    It is (1 - energy of second differences / their maximum for these steps) to the fourth power; 1 for a channel that
    never moves. Rows are averaged over 3 timesteps first, so that noise on a position counts little.
    """
    smoothed = smooth(rows, 3, spans)
    steps = smoothed[1:] - smoothed[:-1]
    turns = steps[1:] - steps[:-1]  # steps between windows are not read
    bounds = spans.tolist()
    max_energy = 4 * np.stack([_energy(steps[start : stop - 1]) for start, stop in bounds])
    turn_energy = np.stack([_energy(turns[start : max(stop - 2, start)]) for start, stop in bounds])
    share = np.divide(turn_energy, max_energy, out=np.zeros(max_energy.shape), where=max_energy > _ZERO_TOLERANCE)
    steady: NDArray[np.float64] = np.maximum(1 - share, 0.0) ** 4
    return steady


def _energy(steps: Rows) -> Rows:
    energy: Rows = np.einsum("td,td->d", steps, steps)
    return energy


def _pair_count(channels: int) -> int:
    return channels * (channels - 1) // 2


def areas(rows: Rows, spans: Spans) -> NDArray[np.float64]:
    """Return [N, P] of windows of z-scored rows: the signed root of the area between every two of D channels, folded.

    P is D * (D - 1) / 2, at most that of 64 channels; beyond, the root becomes a power of up to 1. An area is swept by
    the path of two channels around its mean along the arc, so it does not depend on speed; it is positive if the first
    channel moves before the second.
    """
    steps = rows[1:] - rows[:-1]  # steps between windows are not read
    lengths = np.sqrt(np.einsum("td,td->t", steps, steps))[:, None]
    middles = (rows[:-1] + steps / 2) * lengths
    return np.concatenate(
        [
            _areas(
                rows[start : stop - 1],
                steps[start : stop - 1],
                _arc_mean(rows[start], middles[start : stop - 1], lengths[start : stop - 1]),
            )
            for start, stop in spans.tolist()
        ]
    )


def _areas(rows: Rows, steps: Rows, mean: Rows) -> NDArray[np.float64]:
    """Return [1, P] of the steps of one window and the rows that they start from."""
    ordered = (rows - mean).T @ steps
    channels = steps.shape[1]
    signed = (ordered - ordered.T).take(_places_of_pairs(channels)) / 2
    power = min(max(channels / (2 * _WIDEST), 0.5), 1.0)  # where many are added up, small ones would hide large ones
    return fold((np.sign(signed) * np.abs(signed) ** power)[None], _pair_count(_WIDEST))


def _arc_mean(first: Rows, middles: Rows, lengths: Rows) -> Rows:
    """Return the mean [D] of a window along its path; middles: of its steps, already weighted by their lengths."""
    total = lengths.sum(axis=0)
    return np.asarray(middles.sum(axis=0) / total) if total[0] else first


@lru_cache(maxsize=16)
def _pairs(channels: int) -> tuple[NDArray[np.intp], ...]:
    return np.triu_indices(channels, k=1)


@lru_cache(maxsize=16)
def _places_of_pairs(channels: int) -> NDArray[np.intp]:
    """Return where the pairs lie in a table of all channels by all, flat."""
    first, second = _pairs(channels)
    return first * channels + second


def _quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [_QUANTILES_SIZE] of z-scored values [T]: quantiles of the values and of their steps, of each part.

    How often a value or a pace occurs does not depend on the phase, and within a part not on the order. Parts of one
    level count together as much as the whole. A part too short to have steps is described by the whole channel.
    """
    found = []
    for count in _LEVELS:
        for part in np.array_split(values, count):
            rows = part if len(part) >= _SHORTEST else np.resize(values, max(_SHORTEST, len(values)))
            weight = 1 / sqrt(count)
            found += [weight * _read_quantiles(rows), weight * _STEPS_WEIGHT * _read_quantiles(np.diff(rows))]
    return np.concatenate(found)


def _read_quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [_QUANTILES], linear between neighbours; as numpy.quantile, which takes several times as long."""
    ordered = np.sort(values)
    places = np.linspace(0, len(ordered) - 1, _QUANTILES)
    below = places.astype(np.int64)
    above = np.minimum(below + 1, len(ordered) - 1)
    between: NDArray[np.float64] = ordered[below] + (places - below) * (ordered[above] - ordered[below])
    return between
