"""The scan of inverted lists by descending bound, until the rest is ruled out."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.candidates import ENOUGH_COMPARED, Shortlist
from bridge.index.embedded.sketches import SKETCH_ERROR, sketch_query
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.candidates import SearchTarget
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.segment import Segment

_FIRST_LISTS: Final = 2  # lists in the first batch, at least; more where these have less
_FIRST_MEMBERS: Final = 4  # members than this times top_k
_MAX_LISTS: Final = 32
_DENSE: Final = 4  # members of lists, of which one may be among the best: then to read all is quicker


@dataclass(frozen=True, eq=False)
class ListScanLimits:
    """allowed: bool per owner, None = all. max_sketches: sketches read before a scan of the vectors is quicker.

    budget: maximum number of sketches to read once there are top_k matches.
    """

    allowed: NDArray[np.bool_] | None
    max_sketches: int
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class ListScan:
    """Rows of the lists read that can be among the best; the numbers of sketches and lists read.

    proven: all of the best are among them; ended: by the budget. Neither: bounds do not help with this query, and a
    scan of the vectors is quicker.
    """

    rows: Ids
    scored: int
    lists: int
    proven: bool
    ended: bool


@one_blas_thread()
def scan_lists(segment: Segment, lists: InvertedLists, target: SearchTarget, limits: ListScanLimits) -> ListScan:
    """Scan lists until no other can have anything better, or a scan of the vectors is quicker. Raises ChecksumError."""
    query_sketch = sketch_query(lists.axes, target.query)
    shortlist = Shortlist(segment, lists, target)
    bounds = lists.bound_cosines(query_sketch)
    order = np.argsort(-bounds)
    order = order[lists.sizes[order] > 0]
    bounds = bounds[order]
    few = int(np.searchsorted(lists.sizes[order[:_MAX_LISTS]].cumsum(), _FIRST_MEMBERS * target.top_k)) + 1
    done = scored = 0
    proven, ended = True, False
    while done < len(order) and bounds[done] >= shortlist.threshold:
        batch = order[done : done + min(max(_FIRST_LISTS, few, 4 * done), _MAX_LISTS)]
        batch = batch[: np.count_nonzero(bounds[done : done + len(batch)] >= shortlist.threshold)]
        done += len(batch)
        scored += _read(segment, lists, batch, query_sketch, shortlist, limits.allowed)
        if limits.budget is not None and scored >= limits.budget and shortlist.threshold > -np.inf:
            proven, ended = False, True
            break
        if limits.budget is None and shortlist.compared >= ENOUGH_COMPARED:
            reachable = order[done:][bounds[done:] >= shortlist.threshold]
            shortlist.expect_more(int(lists.sizes[reachable].sum()) / scored)
        if scored > limits.max_sketches or shortlist.exceeds_limit:
            proven = False
            break
    return ListScan(shortlist.rows.astype(np.int64), scored, done, proven, ended)


def _read(
    segment: Segment,
    lists: InvertedLists,
    batch: Ids,
    query_sketch: Vectors,
    shortlist: Shortlist,
    allowed: NDArray[np.bool_] | None,
) -> int:
    """Offer the members of these lists, and return the number of sketches read."""
    lists.checksums.check(batch)
    bounds = _multiply(lists, batch, lists.sketches, query_sketch.take(lists.frames[batch], axis=0))
    bounds += np.float32(SKETCH_ERROR)
    reaching = (bounds >= shortlist.threshold).nonzero()[0]
    ends = np.cumsum(lists.sizes[batch])
    offsets = lists.starts[batch + 1] - ends
    places = reaching + offsets.take(np.searchsorted(ends, reaching, side="right"))
    if allowed is not None:
        is_allowed = allowed.take(lists.owners.take(places))
        reaching, places = reaching[is_allowed], places[is_allowed]
    if lists.are_slices and _DENSE * len(places) > len(bounds):
        products = _multiply(lists, batch, segment.vectors, repeat(shortlist.target.query))
        shortlist.add(places, products.take(reaching))
    else:
        shortlist.offer(places, bounds.take(reaching))
    return len(bounds)


def _multiply(lists: InvertedLists, batch: Ids, values: Vectors, queries: Iterable[Vectors]) -> Vectors:
    """Return the products [n] of the values of these lists' members with a query for each list."""
    products, done = np.empty(int(lists.sizes[batch].sum()), np.float32), 0
    slices = zip(lists.starts[batch].tolist(), lists.starts[batch + 1].tolist(), queries, strict=False)
    for start, stop, query in slices:
        np.dot(values[start:stop], query, out=products[done : done + stop - start])
        done += stop - start
    return products
