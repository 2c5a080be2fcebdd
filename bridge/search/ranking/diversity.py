"""Selects hits that differ from each other, by maximal marginal relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EQUAL: Final = 1e-6  # rounding error of values from float32 vectors that are equal


def select_diverse(
    scores: NDArray[np.float64], vectors: NDArray[np.floating], count: int, *, diversity: float
) -> tuple[list[int], list[float]]:
    """Return the indices of `count` candidates: first the best score, then always the candidate with the highest

        (1 - diversity) * score - diversity * (highest cosine with those chosen).

    These values are returned too; that of the first is its score. scores [N], vectors [N, E] of length 1. Of equal
    values the higher score wins (if the query is itself the first, and diversity 0.5, all others are equal), then the
    lower index; with diversity 0 this is the order of the scores.
    """  # noqa: D400, D415  (the formula ends the sentence)
    rows = vectors.astype(np.float64)
    similarity = np.full(len(scores), -np.inf)
    is_open = np.ones(len(scores), np.bool_)
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < min(count, len(scores)):
        penalty = diversity * similarity if chosen else 0.0
        value = np.where(is_open, (1 - diversity) * scores - penalty if chosen else scores, -np.inf)
        equal = np.flatnonzero(value >= value.max() - _EQUAL)
        best = int(equal[np.argmax(scores[equal])])
        chosen.append(best)
        values.append(float(value[best]))
        is_open[best] = False
        np.maximum(similarity, rows @ rows[best], out=similarity)
    return chosen, values
