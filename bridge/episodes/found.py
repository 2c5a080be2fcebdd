"""The episodes that a search of files and folders found, in columns: an object each would not fit into memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import xxhash

from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.core.made_sequence import MadeSequence

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import ArrayLike, NDArray

    from wshard.formats.open import LocationEpisodes


_UNKNOWN: Final = Fingerprint(-1, -1)


class FoundEpisode(NamedTuple):
    """An episode that was found: its address and, in a location of several or as a store listed it, its fingerprint."""

    address: EpisodeAddress
    fingerprint: Fingerprint | None = None


class NumberedTexts:
    """Texts, each once, by the numbers that they get."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        found = self._numbers.setdefault(text, len(self.texts))
        if found == len(self.texts):
            self.texts.append(text)
        return found


class FoundFiles(MadeSequence[FoundEpisode]):
    """Files of one episode in the order in which they were found, with how to read them: some 60 bytes each.

    Each of them once, from `leave_out` on.
    """

    def __init__(self) -> None:
        self._folders, self._readings = NumberedTexts(), NumberedTexts()
        self._names, self._ends = bytearray(), array("Q", [0])
        self._folder_of, self._reading_of = array("I"), array("I")
        self._sizes, self._times = array("q"), array("q")
        self._hashes = array("Q")
        self._rows: Sequence[int] = range(0)

    def add(self, path: str, how: str, fingerprint: Fingerprint | None = None) -> None:
        """Add a file; of one that is added again, what is said last counts."""
        folder, slash, name = path.rpartition("/")
        self._names += _encode(name)
        self._ends.append(len(self._names))
        self._folder_of.append(self._folders.number(folder + slash))
        self._reading_of.append(self._readings.number(how))
        known = fingerprint or _UNKNOWN
        self._sizes.append(known.size)
        self._times.append(known.mtime_ns)
        self._hashes.append(xxhash.xxh3_64_intdigest(_encode(path)))
        self._rows = range(len(self._sizes))

    def paths(self) -> Iterator[str]:
        """Yield the paths of all files."""
        return map(self._path, self._rows)

    def leave_out(self, chunks: Iterable[str]) -> None:
        """Leave out these files, and those that were added again; nothing is added later."""
        if not self._hashes:
            return
        hashes = np.frombuffer(self._hashes, np.uint64)
        order = np.argsort(hashes, kind="stable")
        ascending = hashes[order]
        again = np.flatnonzero(ascending[1:] == ascending[:-1])
        firsts, left = dict[str, int](), set[int]()
        for number in np.unique(order[np.concatenate([again, again + 1])]).tolist():
            if (first := firsts.setdefault(self._path(number), number)) != number:
                for column in (self._reading_of, self._sizes, self._times):
                    column[first] = column[number]
                left.add(number)
        for path in chunks:
            wanted = np.uint64(xxhash.xxh3_64_intdigest(_encode(path)))
            start, stop = (int(np.searchsorted(ascending, wanted, side)) for side in ("left", "right"))
            left.update(number for number in order[start:stop].tolist() if self._path(number) == path)
        del hashes, ascending
        self._hashes = array("Q")
        if left:
            self._rows = array("Q", (number for number in self._rows if number not in left))

    def count_readings(self, failed: Container[str]) -> Counter[str]:
        """Return the numbers of files by how they are read, without the failed ones."""
        readings = self._readings.texts
        if not failed and isinstance(self._rows, range):
            counts = np.bincount(np.frombuffer(self._reading_of, np.uint32), minlength=len(readings)).tolist()
            return Counter(dict(zip(readings, counts, strict=True)))
        return Counter(readings[self._reading_of[n]] for n in self._rows if not failed or self._path(n) not in failed)

    def __len__(self) -> int:
        return len(self._rows)

    def make(self, number: int) -> FoundEpisode:
        """Return the episode in a file."""
        row = self._rows[number]
        address = EpisodeAddress(self._path(row), read_as=self._readings.texts[self._reading_of[row]])
        known = Fingerprint(self._sizes[row], self._times[row])
        return FoundEpisode(address, None if known == _UNKNOWN else known)

    def _path(self, row: int) -> str:
        name = self._names[self._ends[row] : self._ends[row + 1]].decode(errors="surrogatepass")
        return self._folders.texts[self._folder_of[row]] + name


class DiscoveredEpisodes(MadeSequence[FoundEpisode]):
    """Episodes in order: files of one episode, with how to read them, then the episodes of locations of several."""

    def __init__(self, files: FoundFiles, locations: Sequence[LocationEpisodes] = ()) -> None:
        self._files, self._locations = files, locations
        self._stops = [*accumulate((len(one) for one in locations), initial=len(files))]

    def __len__(self) -> int:
        return self._stops[-1]

    def make(self, number: int) -> FoundEpisode:
        """Return an episode."""
        part = bisect_right(self._stops, number)
        if part == 0:
            return self._files[number]
        return FoundEpisode(*self._locations[part - 1][number - self._stops[part - 1]])

    def read_whole(self) -> dict[str, str]:
        """Return how the locations of which all episodes were listed are read, by their paths."""
        firsts = [location[0][0] for location in self._locations if location and location.is_whole]
        return {first.uri: first.read_as for first in firsts}

    def count_places(self, failed: Mapping[str, int]) -> Counter[tuple[str, int]]:
        """Return the number of places by how they are read and by how many episodes they have besides failed ones."""
        counts = Counter({(how, 1): count for how, count in self._files.count_readings(failed).items() if count})
        firsts = ((location[0][0], len(location)) for location in self._locations if location)
        sizes = ((first.read_as, size - failed.get(first.uri, 0)) for first, size in firsts)
        return counts + Counter((how, size) for how, size in sizes if size > 0)


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


def _encode(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
