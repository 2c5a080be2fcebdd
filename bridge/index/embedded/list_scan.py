"""The scan of inverted lists by falling bound, with the compiled kernel or with numpy, until the rest is ruled out."""

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

_FIRST: Final = 2  # lists read before the first look at what was found
_AT_ONCE: Final = 32
_EVERY: Final = np.zeros(0, np.bool_)
_WITHOUT_BUDGET: Final = -1


@dataclass(frozen=True, eq=False)
class ListScanLimits:
    """allowed: bool per owner, None = all. worth: rows that another route would read; no more sketches are read here.

    budget: as many sketches as may be read once there are top_k.
    """

    allowed: NDArray[np.bool_] | None
    worth: int
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class ListScan:
    """Rows that can be among the best, as far as lists were read; how many sketches, of how many lists, were read.

    proven: all of the best are known; ended: by the budget. Neither: the bounds do not help with this query, and
    another route is better. hopeless: too many rows to compare, here or wherever else sketches decide.
    """

    rows: Ids
    scored: int
    lists: int
    proven: bool
    ended: bool
    hopeless: bool
    kernel: str


def scan_lists(segment: Segment, lists: InvertedLists, target: SearchTarget, limits: ListScanLimits) -> ListScan:
    """Scan lists until none can hold anything better, or it is not worth it. Raises ChecksumError."""
    module = get_kernel().use()
    if module is not None:
        return _scan_compiled(module, segment, lists, target=target, limits=limits)
    return _scan_with_numpy(segment, lists, target, limits)


def _scan_compiled(
    module: Any, segment: Segment, lists: InvertedLists, *, target: SearchTarget, limits: ListScanLimits
) -> ListScan:
    """Return what the compiled kernel finds; what it has read is checked before it is used. Raises ChecksumError."""
    budget = _WITHOUT_BUDGET if limits.budget is None else int(min(max(limits.budget, 0), len(segment.vectors)))
    met = np.zeros(len(lists.radii), np.bool_), np.zeros(len(segment.episodes), np.bool_)
    codes = lists.residual_codes
    rows, scored, end = module.scan_lists(
        (lists.midpoints, lists.radii, lists.starts, lists.frames, bound_rounding(segment.vectors.shape[1])),
        (lists.rows, lists.owners, lists.list_sketches),
        lists.sketches.axes,
        (codes.codes, codes.steps, np.float32(codes.max_error)),
        met,
        (target.query, target.top_k, np.float32(target.slack), target.distinct),
        (
            _EVERY if limits.allowed is None else limits.allowed,
            (limits.worth, budget, target.limit, ENOUGH_COMPARED),
        ),
    )
    for checksums, parts in zip((lists.checksums, codes.checksums), met, strict=True):
        checksums.check(parts.nonzero()[0])
    return ListScan(
        rows,
        scored,
        int(np.count_nonzero(met[0])),
        proven=end == module.PROVEN,
        ended=end == module.ENDED,
        hopeless=end == module.HOPELESS,
        kernel="numba",
    )


@one_blas_thread()
def _scan_with_numpy(segment: Segment, lists: InvertedLists, target: SearchTarget, limits: ListScanLimits) -> ListScan:
    """Return what numpy finds. Raises ChecksumError."""
    query_sketch = lists.sketches.sketch_query(target.query)
    shortlist = Shortlist(segment, target, partial(lists.narrow, target.query, query_sketch))
    reach = lists.bound_cosines(query_sketch)
    order = np.argsort(-reach)
    order = order[lists.count_members(order) > 0]
    done = scored = seen = 0
    proven, ended = True, False
    while done < len(order) and reach[order[done]] >= shortlist.threshold:
        batch = order[done : done + min(max(_FIRST, 4 * done), _AT_ONCE)]
        batch = batch[reach[batch] >= shortlist.threshold]
        done += len(batch)
        seen += int(lists.count_members(batch).sum())
        scored += _read(lists, batch, query_sketch, shortlist, limits.allowed)
        if limits.budget is not None and scored >= limits.budget and shortlist.threshold > -np.inf:
            proven, ended = False, True
            break
        left = order[done:][reach[order[done:]] >= shortlist.threshold]
        shortlist.expect_more(int(lists.count_members(left).sum()) / seen)
        if scored > limits.worth or shortlist.hopeless:
            proven = False
            break
    return ListScan(shortlist.rows, scored, done, proven, ended, shortlist.hopeless, "numpy")


def _read(
    lists: InvertedLists, batch: Ids, query_sketch: Vectors, shortlist: Shortlist, allowed: NDArray[np.bool_] | None
) -> int:
    """Offer the members of these lists, and return of how many the sketches were read."""
    lists.checksums.check(batch)
    starts, stops, frames = lists.starts[batch], lists.starts[batch + 1], lists.frames[batch]
    ends = np.cumsum(stops - starts)
    products, done = np.empty(int(ends[-1]), np.float32), 0
    for start, stop, frame in zip(starts.tolist(), stops.tolist(), frames.tolist(), strict=True):
        members = lists.list_sketches[start:stop].astype(np.float32)
        np.dot(members, query_sketch[frame], out=products[done : done + stop - start])
        done += stop - start
    products += np.float32(SKETCH_ERROR)
    hits = (products >= shortlist.threshold).nonzero()[0]
    places = hits + (stops - ends)[np.searchsorted(ends, hits, side="right")]
    if allowed is not None:
        passing = allowed.take(lists.owners.take(places))
        hits, places = hits[passing], places[passing]
    shortlist.offer(lists.rows.take(places).astype(np.int64), products[hits])
    return done
