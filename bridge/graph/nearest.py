"""Exact k-nearest neighbours of unit vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.support.progress import Silent

if TYPE_CHECKING:
    from bridge.support.progress import Progress

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Vectors = NDArray[np.float32]

_BLOCK: Final = 4_000_000  # cosines computed at a time: 16 MB
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
    rounded: bool = False,
    progress: Progress | None = None,
) -> Neighbours:
    """Return the k nearest of `among` [M, E] for each of the unit vectors [N, E]; fewer if there are fewer.

    among None: the nearest others of the same vectors. owners: the owner of each of the vectors [N] and of `among` [M];
    vectors of the same owner are not neighbours; if fewer than k others are left, the distance is infinite. rounded:
    by cosines in float32, in half of the time: nearly equal vectors are in any order.
    """
    others = vectors if among is None else among
    k = max(0, min(k, len(others) - (among is None)))
    found = Neighbours(np.zeros((len(vectors), k), np.int64), np.zeros((len(vectors), k)))
    if not k:
        return found
    watch, height = progress or Silent(), max(1, _BLOCK // len(others))
    wide = k if rounded else min(k + _SPARE, len(others))
    watch.stage("vectors", len(vectors))
    for start in range(0, len(vectors), height):
        block = np.arange(start, min(start + height, len(vectors)))
        cosines = vectors[block] @ others.T
        if among is None:
            cosines[block - start, block] = -np.inf
        if owners is not None:
            cosines[owners[0][block, None] == owners[1]] = -np.inf
        best = np.argpartition(cosines, len(others) - wide, axis=1)[:, -wide:]
        near = np.take_along_axis(cosines, best, 1)
        if rounded:
            apart = np.sqrt(np.maximum(2.0 - 2.0 * near.astype(np.float64), 0.0))
        else:
            apart = _distances(vectors[block], others, best)
            apart[np.isneginf(near)] = np.inf
        ranking = np.argsort(apart, axis=1, kind="stable")[:, :k]
        found.rows[block] = np.take_along_axis(best, ranking, 1)
        found.distances[block] = np.take_along_axis(apart, ranking, 1)
        watch.advance(len(block))
    return found


def _distances(rows: Vectors, others: Vectors, places: Ids) -> Floats:
    """Return the distance of each row [n, E] from the others at its places [n, k], float64 [n, k].

    Computed from differences in float64, as float32 cosines of nearly equal vectors have no significant digits.
    """
    distances = np.empty(places.shape)
    for rank, column in enumerate(places.T):
        differences = rows.astype(np.float64) - others[column]
        distances[:, rank] = np.sqrt(np.einsum("ne,ne->n", differences, differences))
    return distances
