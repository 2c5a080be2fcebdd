"""Inverted lists for an exact search: the best cosine that any member of a list can have with a query.

The angle between a query and a member is at least the difference of their angles to the list's centroid. A list
whose nearest possible member is too far away is therefore not read. Of other lists, the sketches of the members are
read, and the vectors of the few members that their sketches do not rule out.

Rounding is accounted for: a float32 dot product of E terms is off by at most about E * 2**-24, and vectors count as
unit ones if their length is within 1e-5 of 1.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.kmeans import Clustering
from bridge.index.embedded.sketches import SKETCH_ERROR, bound_rounding

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.checksums import Checksums
    from bridge.index.embedded.segment import Segment
    from bridge.index.embedded.sketches import Axes
    from bridge.index.metric import Scores

    Owners = NDArray[np.int32]

_FAILURES: Final = 8  # in a row; so many are unlikely by chance, as few queries differ from all vectors
_PAUSE: Final = 31  # searches without another attempt
_ROWS: Final = 4096  # compared at a time: those of windows differ in the first


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """List l holds places starts[l]:starts[l+1], with a cosine of radii[l] or more to centroids[l], float32 [L, E].

    At place p: row rows[p] of the Segment, of its episode number owners[p], with the sketch sketches[p], which is in
    the frame frames[l], as is midpoints[l], the sketch of the centroid. axes: float64 [F, P, E], of the frames.
    """

    centroids: Vectors
    midpoints: Vectors
    radii: Scores
    starts: Ids
    frames: Ids
    rows: Owners
    owners: Owners
    axes: Axes
    sketches: Vectors
    checksums: Checksums
    trained: int  # vectors at the time when the centroids were chosen

    def bound_cosines(self, query_sketch: Vectors) -> Scores:
        """Return an upper bound, per list, of the cosine of its members with the query of these sketches."""
        products = np.vecdot(self.midpoints, query_sketch.take(self.frames, axis=0)).astype(np.float64)
        to_centroid = np.minimum(products + (SKETCH_ERROR + self._max_error), 1.0)
        radii, sines = self._bounds_of_members
        within = to_centroid * radii + np.sqrt(1 - to_centroid * to_centroid) * sines
        return np.where(to_centroid >= radii, 1.0, within)

    @property
    def _max_error(self) -> float:
        return bound_rounding(self.centroids.shape[1])

    @cached_property
    def _bounds_of_members(self) -> tuple[Scores, Scores]:
        """The least cosine of a member with its centroid, and the sine of that angle."""
        radii = np.clip(self.radii - self._max_error, -1.0, 1.0)
        return radii, np.sqrt(1 - radii * radii)

    @cached_property
    def sizes(self) -> Ids:
        """The number of members of each list."""
        return np.diff(self.starts)

    @cached_property
    def are_slices(self) -> bool:
        """Whether the rows of each list lie together, in its order."""
        starts = range(0, len(self.rows), _ROWS)
        return all(
            np.array_equal(self.rows[at : at + _ROWS], np.arange(at, min(at + _ROWS, len(self.rows)))) for at in starts
        )

    def restore_clustering(self) -> Clustering:
        """Return the clustering from which the lists were made, by row of the Segment."""
        labels = np.empty(len(self.rows), np.int32)
        labels[self.rows] = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        return Clustering(self.centroids, labels, self.radii.astype(np.float32), self.trained)


class Backoff:
    """Decides whether to try again; shared by threads without a lock, which at worst adds or skips an attempt."""

    def __init__(self) -> None:
        self._failures: Counter[Hashable] = Counter()
        self._pause: Counter[Hashable] = Counter()

    def allows(self, kind: Hashable) -> bool:
        """Return whether to try; called once per search."""
        if self._pause[kind] > 0:
            self._pause[kind] -= 1
            return False
        return True

    def record(self, kind: Hashable, *, failed: bool) -> None:
        """Record the outcome of an attempt."""
        self._failures[kind] = self._failures[kind] + 1 if failed else 0
        if self._failures[kind] >= _FAILURES:
            self._pause[kind] = _PAUSE


@dataclass(frozen=True, eq=False)
class SearchCopy:
    """A segment, and inverted lists of its vectors, if any; backoff: suspends use of the lists while they fail."""

    segment: Segment
    lists: InvertedLists | None = None
    backoff: Backoff = field(default_factory=Backoff)
