"""Overlap of spans, and non-maximum suppression: of hits that overlap too much only the best is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.hits import Hits

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
    """Return the shared timesteps of two spans, divided by those from first start to last stop: float64 [n], 0 to 1.

    spans: [n, 2], half-open; span: the one to compare with each. Disjoint spans have 0.
    """
    both = np.minimum(spans[:, 1], span[1]) - np.maximum(spans[:, 0], span[0])
    either = np.maximum(spans[:, 1], span[1]) - np.minimum(spans[:, 0], span[0])
    shares: NDArray[np.float64] = np.maximum(both, 0) / either
    return shares


def suppress(
    episodes: Ints, spans: Ints, limits: MomentLimits, is_eligible: Callable[[int], bool] | None = None
) -> Ints:
    """Return the places of at most limits.top_k hits, best first, none of which overlaps a better one too much.

    episodes [n] and spans [n, 2] of the hits, best first; spans of different episodes never overlap. is_eligible:
    whether an episode may be a hit, None = all; called only for episodes that would otherwise become hits.
    """
    chosen: dict[int, list[tuple[int, int]]] = {}
    places: list[int] = []
    remaining, limit = limits.top_k, limits.max_overlap
    max_per_episode = len(episodes) if limits.per_episode is None else limits.per_episode
    # Few spans per episode are chosen: plain numbers are faster than arrays of one or two.
    for place, (episode, (start, stop)) in enumerate(zip(episodes.tolist(), spans.tolist(), strict=True)):
        if not remaining:
            break
        spans_chosen = chosen.get(episode)
        if spans_chosen is None:
            if is_eligible is not None and not is_eligible(episode):
                continue
            chosen[episode] = [(start, stop)]
        elif len(spans_chosen) < max_per_episode and not _overlaps(start, stop, spans_chosen, limit):
            spans_chosen.append((start, stop))
        else:
            continue
        remaining -= 1
        places.append(place)
    return np.array(places, np.int64)


def _overlaps(start: int, stop: int, chosen: Sequence[tuple[int, int]], limit: float) -> bool:
    length = stop - start
    for begin, end in chosen:
        shared = min(stop, end) - max(start, begin)
        if shared > 0 and shared > limit * (length + end - begin - shared):
            return True
    return False


def without_overlaps(hits: Sequence[EpisodeRef], *, max_overlap: float = 0.3, per_episode: int | None = None) -> Hits:
    """Return the hits, best first, that do not overlap a better one of their episode by more than max_overlap.

    Intended for hits of search_similar_timesteps, whose windows overlap more than moments do. If they are Hits, the
    information on the search is kept.
    """
    _, episodes = np.unique([hit.uid for hit in hits], return_inverse=True)
    spans = np.array([hit.span for hit in hits], np.int64).reshape(-1, 2)
    limits = MomentLimits(len(hits), max_overlap, per_episode)
    chosen = (hits[place] for place in suppress(episodes, spans, limits))
    return Hits(chosen, **vars(hits)) if isinstance(hits, Hits) else Hits(chosen)
