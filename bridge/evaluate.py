"""How good a search is, on labels that the user has: leave one out, rank the others.

Knows: vectors and labels. Does not know: archives, embedders.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True)
class Scores:
    """precision_at_1: share of queries whose best hit has their label; mean_average_precision over whole rankings."""

    precision_at_1: float
    mean_average_precision: float
    queries: int


def leave_one_out(vectors: NDArray[Any], labels: Sequence[str], *, queries: NDArray[Any] | None = None) -> Scores:
    """Score cosine ranking: each vector [N, E] asks for the others of its label.

    queries: [N, E] to ask with instead, one for each vector (the same episodes disturbed, say). Average precision is
    the mean, over the ranks of the relevant, of relevant-so-far / rank. A label that only one vector has gives no
    query. Raises ValueError without any query.
    """
    rows = _unit(vectors)
    asking = rows if queries is None else _unit(queries)
    names = np.asarray(labels)
    first: list[bool] = []
    average: list[float] = []
    for number, query in enumerate(asking):
        similarity = rows @ query
        similarity[number] = -np.inf  # the query itself comes last and is cut off
        ranking = np.argsort(-similarity, kind="stable")[:-1]
        relevant = names[ranking] == names[number]
        if relevant.any():
            ranks = np.flatnonzero(relevant) + 1
            first.append(bool(relevant[0]))
            average.append(float((np.arange(1, len(ranks) + 1) / ranks).mean()))
    if not first:
        raise ValueError("expected at least two vectors of one label")
    return Scores(float(np.mean(first)), float(np.mean(average)), len(first))


def _unit(vectors: NDArray[Any]) -> NDArray[np.float64]:
    rows = np.asarray(vectors, np.float64)
    unit: NDArray[np.float64] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit
