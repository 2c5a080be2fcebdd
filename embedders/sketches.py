"""What frames look like, as rows: one short row per frame, so that spans of images can be aligned like other lanes.

Knows one frame at a time. Does not know what is in it, nor how much frames differ in an archive: that is its callers'
scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.frames import check_frames, thumbnail
from embedders.spectral import dct_matrix

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.finite import Rows

_SIDE: Final = 16
_BLOCK: Final = 8
_THINNED: Final = 64  # pixels: of larger images every second, third, ... row and column is enough for a small picture
_CONSTANT: Final = 1e-6  # pictures that vary less, relative to their largest value, vary by rounding only


def sketches(window: NDArray[Any], where: str) -> Rows:
    """Return [T, 63] for images [T, height, width] or [T, height, width, planes] of sides of 16 pixels at least.

    A frame is averaged to 16 x 16 grey pixels, brought to mean 0 and standard deviation 1, so that neither exposure nor
    the scale of its values counts, and described by the lowest 8 x 8 coefficients of its 2-D DCT but the mean. Equal
    frames have equal rows, wherever they are. Raises EmbedderError, naming `where`, for what is no image, and NaN.
    """
    check_frames(window, None, where)
    every = max(1, min(window.shape[1:3]) // _THINNED)
    slow = dct_matrix(_SIDE, _BLOCK)
    rows = np.empty((len(window), _BLOCK**2 - 1))
    for step, frame in enumerate(window):
        (picture,) = thumbnail(frame[::every, ::every], f"{where}, timestep {step}", _SIDE)
        seen = picture - picture.mean()
        spread = seen.std()
        if spread <= _CONSTANT * np.abs(picture).max():
            rows[step] = 0.0
        else:
            rows[step] = (slow @ (seen / spread) @ slow.T).reshape(-1)[1:] / _SIDE
    return rows
