"""What camera checks measure of single frames and of neighbouring ones: all that they need of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Look = tuple[Numbers, float, float]

BURSTS: Final = 24
"""Spans of a camera that are looked at, evenly spread; a lane of no more frames than all have is looked at whole."""
BURST: Final = 5
"""Consecutive frames of a span."""

_SIDE: Final = 16
_LEAST_ROWS: Final = 128  # that are measured of a frame that has as many
_BRIGHT: Final = 250.0  # grey of a pixel


def spans_to_look_at(length: int) -> list[tuple[int, int]]:
    """Return the spans [start, stop) of an episode whose frames are measured."""
    if length <= BURSTS * BURST:
        return [(0, length)]
    starts = np.linspace(0, length - BURST, BURSTS).round().astype(int).tolist()
    return [(start, start + BURST) for start in starts]


def steps_to_look_at(length: int) -> NDArray[np.int64]:
    """Return the timesteps of an episode whose frames are measured, ascending."""
    return np.concatenate([np.arange(*span, dtype=np.int64) for span in spans_to_look_at(length)])


@dataclass(frozen=True, eq=False)
class FrameMeasures:
    """Measures of the frames of a camera at `steps` [N], ascending.

    grey, bright, sharpness [N]: mean grey of 0 to 255, share of overexposed pixels, and fine over coarse differences of
    pixels. changes: mean absolute difference of each pair of consecutive frames; turns: cosine of each two successive
    differences. picture: the median frame [16, 16], grey, with mean 0 and standard deviation 1.
    """

    steps: NDArray[np.int64]
    grey: Numbers
    bright: Numbers
    sharpness: Numbers
    changes: Numbers
    turns: Numbers
    picture: Numbers

    @property
    def follows(self) -> NDArray[np.int64]:
        """Where in `steps` the frames are that another one follows at once."""
        return np.flatnonzero(np.diff(self.steps) == 1)

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Where in `follows` the pairs are that another one follows at once."""
        return np.flatnonzero(np.diff(self.follows) == 1)

    @classmethod
    def of(cls, steps: NDArray[np.int64], looks: Sequence[Look]) -> Self:
        """Return the measures of frames at these timesteps; looks: what look_at returns of each."""
        thumbs = np.stack([look[0] for look in looks])
        bright, sharpness = (np.array([look[part] for look in looks]) for part in (1, 2))
        follows = np.flatnonzero(np.diff(steps) == 1)
        moved = (thumbs[follows + 1] - thumbs[follows]).reshape(len(follows), _SIDE * _SIDE)
        pairs, lengths = np.flatnonzero(np.diff(follows) == 1), np.linalg.norm(moved, axis=1)
        products = (moved[pairs] * moved[pairs + 1]).sum(axis=1)
        turns = products / np.maximum(lengths[pairs] * lengths[pairs + 1], 1e-9)
        changes, grey = np.abs(moved).mean(axis=1), thumbs.mean(axis=(1, 2))
        return cls(steps, grey, bright, sharpness, changes, turns, _normalise(np.median(thumbs, axis=0)))


def measure_frames(take: Callable[[int, int], NDArray[Any]], length: int) -> FrameMeasures:
    """Return the measures of some frames of a camera.

    take: returns the frames [start, stop) as [n, height, width] or [n, height, width, planes].
    """
    looks = [look_at(frame) for span in spans_to_look_at(length) for frame in take(*span)]
    return FrameMeasures.of(steps_to_look_at(length), looks)


def look_at(frame: NDArray[Any]) -> Look:
    """Return a frame as [16, 16] grey of 0 to 255, its share of overexposed pixels, and its sharpness.

    Of a tall frame some rows are measured, evenly spread: 128 to 255.
    """
    pixels, scale = _grey(frame[:: max(1, len(frame) // _LEAST_ROWS)])
    fine, coarse = (_difference(pixels, apart) * scale for apart in (1, 4))
    rows, columns, counts = _cells(*pixels.shape)
    sums = (rows @ pixels @ columns).astype(np.float64)
    bright = np.count_nonzero(pixels >= round(_BRIGHT / scale)) / pixels.size
    return sums * scale / counts, bright, fine / max(coarse, 1.0)


def _grey(frame: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """Return numbers [height, width], of bytes the sum of the planes, and what times them is grey of 0 to 255.

    Sums of bytes are float32, which adds the pixels of a row or a cell without rounding.
    """
    planes = frame if frame.ndim == 3 else frame[..., None]
    if frame.dtype == np.uint8:
        values, count = planes.astype(np.float32), planes.shape[-1]
        is_interleaved = count > 1 and values.strides[-1] == values.itemsize
        return values @ np.ones(count, np.float32) if is_interleaved else values.sum(axis=-1), 1.0 / count
    largest = float(np.iinfo(frame.dtype).max) if frame.dtype.kind in "ui" else 1.0
    return np.nan_to_num(planes.astype(np.float64).mean(axis=-1)), 255.0 / largest


def _difference(pixels: NDArray[Any], apart: int) -> float:
    """Return the mean absolute difference of pixels so many columns apart."""
    if pixels.shape[1] <= apart:
        return 0.0
    differences = pixels[:, apart:] - pixels[:, :-apart]
    np.abs(differences, out=differences)
    mean: float = differences.sum(axis=1).sum(dtype=np.float64) / differences.size
    return mean


@lru_cache(maxsize=64)
def _cells(height: int, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Return which rows [16, height] and columns [width, 16] are in which cell, and the pixels [16, 16] of each."""
    tall, wide = np.zeros((_SIDE, height), np.float32), np.zeros((_SIDE, width), np.float32)
    for cells, size in ((tall, height), (wide, width)):
        starts = np.linspace(0, size, _SIDE, endpoint=False).astype(int)
        for cell, start, stop in zip(cells, starts, [*starts[1:], size], strict=True):
            cell[start : max(stop, start + 1)] = 1.0  # of a picture of fewer pixels, some are repeated
    return tall, np.ascontiguousarray(wide.T), np.outer(tall.sum(axis=1), wide.sum(axis=1))


def _normalise(picture: Numbers) -> Numbers:
    spread = float(picture.std())
    return (picture - picture.mean()) / spread if spread > 1.0 else np.zeros_like(picture)
