"""The best matches over several segments: candidates are ranked by their scores in float64."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Matches, find_firsts
from bridge.index.embedded.router import find_candidates
from bridge.index.metric import Scores, score
from bridge.support.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.inverted_lists import SearchCopy
    from bridge.index.embedded.router import Candidates, SearchPlan
    from bridge.index.embedded.segment import Segment

_NOTHING: Final = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
_WIDENED_AT_ONCE: Final = 1 << 15  # numbers: they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Ranking:
    """Matches, best first; what each segment contributed; seconds spent on finding and on ranking."""

    matches: Matches
    found: tuple[Candidates, ...]
    seconds: tuple[float, float]


def rank(copies: Sequence[SearchCopy], query: Vectors, wanted: Ids | None, plan: SearchPlan) -> Ranking:
    """Return the top_k best matches among the episodes wanted (None = all) over all segments.

    Ties go by episode, then window. Scores do not depend on where a vector lies. Raises ChecksumError.
    """
    request, begun = plan.request, time.perf_counter()
    found = tuple(find_candidates(copy, query, wanted, plan) for copy in copies)
    halfway = time.perf_counter()
    exact = [
        _score(copy.segment, one.rows, query, plan.metric)
        for copy, one in zip(copies, found, strict=True)
        if len(one.rows)
    ] or [_NOTHING]
    values, episodes, windows = exact[0] if len(exact) == 1 else map(np.concatenate, zip(*exact, strict=True))
    order = np.lexsort((windows, episodes, -values))
    if request.distinct:
        order = order[find_firsts(episodes[order])]
    order = order[: request.top_k]
    matches = Matches(episodes[order], windows[order], values[order])
    return Ranking(matches, found, (halfway - begun, time.perf_counter() - halfway))


def _score(segment: Segment, rows: Ids, query: Vectors, metric: str) -> tuple[Scores, Ids, Ids]:
    """Return scores in float64, episodes and windows of these rows."""
    wide = query.astype(np.float64)
    positions = segment.find_owners(rows)
    segment.checksums.check(positions)
    some = max(1, _WIDENED_AT_ONCE // len(query))
    found, room = np.empty(len(rows)), scratch(2, some, len(query))
    for start in range(0, len(rows), some):
        part = rows[start : start + some]
        vectors, products = room[:, : len(part)]
        vectors[:] = segment.vectors.take(part, axis=0)
        found[start : start + some] = score(metric, vectors, wide, products)
    return found, segment.episodes[positions], rows - segment.starts[positions]
