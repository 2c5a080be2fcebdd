"""How one segment is searched: which route, and the rows that can be among the best.

Knows: three routes, and when each is the shortest. Does not know: ranking, several segments, SQL.

    direct   score the rows of the episodes that pass, by outlines and codes first where there are any: few rows pass,
             or lists do not help, and codes are quicker to read than vectors
    lists    visit certified lists until nothing better can be left: many pass
    scan     score everything in one sequential pass: most pass, and neither lists nor codes help

Each gives every row that can be among the best, so that an answer is exact whichever was taken. Lists that turn out to
be a detour cost at most as much again as the route that is taken instead; where that is a scan, and they always do,
they are left alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Explained
from bridge.index.embedded.arrays import WIDTH
from bridge.index.embedded.candidates import Aim
from bridge.index.embedded.filtered_scan import outpaces, rows_of, sift
from bridge.index.embedded.inverted_lists import Limits
from bridge.index.embedded.list_scan import visit
from bridge.index.embedded.norm_bounds import Sight
from bridge.index.metric import COSINE, probe, unit_probe
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from bridge.index.base import Request, Vectors
    from bridge.index.embedded.arrays import Ids
    from bridge.index.embedded.inverted_lists import Lists
    from bridge.index.embedded.rerank import Ranked
    from bridge.index.embedded.segment import Chosen, Segment
    from bridge.index.embedded.snapshot import Held
    from bridge.index.metric import Probe


_SCAN_FROM_SHARE: Final = 0.5  # of the rows: from here on one sequential pass beats many small ones
_LOWEST: Final = float(np.finfo(np.float32).min)
_GATHER_BELOW: Final = 16  # rows per range: shorter ranges cost more as calls than as a copy
_WANTED_SHARE: Final = 16  # where more than one row in so many is wanted, bounds rule out too little
_COMPARED_SHARE: Final = 2  # one row in so many may be read here and there: it takes twice as long per row, and
_COMPARED: Final = 1000  # so many in any case
_PER_OUTLINE: Final = 2 * WIDTH  # numbers that a scan reads in the time that an outline takes
_PER_LIST: Final = 16_384  # and that one more list takes
_LITTLE: Final = 1 << 20  # numbers: a millisecond is never too much
_NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Rows of the segment that can be among the best. exact: all of the best are among them.

    passing: rows of the episodes that pass; scored: rows compared with the query, each route's; lists: how many were
    visited; kernel: what compared them last. vain: rows are missing, too many to look for them so.
    """

    rows: Ids
    route: str
    passing: int
    scored: int
    lists: int = 0
    exact: bool = True
    kernel: str = "numpy"
    vain: bool = False


_NO_CANDIDATES: Final = Candidates(_NONE, "none", 0, 0)


def candidates(
    segment: Segment, query: Vectors, wanted: Ids | None, request: Request, direct_rows: int, metric: str = COSINE
) -> Candidates:
    """Return what of one segment can be among the best of the episodes wanted (None = all).

    direct_rows: up to so many passing rows lists are not worth a look. Raises ChecksumError.
    """
    if not len(segment.vectors):
        return _NO_CANDIDATES
    choice = segment.chosen(wanted)
    passing = choice.rows
    if passing == 0 or request.top_k < 1:
        return Candidates(_NONE, "none", passing, 0)
    aim = _aim(segment.lists, query, metric, request, max(_COMPARED, passing // _COMPARED_SHARE))
    most = passing >= _SCAN_FROM_SHARE * len(segment.vectors)
    too_many = request.top_k * _WANTED_SHARE > passing
    kind = request.distinct, int(request.top_k).bit_length()  # lists may find few matches sooner, and many never
    if segment.lists is None or aim is None or too_many:
        return _exhaustive(segment, probe(segment, query, metric), choice, request)
    costly = most and not outpaces(aim)  # if lists turn out to be a detour
    if costly and not segment.patience.left(kind):
        return _exhaustive(segment, probe(segment, query, metric), choice, request)
    found = _narrowed(segment, segment.lists, aim, choice, request=request, direct_rows=direct_rows)
    if costly:
        effort = found.scored * _PER_OUTLINE + found.lists * _PER_LIST
        segment.patience.learn(kind, failed=found.vain or effort > max(segment.vectors.size, _LITTLE))
    if not found.vain:
        return found
    rest = _exhaustive(segment, probe(segment, query, metric), choice, request)
    return replace(rest, route=found.route + rest.route, scored=found.scored + rest.scored, lists=found.lists)


def _narrowed(
    segment: Segment, lists: Lists, aim: Aim, choice: Chosen, *, request: Request, direct_rows: int
) -> Candidates:
    """Return what lists or outlines leave; in vain, if that is too much to be of use."""
    passing = choice.rows
    tried, scored, visited, hopeless = "", 0, 0, False
    if passing > direct_rows:
        seen = visit(segment, lists, aim, _limits(segment, choice.positions, passing, request.budget))
        found = seen.found
        if found.proven or found.ended:
            rows, exact = seen.rows, found.proven
            return Candidates(rows, "lists", passing, found.scored, found.lists, exact=exact, kernel=seen.kernel)
        tried, scored, visited, hopeless = "lists, then ", found.scored, found.lists, seen.hopeless
    some = sift(segment, lists, aim, choice, doubtful=hopeless)
    scored += some.outlines
    if some.rows is not None:
        return Candidates(some.rows, f"{tried}direct", passing, scored, visited, kernel=some.kernel)
    return Candidates(_NONE, tried, passing, scored, visited, vain=True)


def _aim(lists: Lists | None, query: Vectors, metric: str, request: Request, limit: int) -> Aim | None:
    """Return what lists and outlines are to look for; None if they are of no use to this query."""
    if lists is not None and lists.lengths is not None:
        sight = Sight.of(query, lists.lengths, metric)
        return Aim(sight.query, 0.0, request.top_k, request.distinct, limit, sight) if sight.tells else None
    unit = unit_probe(query, metric)
    return None if unit is None else Aim(unit.query, unit.slack, request.top_k, request.distinct, limit)


def _limits(segment: Segment, positions: Ids, passing: int, budget: int | None) -> Limits:
    allowed = None
    if len(positions) < len(segment.episodes):
        allowed = np.zeros(len(segment.episodes), np.bool_)
        allowed[positions] = True
    most = passing >= _SCAN_FROM_SHARE * len(segment.vectors)
    return Limits(allowed, len(segment.vectors) if most else passing, budget)


@one_blas_thread()
def _exhaustive(segment: Segment, asked: Probe, choice: Chosen, request: Request) -> Candidates:
    """Score every row that passes."""
    if choice.rows >= _SCAN_FROM_SHARE * len(segment.vectors):
        segment.seals.check()
        rows = _scanned(segment, asked, choice.positions, request)
        return Candidates(rows, "scan", choice.rows, len(segment.vectors))
    segment.seals.check(choice.positions)
    starts, stops = choice.starts, choice.stops
    scores = _scored(segment.vectors, asked.query, starts, stops)
    if asked.halves is not None:
        scores -= np.concatenate([asked.halves[start:stop] for start, stop in zip(starts, stops, strict=True)])
    firsts = np.cumsum(stops - starts) - (stops - starts)
    picked = _picked(scores, firsts, request, asked.slack)
    owner = np.searchsorted(firsts, picked, side="right") - 1
    return Candidates(starts[owner] + picked - firsts[owner], "direct", choice.rows, choice.rows)


def _scored(vectors: Vectors, query: Vectors, starts: Ids, stops: Ids) -> Vectors:
    """Return the dot products of these ranges, one after another."""
    total = int((stops - starts).sum())
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    if total < _GATHER_BELOW * (len(breaks) + 1):
        gathered: Vectors = vectors.take(rows_of(starts, stops), axis=0) @ query
        return gathered
    scores = np.empty(total, np.float32)
    done = 0
    firsts, lasts = starts[np.append(0, breaks + 1)].tolist(), stops[np.append(breaks, len(stops) - 1)].tolist()
    for start, stop in zip(firsts, lasts, strict=True):
        np.dot(vectors[start:stop], query, out=scores[done : done + stop - start])
        done += stop - start
    return scores


def _scanned(segment: Segment, asked: Probe, positions: Ids, request: Request) -> Ids:
    scores = segment.vectors @ asked.query
    if asked.halves is not None:
        scores -= asked.halves
    if len(positions) < len(segment.episodes):
        lost = np.ones(len(segment.episodes), np.bool_)
        lost[positions] = False
        for position in np.flatnonzero(lost).tolist():
            scores[segment.starts[position] : segment.starts[position + 1]] = -np.inf
    return _picked(scores, segment.starts[:-1], request, asked.slack)


def _picked(scores: Vectors, firsts: Ids, request: Request, slack: float) -> Ids:
    """Return where scores can be among the best; episode i's begin at firsts[i]. Rows at -inf do not count.

    The k-th best episode is no better than the k-th best row: that alone leaves few rows to look at. Where only the
    best row of each episode counts, those far below it are not among them, however many reach the k-th.
    """
    tops = np.maximum.reduceat(scores, firsts)
    places = np.flatnonzero(scores >= max(_kth(tops, request.top_k) - 2 * slack, _LOWEST))
    close = scores[places]
    own = tops[np.searchsorted(firsts, places, side="right") - 1] if request.distinct else _kth(close, request.top_k)
    return places[close >= own - 2 * slack]


def _kth(scores: Vectors, top_k: int) -> float:
    if len(scores) <= top_k:
        return float("-inf")
    return float(np.partition(scores, len(scores) - top_k)[len(scores) - top_k])


_PATIENT: Final = 8  # failures in a row: few enough queries are unlike all vectors for that to mean more than chance
_PAUSE: Final = 31  # searches without another attempt


class Patience:
    """Says whether to try once more; threads may share it, for at worst an attempt is made or left out."""

    def __init__(self) -> None:
        self._failures: Counter[Hashable] = Counter()
        self._pause: Counter[Hashable] = Counter()

    def left(self, kind: Hashable) -> bool:
        """Say whether to try, which is asked once per search."""
        if self._pause[kind] > 0:
            self._pause[kind] -= 1
            return False
        return True

    def learn(self, kind: Hashable, *, failed: bool) -> None:
        """Hear how an attempt went."""
        self._failures[kind] = self._failures[kind] + 1 if failed else 0
        if self._failures[kind] >= _PATIENT:
            self._pause[kind] = _PAUSE


_STEPS: Final = ("refresh", "filter", "find", "rank")


def explained(result: Ranked, held: Held, times: Sequence[float]) -> Explained:
    """Return how the result came from what is held; times: when the search began, had the ledger, had the filter."""
    base, tail = result.found
    lists = held.base.lists
    spent = (times[1] - times[0], times[2] - times[1], *result.seconds)
    return Explained(
        route=base.route if len(held.base.vectors) else tail.route,
        passing=base.passing + tail.passing,
        scored=base.scored + tail.scored,
        lists=base.lists,
        all_lists=0 if lists is None else len(lists.centroids),
        tail=held.tail_rows(),
        milliseconds=dict(zip(_STEPS, (1e3 * one for one in spent), strict=True)),
        kernel=base.kernel,
    )
