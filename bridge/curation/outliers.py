"""Score vectors by distance from all others of similar episode length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.nearest import find_nearest

if TYPE_CHECKING:
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.support.progress import Progress

LEAST: Final = 8
"""Vectors of which some can be called rare: of fewer, the scores are noise."""

_COMPARED: Final = 201  # vectors of most similar length to compare with
_BATCH_ROWS: Final = 4096
_MIN_DISTANCE: Final = 1e-6  # smaller distances count as 0
_NORMAL: Final = 1.4826  # standard deviation of a normal distribution / its median absolute deviation
_NORMAL_MEAN: Final = 1.2533  # and / its mean absolute deviation


def score_outliers(vectors: Vectors, lengths: Ids, *, neighbours: int = 10, progress: Progress | None = None) -> Floats:
    """Return the outlier score of each of the unit vectors [N, E], float64 [N]; 0 is usual, above 3 is rare.

    The logarithm of (mean distance to its `neighbours` nearest / mean of the same over these), in robust standard
    deviations from the median of the 201 vectors of most similar length [N]. Equal vectors count as one and share one
    value, so that copies do not make their neighbours look isolated.
    """
    _, first, inverse = np.unique(vectors, axis=0, return_index=True, return_inverse=True)
    nearest = find_nearest(vectors[first], neighbours, progress=progress)
    if not nearest.rows.shape[1]:
        return np.zeros(len(vectors))
    mean_distances = np.maximum(nearest.distances.mean(axis=1), _MIN_DISTANCE)
    factor = np.log(mean_distances / mean_distances[nearest.rows].mean(axis=1))
    return apart_by_length(factor, lengths[first])[inverse.ravel()]  # numpy 2.0 returns a column


def apart_by_length(values: Floats, lengths: Ids) -> Floats:
    """Return by how many robust standard deviations each value [N] differs from the median of its neighbours by length.

    If more than half of these are equal, as for copies, the mean absolute deviation replaces the median one.
    """
    count = len(values)
    order = np.argsort(lengths, kind="stable")
    ranked, width = values[order], min(_COMPARED, count)
    firsts = np.clip(np.arange(count) - width // 2, 0, count - width)
    scores = np.empty(count)
    for start in range(0, count, _BATCH_ROWS):
        part = slice(start, start + _BATCH_ROWS)
        similar = ranked[firsts[part, None] + np.arange(width)]
        middle = np.median(similar, axis=1)
        deviations = np.abs(similar - middle[:, None])
        spread = _NORMAL * np.median(deviations, axis=1)
        spread = np.where(spread < _MIN_DISTANCE, _NORMAL_MEAN * deviations.mean(axis=1), spread)
        scores[order[part]] = (ranked[part] - middle) / np.maximum(spread, _MIN_DISTANCE)
    return scores
