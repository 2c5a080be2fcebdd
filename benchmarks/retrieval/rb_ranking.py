"""How well rankings find what is relevant: average precision, nDCG@10."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]

HITS: Final = 10


def average_precisions(scores: Scores, labels: NDArray[np.generic], asking: NDArray[np.int64]) -> Scores:
    """Return the average precision of every query: scores [Q, N] of N episodes, labels [N], asking [Q], its own number.

    No query finds itself, nor what scores minus infinity.
    """
    own = scores.copy()
    own[np.arange(len(asking)), asking] = -np.inf
    ranking = np.argsort(-own, axis=1, kind="stable")[:, :-1]
    relevant = labels[ranking] == labels[asking][:, None]
    found = relevant & np.isfinite(np.take_along_axis(own, ranking, 1))
    precision = found.cumsum(axis=1) / np.arange(1, found.shape[1] + 1)
    averages: Scores = (precision * found).sum(axis=1) / relevant.sum(axis=1)
    return averages


def gains(scores: Scores, relevant: NDArray[np.bool_]) -> Scores:
    """Return nDCG@10 of every query: scores [Q, N], and which of them are relevant."""
    discount = 1 / np.log2(np.arange(2, HITS + 2))
    ranking = np.argsort(-scores, axis=1, kind="stable")[:, :HITS]
    right = np.take_along_axis(relevant, ranking, 1)
    most = np.minimum(relevant.sum(axis=1), HITS)
    ideal = np.cumsum(discount)[most - 1]
    found: Scores = (right * discount[: right.shape[1]]).sum(axis=1) / ideal
    return found
