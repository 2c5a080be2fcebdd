"""The pairs of near vectors of an archive's episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bridge.curation.archive_vectors import read_vectors
from bridge.graph.nearest import find_nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bridge.archive import Archive
    from bridge.curation.archive_vectors import EpisodeVectors
    from bridge.curation.arrays import Floats, Ids, Vectors
    from bridge.graph.nearest import Neighbours
    from bridge.support.progress import Progress
    from catalog.filters.where import Where
    from embedders.space import Space


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
        wider = [one for one in listed if one.windows == space.windows and space.is_part_of(one)]
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
