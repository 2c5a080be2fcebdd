"""The catalogued episodes that queries name, and filters by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bridge.episodes.open import known_episodes
from catalog.filters.where import EVERYTHING, Compare, all_of
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bridge.search.query.examples import Example
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.records import Known
    from catalog.session import Instant
    from wshard.core.episode.protocol import EpisodeAddress

_MAX_CACHED: Final = 1000  # cached


class QueryEpisodes:
    """Finds the catalogued episodes that queries name; results are cached until the catalog changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._cache: tuple[Instant | None, dict[EpisodeAddress, Known | None]] = (None, {})

    def find(self, address: EpisodeAddress) -> Known | None:
        """Return the catalogued episode at an address, None if there is none."""
        now = self._catalog.instant()
        if self._cache[0] != now or len(self._cache[1]) >= _MAX_CACHED:
            self._cache = (now, {})
        cached = self._cache[1]
        if address not in cached:
            cached |= known_episodes(self._catalog, [address])
        return cached[address]

    def read_as(self, address: EpisodeAddress) -> str:
        """Return how an address is read: as it specifies, else as its episode or its location was ingested."""
        if address.read_as:
            return address.read_as
        catalogued = self.find(address)
        return (
            self._catalog.episodes.read_as([address.uri]).get(address.uri, "")
            if catalogued is None
            else catalogued.read_as
        )

    def find_ids(self, example: Example, where: Where) -> list[int]:
        """Return the ids of the episodes that an example names, if they pass the filter."""
        if where == EVERYTHING and example.address and not example.uid:
            catalogued = self.find(example.address)
            return [] if catalogued is None else [catalogued.id]
        uids = self._find_uids(example)
        return self._catalog.query.ids(where & all_of(Compare("uid", "in", tuple(sorted(uids))))) if uids else []

    def exclude(self, examples: Iterable[Example]) -> Where:
        """Return a filter that excludes the catalogued episodes that examples name.

        Raises QueryError for an example that names none.
        """
        uids: set[str] = set()
        for example in examples:
            if not (example.uid or example.address):
                raise QueryError(
                    "exclude_self: expected queries that name an episode (a hit, a file, or (file, start, stop)), "
                    f"found {type(example.query).__name__}"
                )
            uids |= self._find_uids(example)
        return all_of(~Compare("uid", "in", tuple(sorted(uids)))) if uids else all_of()

    def _find_uids(self, example: Example) -> set[str]:
        catalogued = None if example.address is None else self.find(example.address)
        rows = [] if catalogued is None else self._catalog.episodes.rows([catalogued.id]).values()
        return {row.uid for row in rows} | ({example.uid} if example.uid else set())
