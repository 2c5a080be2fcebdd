"""The scan of inverted lists by descending bound, compiled or in numpy, until the rest is ruled out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.embedded.candidates import ENOUGH_COMPARED, Shortlist
from bridge.index.embedded.kernel import get_kernel
from bridge.index.embedded.sketches import SKETCH_ERROR, bound_rounding
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.candidates import SearchTarget
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.segment import Segment

_FIRST_LISTS: Final = 2  # lists in the first batch
_MAX_LISTS: Final = 32
_ALL_OWNERS: Final = np.zeros(0, np.bool_)
_NO_BUDGET: Final = -1


@dataclass(frozen=True, eq=False)
class ListScanLimits:
    """allowed: bool per owner, None = all. max_sketches: sketches read before another route is quicker.

    budget: maximum number of sketches to read once there are top_k matches.
    """

    allowed: NDArray[np.bool_] | None
    max_sketches: int
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class ListScan:
    """Rows of the lists read that can be among the best; the numbers of sketches and lists read.

    proven: all of the best are among them; ended: by the budget. Neither: bounds do not help with this query, and
    another route is quicker. too_many: so many codes would be compared that sketches do not help on other routes.
    """

    rows: Ids
    scored: int
    lists: int
    proven: bool
    ended: bool
    too_many: bool
    kernel: str


def scan_lists(segment: Segment, lists: InvertedLists, target: SearchTarget, limits: ListScanLimits) -> ListScan:
    """Scan lists until no other can have anything better, or another route is quicker. Raises ChecksumError."""
    module = get_kernel().use()
    if module is not None:
        return _scan_compiled(module, segment, lists, target=target, limits=limits)
    return _scan_with_numpy(segment, lists, target, limits)


def _scan_compiled(
    module: Any, segment: Segment, lists: InvertedLists, *, target: SearchTarget, limits: ListScanLimits
) -> ListScan:
    """Return the result of the compiled kernel, after verifying the parts that it read. Raises ChecksumError."""
    budget = _NO_BUDGET if limits.budget is None else int(min(max(limits.budget, 0), len(segment.vectors)))
    visited = np.zeros(len(lists.radii), np.bool_), np.zeros(len(segment.episodes), np.bool_)
    codes = lists.residual_codes
    rows, scored, end = module.scan_lists(
        (lists.midpoints, lists.radii, lists.starts, lists.frames, bound_rounding(segment.vectors.shape[1])),
        (lists.rows, lists.owners, lists.list_sketches),
        lists.sketches.axes,
        (codes.codes, codes.steps, np.float32(codes.max_error)),
        visited,
        (target.query, target.top_k, np.float32(target.slack), target.distinct),
        (
            _ALL_OWNERS if limits.allowed is None else limits.allowed,
            (limits.max_sketches, budget, target.limit, ENOUGH_COMPARED),
        ),
    )
    for checksums, parts in zip((lists.checksums, codes.checksums), visited, strict=True):
        checksums.check(parts.nonzero()[0])
    return ListScan(
        rows,
        scored,
        int(np.count_nonzero(visited[0])),
        proven=end == module.PROVEN,
        ended=end == module.ENDED,
        too_many=end == module.TOO_MANY,
        kernel="numba",
    )


@one_blas_thread()
def _scan_with_numpy(segment: Segment, lists: InvertedLists, target: SearchTarget, limits: ListScanLimits) -> ListScan:
    """Return the result of the scan with numpy. Raises ChecksumError."""
    query_sketch = lists.sketches.sketch_query(target.query)
    shortlist = Shortlist(segment, target, partial(lists.bound_products, target.query, query_sketch))
    bounds = lists.bound_cosines(query_sketch)
    order = np.argsort(-bounds)
    order = order[lists.count_members(order) > 0]
    done = scored = seen = 0
    proven, ended = True, False
    while done < len(order) and bounds[order[done]] >= shortlist.threshold:
        batch = order[done : done + min(max(_FIRST_LISTS, 4 * done), _MAX_LISTS)]
        batch = batch[bounds[batch] >= shortlist.threshold]
        done += len(batch)
        seen += int(lists.count_members(batch).sum())
        scored += _read(lists, batch, query_sketch, shortlist, limits.allowed)
        if limits.budget is not None and scored >= limits.budget and shortlist.threshold > -np.inf:
            proven, ended = False, True
            break
        reachable = order[done:][bounds[order[done:]] >= shortlist.threshold]
        shortlist.expect_more(int(lists.count_members(reachable).sum()) / seen)
        if scored > limits.max_sketches or shortlist.exceeds_limit:
            proven = False
            break
    return ListScan(shortlist.rows, scored, done, proven, ended, shortlist.exceeds_limit, "numpy")


def _read(
    lists: InvertedLists, batch: Ids, query_sketch: Vectors, shortlist: Shortlist, allowed: NDArray[np.bool_] | None
) -> int:
    """Offer the members of these lists, and return the number of sketches read."""
    lists.checksums.check(batch)
    starts, stops, frames = lists.starts[batch], lists.starts[batch + 1], lists.frames[batch]
    ends = np.cumsum(stops - starts)
    products, done = np.empty(int(ends[-1]), np.float32), 0
    for start, stop, frame in zip(starts.tolist(), stops.tolist(), frames.tolist(), strict=True):
        members = lists.list_sketches[start:stop].astype(np.float32)
        np.dot(members, query_sketch[frame], out=products[done : done + stop - start])
        done += stop - start
    products += np.float32(SKETCH_ERROR)
    reaching = (products >= shortlist.threshold).nonzero()[0]
    places = reaching + (stops - ends)[np.searchsorted(ends, reaching, side="right")]
    if allowed is not None:
        passing = allowed.take(lists.owners.take(places))
        reaching, places = reaching[passing], places[passing]
    shortlist.offer(lists.rows.take(places).astype(np.int64), products[reaching])
    return done
