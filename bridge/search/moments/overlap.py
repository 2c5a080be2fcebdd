"""Overlap of spans, and the rule that of hits that overlap only the best counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.results import EpisodeRef

Ints = NDArray[np.int64]


def overlap(spans: Ints, span: Sequence[int] | Ints) -> NDArray[np.float64]:
    """Return what share of the timesteps from the first start to the last stop both spans hold: float64 [n], 0 to 1.

    spans: [n, 2], half-open; span: one more. Spans apart from each other have 0.
    """
    both = np.minimum(spans[:, 1], span[1]) - np.maximum(spans[:, 0], span[0])
    either = np.maximum(spans[:, 1], span[1]) - np.minimum(spans[:, 0], span[0])
    shares: NDArray[np.float64] = np.maximum(both, 0) / either
    return shares


def suppress(episodes: Ints, spans: Ints, limit: float, most: int, *, per_episode: int | None = None) -> Ints:
    """Return the places of at most `most` hits, best first, none of which overlaps a better one by more than `limit`.

    episodes [n] and spans [n, 2] of the hits, best first; spans of different episodes never overlap. per_episode: how
    many of one episode at most.
    """
    taken: dict[int, list[tuple[int, int]]] = {}
    kept: list[int] = []
    # Few are kept, and of one episode fewer: plain numbers are faster than arrays of one or two.
    for place, (episode, start, stop) in enumerate(np.column_stack([episodes, spans]).tolist()):
        if len(kept) == most:
            break
        others = taken.setdefault(episode, [])
        if len(others) != per_episode and all(
            min(stop, end) - max(start, begin) <= limit * (max(stop, end) - min(start, begin)) for begin, end in others
        ):
            others.append((start, stop))
            kept.append(place)
    return np.array(kept, np.int64)


def without_overlaps(
    hits: Sequence[EpisodeRef], *, max_overlap: float = 0.3, per_episode: int | None = None
) -> list[EpisodeRef]:
    """Return those of hits, best first, that overlap no better one of their episode by more than max_overlap.

    For hits of search_similar_timesteps, whose windows lie closer to each other than moments do.
    """
    _, episodes = np.unique([hit.uid for hit in hits], return_inverse=True)
    spans = np.array([hit.span for hit in hits], np.int64).reshape(-1, 2)
    return [hits[place] for place in suppress(episodes, spans, max_overlap, len(hits), per_episode=per_episode)]
