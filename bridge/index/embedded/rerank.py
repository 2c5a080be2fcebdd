"""The best matches over several segments: candidates are ranked by their scores in float64."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Explanation, Matches, find_firsts
from bridge.index.embedded.router import find_candidates
from bridge.index.metric import Scores, score
from bridge.support.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.inverted_lists import SearchCopy
    from bridge.index.embedded.router import Candidates, SearchPlan
    from bridge.index.embedded.segment import Segment
    from bridge.index.embedded.snapshot import IndexSnapshot

_STEPS: Final = ("refresh", "filter", "find", "rank")
_NO_ROWS: Final = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
_BATCH_NUMBERS: Final = 1 << 15  # numbers converted to float64 at a time, which fit in the CPU cache


@dataclass(frozen=True, eq=False)
class Ranking:
    """Matches, best first; the candidates of each segment; seconds spent on finding and on ranking them."""

    matches: Matches
    found: tuple[Candidates, ...]
    seconds: tuple[float, float]


def rank(copies: Sequence[SearchCopy], query: Vectors, allowed: Ids | None, plan: SearchPlan) -> Ranking:
    """Return the top_k best matches among the allowed episodes (None = all) of all segments.

    Ties are ordered by episode, then window. Scores do not depend on the segment of a vector. Raises ChecksumError.
    """
    request, started = plan.request, time.perf_counter()
    found = tuple(find_candidates(copy, query, allowed, plan) for copy in copies)
    found_at = time.perf_counter()
    exact = [
        _score(copy.segment, candidates.rows, query, plan.metric)
        for copy, candidates in zip(copies, found, strict=True)
        if len(candidates.rows)
    ] or [_NO_ROWS]
    values, episodes, windows = exact[0] if len(exact) == 1 else map(np.concatenate, zip(*exact, strict=True))
    order = np.lexsort((windows, episodes, -values))
    if request.distinct:
        order = order[find_firsts(episodes[order])]
    order = order[: request.top_k]
    matches = Matches(episodes[order], windows[order], values[order])
    return Ranking(matches, found, (found_at - started, time.perf_counter() - found_at))


def _score(segment: Segment, rows: Ids, query: Vectors, metric: str) -> tuple[Scores, Ids, Ids]:
    """Return scores in float64, episodes and windows of these rows."""
    query64 = query.astype(np.float64)
    positions = segment.find_owners(rows)
    segment.checksums.check(positions)
    batch = max(1, _BATCH_NUMBERS // len(query))
    scores, buffers = np.empty(len(rows)), scratch(2, batch, len(query))
    for start in range(0, len(rows), batch):
        part = rows[start : start + batch]
        vectors, products = buffers[:, : len(part)]
        vectors[:] = segment.vectors.take(part, axis=0)
        scores[start : start + batch] = score(metric, vectors, query64, products)
    return scores, segment.episodes[positions], rows - segment.starts[positions]


def explain(ranking: Ranking, snapshot: IndexSnapshot, times: Sequence[float]) -> Explanation:
    """Return the explanation of a ranking; times: at the start, after reading the ledger, after the filter."""
    base, tail = ranking.found
    lists = snapshot.base.lists
    seconds = (times[1] - times[0], times[2] - times[1], *ranking.seconds)
    return Explanation(
        route=base.route if len(snapshot.base.segment.vectors) else tail.route,
        allowed=base.allowed + tail.allowed,
        scored=base.scored + tail.scored,
        lists=base.lists,
        all_lists=0 if lists is None else len(lists.centroids),
        tail=snapshot.tail.count(),
        milliseconds=dict(zip(_STEPS, (1e3 * step for step in seconds), strict=True)),
    )
