"""Puts the first hits in order by how near they are as a whole and by how well they align with the query.

Vectors of a single channel tell how often its values occur, and to a quarter when: not their exact order. Reading and
aligning the lanes of a few files does.
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
"""What the alignment counts beside the cosine of the whole, both on a scale on which 1 is the same."""

_STEPS: Final = 128  # of the query and of each episode, at most, that are aligned
_WHOLE: Final = Rule(end_penalty=1e6)  # nothing at either end is left out
_LEAST: Final = 1e-9  # mean distance: what is all equal stays in order
_EQUAL: Final = 1.0 - 1e-6  # score of what is the query, or contains it: that comes first whatever it looks like


@dataclass(frozen=True, eq=False)
class FirstHits:
    """A ranker that lets the first hits of another one, but for those equal to the query, change places.

    The scores stay where they are: the first of them has the highest. read: gives the rows [T, D] of the query, and of
    those of the episodes that have a file.
    """

    rank: Ranker
    stored: StoredVectors
    query: QueryVector
    read: ReadRows

    def __call__(self, request: Request) -> Answer:
        """Return the hits of the other ranker, the first ones in another order."""
        answer = self.rank(replace(request, top_k=max(request.top_k, FIRST)))
        same = sum(match.score > _EQUAL for match in answer.matches[:FIRST])
        first = answer.matches[same:FIRST]
        if len(first) > 1:
            order = np.argsort(-self._measure(first), kind="stable").tolist()
            moved = [first[place]._replace(score=match.score) for place, match in zip(order, first, strict=True)]
            answer = replace(answer, matches=(*answer.matches[:same], *moved, *answer.matches[FIRST:]))
        return replace(answer, matches=answer.matches[: request.top_k])

    def _measure(self, matches: Sequence[Match]) -> NDArray[np.float64]:
        """Return how like the query each is; the alignment of one without a file counts as the mean of the others."""
        episodes = [match.episode for match in matches]
        found = self.stored.load(self.query.space, episodes)
        places, known = found.find(np.array(episodes, np.int64))
        firsts = found.pick(places[known], np.zeros(int(known.sum()), np.int64))
        near = np.zeros(len(episodes))
        near[known] = calibrate(self.query.cosines(firsts), self.stored.background(self.query))
        query, rows = self.read(episodes)
        there = [place for place, one in enumerate(episodes) if one in rows]
        apart = np.ones(len(episodes))
        if there:
            measured = measure_distances(query, [rows[episodes[place]] for place in there])
            apart[there] = measured / max(measured.mean(), _LEAST)
        return (1.0 - ALIGNED_SHARE) * near + ALIGNED_SHARE * (1.0 - apart)


def measure_distances(query: Rows, episodes: Sequence[Rows]) -> NDArray[np.float64]:
    """Return the root mean square of what meets along the best alignment of the whole query with each whole episode."""
    thinned, others = _thin(query), [_thin(rows) for rows in episodes]
    paths = align_all(thinned, Pieces.of(others), _WHOLE, traced=True).paths
    apart = [thinned[path[:, 0]] - rows[path[:, 1]] for path, rows in zip(paths, others, strict=True)]
    return np.array([np.sqrt((one**2).mean()) for one in apart])


def _thin(rows: Rows) -> Rows:
    return rows[:: 1 + (len(rows) - 1) // _STEPS]
