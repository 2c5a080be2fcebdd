"""Inverted lists for an exact search: the best cosine that any member of a list can have with a query.

The angle between a query and a member is at least the difference of their angles to the list's centroid. A list
whose nearest possible member is too far away is therefore not read. Of other lists, the sketches of the members are
read, and the residual codes of the few members that their sketches do not rule out.

Rounding is accounted for: a float32 dot product of E terms is off by at most about E * 2**-24, those of a sketch and
of a code together by no more than one of as many terms as both have, and vectors count as unit ones if their length is
within 1e-5 of 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.embedded.backoff import Backoff
from bridge.index.embedded.kmeans import Clustering
from bridge.index.embedded.sketches import SKETCH_ERROR, bound_rounding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.checksums import Checksums
    from bridge.index.embedded.residual_codes import ResidualCodes
    from bridge.index.embedded.segment import Segment
    from bridge.index.embedded.sketches import Rounded, Sketches
    from bridge.index.metric import Scores

    Owners = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class InvertedLists:
    """List l holds places starts[l]:starts[l+1], with a cosine of radii[l] or more to centroids[l], float32 [L, E].

    At place p: row rows[p] of the Segment, of its episode number owners[p], with the sketch list_sketches[p], which is
    in the frame frames[l], as is midpoints[l], the sketch of the centroid. sketches and residual_codes are in the order
    of the Segment's rows.
    """

    centroids: Vectors
    midpoints: Rounded
    radii: Scores
    starts: Ids
    frames: Ids
    rows: Owners
    owners: Owners
    list_sketches: Rounded
    checksums: Checksums
    sketches: Sketches
    residual_codes: ResidualCodes
    trained: int  # vectors at the time when the centroids were chosen

    def check(self) -> None:
        """Verify all checksums that were not verified before; raises ChecksumError."""
        self.checksums.check()
        self.sketches.checksums.check()
        self.residual_codes.checksums.check()

    def bound_cosines(self, query_sketch: Vectors) -> Scores:
        """Return an upper bound, per list, of the cosine of its members with the query of these sketches."""
        max_error = bound_rounding(self.centroids.shape[1])
        products = (self.midpoints * query_sketch.take(self.frames, axis=0)) @ np.ones(
            query_sketch.shape[1], np.float32
        )
        to_centroid = np.clip(products.astype(np.float64) + (SKETCH_ERROR + max_error), -1.0, 1.0)
        radii = np.clip(self.radii - max_error, -1.0, 1.0)
        within = to_centroid * radii + np.sqrt((1 - to_centroid * to_centroid) * (1 - radii * radii))
        return np.where(to_centroid >= radii, 1.0, within)

    def count_members(self, numbers: Ids) -> Ids:
        """Return the number of members of these lists."""
        return self.starts[numbers + 1] - self.starts[numbers]

    def bound_products(
        self, query: Vectors, query_sketch: Vectors, rows: Ids, owners: Ids, bounds: Vectors
    ) -> tuple[Vectors, Vectors]:
        """Return lower and upper bounds of the product of each row with a unit query, except for rounding.

        owners: of the rows; bounds: those from sketches. Raises ChecksumError.
        """
        self.sketches.checksums.check(owners)
        self.residual_codes.checksums.check(owners)
        products, max_error = self.residual_codes.multiply(rows, query)
        products += bounds - self.sketches.bound_rests(rows, query_sketch)
        return products - max_error, products + max_error

    def restore_clustering(self) -> Clustering:
        """Return the clustering from which the lists were made, by row of the Segment."""
        labels = np.empty(len(self.rows), np.int32)
        labels[self.rows] = np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))
        return Clustering(self.centroids, labels, self.radii.astype(np.float32), self.trained)


@dataclass(frozen=True, eq=False)
class SearchCopy:
    """A segment, and inverted lists of its vectors, if any; backoff: suspends use of the lists while they fail."""

    segment: Segment
    lists: InvertedLists | None = None
    backoff: Backoff = field(default_factory=Backoff)
