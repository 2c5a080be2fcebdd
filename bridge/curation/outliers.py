"""Score vectors by distance from all others of similar episode length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.neighbours import find_nearest

if TYPE_CHECKING:
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.support.progress import Progress

_ALIKE: Final = 201  # as many of about the same length are compared with
_AT_ONCE: Final = 4096
_LEAST: Final = 1e-6  # distances below are none
_NORMAL: Final = 1.4826  # standard deviation of a normal distribution / its median absolute deviation
_NORMAL_MEAN: Final = 1.2533  # and / its mean absolute deviation


def score_outliers(vectors: Vectors, lengths: Ids, *, neighbours: int = 10, progress: Progress | None = None) -> Floats:
    """Return the outlier score of each of the unit vectors [N, E], float64 [N]; 0 is usual, above 3 is rare.

    The logarithm of (mean distance to its `neighbours` nearest / mean of the same over these), in robust standard
    deviations from the median of the 201 vectors of most similar length [N]. Equal vectors count as one and share one
    value, so that copies do not make their neighbours look isolated.
    """
    _, first, whose = np.unique(vectors, axis=0, return_index=True, return_inverse=True)
    found = find_nearest(vectors[first], neighbours, progress=progress)
    if not found.rows.shape[1]:
        return np.zeros(len(vectors))
    own = np.maximum(found.distances.mean(axis=1), _LEAST)
    factor = np.log(own / own[found.rows].mean(axis=1))
    return apart_by_length(factor, lengths[first])[whose.ravel()]  # numpy 2.0 returns a column


def apart_by_length(values: Floats, lengths: Ids) -> Floats:
    """Return by how many robust standard deviations each value [N] differs from the median of those next by length.

    Where more than half of these are equal, as copies are, the mean absolute deviation stands for the median one.
    """
    count = len(values)
    order = np.argsort(lengths, kind="stable")
    ranked, width = values[order], min(_ALIKE, count)
    firsts = np.clip(np.arange(count) - width // 2, 0, count - width)
    scores = np.empty(count)
    for start in range(0, count, _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        alike = ranked[firsts[part, None] + np.arange(width)]
        middle = np.median(alike, axis=1)
        apart = np.abs(alike - middle[:, None])
        spread = _NORMAL * np.median(apart, axis=1)
        spread = np.where(spread < _LEAST, _NORMAL_MEAN * apart.mean(axis=1), spread)
        scores[order[part]] = (ranked[part] - middle) / np.maximum(spread, _LEAST)
    return scores
