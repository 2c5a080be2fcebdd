"""What one Space is searched for: a vector, and the weights of the descriptors that vectors consist of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bridge.index.base import Matches
from bridge.search.ranking.block_weights import rescale
from bridge.search.ranking.scores import combine_examples

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bridge.index.base import Answer, Request, VectorIndex, Vectors
    from bridge.search.query.prepare import PreparedView
    from bridge.search.ranking.block_weights import BlockWeights
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class QueryVector:
    """What one Space is searched for: a unit vector [E], made of examples and counter-examples, and its weights.

    against: the vectors [m, E] of the counter-examples, which an expanded query takes away again.
    """

    space: Space
    vector: Vectors
    against: Vectors
    weights: BlockWeights

    @cached_property
    def weighed(self) -> tuple[Vectors, float]:
        """The unit vector that the index searches for, and the score there of what is equal to the query."""
        return self.weights.weigh(self.vector)

    def search(self, index: VectorIndex, request: Request) -> Answer:
        """Return the best matches, by the weighed cosine."""
        vector, top = self.weighed
        answer = index.search(self.space, vector, request)
        if self.weights.values is None:
            return answer
        found = answer.columns
        return replace(answer, matches=Matches(found.episodes, found.windows, rescale(found.scores, top)))

    def cosines(self, vectors: Vectors) -> NDArray[np.float64]:
        """Return the weighed cosines [n] of vectors [n, E], as `search` does but from the vectors themselves."""
        return self.weights.cosines(vectors, self.vector)


def combine_view(view: PreparedView, like: int, weights: BlockWeights) -> QueryVector:
    """Return what a view is searched for: the first `like` of its queries are examples, the others against."""
    against = view.vectors[like:]
    return QueryVector(view.space, combine_examples(view.vectors[:like], against), against, weights)
