"""Sketches: sixteen numbers per vector that give an upper bound of its product with a query.

A frame is a few axes along which the vectors of some lists lie; a vector's sketch is its coordinates in such a frame
and the length of its residual. With x = a + r and q = b + s, a and b within the frame, r and s at right angles to it,
x.q = a.b + r.s <= a.b + |r||s|: the product of two sketches is at least the product of the vectors. Windows of
trajectories lie near few axes, so residuals are small, and the sketches rule out nearly all vectors.

The numbers are rounded to int16, so that a sketch is half a cache line: coordinates to the nearest integer, with the
rounding error as part of r, and the length of r upwards. Therefore r is no longer exactly orthogonal to the frame, and
a.b + |r||s| may be too small, for a unit query by at most SKETCH_ERROR, which is added to every bound. Everything else
is computed in float64, so that the error of a bound is only the rounding of its own float32 product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.checksums import Checksums

Axes = NDArray[np.float64]
Frames = NDArray[np.uint8]
Rounded = NDArray[np.int16]

WIDTH: Final = 16  # numbers of a sketch: P coordinates, zeros, and last the length of the residual
STEPS: Final = 32_000  # per unit; numbers of a unit vector then fit in int16
SKETCH_ERROR: Final = sqrt(WIDTH) / (2 * STEPS)
_SAMPLE_SIZE: Final = 1024  # vectors per frame
_ITERATIONS: Final = 6
_BATCH_ROWS: Final = 512  # rows converted to float64 at a time, a megabyte
_ROUND_UP: Final = 1 + 2.0**-22  # factor that prevents lengths from being rounded down
_CANCELLATION: Final = 2.0**-50  # maximum error, per term, of the difference of two sums of squares of about 1


def bound_rounding(dim: int) -> float:
    """Return the maximum error of a float32 product (of unit vectors of this size, sketches or codes) as a cosine."""
    return (dim + 2 * WIDTH) * 2.0**-24 + 1e-5


def count_axes(dim: int) -> int:
    """Return P, the number of axes of a frame, for vectors of this size."""
    return min(WIDTH - 1, dim)


def fit_axes(sample: Vectors) -> Axes:
    """Return axes float64 [P, E], orthonormal, near which the sampled vectors [n, E] lie."""
    sample64 = sample.astype(np.float64)
    axes = np.random.default_rng(0).normal(size=(sample.shape[1], count_axes(sample.shape[1])))
    for _ in range(_ITERATIONS):
        axes = np.linalg.qr(sample64.T @ (sample64 @ axes))[0]
    return np.ascontiguousarray(axes.T)


def pick_sample(members: Ids) -> Ids:
    """Return the sample of these rows from which a frame is fitted."""
    if len(members) <= _SAMPLE_SIZE:
        return members
    return np.sort(np.random.default_rng(0).choice(members, _SAMPLE_SIZE, replace=False))


def sketch(axes: Axes, vectors: NDArray[np.floating]) -> tuple[Rounded, Vectors]:
    """Return the sketches int16 [n, WIDTH] of vectors [n, E] in the frame of these axes, and the residuals [n, E].

    Vectors must have unit length: others may overflow int16.
    """
    sketches = np.zeros((len(vectors), WIDTH), np.int16)
    rows = vectors.astype(np.float64)
    steps = np.rint((rows @ axes.T) * STEPS)
    rows -= (steps / STEPS) @ axes
    sketches[:, : len(axes)] = steps
    sketches[:, -1] = np.ceil(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * (_ROUND_UP * STEPS))
    return sketches, rows.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Sketches:
    """The sketch int16 [WIDTH] of each of N rows, in the frame which[i]; axes float64 [F, P, E].

    checksums: of each episode's sketches, to be verified before these are used.
    """

    axes: Axes
    which: Frames
    sketches: Rounded
    checksums: Checksums

    def sketch_query(self, query: Vectors, rows: Ids | None = None) -> Vectors:
        """Return the query's sketch in every frame, float32 [F, WIDTH], in units per step of the rows' sketches.

        If rows are given, only the sketches in their frames are set.
        """
        frames, count, dim = self.axes.shape
        query_sketch = np.zeros((frames, WIDTH), np.float32)
        used_frames = np.arange(frames) if rows is None else np.bincount(self.which.take(rows)).nonzero()[0]
        axes = self.axes if len(used_frames) == frames else self.axes[used_frames]
        query64 = query.astype(np.float64)
        within = (axes.reshape(-1, dim) @ query64).reshape(-1, count)
        rest = np.maximum(query64 @ query64 - np.einsum("ij,ij->i", within, within), 0.0) + dim * _CANCELLATION
        query_sketch[used_frames, :count] = within / STEPS
        query_sketch[used_frames, -1] = np.sqrt(rest) * (_ROUND_UP / STEPS)
        return query_sketch

    def bound_products(self, rows: Ids, query_sketch: Vectors) -> Vectors:
        """Return an upper bound of the product of each row with the query, except for rounding."""
        products = self.sketches.take(rows, axis=0) * query_sketch.take(self.which.take(rows), axis=0)
        sums: Vectors = products @ np.ones(products.shape[1], np.float32)
        sums += np.float32(SKETCH_ERROR)
        return sums

    def bound_rests(self, rows: Ids, query_sketch: Vectors) -> Vectors:
        """Return the part of these bounds that is due to the residuals."""
        bounds: Vectors = self.sketches[rows, -1] * query_sketch[self.which[rows], -1]
        bounds += np.float32(SKETCH_ERROR)
        return bounds


def iterate_sketches(vectors: Vectors, axes: Axes, which: Frames) -> Iterator[tuple[Rounded, Vectors]]:
    """Yield sketches and residuals of all vectors [N, E] in batches; those of row i are in the frame which[i]."""
    for start in range(0, len(vectors), _BATCH_ROWS):
        rows, frames = vectors[start : start + _BATCH_ROWS], which[start : start + _BATCH_ROWS]
        sketches, residuals = np.empty((len(rows), WIDTH), np.int16), np.empty_like(rows)
        for frame in np.flatnonzero(np.bincount(frames)).tolist():
            in_frame = frames == frame
            sketches[in_frame], residuals[in_frame] = sketch(axes[frame], rows[in_frame])
        yield sketches, residuals
