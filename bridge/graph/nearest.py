"""The k nearest neighbours of unit vectors: by exact distances, or by cosines in float32."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.support.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.support.progress import Progress

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

_BLOCK: Final = 4_000_000  # cosines computed at a time: 16 MB
_PARTS: Final = 2_000_000  # the same among parts, in which few are compared with many
_PLACES: Final = 500_000  # of cosines, ranked at a time: 4 MB
_SPARE: Final = 8  # further ones that are ranked by their exact distance: cosines in float32 are rounded


@dataclass(frozen=True, eq=False)
class Neighbours:
    """For each of N vectors its k nearest others: rows int64 [N, k] and distances float64 [N, k], nearest first."""

    rows: Ids
    distances: Floats


def find_nearest(
    vectors: Vectors,
    k: int,
    *,
    among: Vectors | None = None,
    owners: tuple[Ids, Ids] | None = None,
    progress: Progress | None = None,
) -> Neighbours:
    """Return the k nearest of `among` [M, E] for each of the unit vectors [N, E]; fewer if there are fewer.

    among None: the nearest others of the same vectors. owners: the owner of each of the vectors [N] and of `among` [M];
    vectors of the same owner are not neighbours; if fewer than k others are left, the distance is infinite.
    """
    others = vectors if among is None else among
    k = max(0, min(k, len(others) - (among is None)))
    found = Neighbours(np.zeros((len(vectors), k), np.int64), np.zeros((len(vectors), k)))
    if not k:
        return found
    watch, height = progress or Silent(), max(1, _BLOCK // len(others))
    wide = min(k + _SPARE, len(others))
    watch.stage("vectors", len(vectors))
    for start in range(0, len(vectors), height):
        block = np.arange(start, min(start + height, len(vectors)))
        cosines = vectors[block] @ others.T
        if among is None:
            cosines[block - start, block] = -np.inf
        best, near = _find_best(cosines, wide, None if owners is None else (owners[0][block], owners[1]))
        apart = _distances(vectors[block], others, best)
        apart[np.isneginf(near)] = np.inf
        ranking = np.argsort(apart, axis=1, kind="stable")[:, :k]
        found.rows[block] = np.take_along_axis(best, ranking, 1)
        found.distances[block] = np.take_along_axis(apart, ranking, 1)
        watch.advance(len(block))
    return found


def find_near(vectors: Vectors, k: int, among: Sequence[Vectors], own: Ids) -> tuple[Ids, Floats]:
    """Return the k nearest others [N, k] of each of the unit vectors [N, E], nearest first, and 1 - their cosines.

    among: parts, one after the other, with k others at least; own: the place of each of the vectors in them. By
    cosines in float32, in half of the time of find_nearest: nearly equal vectors are in any order.
    """
    stops = np.cumsum([0, *map(len, among)]).tolist()
    height = max(1, (_BLOCK if len(among) == 1 else _PARTS) // stops[-1])
    places, apart = np.empty((len(vectors), k), np.int64), np.empty((len(vectors), k))
    room = np.empty((min(height, len(vectors)), stops[-1]), np.float32)
    for start in range(0, len(vectors), height):
        block = slice(start, start + height)
        rows = vectors[block]
        cosines = room[: len(rows)]
        for part, (first, last) in zip(among, pairwise(stops), strict=True):
            np.matmul(rows, part.T, out=cosines[:, first:last])
        cosines[np.arange(len(rows)), own[block]] = -np.inf
        best, near = _find_best(cosines, k, None)
        ranking = np.argsort(-near, axis=1, kind="stable")
        places[block] = np.take_along_axis(best, ranking, 1)
        apart[block] = np.maximum(1.0 - np.take_along_axis(near, ranking, 1).astype(np.float64), 0.0)
    return places, apart


def _find_best(cosines: Vectors, k: int, owners: tuple[Ids, Ids] | None) -> tuple[Ids, Vectors]:
    """Return the places of the k largest cosines of each row [n, M], and these; rows of one owner are left out.

    Some rows at a time: places of all cosines would take twice the memory of these, which are overwritten. Among their
    negatives, as finding the largest takes ten times as long where many are equal, such as those that are left out.
    """
    best, near = np.empty((len(cosines), k), np.int64), np.empty((len(cosines), k), np.float32)
    height = max(1, _PLACES // cosines.shape[1])
    for start in range(0, len(cosines), height):
        part = slice(start, start + height)
        rows = np.negative(cosines[part], out=cosines[part])
        if owners is not None:
            rows[owners[0][part, None] == owners[1]] = np.inf
        best[part] = np.argpartition(rows, k - 1, axis=1)[:, :k]
        near[part] = -np.take_along_axis(rows, best[part], 1)
    return best, near


def _distances(rows: Vectors, others: Vectors, places: Ids) -> Floats:
    """Return the distance of each row [n, E] from the others at its places [n, k], float64 [n, k].

    Computed from differences in float64, as float32 cosines of nearly equal vectors have no significant digits.
    """
    distances = np.empty(places.shape)
    for rank, column in enumerate(places.T):
        differences = rows.astype(np.float64) - others[column]
        distances[:, rank] = np.sqrt(np.einsum("ne,ne->n", differences, differences))
    return distances
