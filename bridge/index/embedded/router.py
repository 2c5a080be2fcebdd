"""Selects the route that searches one segment, and returns the rows that can be among the best.

    direct   score the rows of the episodes that pass, after sketches and residual codes if there are any: for few
             rows, or if inverted lists do not help, as codes are quicker to read than vectors
    lists    scan inverted lists until no other can have anything better: for many rows
    scan     score all rows in one sequential pass: for most rows, if neither lists nor codes help

Each returns every row that can be among the best, so answers are exact on every route. If lists do not help, the time
lost is at most that of the route taken instead; if that is a scan, a backoff skips the lists after repeated failures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.candidates import make_target
from bridge.index.embedded.filtered_scan import beats_full_scan, scan_filtered
from bridge.index.embedded.full_scan import covers_most, scan
from bridge.index.embedded.list_scan import ListScanLimits, scan_lists
from bridge.index.embedded.sketches import WIDTH

if TYPE_CHECKING:
    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.embedded.candidates import SearchTarget
    from bridge.index.embedded.inverted_lists import InvertedLists, SearchCopy
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

    passing: rows of the episodes that pass; scored: rows compared with the query, over all routes tried; lists: number
    of lists scanned; kernel: the last one used. incomplete: rows are missing, as there are too many for this route.
    """

    rows: Ids
    route: str
    passing: int
    scored: int
    lists: int = 0
    exact: bool = True
    kernel: str = "numpy"
    incomplete: bool = False


def find_candidates(copy: SearchCopy, query: Vectors, episodes: Ids | None, plan: SearchPlan) -> Candidates:
    """Return the candidates of one segment among these episodes (None = all). Raises ChecksumError."""
    segment, request = copy.segment, plan.request
    if not len(segment.vectors):
        return Candidates(_NONE, "none", 0, 0)
    selection = segment.select(episodes)
    passing = selection.rows
    if passing == 0 or request.top_k < 1:
        return Candidates(_NONE, "none", passing, 0)
    target = make_target(query, plan.metric, request, max(_MIN_COMPARED, passing // _COMPARED_SHARE))
    is_large = request.top_k * _TOP_K_SHARE > passing
    if copy.lists is None or target is None or is_large:
        return _score_all(segment, query, selection, plan)
    kind = request.distinct, int(request.top_k).bit_length()  # whether lists help depends on the number of matches
    is_detour_costly = covers_most(segment, selection) and not beats_full_scan(target)  # if lists do not help
    if is_detour_costly and not copy.backoff.allows(kind):
        return _score_all(segment, query, selection, plan)
    narrowed = _search_by_bounds(segment, copy.lists, target, selection=selection, plan=plan)
    if is_detour_costly:
        effort = narrowed.scored * _PER_SKETCH + narrowed.lists * _PER_LIST
        copy.backoff.record(kind, failed=narrowed.incomplete or effort > max(segment.vectors.size, _MIN_NUMBERS))
    if not narrowed.incomplete:
        return narrowed
    rescan = _score_all(segment, query, selection, plan)
    return replace(
        rescan, route=narrowed.route + rescan.route, scored=narrowed.scored + rescan.scored, lists=narrowed.lists
    )


def _search_by_bounds(
    segment: Segment, lists: InvertedLists, target: SearchTarget, *, selection: RowSelection, plan: SearchPlan
) -> Candidates:
    """Return the candidates left by inverted lists or sketches; incomplete if there are too many."""
    passing = selection.rows
    route, scored, scanned, too_many = "", 0, 0, False
    if passing > plan.direct_rows or covers_most(segment, selection):
        list_scan = scan_lists(segment, lists, target, _limit(segment, selection, plan.request.budget))
        if list_scan.proven or list_scan.ended:
            return Candidates(
                list_scan.rows,
                "lists",
                passing,
                list_scan.scored,
                list_scan.lists,
                exact=list_scan.proven,
                kernel=list_scan.kernel,
            )
        route, scored, scanned, too_many = "lists, then ", list_scan.scored, list_scan.lists, list_scan.too_many
    filtered = scan_filtered(segment, lists, target, selection, doubtful=too_many)
    scored += filtered.scored
    if filtered.rows is not None:
        return Candidates(filtered.rows, f"{route}direct", passing, scored, scanned, kernel=filtered.kernel)
    return Candidates(_NONE, route, passing, scored, scanned, incomplete=True)


def _limit(segment: Segment, selection: RowSelection, budget: int | None) -> ListScanLimits:
    allowed = None
    if len(selection.positions) < len(segment.episodes):
        allowed = np.zeros(len(segment.episodes), np.bool_)
        allowed[selection.positions] = True
    worth = len(segment.vectors) if covers_most(segment, selection) else selection.rows
    return ListScanLimits(allowed, worth, budget)


def _score_all(segment: Segment, query: Vectors, selection: RowSelection, plan: SearchPlan) -> Candidates:
    rows = scan(segment, query, metric=plan.metric, selection=selection, request=plan.request)
    if covers_most(segment, selection):
        return Candidates(rows, "scan", selection.rows, len(segment.vectors))
    return Candidates(rows, "direct", selection.rows, selection.rows)
