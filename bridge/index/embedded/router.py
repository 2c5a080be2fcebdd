"""Which route searches one segment, and the rows that can be among the best.

    direct   score the rows of the episodes that pass, by sketches and residual codes first where there are any: few
             rows pass, or inverted lists do not help, and codes are quicker to read than vectors
    lists    scan inverted lists until nothing better can be left: many pass
    scan     score everything in one sequential pass: most pass, and neither lists nor codes help

Each gives every row that can be among the best, so that an answer is exact whichever was taken. Lists that turn out to
be a detour cost at most as much again as the route that is taken instead; where that is a scan, a backoff leaves them
out after repeated failures.
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

_WANTED_SHARE: Final = 16  # where more than one row in so many is wanted, bounds rule out too little
_COMPARED_SHARE: Final = 2  # one row in so many may be read here and there: it takes twice as long per row, and
_COMPARED: Final = 1000  # so many in any case
_PER_SKETCH: Final = 2 * WIDTH  # numbers that a scan reads in the time that a sketch takes
_PER_LIST: Final = 16_384  # and that one more list takes
_LITTLE: Final = 1 << 20  # numbers: a millisecond is never too much
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True)
class SearchPlan:
    """What decides about the route. direct_rows: where a filter leaves no more, lists are not worth a look."""

    request: Request
    metric: str
    direct_rows: int


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows of the segment that can be among the best. exact: all of the best are among them.

    passing: rows of the episodes that pass; scored: rows compared with the query, on each route; lists: how many were
    scanned; kernel: what compared them last. incomplete: rows are missing, too many to look for them on this route.
    """

    rows: Ids
    route: str
    passing: int
    scored: int
    lists: int = 0
    exact: bool = True
    kernel: str = "numpy"
    incomplete: bool = False


def find_candidates(copy: SearchCopy, query: Vectors, wanted: Ids | None, plan: SearchPlan) -> Candidates:
    """Return what of one segment can be among the best of the episodes wanted (None = all). Raises ChecksumError."""
    segment, request = copy.segment, plan.request
    if not len(segment.vectors):
        return Candidates(_NONE, "none", 0, 0)
    selection = segment.select(wanted)
    passing = selection.rows
    if passing == 0 or request.top_k < 1:
        return Candidates(_NONE, "none", passing, 0)
    target = make_target(query, plan.metric, request, max(_COMPARED, passing // _COMPARED_SHARE))
    too_many = request.top_k * _WANTED_SHARE > passing
    if copy.lists is None or target is None or too_many:
        return _score_all(segment, query, selection, plan)
    kind = request.distinct, int(request.top_k).bit_length()  # lists may find few matches sooner, and many never
    costly = covers_most(segment, selection) and not beats_full_scan(target)  # if lists turn out to be a detour
    if costly and not copy.backoff.allows(kind):
        return _score_all(segment, query, selection, plan)
    found = _narrow(segment, copy.lists, target, selection=selection, plan=plan)
    if costly:
        effort = found.scored * _PER_SKETCH + found.lists * _PER_LIST
        copy.backoff.record(kind, failed=found.incomplete or effort > max(segment.vectors.size, _LITTLE))
    if not found.incomplete:
        return found
    rest = _score_all(segment, query, selection, plan)
    return replace(rest, route=found.route + rest.route, scored=found.scored + rest.scored, lists=found.lists)


def _narrow(
    segment: Segment, lists: InvertedLists, target: SearchTarget, *, selection: RowSelection, plan: SearchPlan
) -> Candidates:
    """Return what inverted lists or sketches leave; incomplete, if that is too much to be of use."""
    passing = selection.rows
    tried, scored, scanned, hopeless = "", 0, 0, False
    if passing > plan.direct_rows or covers_most(segment, selection):
        seen = scan_lists(segment, lists, target, _limit(segment, selection, plan.request.budget))
        if seen.proven or seen.ended:
            return Candidates(
                seen.rows, "lists", passing, seen.scored, seen.lists, exact=seen.proven, kernel=seen.kernel
            )
        tried, scored, scanned, hopeless = "lists, then ", seen.scored, seen.lists, seen.hopeless
    some = scan_filtered(segment, lists, target, selection, doubtful=hopeless)
    scored += some.scored
    if some.rows is not None:
        return Candidates(some.rows, f"{tried}direct", passing, scored, scanned, kernel=some.kernel)
    return Candidates(_NONE, tried, passing, scored, scanned, incomplete=True)


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
