"""The scan of the rows that pass a filter: their sketches first, then the residual codes of those that these leave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.candidates import Shortlist
from bridge.index.embedded.kernel import get_kernel
from bridge.index.embedded.segment import expand_ranges
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from bridge.index.base import Ids
    from bridge.index.embedded.candidates import SearchTarget
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.segment import RowSelection, Segment

_FIRST: Final = 2048  # sketches: after so many there is a score to reach
_AT_ONCE: Final = 16_384
_WIDE: Final = 96  # numbers: from so many on codes are compared in less time than it takes to read the vectors


@dataclass(frozen=True, eq=False)
class FilteredScan:
    """Rows that can be among the best, None if too few were ruled out; how many sketches were read, and by what."""

    rows: Ids | None
    scored: int
    kernel: str


def scan_filtered(
    segment: Segment, lists: InvertedLists, target: SearchTarget, selection: RowSelection, *, doubtful: bool = False
) -> FilteredScan:
    """Return which of the selected rows, one or more, can be among the best. Raises ChecksumError.

    doubtful: sketches seem to rule out too little, so that it may be quicker to score all rows.
    """
    module = get_kernel().use()
    if module is None and doubtful:
        return FilteredScan(None, 0, "numpy")
    sketches, codes = lists.sketches, lists.residual_codes
    sketches.checksums.check(selection.positions)
    if module is None:
        return _scan_with_numpy(segment, lists, target, expand_ranges(selection.starts, selection.stops))
    codes.checksums.check(selection.positions)
    rows, hopeless = module.scan_ranges(
        (selection.starts, selection.stops, selection.rows),
        (sketches.which, sketches.axes, sketches.sketches),
        (codes.codes, codes.steps, np.float32(codes.max_error)),
        (target.query, target.top_k, np.float32(target.slack), target.distinct),
        target.limit if doubtful and not beats_full_scan(target) else selection.rows,
    )
    return FilteredScan(None if hopeless else rows, selection.rows, "numba")


def beats_full_scan(target: SearchTarget) -> bool:
    """Say whether this scan is quicker than to score all rows, however few of them their sketches rule out."""
    return get_kernel().module is not None and len(target.query) >= _WIDE


@one_blas_thread()
def _scan_with_numpy(segment: Segment, lists: InvertedLists, target: SearchTarget, rows: Ids) -> FilteredScan:
    query_sketch, done = lists.sketches.sketch_query(target.query, rows), 0
    shortlist = Shortlist(segment, target, partial(lists.narrow, target.query, query_sketch))
    while done < len(rows) and not shortlist.hopeless:
        some = rows[done : done + (_AT_ONCE if done else _FIRST)]
        bounds = lists.sketches.bound_products(some, query_sketch)
        good = (bounds >= shortlist.threshold).nonzero()[0]
        shortlist.offer(some[good], bounds[good])
        shortlist.expect_more((len(rows) - done - len(some)) / (done + len(some)))
        done += len(some)
    return FilteredScan(None if shortlist.hopeless else shortlist.rows, done, "numpy")
