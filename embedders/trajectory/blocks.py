"""The embedder `blocks`: path, shape over time and signed areas of a whole episode, in blocks that a search weighs."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from embedders.base import LaneEmbedder, Vectors, unit_rows
from embedders.numeric import check_number
from embedders.trajectory.quantiles import SIZE, quantiles
from embedders.trajectory.resample import arc_resample, joined, resample, smooth
from embedders.trajectory.spectral import check_resolution, dct_matrix, spectra
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows

MOST_PAIRED: Final = 64
"""Maximum number of channels with an area per pair; of more, each has one area with the mean of all."""

_EPSILON: Final = 1e-4
_SILENT: Final = 1e-9


@dataclass(frozen=True)
class Blocks(LaneEmbedder):
    """Describe an episode by three blocks of z-scored values, scaled to equal length so that a search can weigh them.

    path: the geometric path, sampled at `length` points of equal arc length over all channels: the first `coefficients`
    of its DCT-II, with damping. shape: the course over time: `time_coefficients` of the DCT-II without the mean.
    areas: which channel leads which: the signed root of the area between each pair of channels, around the mean along
    the path, of rows averaged over `smoothing` timesteps. Path and areas do not depend on speed. The arc is that of
    rows averaged over `arc_smoothing` timesteps, in which a channel counts as much as it moves steadily: positions in
    full, jittering actions and sensors little. Permuting channels or lanes changes no similarity. A single channel has
    no path to speak of, and no areas: it is described by its `quantiles` alone.
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
            return (SIZE,)
        return (self.coefficients * channels, (self.time_coefficients - 1) * channels, area_count(channels))

    def dim(self, channels: int) -> int:
        """Return the sum of the blocks' sizes."""
        return sum(self.blocks(channels))

    def shares(self, channels: int) -> NDArray[np.float64]:
        """Return [dim, channels]: the channel of each value of a vector; an area is shared by its two channels."""
        eye = np.eye(channels)
        if channels == 1:
            return np.tile(eye, (SIZE, 1))
        first, second = np.triu_indices(channels, k=1)
        halves = (eye[first] + eye[second]) / 2 if channels <= MOST_PAIRED else eye
        return np.concatenate([np.tile(eye, (self.coefficients + self.time_coefficients - 1, 1)), halves])

    def describe(self, windows: list[Rows]) -> NDArray[np.float64]:
        """Return [N, dim]: the vectors of z-scored windows, each block of the same length."""
        if windows[0].shape[1] == 1:
            return _unit(np.stack([quantiles(rows[:, 0]) for rows in windows])).astype(np.float64)
        smoothed = [smooth(rows, self.smoothing) for rows in windows]
        rows, spans = joined(windows)
        arcs = np.concatenate([smooth(window, self.arc_smoothing) * steadiness(window) for window in windows])
        even = arc_resample(rows, spans, self.length, path=arcs, epsilon=_EPSILON)
        damped = np.exp(-self.damping * np.arange(self.coefficients))
        path = spectra(even, damped[:, None] * dct_matrix(self.length, self.coefficients))
        in_time = np.stack([resample(window, self.length) for window in windows])
        shape = spectra(in_time, dct_matrix(self.length, self.time_coefficients)[1:])
        between = np.stack([areas(window) for window in smoothed])
        parts = [_unit(block) for block in (path, shape, between)]
        return np.concatenate(parts, axis=1, dtype=np.float64) / sqrt(len(parts))


def _unit(block: NDArray[np.float64]) -> Vectors:
    silent = np.abs(block).max(axis=1) < _SILENT  # rounding errors of zeros
    return unit_rows(np.where(silent[:, None], 0.0, block))


def steadiness(rows: Rows) -> NDArray[np.float64]:
    """Return [D] of rows [T, D]: how steadily each channel moves, from 1 (steps continue) to 0 (each is turned back).

    It is 1 minus the energy of second differences in the most that those steps could have, to the fourth power; 1 for
    a channel that never moves. Rows are averaged over 3 timesteps first, so that noise on a position counts little.
    """
    steps = np.diff(smooth(rows, 3), axis=0)
    turns = np.diff(steps, axis=0)
    most = 4 * np.einsum("td,td->d", steps, steps)
    share = np.divide(np.einsum("td,td->d", turns, turns), most, out=np.zeros(most.shape), where=most > _SILENT)
    found: NDArray[np.float64] = np.maximum(1 - share, 0.0) ** 4
    return found


def area_count(channels: int) -> int:
    """Return the number of values of `areas`."""
    return channels * (channels - 1) // 2 if channels <= MOST_PAIRED else channels


def areas(rows: Rows) -> NDArray[np.float64]:
    """Return [area_count(D)] of z-scored rows [T, D]: the signed root of the area between every two channels.

    It is swept by their path around its mean along the arc, so it does not depend on speed; it is positive if the first
    channel moves before the second.
    """
    steps = np.diff(rows, axis=0)
    before = rows[:-1] - _arc_mean(rows, steps)
    channels = rows.shape[1]
    if channels > MOST_PAIRED:
        found = (before * steps.mean(axis=1, keepdims=True) - before.mean(axis=1, keepdims=True) * steps).sum(
            axis=0
        ) / 2
    else:
        ordered = before.T @ steps
        first, second = np.triu_indices(channels, k=1)
        found = (ordered[first, second] - ordered[second, first]) / 2
    rooted: NDArray[np.float64] = np.sign(found) * np.sqrt(np.abs(found))
    return rooted


def _arc_mean(rows: Rows, steps: Rows) -> Rows:
    """Return the mean [D] of rows [T, D] along their path: the middles of steps weighted by their lengths."""
    lengths = np.sqrt(np.einsum("td,td->t", steps, steps))
    middles = rows[:-1] + steps / 2
    return np.average(middles, axis=0, weights=lengths) if lengths.any() else rows[0]
