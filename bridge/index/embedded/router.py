"""Selects the route that searches one segment, and returns the rows that can be among the best.

    lists    scan inverted lists until no other can have anything better
    scan     score all rows of the episodes that pass: for few rows, without lists, or if lists do not help

Each returns every row that can be among the best, so answers are exact on both routes. If lists do not help, the time
lost is at most that of the scan; if that is one of most rows, a backoff skips the lists after repeated failures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.candidates import make_target
from bridge.index.embedded.full_scan import covers_most, scan
from bridge.index.embedded.list_scan import ListScanLimits, scan_lists
from bridge.index.embedded.sketches import WIDTH

if TYPE_CHECKING:
    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.embedded.inverted_lists import SearchCopy
    from bridge.index.embedded.segment import RowSelection, Segment

_TOP_K_SHARE: Final = 16  # if top_k is more than one row in so many, bounds rule out too little
_COMPARED_SHARE: Final = 2  # one row in so many may be compared, as random access takes twice as long per row,
_MIN_COMPARED: Final = 1000  # and at least so many
_PER_SKETCH: Final = 2 * WIDTH  # cost of a sketch, in numbers read by a scan
_PER_LIST: Final = 16_384  # cost of a list, in the same unit
_MIN_NUMBERS: Final = 1 << 20  # numbers, about a millisecond, which is never too much
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class SearchPlan:
    """Parameters of the route. direct_rows: if a filter leaves at most so many rows, lists are not used."""

    request: Request
    metric: str
    direct_rows: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows of the segment that can be among the best. exact: all of the best are among them.

    allowed: rows of the episodes that pass; scored: rows compared with the query, over all routes tried; lists: number
    of lists scanned.
    """

    rows: Ids
    route: str
    allowed: int
    scored: int
    lists: int = 0
    exact: bool = True


def find_candidates(copy: SearchCopy, query: Vectors, episodes: Ids | None, plan: SearchPlan) -> Candidates:
    """Return the candidates of one segment among these episodes (None = all). Raises ChecksumError."""
    segment, request = copy.segment, plan.request
    if not len(segment.vectors):
        return Candidates(_NONE, "none", 0, 0)
    selection = segment.select(episodes)
    allowed = selection.rows
    if allowed == 0 or request.top_k < 1:
        return Candidates(_NONE, "none", allowed, 0)
    target = make_target(query, plan.metric, request, max(_MIN_COMPARED, allowed // _COMPARED_SHARE))
    is_large = request.top_k * _TOP_K_SHARE > allowed
    selects_most = covers_most(segment, selection)
    has_few_rows = allowed <= plan.direct_rows and not selects_most
    kind = request.distinct, int(request.top_k).bit_length()  # whether lists help depends on the number of matches
    if copy.lists is None or target is None or is_large or has_few_rows:
        return _score_all(segment, query, selection, plan)
    budget = None if request.budget is None or request.budget >= allowed else request.budget
    has_backoff = selects_most and budget is None
    if has_backoff and not copy.backoff.allows(kind):
        return _score_all(segment, query, selection, plan)
    found = scan_lists(segment, copy.lists, target, _limit(segment, selection, budget))
    is_done = found.proven or found.ended
    if has_backoff:
        effort = found.scored * _PER_SKETCH + found.lists * _PER_LIST
        copy.backoff.record(kind, failed=not is_done or effort > max(segment.vectors.size, _MIN_NUMBERS))
    if is_done:
        return Candidates(found.rows, "lists", allowed, found.scored, found.lists, exact=found.proven)
    scan = _score_all(segment, query, selection, plan)
    return replace(scan, route="lists, then scan", scored=found.scored + scan.scored, lists=found.lists)


def _limit(segment: Segment, selection: RowSelection, budget: int | None) -> ListScanLimits:
    allowed = None
    if len(selection.positions) < len(segment.episodes):
        allowed = np.zeros(len(segment.episodes), np.bool_)
        allowed[selection.positions] = True
    worth = len(segment.vectors) if covers_most(segment, selection) else selection.rows
    return ListScanLimits(allowed, worth, budget)


def _score_all(segment: Segment, query: Vectors, selection: RowSelection, plan: SearchPlan) -> Candidates:
    rows = scan(segment, query, metric=plan.metric, selection=selection, request=plan.request)
    scored = len(segment.vectors) if covers_most(segment, selection) else selection.rows
    return Candidates(rows, "scan", selection.rows, scored)
