"""Spherical k-means: clusters of vectors by cosine, which become inverted lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.embedded.sketches import fit_axes, pick_sample
from bridge.support.scratch import map_rows

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.embedded.sketches import Axes, Frames

Labels = NDArray[np.int32]
Cosines = NDArray[np.float32]

_SAMPLED_PER_LIST: Final = 32
_ROUNDS: Final = 6
_AXES: Final = 64  # of vectors, by which they are compared with centroids: of trajectories, few say nearly everything
_SMALLEST: Final = 1e-12  # square of the length along an axis
_BATCH_ROWS: Final = 2048  # rows compared with all centroids in one product, some megabytes
_LENGTH_ERROR: Final = 1e-5
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
    """Return no clusters: the copy will soon be replaced, or gets its lists later."""


def cluster(vectors: Vectors, before: Clustering | None = None) -> Clustering | None:
    """Cluster vectors [N, E], N >= 1; before: a clustering of the first of them.

    About sqrt(N) new centroids are trained when the number of vectors has doubled since the last training. The seed is
    fixed: equal vectors give equal clusters. None if vectors are not of unit length.
    """
    if before is not None and len(vectors) < 2 * before.trained:
        return _assign(vectors, before)
    sample = _draw_sample(vectors)
    if not _is_unit_length(sample).all():
        return None
    centroids = _train(sample, isqrt(len(vectors)))
    no_labels, radii = np.zeros(0, np.int32), np.ones(len(centroids), np.float32)
    return _assign(vectors, Clustering(centroids, no_labels, radii, len(vectors)))


def _assign(vectors: Vectors, before: Clustering) -> Clustering | None:
    """Assign the vectors without a label to their nearest centroids; None if they are not of unit length."""
    labels, cosines = _find_near(vectors[len(before.labels) :], before.centroids)
    if not np.isfinite(cosines).all():
        return None
    radii = before.radii.copy()
    np.minimum.at(radii, labels, cosines)
    return replace(before, labels=np.concatenate([before.labels, labels]), radii=radii)


def fit_frames(vectors: Vectors, clustering: Clustering) -> tuple[Axes, Frames]:
    """Return axes float64 [F, P, E] for sketches of the vectors, and the frame of each list.

    Adjacent lists share a frame; there are about sqrt(L) frames.
    """
    midpoints = _train(_draw_sample(clustering.centroids), isqrt(len(clustering.centroids)))
    frame_of = _find_nearest(clustering.centroids, midpoints)[0].astype(np.uint8)
    frames_of_rows = frame_of[clustering.labels]
    members = (pick_sample(np.flatnonzero(frames_of_rows == frame)) for frame in range(len(midpoints)))
    return np.stack([fit_axes(vectors[rows]) for rows in members]), frame_of


def _draw_sample(vectors: Vectors) -> Vectors:
    size = min(len(vectors), isqrt(len(vectors)) * _SAMPLED_PER_LIST)
    rows = np.sort(np.random.default_rng(0).choice(len(vectors), size, replace=False))
    parts = (vectors[rows[start : start + _BATCH_ROWS]] for start in range(0, size, _BATCH_ROWS))
    return map_rows(parts, vectors.shape[1], np.float32)


def _train(sample: Vectors, count: int) -> Vectors:
    """Return `count` centroids; members of many are found along the axes on which the first ones differ most."""
    centroids = sample[np.random.default_rng(0).choice(len(sample), count, replace=False)].copy()
    axes = _find_axes(centroids) if count >= _AXES else None
    columns = sample if axes is None else sample @ axes
    for _ in range(_ROUNDS):
        labels, _ = _find_nearest(columns, centroids if axes is None else centroids @ axes)
        _move(centroids, sample, labels)
    return centroids


def _move(centroids: Vectors, sample: Vectors, labels: Labels) -> None:
    """Move each centroid to the mean of its members; without members, or if they cancel out, it stays."""
    order = np.argsort(labels, kind="stable")
    bounds = np.searchsorted(labels[order], np.arange(len(centroids) + 1))
    for number in range(len(centroids)):
        total = sample[order[bounds[number] : bounds[number + 1]]].sum(axis=0, dtype=np.float64)
        length = float(np.sqrt(total @ total))
        if length > 1e-6:
            centroids[number] = total / length


def _is_unit_length(rows: Vectors) -> NDArray[np.bool_]:
    is_unit: NDArray[np.bool_] = np.abs(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 1) <= 2 * _LENGTH_ERROR
    return is_unit


def _find_near(vectors: Vectors, centroids: Vectors) -> tuple[Labels, Cosines]:
    """Return a centroid near each vector and the cosine to it, NaN where the vector is not of unit length.

    It is the nearest one along the axes on which the centroids differ most: of many axes that takes a third of the
    time. Whichever list a vector is in, a search stays exact, since the radius of the list counts it.
    """
    if (axes := _find_axes(centroids)) is None:
        return _find_nearest(vectors, centroids)
    columns = (centroids @ axes).T.copy()
    labels, cosines = np.empty(len(vectors), np.int32), np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _BATCH_ROWS):
        rows = vectors[start : start + _BATCH_ROWS]
        with np.errstate(over="ignore", invalid="ignore"):  # for vectors not of unit length, which are set to NaN below
            near = (rows @ axes @ columns).argmax(axis=1)
            own = np.vecdot(rows, centroids.take(near, axis=0))
        own[~_is_unit_length(rows)] = np.nan
        labels[start : start + _BATCH_ROWS], cosines[start : start + _BATCH_ROWS] = near, own
    return labels, cosines


def _find_axes(centroids: Vectors) -> Vectors | None:
    """Return up to 64 axes [E, P] on which the centroids differ most, None for so few numbers that all count."""
    if centroids.shape[1] < _AXES + _AXES // 2:
        return None
    wide = centroids.astype(np.float64)
    if len(wide) < wide.shape[1]:  # the axes of fewer products
        values, vectors = np.linalg.eigh(wide @ wide.T)
        axes = wide.T @ (vectors[:, -_AXES:] / np.sqrt(np.maximum(values[-_AXES:], _SMALLEST)))
    else:
        axes = np.linalg.eigh(wide.T @ wide).eigenvectors[:, -_AXES:]
    return np.asarray(axes, np.float32)


def _find_nearest(vectors: Vectors, centroids: Vectors) -> tuple[Labels, Cosines]:
    """Return each vector's nearest centroid and the cosine to it, NaN where the vector is not of unit length."""
    labels = np.empty(len(vectors), np.int32)
    cosines = np.empty(len(vectors), np.float32)
    columns = np.ascontiguousarray(centroids.T)
    for start in range(0, len(vectors), _BATCH_ROWS):
        rows = vectors[start : start + _BATCH_ROWS]
        with np.errstate(over="ignore", invalid="ignore"):  # for vectors not of unit length, which are set to NaN below
            products = rows @ columns
        best = products.argmax(axis=1)
        nearest = products[np.arange(len(best)), best]
        nearest[~_is_unit_length(rows)] = np.nan
        labels[start : start + _BATCH_ROWS] = best
        cosines[start : start + _BATCH_ROWS] = nearest
    return labels, cosines
