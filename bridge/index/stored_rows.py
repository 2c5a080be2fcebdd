"""Reads the vectors of some episodes: from the index where it has them at hand, else from the ledger."""

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
    def of(found: Mapping[int, Vectors], dim: int) -> StoredRows:
        """Return the vectors [n, dim] of episodes, by id."""
        some = sorted(found.items())
        starts = np.cumsum([0, *(len(vectors) for _, vectors in some)], dtype=np.int64)
        vectors = np.concatenate([np.zeros((0, dim), np.float32), *(vectors for _, vectors in some)])
        return StoredRows(np.array([episode for episode, _ in some], np.int64), starts, vectors)

    def find(self, episodes: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """Return the place of each of these episodes here, and whether it is here."""
        if not len(self.episodes):
            return np.zeros(len(episodes), np.int64), np.zeros(len(episodes), np.bool_)
        places = self.episodes.searchsorted(episodes)
        places[places == len(self.episodes)] = 0
        return places, self.episodes[places] == episodes

    def pick(self, places: Ids, windows: Ids) -> Vectors:
        """Return the vector [n, E] of each of these windows, the last one where an episode has fewer by now."""
        rows: Vectors = self.vectors.take(np.minimum(self.starts[places] + windows, self.starts[places + 1] - 1), 0)
        return rows

    def by_episode(self) -> dict[int, Vectors]:
        """Return the vectors [n, E] of each episode, by id."""
        edges = self.starts.tolist()
        return {one: self.vectors[edges[i] : edges[i + 1]] for i, one in enumerate(self.episodes.tolist())}


def read_vectors(index: VectorIndex, space: Space, *, catalog: Catalog, episodes: Iterable[int]) -> StoredRows:
    """Return the vectors of those of the episodes that have any in the Space.

    They come from the index, where that has a method `read_vectors(space, ascending ids)`, since it has them at hand,
    else from the ledger. Raises SpaceMismatchError for a Space that the archive does not hold (any more).
    """
    wanted = np.array(sorted({*episodes}), np.int64)  # np.unique imports the masked arrays of numpy
    read: Callable[[Space, Ids], StoredRows] | None = getattr(index, "read_vectors", None)
    if read is not None:
        return read(space, wanted)
    space_id = find_space(load_spaces(catalog), space)
    found = catalog.vectors.load(space_id, wanted.tolist()) if len(wanted) else {}
    dim = space.dim
    return StoredRows.of({one: decode_vectors(one, data, (count, dim)) for one, (count, data) in found.items()}, dim)
