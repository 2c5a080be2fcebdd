"""Sketches: sixteen numbers per vector that give an upper bound of its product with a query.

A frame is a few axes along which the vectors of some lists lie; a vector's sketch is its coordinates in such a frame
and the length of its residual. With x = a + r and q = b + s, a and b within the frame, r and s at right angles to it,
x.q = a.b + r.s <= a.b + |r||s|: the product of two sketches is at least the product of the vectors. Windows of
trajectories lie near few axes, so residuals are small, and the sketches rule out nearly all vectors.

The numbers are rounded to integers, so that no other rounding of them counts: coordinates to the nearest one, with the
rounding error as part of r, and the length of r upwards. Therefore r is no longer exactly orthogonal to the frame, and
a.b + |r||s| may be too small, for a unit query by at most SKETCH_ERROR, which is added to every bound. Everything else
is computed in float64, so that the error of a bound is only the rounding of its own float32 product.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.index.base import Ids, Vectors

Axes = NDArray[np.float64]
Frames = NDArray[np.uint8]

WIDTH: Final = 16  # numbers of a sketch: P coordinates, zeros, and last the length of the residual
STEPS: Final = 32_000  # per unit; float32 has such integers exactly
SKETCH_ERROR: Final = sqrt(WIDTH) / (2 * STEPS)
_SAMPLE_SIZE: Final = 1024  # vectors per frame
_ITERATIONS: Final = 6
_ROUND_UP: Final = 1 + 2.0**-22  # factor that prevents lengths from being rounded down
_CANCELLATION: Final = 2.0**-50  # maximum error, per term, of the difference of two sums of squares of about 1


def bound_rounding(dim: int) -> float:
    """Return the maximum error of a float32 product (of unit vectors of this size, or sketches) as a cosine."""
    return (dim + 2 * WIDTH) * 2.0**-24 + 1e-5


def count_axes(dim: int) -> int:
    """Return P, the number of axes of a frame, for vectors of this size."""
    return min(WIDTH - 1, dim)


def fit_axes(sample: Vectors) -> Axes:
    """Return axes float64 [P, E], orthonormal, near which the sampled vectors [n, E] lie."""
    axes = np.random.default_rng(0).normal(size=(sample.shape[1], count_axes(sample.shape[1]))).astype(np.float32)
    for _ in range(_ITERATIONS):
        axes = np.linalg.qr(sample.T @ (sample @ axes))[0]
    return np.ascontiguousarray(np.linalg.qr(axes.astype(np.float64))[0].T)


def pick_sample(members: Ids) -> Ids:
    """Return the sample of these rows from which a frame is fitted."""
    if len(members) <= _SAMPLE_SIZE:
        return members
    return np.sort(np.random.default_rng(0).choice(members, _SAMPLE_SIZE, replace=False))


def sketch(axes: Axes, vectors: NDArray[np.floating]) -> Vectors:
    """Return the sketches [n, WIDTH] of vectors [n, E] in the frame of these axes."""
    sketches = np.zeros((len(vectors), WIDTH), np.float32)
    rows = vectors.astype(np.float64)
    steps = np.rint((rows @ axes.T) * STEPS)
    rows -= (steps / STEPS) @ axes
    sketches[:, : len(axes)] = steps
    sketches[:, -1] = np.ceil(np.sqrt(np.vecdot(rows, rows)) * (_ROUND_UP * STEPS))
    return sketches


def sketch_query(axes: Axes, query: Vectors) -> Vectors:
    """Return the query's sketch in every frame [F, P, E], float32 [F, WIDTH], in units per step of the rows' sketches.

    The product of two sketches in one frame plus SKETCH_ERROR is at least that of the vectors, except for rounding.
    """
    frames, count, dim = axes.shape
    query_sketch = np.zeros((frames, WIDTH), np.float32)
    query64 = query.astype(np.float64)
    within = (axes.reshape(-1, dim) @ query64).reshape(-1, count)
    rest = np.maximum(query64 @ query64 - np.vecdot(within, within), 0.0) + dim * _CANCELLATION
    query_sketch[:, :count] = within / STEPS
    query_sketch[:, -1] = np.sqrt(rest) * (_ROUND_UP / STEPS)
    return query_sketch
