"""Overlap of spans: of hits that overlap too much only the best counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.results import Hits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.results import EpisodeRef


@dataclass(frozen=True)
class MomentLimits:
    """How many moments, how much two of one episode may overlap, and how many of one episode (None = any)."""

    top_k: int
    max_overlap: float
    per_episode: int | None = None


def overlap(spans: Ints, span: Sequence[int] | Ints) -> NDArray[np.float64]:
    """Return what share of the timesteps from the first start to the last stop both spans hold: float64 [n], 0 to 1.

    spans: [n, 2], half-open; span: one more. Spans apart from each other have 0.
    """
    both = np.minimum(spans[:, 1], span[1]) - np.maximum(spans[:, 0], span[0])
    either = np.maximum(spans[:, 1], span[1]) - np.minimum(spans[:, 0], span[0])
    shares: NDArray[np.float64] = np.maximum(both, 0) / either
    return shares


def suppress(episodes: Ints, spans: Ints, limits: MomentLimits, is_there: Callable[[int], bool] | None = None) -> Ints:
    """Return the places of at most limits.top_k hits, best first, none of which overlaps a better one too much.

    episodes [n] and spans [n, 2] of the hits, best first; spans of different episodes never overlap. is_there: which
    episodes may be hits, None = all; called only for those that would be.
    """
    chosen: dict[int, list[tuple[int, int]]] = {}
    places: list[int] = []
    left, limit = limits.top_k, limits.max_overlap
    most = len(episodes) if limits.per_episode is None else limits.per_episode
    # Few are chosen, and of one episode fewer: plain numbers are faster than arrays of one or two.
    for place, (episode, (start, stop)) in enumerate(zip(episodes.tolist(), spans.tolist(), strict=True)):
        if not left:
            break
        others = chosen.get(episode)
        if others is None:
            if is_there is not None and not is_there(episode):
                continue
            chosen[episode] = [(start, stop)]
        elif len(others) < most and not _overlaps(start, stop, others, limit):
            others.append((start, stop))
        else:
            continue
        left -= 1
        places.append(place)
    return np.array(places, np.int64)


def _overlaps(start: int, stop: int, others: Sequence[tuple[int, int]], limit: float) -> bool:
    for begin, end in others:
        both = min(stop, end) - max(start, begin)
        if both > 0 and both > limit * (max(stop, end) - min(start, begin)):
            return True
    return False


def without_overlaps(hits: Sequence[EpisodeRef], *, max_overlap: float = 0.3, per_episode: int | None = None) -> Hits:
    """Return the hits, best first, that do not overlap a better one of their episode by more than max_overlap.

    Intended for hits of search_similar_timesteps, whose windows overlap more than moments do. Of Hits, what they say of
    their search stays.
    """
    _, episodes = np.unique([hit.uid for hit in hits], return_inverse=True)
    spans = np.array([hit.span for hit in hits], np.int64).reshape(-1, 2)
    limits = MomentLimits(len(hits), max_overlap, per_episode)
    chosen = (hits[place] for place in suppress(episodes, spans, limits))
    return Hits(chosen, **vars(hits)) if isinstance(hits, Hits) else Hits(chosen)
