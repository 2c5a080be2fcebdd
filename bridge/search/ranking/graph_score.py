"""Scores episodes by what reaches them over the neighbour graph from the episodes nearest to a query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.ranking.scores import differing, floor_scores, put_first

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.graph.neighbour_graph import NeighbourGraph
    from bridge.index.base import Ids

    Scores = NDArray[np.float64]

SEEDS: Final = 4
"""Number of nearest episodes that spread over the graph."""
POWER: Final = 4.0
"""A seed has this power of its nearness as weight."""
OWN_SHARE: Final = 0.1
"""Weight of an episode's own nearness beside what reaches it."""

_LEAST: Final = 1e-3  # of the nearness of a seed


@dataclass(frozen=True, eq=False)
class GraphReach:
    """Episodes that are reached, ids ascending, what reaches them [n], from 0 to 1, and how near their seeds are."""

    episodes: Ids
    values: Scores
    level: float

    @staticmethod
    def of(graph: NeighbourGraph, episodes: Ids, nearness: Scores) -> GraphReach:
        """Return what the nearest of these episodes, at least one, reach; not those that equal the query.

        So the others are in the same order whether or not a filter excludes the query's own episode.
        """
        seeds = np.lexsort((episodes, -nearness))
        seeds = seeds[differing(nearness[seeds])][:SEEDS]
        weights = np.maximum(nearness[seeds], _LEAST) ** POWER
        weights /= weights.sum()
        places, known = graph.find(episodes[seeds])
        reached, values = graph.spread_near(places[known], weights[known])
        level = max(float(weights @ nearness[seeds]), 0.0)
        return GraphReach(graph.episodes[reached], values, level)

    def others(self, episodes: Ids, count: int) -> Ids:
        """Return the best `count` that are reached and not among these, which are ascending; ascending."""
        places = episodes.searchsorted(self.episodes).clip(max=len(episodes) - 1)
        new = np.flatnonzero((episodes[places] != self.episodes) & (self.values > 0))
        return np.sort(self.episodes[new[np.argsort(-self.values[new], kind="stable")[:count]]])

    def score(self, episodes: Ids, nearness: Scores) -> Scores:
        """Return the scores of episodes; the nearest that does not equal the query has the highest of these."""
        reached = np.zeros(len(episodes))
        if len(self.episodes):
            places = self.episodes.searchsorted(episodes).clip(max=len(self.episodes) - 1)
            reached = np.where(self.episodes[places] == episodes, self.values[places], 0.0)
        scores = floor_scores((self.level * reached + OWN_SHARE * nearness) / (1 + OWN_SHARE), nearness)
        put_first(scores, nearness)
        return scores
