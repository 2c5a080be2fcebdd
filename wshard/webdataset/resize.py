"""Resize images as OpenCV does with INTER_LANCZOS4, to the bit, on numpy alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TAPS: Final = 8
_SCALE: Final = 2048
_SHIFT: Final = 22  # two factors of _SCALE
_ROWS: Final = 96  # at a time: what is calculated stays in the cache, and BLAS libraries start no threads for it
_COLUMNS: Final = 1024


def resize_lanczos(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return an image [H, W, C] in the size (height, width); its proportions may change.

    All sums are whole numbers that floats hold exactly: those of a row are below 2^24, and those of both axes below
    2^31 for any image, as the positive weights of a place add up to less than 1.36, the negative ones to 0.36.
    """
    if image.shape[:2] == tuple(size):
        return image
    (height, width, channels), wide = image.shape, size[1] * image.shape[2]
    across = np.empty((height, wide), np.float32)
    for first in range(0, height, _ROWS):
        rows = image[first : first + _ROWS].reshape(-1, width * channels).astype(np.float32)
        for columns, there, matrix in _across(width, size[1], channels):
            np.matmul(rows[:, there], matrix, out=across[first : first + _ROWS, columns])
    pixels = np.empty((size[0], wide), np.uint8)
    for new, old, weights in _down(height, size[0]):
        for left in range(0, wide, _COLUMNS):
            some = slice(left, left + _COLUMNS)
            total = (weights @ across[old, some].astype(np.float64)).astype(np.int32)
            total += 1 << (_SHIFT - 1)
            total >>= _SHIFT
            pixels[new, some] = np.minimum(np.maximum(total, 0, out=total), 255, out=total)
    return pixels.reshape(*size, channels)


def resize_nearest(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return a map [H, W] in the size (height, width), each value that of the nearest place."""
    rows, columns = ((np.arange(new) * old) // new for new, old in zip(size, image.shape[:2], strict=True))
    return np.ascontiguousarray(image[rows][:, columns])


@lru_cache(maxsize=16)
def _down(old: int, new: int) -> list[tuple[slice, slice, NDArray[np.float64]]]:
    """Return for each few new places where they are, the old places that they are made of, and weights [new, old]."""
    places, weights = _taps(old, new)
    parts = []
    for first in range(0, new, _TAPS):
        some = slice(first, min(first + _TAPS, new))
        begin, stop = places[some].min(), places[some].max() + 1
        matrix = np.zeros((some.stop - first, stop - begin))
        for tap in range(_TAPS):
            np.add.at(matrix, (np.arange(len(matrix)), places[some, tap] - begin), weights[some, tap])
        parts.append((some, slice(begin, stop), matrix))
    return parts


@lru_cache(maxsize=16)
def _across(old: int, new: int, channels: int) -> list[tuple[slice, slice, NDArray[np.float32]]]:
    """Return the same of rows with some channels at each place, with weights [old, new]."""
    parts = []
    for some, there, matrix in _down(old, new):
        columns, old_columns = (slice(one.start * channels, one.stop * channels) for one in (some, there))
        parts.append((columns, old_columns, np.kron(matrix, np.eye(channels)).T.astype(np.float32)))
    return parts


@lru_cache(maxsize=16)
def _taps(old: int, new: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return for each new place the eight old ones that it is made of [new, 8], and their weights."""
    at = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    begin = np.floor(at).astype(np.int64)
    rest = (at - begin).astype(np.float32)
    distance = rest[:, None].astype(np.float64) + 3 - np.arange(_TAPS)
    with np.errstate(invalid="ignore", divide="ignore"):
        curve = (-1.0) ** np.arange(_TAPS) * np.sin(np.pi / 4 * (rest[:, None] + 3.0 - np.arange(_TAPS))) / distance**2
    exact = rest < np.finfo(np.float32).eps
    curve[exact] = np.arange(_TAPS) == 3
    weights = curve.astype(np.float32)
    total = np.zeros(new, np.float32)
    for tap in range(_TAPS):
        total += weights[:, tap]
    weights *= (np.float32(1) / total)[:, None]
    places = np.clip(begin[:, None] - 3 + np.arange(_TAPS), 0, old - 1)
    return places, np.rint(weights * _SCALE).astype(np.int32)
