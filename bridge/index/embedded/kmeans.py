"""Spherical k-means: groups of vectors that point the same way, which inverted lists are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.embedded.sketches import fit_axes, pick_sample

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.embedded.sketches import Axes, Frames

Labels = NDArray[np.int32]
Cosines = NDArray[np.float32]

_SAMPLED_PER_LIST: Final = 32
_ROUNDS: Final = 6
_AT_ONCE: Final = 2048  # rows compared with all centroids in one product: some megabytes
_UNIT: Final = 1e-5
"""How far from 1 a vector's length may be for the proof to hold."""


@dataclass(frozen=True, eq=False)
class Clustering:
    """centroids float32 [L, E]; row i is in list l = labels[i] and has a cosine of radii[l] or more to its centroid.

    trained: how many vectors there were when the centroids were chosen.
    """

    centroids: Vectors
    labels: Labels
    radii: Cosines
    trained: int


def leave_for_later(_vectors: Vectors) -> None:
    """Make no groups: a copy will soon be replaced, and one that is not gets its lists then."""


def cluster(vectors: Vectors, before: Clustering | None = None) -> Clustering | None:
    """Group vectors [N, E], N >= 1, of which `before` holds the first.

    Centroids are chosen anew, about sqrt(N) of them, when there are twice as many vectors as at the last time. A fixed
    seed: equal vectors give equal groups. None where vectors are not of unit length.
    """
    if before is not None and len(vectors) < 2 * before.trained:
        return _join(vectors, before)
    sample = _draw_sample(vectors)
    if not _are_unit(sample).all():
        return None
    centroids = _train(sample, isqrt(len(vectors)))
    nobody, radii = np.zeros(0, np.int32), np.ones(len(centroids), np.float32)
    return _join(vectors, Clustering(centroids, nobody, radii, len(vectors)))


def _join(vectors: Vectors, before: Clustering) -> Clustering | None:
    """Put into their lists those vectors that have none; None if these are not as the others are."""
    labels, cosines = _find_nearest(vectors[len(before.labels) :], before.centroids)
    if not np.isfinite(cosines).all():
        return None
    radii = before.radii.copy()
    np.minimum.at(radii, labels, cosines)
    return replace(before, labels=np.concatenate([before.labels, labels]), radii=radii)


def fit_frames(vectors: Vectors, clustering: Clustering) -> tuple[Axes, Frames]:
    """Return axes float64 [F, P, E] for sketches of the vectors, and the frame of each list.

    Lists that are near each other share one; there are about sqrt(L).
    """
    midpoints = _train(_draw_sample(clustering.centroids), isqrt(len(clustering.centroids)))
    frame_of = _find_nearest(clustering.centroids, midpoints)[0].astype(np.uint8)
    which = frame_of[clustering.labels]
    members = (pick_sample(np.flatnonzero(which == frame)) for frame in range(len(midpoints)))
    return np.stack([fit_axes(vectors[rows]) for rows in members]), frame_of


def _draw_sample(vectors: Vectors) -> Vectors:
    size = min(len(vectors), isqrt(len(vectors)) * _SAMPLED_PER_LIST)
    return np.ascontiguousarray(vectors[np.sort(np.random.default_rng(0).choice(len(vectors), size, replace=False))])


def _train(sample: Vectors, count: int) -> Vectors:
    """Return the centroids of so many groups."""
    centroids = sample[np.random.default_rng(0).choice(len(sample), count, replace=False)].copy()
    for _ in range(_ROUNDS):
        labels, _ = _find_nearest(sample, centroids)
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


def _are_unit(rows: Vectors) -> NDArray[np.bool_]:
    are: NDArray[np.bool_] = np.abs(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 1) <= 2 * _UNIT
    return are


def _find_nearest(vectors: Vectors, centroids: Vectors) -> tuple[Labels, Cosines]:
    """Return each vector's nearest centroid and the cosine to it, NaN where the vector is not of unit length."""
    labels = np.empty(len(vectors), np.int32)
    cosines = np.empty(len(vectors), np.float32)
    turned = np.ascontiguousarray(centroids.T)
    for start in range(0, len(vectors), _AT_ONCE):
        rows = vectors[start : start + _AT_ONCE]
        with np.errstate(over="ignore", invalid="ignore"):  # of what is not of unit length, and is NaN below
            products = rows @ turned
        best = products.argmax(axis=1)
        near = products[np.arange(len(best)), best]
        near[~_are_unit(rows)] = np.nan
        labels[start : start + _AT_ONCE] = best
        cosines[start : start + _AT_ONCE] = near
    return labels, cosines
