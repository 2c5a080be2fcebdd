"""Z-scores with the frozen statistics of an archive, clipped and multiplied by the weights of the lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows
    from embedders.space import Statistics

STD_FLOOR: Final = 1e-6
"""Channels with a smaller deviation count as constant: dividing by rounding noise would amplify it.

Where no channel has a larger one, as of positions of nanometres, it is a share of the largest.
"""

IGNORED_STD: Final = 1e30
"""Stands for the deviation of a channel that tells nothing, such as a counter: its scores are 0 in effect."""

CLIP: Final = 5.0
"""Standard deviations beyond which one outlier would outweigh the rest of its window."""


def scales(statistics: Statistics) -> NDArray[np.float64]:
    """Return the divisors of channels [D]: their standard deviation, 1 for constant ones."""
    std = statistics.std
    largest = std.max(initial=0.0, where=std < IGNORED_STD)
    if largest >= STD_FLOOR:
        return np.where(std < STD_FLOOR, 1.0, std)
    noise = STD_FLOOR * np.maximum(largest, np.abs(statistics.mean))
    return np.where(std <= noise, 1.0, std)


def standardise(rows: Rows, statistics: Statistics) -> Rows:
    """Return the z-scores of `rows` float64 [R, D]: standard deviations of the archive, clipped to +-CLIP, weighted."""
    scored: Rows = rows - statistics.mean
    scored /= scales(statistics)
    np.clip(scored, -CLIP, CLIP, out=scored)
    if statistics.factors is not None:
        scored *= statistics.factors
    return scored
