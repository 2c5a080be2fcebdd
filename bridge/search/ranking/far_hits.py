"""Says when even the best hits are farther from the query than nearly all episodes are from their nearest neighbour."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.neighbour_graph import LEAST_EPISODES
from bridge.index.metric import COSINE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Match
    from bridge.results import EpisodeRef
    from bridge.search.query.examples import Example
    from bridge.search.ranking.fusion import Fusion
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.stored_vectors import StoredVectors

SHARE: Final = 0.03
"""Share of episodes whose nearest neighbour may be as far as a query with such hits: see docs/search.md."""
SAMPLE: Final = 1024
"""Number of episodes of which the nearest neighbours among each other are measured."""
LEAST_PART: Final = 0.9
"""Of the length of the shortest hit, which a query must have: vectors of whole episodes tell little of a piece."""

_TINY: Final = 1e-12
_NAME: Final = f"nearest neighbours {SHARE}, {SAMPLE}"


def _is_judged(query: QueryVector) -> bool:
    """Return whether a query is compared as whole episodes are with each other."""
    is_whole = query.space.windows.whole and query.space.metric == COSINE
    return is_whole and query.scanned is None and not len(query.against)


def _measure(stored: StoredVectors, query: QueryVector) -> list[float]:
    """Return the weighted cosine above which all but SHARE of sampled episodes have their nearest neighbour."""
    rows = stored.load(query.space, stored.choose(query.space, SAMPLE)).vectors.astype(np.float64)
    if len(rows) < LEAST_EPISODES:
        return [-1.0]  # nothing is farther than that
    if query.weights.values is not None:
        rows *= np.sqrt(query.weights.values)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _TINY)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, -1.0)
    return [float(np.quantile(cosines.max(axis=1), SHARE))]


def explain_far_hits(
    stored: StoredVectors,
    fusions: Sequence[Fusion],
    example: Example,
    length: int,
    hits: Sequence[tuple[EpisodeRef, Match]],
) -> list[str]:
    """Return a note if the hits besides the query's own episode are far from it in every Space; length: of the query.

    None in small archives, and for a query that is shorter than the hits.
    """
    others = [match for ref, match in hits if ref.uid != example.uid and ref.address != example.address]
    lengths = [ref.length for ref, _ in hits]
    if not others or length < LEAST_PART * min(lengths):
        return []
    found = []
    for fusion in fusions:
        query = fusion.main
        if not _is_judged(query):
            return []
        _, limits = stored.derive(query.space, _NAME, partial(_measure, stored, query))
        rows = stored.load(query.space, [match.episode for match in others])
        best = query.cosines(rows.vectors).max(initial=-1.0)
        if best >= limits[0]:
            return []
        found.append((best, limits[0]))
    if not found:
        return []
    best, limit = max(found)
    usual = f"{1 - SHARE:.0%} of episodes have a neighbour above {limit:.2f}"
    return [f"no hit is much like the query: the nearest has cosine {best:.2f}, {usual}"]
