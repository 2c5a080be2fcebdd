"""Reranks the first hits by the similarity of whole episodes and the alignment with the query.

Vectors of a single channel describe how often its values occur, and in which quarter of the episode, but not their
exact order. Reading and aligning the lanes of a few files does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import Pieces, Rule, align_all
from bridge.search.ranking.scores import calibrate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Rows
    from bridge.index.base import Answer, Match, Request
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.rankers import Ranker
    from bridge.search.ranking.stored_vectors import StoredVectors

    ReadRows = Callable[[Sequence[int]], tuple[Rows, Mapping[int, Rows]]]

FIRST: Final = 10
"""Hits that are aligned."""
ALIGNED_SHARE: Final = 0.15
"""Share of the alignment beside the cosine of the whole, both on a scale where 1 means equal."""

_STEPS: Final = 128  # of the query and of each episode, at most, to align
_WHOLE: Final = Rule(end_penalty=1e6)  # paths start and end with the whole episode
_MIN_DISTANCE: Final = 1e-9  # lower bound of the mean distance: if all are equal, the order is kept
_EQUAL: Final = 1.0 - 1e-6  # score of hits that equal or contain the query: they stay first


@dataclass(frozen=True, eq=False)
class FirstHits:
    """A ranker that reorders the first hits of another one, except for those equal to the query.

    Scores keep their places, so that they still descend. read: returns the rows [T, D] of the query, and of the
    episodes that have a file.
    """

    rank: Ranker
    stored: StoredVectors
    query: QueryVector
    read: ReadRows

    def __call__(self, request: Request) -> Answer:
        """Return the hits of the wrapped ranker, the first ones reordered."""
        answer = self.rank(replace(request, top_k=max(request.top_k, FIRST)))
        equal_count = sum(match.score > _EQUAL for match in answer.matches[:FIRST])
        first = answer.matches[equal_count:FIRST]
        if len(first) > 1:
            order = np.argsort(-self._measure(first), kind="stable").tolist()
            moved = [first[place]._replace(score=match.score) for place, match in zip(order, first, strict=True)]
            answer = replace(answer, matches=(*answer.matches[:equal_count], *moved, *answer.matches[FIRST:]))
        return replace(answer, matches=answer.matches[: request.top_k])

    def _measure(self, matches: Sequence[Match]) -> NDArray[np.float64]:
        """Return the similarity [n] of matches to the query; those without a file get the mean alignment."""
        episodes = [match.episode for match in matches]
        stored = self.stored.load(self.query.space, episodes)
        places, has_vectors = stored.find(np.array(episodes, np.int64))
        firsts = stored.pick(places[has_vectors], np.zeros(int(has_vectors.sum()), np.int64))
        nearness = np.zeros(len(episodes))
        nearness[has_vectors] = calibrate(self.query.cosines(firsts), self.stored.background(self.query))
        query, rows = self.read(episodes)
        readable = [place for place, episode in enumerate(episodes) if episode in rows]
        distances = np.ones(len(episodes))
        if readable:
            measured = measure_distances(query, [rows[episodes[place]] for place in readable])
            distances[readable] = measured / max(measured.mean(), _MIN_DISTANCE)
        return (1.0 - ALIGNED_SHARE) * nearness + ALIGNED_SHARE * (1.0 - distances)


def measure_distances(query: Rows, episodes: Sequence[Rows]) -> NDArray[np.float64]:
    """Return the root mean square difference along the best alignment of the query with each whole episode."""
    thinned, thinned_episodes = _thin(query), [_thin(rows) for rows in episodes]
    paths = align_all(thinned, Pieces.of(thinned_episodes), _WHOLE, traced=True).paths
    differences = [thinned[path[:, 0]] - rows[path[:, 1]] for path, rows in zip(paths, thinned_episodes, strict=True)]
    return np.array([np.sqrt((difference**2).mean()) for difference in differences])


def _thin(rows: Rows) -> Rows:
    return rows[:: 1 + (len(rows) - 1) // _STEPS]
