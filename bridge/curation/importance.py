"""Importance weights that make one set of vectors distributed like another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.graph.nearest import find_nearest

if TYPE_CHECKING:
    from bridge.curation.arrays import Floats, Vectors

_ROWS: Final = 1024
_COLUMNS: Final = 4096
_MIN_BANDWIDTH: Final = 1e-3  # of a bandwidth, where all vectors are equal


def importance(prior: Vectors, target: Vectors, *, clip: float = 10.0) -> Floats:
    """Return the weight of each vector of the prior [N, E], float64 [N], of mean 1; target [M, E], M and N at least 1.

    Weights are the ratios of target to prior density, divided by their mean, clipped at `clip`, and divided by their
    new mean.
    """
    width = bandwidth(prior)
    logs = _log_density(prior, target, width) - _log_density(prior, prior, width)
    raw = np.exp(logs - logs.max())
    cut = np.minimum(raw / raw.mean(), clip)
    weights: Floats = cut / cut.mean()
    return weights


def bandwidth(prior: Vectors) -> float:
    """Return the standard deviation of the kernel: the median distance from a vector to its sqrt(N)-th nearest.

    Thereby about sqrt(N) vectors contribute at each place, for any number of dimensions.
    """
    if len(prior) < 2:
        return _MIN_BANDWIDTH
    neighbours = find_nearest(prior, max(1, round(len(prior) ** 0.5)))
    return max(float(np.median(neighbours.distances[:, -1])), _MIN_BANDWIDTH)


def _log_density(places: Vectors, data: Vectors, width: float) -> Floats:
    """Return the logarithm of the mean kernel value at each place, float64 [N]."""
    logs = np.empty(len(places))
    for start in range(0, len(places), _ROWS):
        rows = places[start : start + _ROWS]
        peak = np.full(len(rows), -np.inf)
        total = np.zeros(len(rows))
        for column in range(0, len(data), _COLUMNS):
            heights = (np.minimum(rows @ data[column : column + _COLUMNS].T, 1.0) - 1) / width**2
            higher = np.maximum(peak, heights.max(axis=1))
            total = total * np.exp(peak - higher) + np.exp(heights - higher[:, None]).sum(axis=1)
            peak = higher
        logs[start : start + _ROWS] = peak + np.log(total / len(data))
    return logs
