"""The locations that are open while many episodes of them are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.conversion.jobs import open_for_conversion

if TYPE_CHECKING:
    from wshard.episode.protocol import EpisodeAddress
    from wshard.formats.base import Source

_MOST_OPEN: Final = 16


class OpenSources:
    """Opens each location once; the longest open of more than 16 is closed."""

    def __init__(self) -> None:
        self._sources: dict[tuple[str, str], Source] = {}

    def source_of(self, address: EpisodeAddress) -> Source:
        """Return the Source of an address; raises what open_location raises."""
        place = address.uri, address.read_as
        if place not in self._sources:
            if len(self._sources) >= _MOST_OPEN:
                self._sources.pop(next(iter(self._sources))).close()
            self._sources[place] = open_for_conversion(address)
        return self._sources[place]

    def close(self) -> None:
        """Close all."""
        while self._sources:
            self._sources.popitem()[1].close()
