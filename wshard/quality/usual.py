"""What is usual: the measures of other episodes of the same form and environment, their middle and how they spread.

The middle is the median, the spread reaches from there to the 85th and the 15th percentile: neither is moved by a tenth
of faulty episodes. Does not know: which episodes these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.quality.lag import usual_answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.quality.form import Form, Measures
    from wshard.quality.lag import Answer

    Numbers = NDArray[np.float32]

FEWEST: Final = 8
"""Fewer episodes say nothing about what is usual."""
MOST: Final = 64
"""More episodes say little more."""
_UPPER: Final = 0.85


@dataclass(frozen=True, eq=False)
class Usual:
    """Middle, and spread above and below it, of every measure, as Measures of one episode each.

    scale: the standard deviation of each channel [D], within episodes and between them. answer: see lag.py; None where
    actions have nothing to do with what is observed.
    """

    middle: Measures
    above: Measures
    below: Measures
    scale: NDArray[np.float64]
    answer: Answer | None


def usual(form: Form, vectors: Numbers) -> Usual | None:
    """Return what is usual among episodes [N, size]; None for fewer than FEWEST. A measure that none has is NaN."""
    if len(vectors) < FEWEST:
        return None
    ordered = np.sort(vectors, axis=0)  # NaN comes last
    last = np.maximum(np.count_nonzero(~np.isnan(vectors), axis=0) - 1, 0)
    places = [np.rint(share * last).astype(int)[None] for share in (1 - _UPPER, 0.5, _UPPER)]
    low, middle, high = (np.take_along_axis(ordered, place, axis=0) for place in places)
    with np.errstate(all="ignore"):  # numbers near the limits of a float
        spread = (form.read(high - middle), form.read(middle - low))
        found = form.read(vectors)
        return Usual(form.read(middle), *spread, _scale(found), usual_answer(found.lag))


def _scale(found: Measures) -> NDArray[np.float64]:
    if not found.form.channels:
        return np.zeros(0)
    levels = found.phases().astype(np.float64).reshape(-1, found.form.channels)
    within = np.median(found.of_channels("std").astype(np.float64) ** 2, axis=0)
    between = np.median((levels - np.median(levels, axis=0)) ** 2, axis=0)
    scale: NDArray[np.float64] = np.sqrt(within + between)
    return scale
