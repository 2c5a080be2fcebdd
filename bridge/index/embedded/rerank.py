"""The best matches over several segments.

Knows: candidates are found in float32 and ranked in float64, and ties go by episode, then window. Does not know: how
candidates are found.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Match
from bridge.index.embedded.router import candidates
from bridge.index.metric import COSINE, Scores, scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Request, Vectors
    from bridge.index.embedded.arrays import Ids
    from bridge.index.embedded.router import Candidates
    from bridge.index.embedded.segment import Segment

_NOTHING: Final = (np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
_WIDENED_AT_ONCE: Final = 4096  # rows: a great many equal vectors must not need a great deal of memory


@dataclass(frozen=True, eq=False)
class Ranked:
    """Matches, best first; what each segment contributed; seconds spent on finding and on ranking."""

    matches: tuple[Match, ...]
    found: tuple[Candidates, ...]
    seconds: tuple[float, float]


def best(
    segments: Sequence[Segment],
    query: Vectors,
    wanted: Ids | None,
    request: Request,
    *,
    direct_rows: int,
    metric: str = COSINE,
) -> Ranked:
    """Return the request.top_k best matches among the episodes wanted (None = all) over all segments.

    Scores do not depend on where a vector lies. Raises ChecksumError.
    """
    begun = time.perf_counter()
    found = tuple(candidates(segment, query, wanted, request, direct_rows, metric) for segment in segments)
    halfway = time.perf_counter()
    exact = [
        _exact(segment, one.rows, query, metric) for segment, one in zip(segments, found, strict=True) if len(one.rows)
    ] or [_NOTHING]
    values, episodes, windows = exact[0] if len(exact) == 1 else map(np.concatenate, zip(*exact, strict=True))
    order = np.lexsort((windows, episodes, -values))
    if request.distinct:
        _, first = np.unique(episodes[order], return_index=True)
        order = order[np.sort(first)]
    order = order[: request.top_k]
    told = zip(episodes[order].tolist(), windows[order].tolist(), values[order].tolist(), strict=True)
    matches = tuple(map(Match._make, told))
    return Ranked(matches, found, (halfway - begun, time.perf_counter() - halfway))


def _exact(segment: Segment, rows: Ids, query: Vectors, metric: str) -> tuple[Scores, Ids, Ids]:
    """Return scores in float64, episodes and windows of these rows."""
    wide = query.astype(np.float64)
    positions = segment.owners(rows)
    segment.seals.check(positions)
    parts = [rows[start : start + _WIDENED_AT_ONCE] for start in range(0, len(rows), _WIDENED_AT_ONCE)]
    told = [scores(metric, segment.vectors.take(part, axis=0).astype(np.float64), wide) for part in parts]
    found = told[0] if len(told) == 1 else np.concatenate(told)
    return found, segment.episodes[positions], rows - segment.starts[positions]
