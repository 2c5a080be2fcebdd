"""Groups of vectors that point the same way: what the certified lists are made of.

Knows: spherical k-means on a sample, the nearest centroid of every vector, and frames for groups that are near each
other. Does not know: files, searching.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.outlines import axes_of, sampled

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.outlines import Axes, Numbers

Labels = NDArray[np.int32]
Cosines = NDArray[np.float32]

_SAMPLED_PER_LIST: Final = 32
_ROUNDS: Final = 6
_AT_ONCE: Final = 2048  # rows compared with all centroids in one product: some megabytes
_UNIT: Final = 1e-5
"""How far from 1 a vector's length may be for the proof to hold."""


@dataclass(frozen=True, eq=False)
class Grouping:
    """centroids float32 [L, E]; row i is in list l = labels[i] and has a cosine of rims[l] or more to its centroid.

    trained: how many vectors there were when the centroids were chosen.
    """

    centroids: Vectors
    labels: Labels
    rims: Cosines
    trained: int


def group(vectors: Vectors, before: Grouping | None = None) -> Grouping | None:
    """Group vectors [N, E], N >= 1; `before` holds the first of them already. None if they are not of unit length.

    Centroids are chosen anew, about sqrt(N) of them, when there are twice as many vectors as at the last time. A fixed
    seed: equal vectors give equal groups.
    """
    kept = before if before is not None and len(vectors) < 2 * before.trained else None
    centroids = _train(vectors) if kept is None else kept.centroids
    known = 0 if kept is None else len(kept.labels)
    labels, cosines = _nearest(vectors[known:], centroids)
    if not np.isfinite(cosines).all():
        return None
    rims = np.ones(len(centroids), np.float32) if kept is None else kept.rims.copy()
    np.minimum.at(rims, labels, cosines)
    if kept is None:
        return Grouping(centroids, labels, rims, len(vectors))
    return Grouping(centroids, np.concatenate([kept.labels, labels]), rims, kept.trained)


def frames(vectors: Vectors, grouping: Grouping) -> tuple[Axes, Numbers]:
    """Return axes float64 [F, P, E] for outlines of the vectors, and the frame of each list.

    Lists that are near each other share one; there are about sqrt(L).
    """
    middles = _train(grouping.centroids)
    frame_of = _nearest(grouping.centroids, middles)[0].astype(np.uint8)
    which = frame_of[grouping.labels]
    members = (sampled(np.flatnonzero(which == frame)) for frame in range(len(middles)))
    return np.stack([axes_of(vectors[rows]) for rows in members]), frame_of


def _train(vectors: Vectors) -> Vectors:
    count = isqrt(len(vectors))
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(vectors), min(len(vectors), count * _SAMPLED_PER_LIST), replace=False)
    sample = np.ascontiguousarray(vectors[np.sort(chosen)])
    centroids = sample[rng.choice(len(sample), count, replace=False)].copy()
    for _ in range(_ROUNDS):
        labels, _ = _nearest(sample, centroids)
        _move(centroids, sample, labels)
    return centroids


def _move(centroids: Vectors, sample: Vectors, labels: Labels) -> None:
    """Put each centroid in the middle of its members; one without members, or amid opposites, stays."""
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(len(centroids) + 1))
    for number in range(len(centroids)):
        total = sample[order[bounds[number] : bounds[number + 1]]].sum(axis=0, dtype=np.float64)
        length = float(np.sqrt(total @ total))
        if length > 1e-6:
            centroids[number] = total / length


def _nearest(vectors: Vectors, centroids: Vectors) -> tuple[Labels, Cosines]:
    """Return each vector's nearest centroid and the cosine to it, NaN where the vector is not of unit length."""
    labels = np.empty(len(vectors), np.int32)
    cosines = np.empty(len(vectors), np.float32)
    turned = np.ascontiguousarray(centroids.T)
    for start in range(0, len(vectors), _AT_ONCE):
        rows = vectors[start : start + _AT_ONCE]
        products = rows @ turned
        best = products.argmax(axis=1)
        near = products[np.arange(len(best)), best]
        near[~(np.abs(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 1) <= 2 * _UNIT)] = np.nan
        labels[start : start + _AT_ONCE] = best
        cosines[start : start + _AT_ONCE] = near
    return labels, cosines
