"""The scan of the rows that pass a filter: sketches first, then residual codes of the rows not ruled out."""

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

_FIRST_BATCH: Final = 2048  # sketches; they give a first threshold
_BATCH_SIZE: Final = 16_384
_MIN_DIM: Final = 96  # from this dimension on, comparing codes is quicker than reading vectors


@dataclass(frozen=True, eq=False)
class FilteredScan:
    """Rows that can be among the best, None if too few were ruled out; number of sketches read; the kernel."""

    rows: Ids | None
    scored: int
    kernel: str


def scan_filtered(
    segment: Segment, lists: InvertedLists, target: SearchTarget, selection: RowSelection, *, doubtful: bool = False
) -> FilteredScan:
    """Return which of the selected rows (at least one) can be among the best. Raises ChecksumError.

    doubtful: sketches seem to rule out too few rows, so that scoring all may be quicker.
    """
    module = get_kernel().use()
    if module is None and doubtful:
        return FilteredScan(None, 0, "numpy")
    sketches, codes = lists.sketches, lists.residual_codes
    sketches.checksums.check(selection.positions)
    if module is None:
        return _scan_with_numpy(segment, lists, target, expand_ranges(selection.starts, selection.stops))
    codes.checksums.check(selection.positions)
    rows, exceeds_limit = module.scan_ranges(
        (selection.starts, selection.stops, selection.rows),
        (sketches.which, sketches.axes, sketches.sketches),
        (codes.codes, codes.steps, np.float32(codes.max_error)),
        (target.query, target.top_k, np.float32(target.slack), target.distinct),
        target.limit if doubtful and not beats_full_scan(target) else selection.rows,
    )
    return FilteredScan(None if exceeds_limit else rows, selection.rows, "numba")


def beats_full_scan(target: SearchTarget) -> bool:
    """Return whether this scan is quicker than scoring all rows, however few the sketches rule out."""
    return get_kernel().module is not None and len(target.query) >= _MIN_DIM


@one_blas_thread()
def _scan_with_numpy(segment: Segment, lists: InvertedLists, target: SearchTarget, rows: Ids) -> FilteredScan:
    query_sketch, done = lists.sketches.sketch_query(target.query, rows), 0
    shortlist = Shortlist(segment, target, partial(lists.bound_products, target.query, query_sketch))
    while done < len(rows) and not shortlist.exceeds_limit:
        batch = rows[done : done + (_BATCH_SIZE if done else _FIRST_BATCH)]
        bounds = lists.sketches.bound_products(batch, query_sketch)
        is_near = (bounds >= shortlist.threshold).nonzero()[0]
        shortlist.offer(batch[is_near], bounds[is_near])
        shortlist.expect_more((len(rows) - done - len(batch)) / (done + len(batch)))
        done += len(batch)
    return FilteredScan(None if shortlist.exceeds_limit else shortlist.rows, done, "numpy")
