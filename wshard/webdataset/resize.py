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


def resize_lanczos(image: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Return an image [H, W, C] in the size (height, width); its proportions may change."""
    if image.shape[:2] == tuple(size):
        return image
    # Rows of memory are added up, so the axis that is resized comes first.
    wide = _resize_first(np.ascontiguousarray(image.transpose(1, 0, 2)), size[1])
    high = _resize_first(np.ascontiguousarray(wide.transpose(1, 0, 2)), size[0])
    pixels: NDArray[np.uint8] = np.clip((high + (1 << (_SHIFT - 1))) >> _SHIFT, 0, 255).astype(np.uint8)
    return pixels


def resize_nearest(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Return a map [H, W] in the size (height, width), each value that of the nearest place."""
    rows, columns = ((np.arange(new) * old) // new for new, old in zip(size, image.shape[:2], strict=True))
    return np.ascontiguousarray(image[rows][:, columns])


def _resize_first(image: NDArray[Any], size: int) -> NDArray[np.int32]:
    places, weights = _taps(image.shape[0], size)
    total = np.zeros((size, *image.shape[1:]), np.int32)
    part = np.empty_like(total)
    for tap in range(_TAPS):
        np.multiply(image[places[:, tap]], weights[:, tap, None, None], out=part)
        total += part
    return total


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
