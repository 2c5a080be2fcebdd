"""The metrics of a Space (cosine, inner product, Euclidean distance) as scores: higher is better."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from bridge.index.base import Vectors

Scores = NDArray[np.float64]

COSINE: Final = "cosine"
DOT: Final = "dot"
L2: Final = "l2"
METRICS: Final = (COSINE, DOT, L2)


def check_metric(metric: str) -> None:
    """Raise SpaceMismatchError for an unknown metric."""
    if metric not in METRICS:
        raise SpaceMismatchError(f"metric of a Space: expected {', '.join(METRICS)}, found {metric!r}")


def score(metric: str, vectors: Scores, query: Scores, room: Scores | None = None) -> Scores:
    """Return the scores of float64 vectors [n, E] against float64 query [E]: cosine, inner product, or -distance.

    room: buffer [n, E].
    """
    if metric == L2:
        differences = np.subtract(vectors, query, out=room)
        distances: Scores = 0.0 - np.sqrt(np.vecdot(differences, differences))  # avoids -0.0
        return distances
    products: Scores = np.vecdot(vectors, query)  # row by row, so that scores do not depend on other rows
    if metric == DOT:
        return products
    norms = np.sqrt(np.vecdot(vectors, vectors) * np.vecdot(query, query))
    cosines: Scores = np.minimum(np.maximum(products / norms, -1.0), 1.0)
    return cosines


def measure_length(query: Vectors) -> float:
    """Return the Euclidean length of a vector, summed in float64."""
    query64 = query.astype(np.float64)
    return math.sqrt(float(query64.dot(query64)))


def bound_distance_error(dim: int, distance: float) -> float:
    """Return the maximum error of half a squared distance, of up to this distance, computed in float64."""
    return (dim + 8) * 2.0**-54 * distance * distance
