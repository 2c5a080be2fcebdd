"""Reads the vectors of episodes: from the index if it has them available, else from the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.index.base import decode_vectors, find_space, load_spaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

    from bridge.index.base import Ids, VectorIndex, Vectors
    from catalog.catalog import Catalog
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Vectors float32 [N, E] of episodes, ascending: those of episodes[i] are rows starts[i]:starts[i + 1]."""

    episodes: Ids
    starts: Ids
    vectors: Vectors

    @staticmethod
    def of(by_episode: Mapping[int, Vectors], dim: int) -> StoredRows:
        """Return the vectors [n, dim] of episodes, by id."""
        items = sorted(by_episode.items())
        starts = np.cumsum([0, *(len(vectors) for _, vectors in items)], dtype=np.int64)
        vectors = np.concatenate([np.zeros((0, dim), np.float32), *(vectors for _, vectors in items)])
        return StoredRows(np.array([episode for episode, _ in items], np.int64), starts, vectors)

    def find(self, episodes: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the place of each of these episodes, and a mask of those that are present."""
        if not len(self.episodes):
            return np.zeros(len(episodes), np.int64), np.zeros(len(episodes), np.bool_)
        places = self.episodes.searchsorted(episodes)
        places[places == len(self.episodes)] = 0
        return places, self.episodes[places] == episodes

    def pick(self, places: Ids, windows: Ids) -> Vectors:
        """Return the vector [n, E] of each of these windows; the last one if an episode has fewer by now."""
        rows: Vectors = self.vectors.take(np.minimum(self.starts[places] + windows, self.starts[places + 1] - 1), 0)
        return rows

    def by_episode(self) -> dict[int, Vectors]:
        """Return the vectors [n, E] of each episode, by id."""
        edges = self.starts.tolist()
        return {episode: self.vectors[edges[i] : edges[i + 1]] for i, episode in enumerate(self.episodes.tolist())}


def read_vectors(index: VectorIndex, space: Space, *, catalog: Catalog, episodes: Iterable[int]) -> StoredRows:
    """Return the vectors of the episodes that have any in the Space.

    They come from the index if it has a method `read_vectors(space, ascending ids)`, else from the ledger. Raises
    SpaceMismatchError for a Space that the archive does not have (any more).
    """
    ids = np.array(sorted({*episodes}), np.int64)  # np.unique imports the masked arrays of numpy
    read: Callable[[Space, Ids], StoredRows] | None = getattr(index, "read_vectors", None)
    if read is not None:
        return read(space, ids)
    space_id = find_space(load_spaces(catalog), space)
    stored = catalog.vectors.load(space_id, ids.tolist()) if len(ids) else {}
    dim = space.dim
    return StoredRows.of(
        {episode: decode_vectors(episode, data, (count, dim)) for episode, (count, data) in stored.items()}, dim
    )
