"""Scores of a Space's metric, higher is better, and the float32 products that come before them.

Knows: cosine, dot (the inner product) and l2 (the Euclidean distance, negative), and how far a float32 product can be
off. Does not know: where vectors lie.

    metric    score              ranked by, in float32         off by at most, for terms E and lengths |v| <= V
    cosine    v.q / |v| |q|      v.q / |q|, as |v| is 1        E 2**-24 + what 1e-5 in |v| makes
    dot       v.q                v.q / |q|                     E 2**-24 V
    l2        -|v - q|           (v.q - |v|**2 / 2) / s        (E 2**-24 (V |q| + V**2) + E 2**-54 (V + |q|)**2) / s

with s = max(V, |q|), so that no number leaves the range of float32; the last term is what float64 distances are off by,
which is more than float32 products only if the query is far away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.embedded.arrays import WIDTH
from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.embedded.segment import Segment


def rounding(dim: int) -> float:
    """Return what a float32 product of unit vectors of this size, of outlines or codes, may be off from a cosine."""
    return (dim + 2 * WIDTH) * 2.0**-24 + 1e-5


Scores = NDArray[np.float64]
COSINE: Final = "cosine"
DOT: Final = "dot"
L2: Final = "l2"
_UNIT: Final = 2e-5  # what |v| ** 2 / 2 may differ by
_SHORT: Final = 1e-3
METRICS: Final = (COSINE, DOT, L2)


@dataclass(frozen=True, eq=False)
class Probe:
    """A query as rows are compared with it: a row's product is vectors @ query, less its share of `halves`, if any.

    slack: what a product may be off from one that ranks exactly as the metric does.
    """

    query: Vectors
    halves: NDArray[np.float32] | None
    slack: float


def check_metric(metric: str) -> None:
    """Raise SpaceMismatchError for a metric that nobody here knows."""
    if metric not in METRICS:
        raise SpaceMismatchError(f"metric of a Space: expected {', '.join(METRICS)}, found {metric!r}")


def probe(segment: Segment, query: Vectors, metric: str) -> Probe:
    """Return the query as the rows of this segment are compared with it. Raises ChecksumError."""
    length = _length(query)
    if metric == COSINE:
        return Probe((query / (length or 1.0)).astype(np.float32), None, rounding(len(query)))
    halves, longest = segment.lengths
    terms = (len(query) + 8) * 2.0**-24
    if metric == DOT:
        return Probe((query / (length or 1.0)).astype(np.float32), None, terms * longest)
    scale = max(longest, length) or 1.0
    slack = terms * (longest * length + longest * longest) / scale + _far(query, longest + length) / scale
    return Probe((query / scale).astype(np.float32), halves * np.float32(longest / scale), slack)


def _length(query: Vectors) -> float:
    wide = query.astype(np.float64)
    return math.sqrt(float(wide.dot(wide)))


def _far(query: Vectors, distance: float) -> float:
    """Return what half a squared distance, of up to so much, may be off in float64."""
    return (len(query) + 8) * 2.0**-54 * distance * distance


def unit_probe(query: Vectors, metric: str) -> Probe | None:
    """Return the query as vectors of unit length, within 1e-5, are compared with it; None for one of length 0.

    Their products with a query of unit length rank them as every metric does: a distance that differs by what 1e-5 in
    |v| makes is a product that differs by so much over |q|.
    """
    length = _length(query)
    if length < _SHORT:
        return None
    further = _UNIT + _far(query, 1 + length) if metric == L2 else 0.0
    return Probe(query / np.float32(length), None, rounding(len(query)) + further / length)


def scores(metric: str, vectors: Scores, query: Scores) -> Scores:
    """Return the scores of float64 vectors [n, E] against float64 query [E]."""
    if metric == L2:
        distances: Scores = 0.0 - np.sqrt(np.square(vectors - query).sum(axis=1))  # so that nothing is -0.0
        return distances
    total = np.add.reduce  # what sum() and clip() add to this takes as long again for a handful of vectors
    products: Scores = total(vectors * query, axis=1)
    if metric == DOT:
        return products
    norms = np.sqrt(total(vectors * vectors, axis=1) * total(query * query))
    cosines: Scores = np.minimum(np.maximum(products / norms, -1.0), 1.0)
    return cosines
