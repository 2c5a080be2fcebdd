"""Certified lists: a search that may stop with a proof that nothing better is left.

Knows: the best score that any member of a list can reach, and when to stop. Does not know: files, episodes' ids, SQL
(which owners count comes in as a mask).

The angle between a query and a member is at least the difference of their angles to the list's centroid. So a list
whose nearest possible member is too far away is not read at all; of any other list the members' outlines are, and of
those few members whose outlines do not say that they are too far, the codes.

Rounding is accounted for: a float32 dot product of E terms is off by at most about E * 2**-24, those of an outline and
of a code together by no more than one of as many terms as both have, and vectors count as unit ones if their length is
within 1e-5 of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.embedded.arrays import OFF
from bridge.index.metric import rounding

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.embedded.arrays import Bounds, Rounded
    from bridge.index.embedded.candidates import Shortlist
    from bridge.index.embedded.checksums import Seals
    from bridge.index.embedded.norm_bounds import Lengths
    from bridge.index.embedded.residual_codes import Codes
    from bridge.index.embedded.sketches import Outlines


Ids = NDArray[np.int64]
Owners = NDArray[np.int32]
Scores = NDArray[np.float64]
_FIRST: Final = 2  # lists read before the first look at what was found
_AT_ONCE: Final = 32


@dataclass(frozen=True, eq=False)
class Lists:
    """List l holds places starts[l]:starts[l+1], with a cosine of rims[l] or more to centroids[l], float32 [L, E].

    At place p: row rows[p] of the Segment, of its episode number owners[p], with the outline listed[p], which is in the
    frame frames[l], as is middles[l], the outline of the centroid. by_row and codes are in the order of the Segment's
    rows. lengths: of vectors that are not of unit length; the rest is of their directions then, and without codes.
    """

    centroids: Vectors
    middles: Rounded
    rims: Scores
    starts: Ids
    frames: Ids
    rows: Owners
    owners: Owners
    listed: Rounded
    seals: Seals
    by_row: Outlines
    codes: Codes
    trained: int  # vectors at the time when the centroids were chosen
    lengths: Lengths | None = None

    def check(self) -> None:
        """Compare all checksums that were not compared before; raises ChecksumError."""
        self.seals.check()
        self.by_row.seals.check()
        self.codes.seals.check()

    def reach(self, sides: Vectors) -> Scores:
        """Return the greatest cosine that a member of each list can have with the query of these sides."""
        off = rounding(self.centroids.shape[1])
        products = (self.middles * sides.take(self.frames, axis=0)) @ np.ones(sides.shape[1], np.float32)
        closest = np.clip(products.astype(np.float64) + (OFF + off), -1.0, 1.0)
        rims = np.clip(self.rims - off, -1.0, 1.0)
        within = closest * rims + np.sqrt((1 - closest * closest) * (1 - rims * rims))
        return np.where(closest >= rims, 1.0, within)

    def sizes(self, some: Ids) -> Ids:
        """Return the number of members of these lists."""
        return self.starts[some + 1] - self.starts[some]

    def between(self, query: Bounds, sides: Vectors, rows: Ids, owners: Ids, bounds: Bounds) -> tuple[Vectors, Vectors]:
        """Return the least and the most that the product of each row with a unit query can be, but for rounding.

        sides: the query's; owners: of the rows; bounds: what outlines say. Raises ChecksumError.
        """
        self.by_row.seals.check(owners)
        self.codes.seals.check(owners)
        products, off = self.codes.products(rows, query)
        products += bounds - self.by_row.rests(rows, sides)
        return products - off, products + off


@dataclass(frozen=True, eq=False)
class Limits:
    """allowed: bool per owner, None = all. worth: rows that another route would read; no more outlines are read here.

    budget: as many outlines as may be read once there are top_k.
    """

    allowed: NDArray[np.bool_] | None
    worth: int
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """How many outlines, of how many lists, were read. proven: all of the best are known; ended: by the budget.

    Neither: the bounds do not help with this query, and another route is better.
    """

    scored: int
    lists: int
    proven: bool
    ended: bool = False


def search(lists: Lists, sides: Vectors, best: Shortlist, limits: Limits) -> Found:
    """Visit lists by falling reach until none can hold anything better, or it is not worth it. Raises ChecksumError.

    sides: the query's own outline in each frame.
    """
    cosines = lists.reach(sides)
    reach = cosines if best.aim.sight is None else best.aim.sight.reach(cosines)
    order = np.argsort(-reach)
    order = order[lists.sizes(order) > 0]
    done = scored = seen = 0
    while done < len(order) and reach[order[done]] >= best.threshold:
        batch = order[done : done + min(max(_FIRST, 4 * done), _AT_ONCE)]
        batch = batch[reach[batch] >= best.threshold]
        done += len(batch)
        seen += int(lists.sizes(batch).sum())
        scored += _read(lists, batch, sides, cosines, best, limits.allowed)
        if limits.budget is not None and scored >= limits.budget and best.threshold > -np.inf:
            return Found(scored, done, proven=False, ended=True)
        left = order[done:][reach[order[done:]] >= best.threshold]
        best.foresee(int(lists.sizes(left).sum()) / seen)
        if scored > limits.worth or best.hopeless:
            return Found(scored, done, proven=False)
    return Found(scored, done, proven=True)


def _read(
    lists: Lists, batch: Ids, sides: Vectors, cosines: Scores, best: Shortlist, allowed: NDArray[np.bool_] | None
) -> int:
    """Offer the members of these lists, and return of how many the outlines were read."""
    lists.seals.check(batch)
    starts, stops, frames = lists.starts[batch], lists.starts[batch + 1], lists.frames[batch]
    if best.aim.sight is not None:
        starts, stops = best.aim.sight.within(starts, stops, cosines[batch], best.threshold)
    ends = np.cumsum(stops - starts)
    products, done = np.empty(int(ends[-1]), np.float32), 0
    for start, stop, frame in zip(starts.tolist(), stops.tolist(), frames.tolist(), strict=True):
        np.dot(lists.listed[start:stop].astype(np.float32), sides[frame], out=products[done : done + stop - start])
        done += stop - start
    products += np.float32(OFF)
    bounds: Bounds = products
    if best.aim.sight is not None:
        bounds = best.aim.sight.most(products, best.aim.sight.lengths.of(starts, stops))
    hits = (bounds >= best.threshold).nonzero()[0]
    places = hits + (stops - ends)[np.searchsorted(ends, hits, side="right")]
    if allowed is not None:
        passing = allowed.take(lists.owners.take(places))
        hits, places = hits[passing], places[passing]
    best.offer(lists.rows.take(places).astype(np.int64), bounds[hits])
    return done
