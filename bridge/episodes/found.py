"""The episodes that a search of files and folders found, in columns: an object each would not fit into memory."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wshard.core.episode.protocol import EpisodeAddress
from wshard.core.made_sequence import MadeSequence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from wshard.core.episode.protocol import Fingerprint
    from wshard.formats.open import LocationEpisodes


class FoundEpisode(NamedTuple):
    """An episode that was found: its address and, in a location of several, its fingerprint."""

    address: EpisodeAddress
    fingerprint: Fingerprint | None = None


class DiscoveredEpisodes(MadeSequence[FoundEpisode]):
    """Episodes in order: files of one episode, with how to read them, then the episodes of locations of several."""

    def __init__(self, files: Mapping[str, str], locations: Sequence[LocationEpisodes] = ()) -> None:
        self._files, self._how = [*files], [*files.values()]
        self._locations = locations
        self._stops = [*accumulate((len(one) for one in locations), initial=len(files))]

    def __len__(self) -> int:
        return self._stops[-1]

    def make(self, number: int) -> FoundEpisode:
        """Return an episode."""
        part = bisect_right(self._stops, number)
        if part == 0:
            return FoundEpisode(EpisodeAddress(self._files[number], read_as=self._how[number]))
        return FoundEpisode(*self._locations[part - 1][number - self._stops[part - 1]])

    def read_whole(self) -> dict[str, str]:
        """Return how the locations of which all episodes were listed are read, by their paths."""
        firsts = [location[0][0] for location in self._locations if location and location.is_whole]
        return {first.uri: first.read_as for first in firsts}

    def count_places(self, failed: Mapping[str, int]) -> Counter[tuple[str, int]]:
        """Return the number of places by how they are read and by how many episodes they have besides failed ones."""
        files = ((how, int(path not in failed)) for path, how in zip(self._files, self._how, strict=True))
        firsts = ((location[0][0], len(location)) for location in self._locations if location)
        sizes = ((first.read_as, size - failed.get(first.uri, 0)) for first, size in firsts)
        return Counter((how, size) for how, size in chain(files, sizes) if size > 0)


class ChosenEpisodes(MadeSequence[FoundEpisode]):
    """Some of the episodes that were found, by their positions; read_as: how some of them are read instead."""

    def __init__(
        self, episodes: Sequence[FoundEpisode], positions: ArrayLike, read_as: Mapping[int, str] | None = None
    ) -> None:
        self._episodes, self._read_as = episodes, read_as or {}
        self._positions: NDArray[np.int64] = np.asarray(positions, np.int64)

    def __len__(self) -> int:
        return len(self._positions)

    def make(self, number: int) -> FoundEpisode:
        """Return one of those chosen."""
        position = int(self._positions[number])
        found = self._episodes[position]
        if (how := self._read_as.get(position)) is None:
            return found
        return FoundEpisode(replace(found.address, read_as=how), found.fingerprint)
