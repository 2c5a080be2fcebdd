"""The path signature of a window up to level 2: how far it goes, and which channels lead and which follow.

Knows z-scored rows. Does not know weights or unit length: it is one block of `combo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.finite import Rows

AREA_WEIGHT = 0.5
"""What the areas count against the sums: there are many more of them."""


def signature_size(channels: int) -> int:
    """Return the number of values of `signature`: 2 * channels, and one area per pair of channels."""
    return 2 * channels + channels * (channels - 1) // 2


def signature(rows: Rows) -> NDArray[np.float64]:
    """Return [signature_size(D)] of z-scored `rows` [T, D]: way from zero, mean, signed areas between channels.

    The path starts at zero, the archive's mean. The area of a pair of channels says which of them moves first; its
    square root grows as the path does, so that no long way outweighs all else.
    """
    steps = np.diff(rows, axis=0, prepend=0.0)
    before = rows - steps  # where each step begins
    ordered = before.T @ steps
    first, second = np.triu_indices(rows.shape[1], k=1)
    areas = (ordered[first, second] - ordered[second, first]) / 2
    rooted = np.sign(areas) * np.sqrt(np.abs(areas))
    return np.concatenate([rows[-1], rows.mean(axis=0), AREA_WEIGHT * rooted])
