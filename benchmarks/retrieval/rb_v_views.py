"""What benchmark RB-V compares: ways to describe what a camera saw, one line each.

A way has vectors of episodes and features of their frames; frames are uint8 [E, T, 96, 96, 3].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.image.frame_encoder import comparable_rows
from embedders.image.frames import Frames
from embedders.trajectory.spectral import dct_matrix

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Pictures = NDArray[np.uint8]
    Rows = NDArray[np.float64]

_CELLS: Final = 16


@dataclass(frozen=True)
class View:
    """A way to describe: vectors [E, D] of episodes, and features [E, T, F] of frames; both are compared by cosines."""

    name: str
    of_episodes: Callable[[Pictures], Rows]
    of_frames: Callable[[Pictures], Rows]


def views() -> list[View]:
    """Return the ways; what is measured further needs a line here."""
    return [
        View("16 x 16 pixels, mean", lambda seen: _cells(seen).mean(axis=1), _cells),
        View("16 x 16 pixels, four cosines", lambda seen: over_time(_cells(seen)), _cells),
        View("`frames`", _by_frames, _by_thumbnails),
    ]


def over_time(rows: Rows) -> Rows:
    """Return four cosines over time of rows [E, T, D]."""
    return np.einsum("kt,etd->ekd", dct_matrix(rows.shape[1], 4), rows).reshape(len(rows), -1)


def _cells(seen: Pictures) -> Rows:
    """Return grey cells [E, T, 256]."""
    side = seen.shape[2] // _CELLS
    grey: Rows = seen.mean(axis=-1).reshape(*seen.shape[:2], _CELLS, side, _CELLS, side).mean(axis=(3, 5))
    return grey.reshape(*seen.shape[:2], -1)


def _by_frames(seen: Pictures) -> Rows:
    return Frames().embed(list(seen), None).astype(np.float64)


def _by_thumbnails(seen: Pictures) -> Rows:
    """Return features as searches by picture compare them."""
    encoder = Frames()
    return np.stack([comparable_rows(encoder.encode_frames(one).astype(np.float16)) for one in seen]).astype(np.float64)
