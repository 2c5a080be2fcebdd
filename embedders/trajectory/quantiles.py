"""Describe the values of one channel and their steps by quantiles, of the whole and of its halves and quarters."""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEVELS: Final = (1, 2, 4)  # parts of equal length: what comes when is known to a quarter
_QUANTILES: Final = 9  # from the minimum to the maximum
_STEPS_WEIGHT: Final = 3.0  # steps are smaller than values
_SHORTEST: Final = 3  # timesteps of a part, which are two steps

SIZE: Final = 2 * _QUANTILES * sum(_LEVELS)
"""The number of values of `quantiles`."""


def quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [SIZE] of z-scored values [T]: quantiles of the values and of their steps, of each part.

    How often a value or a pace occurs does not depend on the phase, and within a part not on the order. Parts of one
    level count together as much as the whole. A part too short to have steps is described by the whole channel.
    """
    found = []
    for count in _LEVELS:
        for part in np.array_split(values, count):
            rows = part if len(part) >= _SHORTEST else np.resize(values, max(_SHORTEST, len(values)))
            weight = 1 / sqrt(count)
            found += [weight * _read_quantiles(rows), weight * _STEPS_WEIGHT * _read_quantiles(np.diff(rows))]
    return np.concatenate(found)


def _read_quantiles(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [_QUANTILES], linear between neighbours; as numpy.quantile, which takes several times as long."""
    ordered = np.sort(values)
    places = np.linspace(0, len(ordered) - 1, _QUANTILES)
    below = places.astype(np.int64)
    above = np.minimum(below + 1, len(ordered) - 1)
    between: NDArray[np.float64] = ordered[below] + (places - below) * (ordered[above] - ordered[below])
    return between
