"""What is usual: the measures of other episodes of the same form and environment, as middle and upper spread.

The middle is the median, the spread reaches from it to the 85th percentile: neither is moved by a tenth of faulty
episodes. Does not know: which episodes these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.quality.form import Form, Measures

    Numbers = NDArray[np.float32]

FEWEST: Final = 8
"""Fewer episodes say nothing about what is usual."""
MOST: Final = 64
"""More episodes say little more."""
_UPPER: Final = 0.85


@dataclass(frozen=True, eq=False)
class Usual:
    """Middle and upper spread of every measure, as Measures of one episode each."""

    middle: Measures
    spread: Measures
    below: Measures
    scale: NDArray[np.float64]


def usual(form: Form, vectors: Numbers) -> Usual | None:
    """Return what is usual among episodes [N, size]; None for fewer than FEWEST."""
    if len(vectors) < FEWEST:
        return None
    ordered = np.sort(vectors, axis=0)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(vectors), axis=0) - 1, 0)
    places = [np.rint(share * last).astype(int)[None] for share in (1 - _UPPER, 0.5, _UPPER)]
    low, middle, high = (np.take_along_axis(ordered, place, axis=0)[0] for place in places)
    parts = form.read(vectors)
    inside, between = parts.of_channels("std").astype(np.float64), parts.phases().astype(np.float64)
    scale = np.sqrt(
        np.median(inside**2, axis=0) + np.median((between - np.median(between, axis=(0, 1))) ** 2, axis=(0, 1))
    )
    return Usual(*(form.read(one[None]) for one in (middle, high - middle, middle - low)), scale)
