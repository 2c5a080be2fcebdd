"""Exact k-nearest neighbours of unit vectors, and the pairs of near vectors of an archive's episodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.curation.archive_vectors import read_vectors
from bridge.support.progress import Silent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.space import Space

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
    watch, height, wide = progress or Silent(), max(1, _BLOCK // len(others)), min(k + _SPARE, len(others))
    watch.stage("vectors", len(vectors))
    for start in range(0, len(vectors), height):
        block = np.arange(start, min(start + height, len(vectors)))
        cosines = vectors[block] @ others.T
        if among is None:
            cosines[block - start, block] = -np.inf
        if owners is not None:
            cosines[owners[0][block, None] == owners[1]] = -np.inf
        best = np.argpartition(cosines, len(others) - wide, axis=1)[:, -wide:]
        apart = _distances(vectors[block], others, best)
        apart[np.isneginf(np.take_along_axis(cosines, best, 1))] = np.inf
        ranking = np.argsort(apart, axis=1, kind="stable")[:, :k]
        found.rows[block] = np.take_along_axis(best, ranking, 1)
        found.distances[block] = np.take_along_axis(apart, ranking, 1)
        watch.advance(len(block))
    return found


def find_near_pairs(
    left: Vectors,
    right: Vectors | None,
    k: int,
    farthest: float,
    *,
    owners: tuple[Ids, Ids] | None = None,
    progress: Progress | None = None,
) -> tuple[Floats, Ids]:
    """Return the pairs of mutual candidates, where one is among the k nearest of the other: distances, places.

    right None: pairs within `left`. owners: as in `nearest`.
    """
    distances, pairs = _pairs(find_nearest(left, k, among=right, owners=owners, progress=progress), farthest)
    if right is None:
        return distances, pairs
    swapped_owners = owners and owners[::-1]
    right_distances, right_pairs = _pairs(
        find_nearest(right, k, among=left, owners=swapped_owners, progress=progress), farthest
    )
    return np.concatenate([distances, right_distances]), np.concatenate([pairs, right_pairs[:, ::-1]])


def _pairs(neighbours: Neighbours, farthest: float) -> tuple[Floats, Ids]:
    rows, ranks = np.nonzero(neighbours.distances <= farthest)
    return neighbours.distances[rows, ranks], np.stack([rows, neighbours.rows[rows, ranks]], axis=1)


def _distances(rows: Vectors, others: Vectors, places: Ids) -> Floats:
    """Return the distance of each row [n, E] from the others at its places [n, k], float64 [n, k].

    Computed from differences in float64, as float32 cosines of nearly equal vectors have no significant digits.
    """
    distances = np.empty(places.shape)
    for rank, column in enumerate(places.T):
        differences = rows.astype(np.float64) - others[column]
        distances[:, rank] = np.sqrt(np.einsum("ne,ne->n", differences, differences))
    return distances


def find_candidates(
    archive: Archive,
    spaces: Iterable[Space],
    sets: Sequence[Where | str],
    *,
    nearest: int,
    farthest: float,
    progress: Progress | None,
) -> Iterator[tuple[tuple[EpisodeVectors, EpisodeVectors], Floats, Ids]]:
    """Yield for each Space the vectors of the first and the last set, and their near pairs.

    sets: one set of episodes, which is compared with itself, or two. A pair is near if one is among the `nearest` of
    the other, at a distance of at most `farthest`: distances [n], and places [n, 2] in either. Windows of one episode
    do not form a pair. Two episodes are compared by all lanes that they share: in a Space of fewer they form no pair.
    """
    numbers = {row.fingerprint: row.id for row in archive.catalog.vectors.spaces("active")}
    listed = [*spaces]
    for space in listed:
        loaded = [read_vectors(archive, space, where) for where in sets]
        left, right = loaded[0], loaded[-1]
        other_vectors = None if left is right else right.directions
        owners = None if space.windows.whole else (_owner_ids(left), _owner_ids(right))
        distances, pairs = find_near_pairs(
            left.directions, other_vectors, nearest, farthest, owners=owners, progress=progress
        )
        wider = [one for one in listed if one.windows == space.windows and {*one.lanes} > {*space.lanes}]
        alone = np.ones(len(pairs), np.bool_)
        for other in wider:
            known = archive.catalog.vectors.embedded(numbers[other.fingerprint])
            in_other = [
                np.isin(_owner_ids(one), known)[places] for one, places in zip((left, right), pairs.T, strict=True)
            ]
            alone &= ~(in_other[0] & in_other[1])
        yield (left, right), distances[alone], pairs[alone]


def _owner_ids(vectors: EpisodeVectors) -> Ids:
    """Return the id of the episode of each vector."""
    return np.array([row.id for row in vectors.episodes], np.int64)[vectors.owners]
