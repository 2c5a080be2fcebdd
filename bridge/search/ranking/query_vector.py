"""The query in one Space: a vector, and the weights of its blocks (descriptors)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bridge.graph.block_weights import rescale
from bridge.index.base import Matches, find_firsts
from bridge.search.ranking.scores import combine_examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from bridge.graph.block_weights import BlockWeights
    from bridge.index.base import Answer, Request, VectorIndex, Vectors
    from bridge.index.stored_rows import StoredRows
    from bridge.search.query.prepare import View
    from embedders.space import Space

    Load = Callable[[Space, Iterable[int]], StoredRows]


@dataclass(frozen=True, eq=False)
class QueryVector:
    """The query in one Space: a unit vector [E], combined from examples and counter-examples, and its weights.

    against: vectors [m, E] of the counter-examples, which are subtracted again from an expanded query. scanned: where
    lanes are weighted, what reads vectors of episodes: all are compared, as the index has no lengths of such.
    """

    space: Space
    vector: Vectors
    against: Vectors
    weights: BlockWeights
    scanned: Load | None = None

    @cached_property
    def weighted(self) -> tuple[Vectors, float]:
        """The weighted unit vector for the index, and the score that a vector equal to the query gets with it."""
        return self.weights.weigh(self.vector)

    def search(self, index: VectorIndex, request: Request) -> Answer:
        """Return the best matches by the weighted cosine."""
        vector, top = self.weighted
        if self.scanned is not None:
            return self._scan(index, request, self.scanned)
        answer = index.search(self.space, vector, request)
        if self.weights.values is None:
            return answer
        columns = answer.columns
        return replace(answer, matches=Matches(columns.episodes, columns.windows, rescale(columns.scores, top)))

    def _scan(self, index: VectorIndex, request: Request, load: Load) -> Answer:
        """Return the best matches among all vectors of the episodes that pass."""
        everything = replace(request, top_k=max(1, index.count(self.space)), distinct=False)
        answer = index.search(self.space, self.vector, everything)
        rows = load(self.space, answer.columns.episodes.tolist())
        places, present = rows.find(answer.columns.episodes)
        episodes, windows = answer.columns.episodes[present], answer.columns.windows[present]
        cosines = self.cosines(rows.pick(places[present], windows))
        order = np.lexsort((windows, episodes, -cosines))
        if request.distinct:
            order = order[find_firsts(episodes[order])]
        order = order[: request.top_k]
        return replace(answer, matches=Matches(episodes[order], windows[order], cosines[order]))

    def cosines(self, vectors: Vectors) -> NDArray[np.float64]:
        """Return the weighted cosines [n] of vectors [n, E], the scores of `search`."""
        return self.weights.cosines(vectors, self.vector)


def combine_view(view: View, like: int, weights: BlockWeights, scanned: Load | None = None) -> QueryVector:
    """Return the query vector of a view, whose first `like` queries are examples, the others counter-examples."""
    against = view.vectors[like:]
    return QueryVector(view.space, combine_examples(view.vectors[:like], against), against, weights, scanned)
