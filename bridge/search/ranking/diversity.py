"""Selects hits that differ from each other, by maximal marginal relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EQUAL: Final = 1e-6  # what float32 vectors leave of two values that are equal


def select_diverse(
    scores: NDArray[np.float64], vectors: NDArray[np.floating], count: int, *, diversity: float
) -> tuple[list[int], list[float]]:
    """Return `count` numbers of candidates, the best score first, then always the one of the highest

        (1 - diversity) * score - diversity * (highest cosine with those chosen).

    With the numbers come these values, of the first its score. scores [N], vectors [N, E] of length 1. Of equal values
    the higher score wins (where the query is itself the first, and diversity 0.5, all others are equal), then the
    lower number; with diversity 0 this is the order of the scores.
    """  # noqa: D400, D415  (the formula ends the sentence)
    wide = vectors.astype(np.float64)
    alike = np.full(len(scores), -np.inf)
    open_ = np.ones(len(scores), np.bool_)
    chosen: list[int] = []
    values: list[float] = []
    while len(chosen) < min(count, len(scores)):
        penalty = diversity * alike if chosen else 0.0
        value = np.where(open_, (1 - diversity) * scores - penalty if chosen else scores, -np.inf)
        equal = np.flatnonzero(value >= value.max() - _EQUAL)
        best = int(equal[np.argmax(scores[equal])])
        chosen.append(best)
        values.append(float(value[best]))
        open_[best] = False
        np.maximum(alike, wide @ wide[best], out=alike)
    return chosen, values
