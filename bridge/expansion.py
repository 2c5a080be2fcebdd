"""One query vector from several: examples and counter-examples, and a query grown by its best hits.

Knows: unit vectors of one Space. Does not know: where they come from, or how they are searched with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.errors import QueryError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.index.base import Vectors

AGAINST: Final = 0.5
"""What the mean of the counter-examples counts against the mean of the examples (Rocchio's rule)."""

_LEAST: Final = 1e-6


def combined(like: NDArray[np.floating], unlike: NDArray[np.floating]) -> Vectors:
    """Return the unit vector of mean(like [n, E]) - AGAINST * mean(unlike [m, E]), m may be 0; one example is itself.

    Raises QueryError where they cancel out.
    """
    if len(like) == 1 and not len(unlike):
        return np.asarray(like[0], np.float32)
    towards = like.mean(axis=0, dtype=np.float64)
    if len(unlike):
        towards = towards - AGAINST * unlike.mean(axis=0, dtype=np.float64)
    if np.linalg.norm(towards) < _LEAST:
        raise QueryError("the examples cancel out: expected some that have more in common, or fewer counter-examples")
    return unit(towards)


def expanded(
    query: Vectors, hits: NDArray[np.floating], similarities: NDArray[np.float64], *, own: float, power: float
) -> Vectors:
    """Return unit(own * query [E] + the sum of hits [n, E], each times max(similarity, 0) ** power).

    What this is without hits, or where all of it cancels out, is the query.
    """
    weights = np.maximum(similarities, 0.0) ** power
    grown = own * query.astype(np.float64) + weights @ hits.astype(np.float64)
    return unit(grown) if np.linalg.norm(grown) >= _LEAST else query


def unit(vector: NDArray[np.float64]) -> Vectors:
    """Return a vector that is not zero at length 1, as float32 [E]."""
    scaled: Vectors = (vector / np.linalg.norm(vector)).astype(np.float32)
    return scaled
