"""Lanes of episodes that were read, so that the later stages of an ingest need not open their files again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.episode.protocol import EpisodeAddress, EpisodeReader

    _Arrays = Mapping[str, NDArray[Any]]

MOST_BYTES = 1 << 25
"""Of numbers in the cache of an ingest."""

_EPISODE_BYTES: Final = 1 << 12  # beside its numbers


@dataclass(frozen=True, eq=False)
class CachedEpisode:
    """What `bridge.episodes.rows` needs of an open episode: some lanes [T, ...], and what describes it."""

    where: str
    row: EpisodeRow
    declared: Mapping[str, Declaration]
    arrays: _Arrays

    @property
    def env_id(self) -> str:
        """As of an EpisodeReader."""
        return self.row.env_id

    @property
    def metadata(self) -> Mapping[str, Any]:
        """As of an EpisodeReader."""
        return self.row.metadata

    @property
    def length(self) -> int:
        """As of an EpisodeReader."""
        return self.row.length

    def lanes(self) -> Mapping[str, Declaration]:
        """As of an EpisodeReader."""
        return self.declared

    def lane(self, name: str) -> NDArray[Any]:
        """As of an EpisodeReader."""
        return self.arrays[name]


class EpisodeCache:
    """The first episodes that were read, up to MOST_BYTES of them; sent to a worker process, it is that one's own."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self._left = MOST_BYTES if most_bytes is None else most_bytes
        self._episodes: dict[tuple[EpisodeAddress, str], tuple[str, Mapping[str, Declaration], _Arrays]] = {}

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "NO_CACHE" if self is NO_CACHE else (_own_cache, ())

    def add(self, address: EpisodeAddress, digest: str, file: EpisodeReader, arrays: _Arrays) -> None:
        """Add lanes of an open episode that were read, if there is room for copies."""
        _, _, known = self._episodes.get((address, digest), ("", {}, {}))
        added = {name: array for name, array in arrays.items() if name not in known}
        size = _EPISODE_BYTES + sum(array.nbytes for array in added.values())
        if added and size <= self._left:
            self._left -= size
            copies = {name: array.copy() for name, array in added.items()}  # no views into the file
            for copy in copies.values():
                copy.flags.writeable = False
            self._episodes[address, digest] = file.where, file.lanes(), {**known, **copies}

    def read(self, file: EpisodeReader, row: EpisodeRow, lanes: Iterable[str]) -> CachedEpisode:
        """Read lanes of an open episode that is as it was ingested, and add them. Raises as EpisodeReader.lane."""
        arrays = {name: file.lane(name) for name in lanes}
        self.add(row.address, row.digest, file, arrays)
        return CachedEpisode(file.where, row, file.lanes(), arrays)

    def find(self, row: EpisodeRow, lanes: Iterable[str]) -> CachedEpisode | None:
        """Return a catalogued episode with these data if all of these lanes of it are cached."""
        where, declared, arrays = self._episodes.get((row.address, row.digest), ("", {}, {}))
        return CachedEpisode(where, row, declared, arrays) if arrays and arrays.keys() >= {*lanes} else None

    def clear(self) -> None:
        """Forget all episodes, and take no more."""
        self._left = 0
        self._episodes.clear()


@lru_cache(maxsize=1)
def _own_cache() -> EpisodeCache:
    """Return the cache of this worker process, which reads some of the episodes that it embeds later."""
    return EpisodeCache()


NO_CACHE: Final = EpisodeCache(0)
"""Takes nothing."""
