"""Sketches: sixteen numbers per vector that tell the most that its product with a query can be.

A frame is a few axes along which the vectors of some lists lie; a vector's sketch is its coordinates in such a frame
and the length of what is left of it. With x = a + r and q = b + s, a and b within the frame, r and s at right angles to
it, x.q = a.b + r.s <= a.b + |r||s|: the product of two sketches is no less than the product of the vectors. Windows of
trajectories lie near few axes, so that little is left, and the sketches rule out nearly all vectors.

The numbers are rounded to int16, so that a sketch is half a line of the processor's caches: coordinates to the nearest,
what that leaves belongs to r, and the length of r upwards. With it r is no longer quite at right angles to the frame,
so that a.b + |r||s| may be too small, for a query of unit length by at most SKETCH_ERROR, which is added to every
bound. All else is found in float64, so that a bound is off by no more than the rounding of its own float32 product.
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

WIDTH: Final = 16  # numbers of a sketch: P coordinates, then 0, the length at last
STEPS: Final = 32_000  # per unit: an int16 holds every number of a vector of unit length
SKETCH_ERROR: Final = sqrt(WIDTH) / (2 * STEPS)
_SAMPLED: Final = 1024  # vectors per frame
_ROUNDS: Final = 6
_AT_ONCE: Final = 512  # rows that are widened to float64 at a time: a megabyte
_UPWARDS: Final = 1 + 2.0**-22  # a length must not be rounded down
_OFF: Final = 2.0**-50  # per term: what the difference of two sums of squares, about 1, may be too small by


def bound_rounding(dim: int) -> float:
    """Return what a float32 product of unit vectors of this size, of sketches or codes, may be off from a cosine."""
    return (dim + 2 * WIDTH) * 2.0**-24 + 1e-5


def count_axes(dim: int) -> int:
    """Return P, the number of axes of a frame, for vectors of this size."""
    return min(WIDTH - 1, dim)


def fit_axes(sample: Vectors) -> Axes:
    """Return axes float64 [P, E], orthonormal, near which the sampled vectors [n, E] lie."""
    wide = sample.astype(np.float64)
    turned = np.random.default_rng(0).normal(size=(sample.shape[1], count_axes(sample.shape[1])))
    for _ in range(_ROUNDS):
        turned = np.linalg.qr(wide.T @ (wide @ turned))[0]
    return np.ascontiguousarray(turned.T)


def pick_sample(members: Ids) -> Ids:
    """Return which of these rows a frame is made from."""
    if len(members) <= _SAMPLED:
        return members
    return np.sort(np.random.default_rng(0).choice(members, _SAMPLED, replace=False))


def sketch(axes: Axes, vectors: NDArray[np.floating]) -> tuple[Rounded, Vectors]:
    """Return the sketches int16 [n, WIDTH] of vectors [n, E] in the frame of these axes, and what is left [n, E].

    The vectors are of unit length: others may not fit.
    """
    found = np.zeros((len(vectors), WIDTH), np.int16)
    rows = vectors.astype(np.float64)
    steps = np.rint((rows @ axes.T) * STEPS)
    rows -= (steps / STEPS) @ axes
    found[:, : len(axes)] = steps
    found[:, -1] = np.ceil(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * (_UPWARDS * STEPS))
    return found, rows.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Sketches:
    """The sketch int16 [WIDTH] of each of N rows, in the frame which[i]; axes float64 [F, P, E].

    checksums: of each episode's sketches, to be compared before these are used.
    """

    axes: Axes
    which: Frames
    sketches: Rounded
    checksums: Checksums

    def sketch_query(self, query: Vectors, rows: Ids | None = None) -> Vectors:
        """Return the query's own sketch float32 [F, WIDTH], in units per step of the rows' sketches.

        If rows are given, only that in their frames is set.
        """
        frames, count, dim = self.axes.shape
        found = np.zeros((frames, WIDTH), np.float32)
        used = np.arange(frames) if rows is None else np.bincount(self.which.take(rows)).nonzero()[0]
        axes = self.axes if len(used) == frames else self.axes[used]
        wide = query.astype(np.float64)
        within = (axes.reshape(-1, dim) @ wide).reshape(-1, count)
        rest = np.maximum(wide @ wide - np.einsum("ij,ij->i", within, within), 0.0) + dim * _OFF
        found[used, :count] = within / STEPS
        found[used, -1] = np.sqrt(rest) * (_UPWARDS / STEPS)
        return found

    def bound_products(self, rows: Ids, query_sketch: Vectors) -> Vectors:
        """Return the most that the product of each row with the query of this sketch can be, but for rounding."""
        products = self.sketches.take(rows, axis=0) * query_sketch.take(self.which.take(rows), axis=0)
        sums: Vectors = products @ np.ones(products.shape[1], np.float32)
        sums += np.float32(SKETCH_ERROR)
        return sums

    def bound_rests(self, rows: Ids, query_sketch: Vectors) -> Vectors:
        """Return how much of these bounds is due to what the frames do not hold."""
        found: Vectors = self.sketches[rows, -1] * query_sketch[self.which[rows], -1]
        found += np.float32(SKETCH_ERROR)
        return found


def iterate_sketches(vectors: Vectors, axes: Axes, which: Frames) -> Iterator[tuple[Rounded, Vectors]]:
    """Yield the sketches of all vectors [N, E], some at a time, and what is left; row i's are in the frame which[i]."""
    for start in range(0, len(vectors), _AT_ONCE):
        rows, frames = vectors[start : start + _AT_ONCE], which[start : start + _AT_ONCE]
        found, left = np.empty((len(rows), WIDTH), np.int16), np.empty_like(rows)
        for frame in np.flatnonzero(np.bincount(frames)).tolist():
            here = frames == frame
            found[here], left[here] = sketch(axes[frame], rows[here])
        yield found, left
