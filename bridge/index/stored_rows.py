"""Vectors of many episodes as one array, and what reading the catalog takes: Spaces, filters, vectors from bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wshard.errors import SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.space import Space

_Vectors = NDArray[np.float32]
_Ids = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class StoredRows:
    """_Vectors float32 [N, E] of episodes, ascending: those of episodes[i] are rows starts[i]:starts[i + 1]."""

    episodes: _Ids
    starts: _Ids
    vectors: _Vectors

    @staticmethod
    def of(by_episode: Mapping[int, _Vectors], dim: int) -> StoredRows:
        """Return the vectors [n, dim] of episodes, by id."""
        items = sorted(by_episode.items())
        starts = np.cumsum([0, *(len(vectors) for _, vectors in items)], dtype=np.int64)
        vectors = np.concatenate([np.zeros((0, dim), np.float32), *(vectors for _, vectors in items)])
        return StoredRows(np.array([episode for episode, _ in items], np.int64), starts, vectors)

    def join(self, more: StoredRows) -> StoredRows:
        """Return these and the vectors of other episodes."""
        if not (len(self.episodes) and len(more.episodes)):
            return self if len(self.episodes) else more
        order = np.concatenate([self.episodes, more.episodes]).argsort()
        starts = np.concatenate([self.starts[:-1], more.starts[:-1] + len(self.vectors)])[order]
        sizes = np.concatenate([np.diff(self.starts), np.diff(more.starts)])[order]
        rows = expand_ranges(starts, starts + sizes)
        edges = np.concatenate([[0], sizes.cumsum()])
        episodes, vectors = np.concatenate([self.episodes, more.episodes]), np.concatenate([self.vectors, more.vectors])
        return StoredRows(episodes[order], edges, vectors.take(rows, axis=0))

    def find(self, episodes: _Ids) -> tuple[_Ids, NDArray[np.bool_]]:
        """Return the place of each of these episodes, and a mask of those that are present."""
        if not len(self.episodes):
            return np.zeros(len(episodes), np.int64), np.zeros(len(episodes), np.bool_)
        places = self.episodes.searchsorted(episodes)
        places[places == len(self.episodes)] = 0
        return places, self.episodes[places] == episodes

    def pick(self, places: _Ids, windows: _Ids) -> _Vectors:
        """Return the vector [n, E] of each of these windows; the last one if an episode has fewer by now."""
        rows: _Vectors = self.vectors.take(np.minimum(self.starts[places] + windows, self.starts[places + 1] - 1), 0)
        return rows

    def by_episode(self) -> dict[int, _Vectors]:
        """Return the vectors [n, E] of each episode, by id."""
        edges = self.starts.tolist()
        return {episode: self.vectors[edges[i] : edges[i + 1]] for i, episode in enumerate(self.episodes.tolist())}


def sort_distinct(ids: _Ids) -> _Ids:
    """Return the ids, ascending, each once; np.unique takes up to nine times as long."""
    ordered = np.sort(ids)
    differs = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=differs[1:])
    return ordered[differs]


def expand_ranges(starts: _Ids, stops: _Ids) -> _Ids:
    """Return the integers in these ranges, concatenated."""
    sizes = stops - starts
    ends = np.cumsum(sizes)
    rows: _Ids = np.repeat(stops - ends, sizes) + np.arange(ends[-1])
    return rows


def find_allowed(catalog: Catalog, where: Where) -> _Ids | None:
    """Return the ids of the episodes that pass, ascending; None = all. Cached by the catalog until it changes."""
    ids = catalog.query.id_array(where)
    return None if ids is None else np.asarray(ids, np.int64)


def load_spaces(catalog: Catalog) -> dict[str, int]:
    """Return the ids of the archive's Spaces by fingerprint, without retired ones."""
    return {row.fingerprint: row.id for row in catalog.vectors.live_spaces()}


def find_space(spaces: Mapping[str, int], space: Space) -> int:
    """Return the Space's id among the archive's; raises SpaceMismatchError if it is not, or no longer, one of them."""
    if space.fingerprint not in spaces:
        listed = ", ".join(fingerprint[:12] for fingerprint in spaces) or "none"
        raise SpaceMismatchError(f"expected a Space of this archive ({listed}), found {space.fingerprint[:12]}")
    return spaces[space.fingerprint]


def decode_vectors(episode: int, data: bytes, shape: tuple[int, int]) -> _Vectors:
    """Return the vectors of an episode from their bytes in the ledger; VectorIndexError for a wrong size."""
    if len(data) != 4 * shape[0] * shape[1]:
        raise VectorIndexError(
            f"the vectors of episode {episode}: expected float32 {list(shape)} in the ledger, found {len(data)} bytes; "
            f"`wshard fsck --repair` re-embeds it"
        )
    return np.frombuffer(data, "<f4").reshape(shape)
