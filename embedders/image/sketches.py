"""Sketches of frames: what alignment compares of images, also of stored features of `frames`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.image.frames import LUMINANCE, Frames, as_rgb, check_frames, thumbnail
from embedders.trajectory.spectral import dct_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows

_SIDE: Final = 16
_BLOCK: Final = 8
_MIN_PIXELS: Final = 64  # pixels; of larger images every second, third, ... row and column is sufficient
_CONSTANT_SKETCH: Final = 1e-6  # images with less relative variation are constant except for rounding

ENCODER: Final = Frames(side=_SIDE)
"""Its features of frames of bytes make the same sketches as the frames."""


def sketches(window: NDArray[Any], where: str) -> Rows:
    """Return [T, 63] for images [T, height, width] or [T, height, width, planes] with sides of at least 16 pixels.

    Or for features float16 [T, 1, D] of ENCODER. A frame is averaged to 16 x 16 grey pixels, normalised to mean 0 and
    standard deviation 1 (so that exposure and scale do not matter), and described by the lowest 8 x 8 coefficients of
    its 2-D DCT without the mean. Equal frames have equal rows. Raises EmbedderError, naming `where`, for NaN and for
    arrays that are not images.
    """
    dct = dct_matrix(_SIDE, _BLOCK)
    rows = np.empty((len(window), _BLOCK**2 - 1))
    for step, picture in enumerate(_pictures(window, where)):
        centred = picture - picture.mean()
        spread = centred.std()
        if spread <= _CONSTANT_SKETCH * np.abs(picture).max():
            rows[step] = 0.0
        else:
            rows[step] = (dct @ (centred / spread) @ dct.T).reshape(-1)[1:] / _SIDE
    return rows


def _pictures(window: NDArray[Any], where: str) -> Rows:
    """Return [T, 16, 16] grey; of bytes from what is stored of them, so that it is the same with and without that."""
    features = window
    if not _is_features(window):
        check_frames(window, None, where)
        if window.dtype != np.uint8:
            stride = max(1, min(window.shape[1:3]) // _MIN_PIXELS)
            thin = window[:, ::stride, ::stride]
            planes = [thumbnail(frame, f"{where}, timestep {step}", _SIDE) for step, frame in enumerate(thin)]
            return np.stack([np.tensordot(LUMINANCE, one, 1) for one in planes])
        features = ENCODER.encode_frames(as_rgb(window)).astype(np.float16)
    found: Rows = np.einsum("p,tpij->tij", LUMINANCE, features.astype(np.float64).reshape(-1, 3, _SIDE, _SIDE))
    return found


def _is_features(window: NDArray[Any]) -> bool:
    return window.dtype == np.float16 and window.shape[1:] == (1, 3 * _SIDE * _SIDE)
