"""The episodes (or windows) among which a search ranks, and how near each of them is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bridge.search.ranking.scores import combine_nearness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Ids, Vectors

PART_MARGIN: Final = 0.4
"""Share of the distance of the nearest episode as a whole by which another must be nearer in part."""

Keys: TypeAlias = NDArray[np.int64]
"""Unique pairs (episode, window) [n, 2], ascending."""


@dataclass(frozen=True, eq=False)
class EpisodeCandidates:
    """Candidates with their vectors [n, E], nearness [n], also as a whole, and that of their best windows, if any."""

    keys: Keys
    vectors: Vectors
    nearness: NDArray[np.float64]
    whole: NDArray[np.float64]
    parts: NDArray[np.float64] | None

    def join(self, more: EpisodeCandidates) -> EpisodeCandidates:
        """Return both, concatenated."""
        parts = None if self.parts is None or more.parts is None else np.concatenate([self.parts, more.parts])
        keys, vectors = np.concatenate([self.keys, more.keys]), np.concatenate([self.vectors, more.vectors])
        nearness, whole = np.concatenate([self.nearness, more.nearness]), np.concatenate([self.whole, more.whole])
        return EpisodeCandidates(keys, vectors, nearness, whole, parts)

    def by_whole(self) -> EpisodeCandidates:
        """Return the same, near as a whole, except where the query itself is a window."""
        if self.parts is None:
            return self
        return replace(self, nearness=combine_nearness(self.whole, self.parts, np.zeros(len(self.whole))))

    def are_parts(self) -> bool:
        """Return whether windows say that the query is a part: by them, the nearest is much nearer."""
        if self.parts is None or not len(self.keys):
            return True
        by_whole = float(self.by_whole().nearness.max())
        return float(self.nearness.max()) >= by_whole + PART_MARGIN * (1.0 - by_whole)


def sort_keys(keys: Keys) -> tuple[Ids, NDArray[np.bool_]]:
    """Return the order of keys, and a mask of those that, in this order, differ from their predecessor."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    new = np.ones(len(order), np.bool_)
    new[1:] = (keys[order[1:]] != keys[order[:-1]]).any(axis=1)
    return order, new


def unite_keys(lists: Sequence[Keys]) -> Keys:
    """Return the keys of all lists."""
    keys = np.concatenate(lists)
    order, new = sort_keys(keys)
    return keys[order[new]]


def subtract_keys(keys: Keys, excluded: Keys) -> Keys:
    """Return the keys that are not among the excluded ones, which are sorted."""
    order, new = sort_keys(np.concatenate([excluded, keys]))
    own = order[new]
    return keys[own[own >= len(excluded)] - len(excluded)]
