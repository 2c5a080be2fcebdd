"""Resize images with numpy alone, bit for bit as OpenCV does with INTER_LANCZOS4."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAPS: Final = 8
_SCALE: Final = 2048
_SHIFT: Final = 22  # two factors of _SCALE
_ROW_BATCH: Final = 96  # rows at a time: small enough for the CPU cache, and for BLAS libraries to start no threads
_COLUMN_BATCH: Final = 1024


def resize_lanczos(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return an image [H, W, C] in the size (height, width); its proportions may change.

    All sums are whole numbers that floats hold exactly: those of a row are below 2^24, and those of both axes below
    2^31 for any image, as the positive weights of a pixel add up to less than 1.36, the negative ones to 0.36.
    """
    if image.shape[:2] == tuple(size):
        return image
    (height, width, channels), new_width = image.shape, size[1] * image.shape[2]
    resized_rows = np.empty((height, new_width), np.float32)
    for first in range(0, height, _ROW_BATCH):
        rows = image[first : first + _ROW_BATCH].reshape(-1, width * channels).astype(np.float32)
        for new_columns, old_columns, matrix in _horizontal_weights(width, size[1], channels):
            np.matmul(rows[:, old_columns], matrix, out=resized_rows[first : first + _ROW_BATCH, new_columns])
    pixels = np.empty((size[0], new_width), np.uint8)
    for new, old, weights in _vertical_weights(height, size[0]):
        for left in range(0, new_width, _COLUMN_BATCH):
            new_columns = slice(left, left + _COLUMN_BATCH)
            total = (weights @ resized_rows[old, new_columns].astype(np.float64)).astype(np.int32)
            total += 1 << (_SHIFT - 1)
            total >>= _SHIFT
            pixels[new, new_columns] = np.minimum(np.maximum(total, 0, out=total), 255, out=total)
    return pixels.reshape(*size, channels)


def resize_nearest(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return a map [H, W] in the size (height, width), by nearest-neighbor sampling."""
    rows, columns = ((np.arange(new) * old) // new for new, old in zip(size, image.shape[:2], strict=True))
    return np.ascontiguousarray(image[rows][:, columns])


@lru_cache(maxsize=16)
def _vertical_weights(old: int, new: int) -> list[tuple[slice, slice, NDArray[np.float64]]]:
    """Return slices of new positions, each with the slice of old positions it depends on and weights [new, old]."""
    positions, weights = _taps(old, new)
    parts = []
    for first in range(0, new, _TAPS):
        new_slice = slice(first, min(first + _TAPS, new))
        start, stop = positions[new_slice].min(), positions[new_slice].max() + 1
        matrix = np.zeros((new_slice.stop - first, stop - start))
        for tap in range(_TAPS):
            np.add.at(matrix, (np.arange(len(matrix)), positions[new_slice, tap] - start), weights[new_slice, tap])
        parts.append((new_slice, slice(start, stop), matrix))
    return parts


@lru_cache(maxsize=16)
def _horizontal_weights(old: int, new: int, channels: int) -> list[tuple[slice, slice, NDArray[np.float32]]]:
    """Return the same for rows with interleaved channels, and with weights [old, new]."""
    parts = []
    for new_slice, old_slice, matrix in _vertical_weights(old, new):
        columns, old_columns = (slice(one.start * channels, one.stop * channels) for one in (new_slice, old_slice))
        parts.append((columns, old_columns, np.kron(matrix, np.eye(channels)).T.astype(np.float32)))
    return parts


@lru_cache(maxsize=16)
def _taps(old: int, new: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the eight old positions [new, 8] that each new one depends on, and their weights [new, 8]."""
    center = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    left = np.floor(center).astype(np.int64)
    fraction = (center - left).astype(np.float32)
    taps = np.arange(_TAPS)
    distance = fraction[:, None].astype(np.float64) + 3 - taps
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = (-1.0) ** taps * np.sin(np.pi / 4 * (fraction[:, None] + 3.0 - taps)) / distance**2
    is_exact = fraction < np.finfo(np.float32).eps
    curve[is_exact] = taps == 3
    weights = curve.astype(np.float32)
    total = np.zeros(new, np.float32)
    for tap in range(_TAPS):
        total += weights[:, tap]
    weights *= (np.float32(1) / total)[:, None]
    positions = np.clip(left[:, None] - 3 + np.arange(_TAPS), 0, old - 1)
    return positions, np.rint(weights * _SCALE).astype(np.int32)
