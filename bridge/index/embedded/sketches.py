"""Outlines: a few numbers per vector that tell the most that its product with a query can be.

Knows: frames, each a few axes along which the vectors of some lists lie; a vector's outline, which is its coordinates
in such a frame and the length of what is left of it. Does not know: lists, files, searching.

With x = a + r and q = b + s, a and b within the frame, r and s at right angles to it, x.q = a.b + r.s <= a.b + |r||s|:
the product of two outlines is no less than the product of the vectors. Windows of trajectories lie near few axes, so
that little is left, and sixteen numbers decide for nearly all vectors that they cannot be among the best.

The numbers are rounded to int16, so that an outline is half a line of the processor's caches: coordinates to the
nearest, what that leaves belongs to r, and the length of r upwards. With it r is no longer quite at right angles to the
frame, so that a.b + |r||s| may be too small, for a query of unit length by at most OFF, which bounds hold besides. All
else is found in float64, so that a bound is off by no more than the rounding of its own float32 product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.arrays import OFF, UNIT, WIDTH, Axes, Numbers, Rounded, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bridge.index.base import Vectors
    from bridge.index.embedded.arrays import Bounds
    from bridge.index.embedded.checksums import Seals
    from bridge.index.embedded.norm_bounds import Directions


_SAMPLED: Final = 1024  # vectors per frame
_ROUNDS: Final = 6
_AT_ONCE: Final = 512  # rows that are widened to float64 at a time: a megabyte
_UPWARDS: Final = 1 + 2.0**-22  # a length must not be rounded down
_OFF: Final = 2.0**-50  # per term: what the difference of two sums of squares, about 1, may be too small by


def terms(dim: int) -> int:
    """Return P, the number of axes of a frame, for vectors of this size."""
    return min(WIDTH - 1, dim)


def axes_of(sample: Vectors) -> Axes:
    """Return axes float64 [P, E], orthonormal, near which the sampled vectors [n, E] lie."""
    wide = sample.astype(np.float64)
    turned = np.random.default_rng(0).normal(size=(sample.shape[1], terms(sample.shape[1])))
    for _ in range(_ROUNDS):
        turned = np.linalg.qr(wide.T @ (wide @ turned))[0]
    return np.ascontiguousarray(turned.T)


def sampled(members: Rows) -> Rows:
    """Return which of these rows a frame is made from."""
    if len(members) <= _SAMPLED:
        return members
    return np.sort(np.random.default_rng(0).choice(members, _SAMPLED, replace=False))


def outline(axes: Axes, vectors: NDArray[np.floating]) -> tuple[Rounded, Vectors]:
    """Return the outlines int16 [n, WIDTH] of vectors [n, E] in the frame of these axes, and what is left [n, E].

    The vectors are of unit length: others may not fit.
    """
    found = np.zeros((len(vectors), WIDTH), np.int16)
    rows = vectors.astype(np.float64)
    steps = np.rint((rows @ axes.T) * UNIT)
    rows -= (steps / UNIT) @ axes
    found[:, : len(axes)] = steps
    found[:, -1] = np.ceil(np.sqrt(np.einsum("ij,ij->i", rows, rows)) * (_UPWARDS * UNIT))
    return found, rows.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Outlines:
    """The outline int16 [WIDTH] of each of N rows, in the frame which[i]; axes float64 [F, P, E].

    seals: the checksums of each episode's outlines, to be compared before they are used.
    """

    axes: Axes
    which: Numbers
    outlines: Rounded
    seals: Seals

    def sides(self, query: Bounds, rows: Rows | None = None) -> Vectors:
        """Return the query's own outline float32 [F, WIDTH], in units per step of the rows' outlines.

        If rows are given, only that in their frames is set.
        """
        frames, count, dim = self.axes.shape
        found = np.zeros((frames, WIDTH), np.float32)
        used = np.arange(frames) if rows is None else np.bincount(self.which.take(rows)).nonzero()[0]
        axes = self.axes if len(used) == frames else self.axes[used]
        wide = query.astype(np.float64)
        within = (axes.reshape(-1, dim) @ wide).reshape(-1, count)
        rest = np.maximum(wide @ wide - np.einsum("ij,ij->i", within, within), 0.0) + dim * _OFF
        found[used, :count] = within / UNIT
        found[used, -1] = np.sqrt(rest) * (_UPWARDS / UNIT)
        return found

    def bounds(self, rows: Rows, sides: Vectors) -> Vectors:
        """Return the most that the product of each row with the query of these sides can be, but for rounding."""
        products = self.outlines.take(rows, axis=0) * sides.take(self.which.take(rows), axis=0)
        sums: Vectors = products @ np.ones(products.shape[1], np.float32)
        sums += np.float32(OFF)
        return sums

    def rests(self, rows: Rows, sides: Vectors) -> Vectors:
        """Return how much of these bounds is due to what the frames do not hold."""
        found: Vectors = self.outlines[rows, -1] * sides[self.which[rows], -1]
        found += np.float32(OFF)
        return found


def outlined(vectors: Vectors | Directions, axes: Axes, which: Numbers) -> Iterator[tuple[Rounded, Vectors]]:
    """Yield the outlines of all vectors [N, E], some at a time, and what is left; row i's are in the frame which[i]."""
    for start in range(0, len(vectors), _AT_ONCE):
        rows, frames = vectors[start : start + _AT_ONCE], which[start : start + _AT_ONCE]
        found, left = np.empty((len(rows), WIDTH), np.int16), np.empty_like(rows)
        for frame in np.flatnonzero(np.bincount(frames)).tolist():
            here = frames == frame
            found[here], left[here] = outline(axes[frame], rows[here])
        yield found, left
