"""List the episodes of locations of several, but for those whose files are unchanged: their episodes are, too."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import TYPE_CHECKING

import xxhash

from bridge.episodes.read import Failure, attempt
from wshard import __version__
from wshard.core.chunks.files import locate
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, Fingerprint, parse_read_as
from wshard.core.files.schemes import place_of
from wshard.errors import WShardError
from wshard.formats.base import source_class
from wshard.formats.layouts.layout import SUFFIXES, may_have_layout
from wshard.formats.layouts.named import find_layout
from wshard.formats.open import list_episodes
from wshard.formats.table import FORMATS, LAYOUT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bridge.episodes.found import DiscoveredEpisodes
    from catalog.catalog import Catalog
    from wshard.errors import MissingFileError
    from wshard.formats.open import LocationEpisodes


@dataclass(frozen=True)
class Discovery:
    """Result of a search for episodes: all episodes in order, the places searched, and what cannot be read.

    folders: those among the arguments; locations: files among them with several episodes. incomplete: episodes that
    refer to a missing file. states: of the locations that were listed whole, with their number of episodes; unchanged:
    of those that need not be listed, how they are read and the ids of their episodes. skipped: number of other files in
    the folders, by suffix, most frequent first. unread: files of arrays or tables that are not read, with the reason,
    which begins with NO_LAYOUT if a description can make them readable. guessed: how files are read by a guess.
    """

    episodes: DiscoveredEpisodes
    folders: tuple[str, ...]
    locations: tuple[str, ...] = ()
    unreadable: tuple[Failure, ...] = ()
    incomplete: tuple[Failure, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    states: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    unchanged: Mapping[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    guessed: Mapping[str, str] = field(default_factory=dict)

    def count_formats(self, failed: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
        """Return the numbers of locations and of episodes in each format, without failed ones, by their paths."""
        counts: dict[str, tuple[int, int]] = {}
        unlisted = Counter((how, len(ids)) for how, ids in self.unchanged.values())
        for (how, size), count in (self.episodes.count_places(Counter(failed)) + unlisted).items():
            name = parse_read_as(how)[0] or OWN_FORMAT
            locations, episodes = counts.get(name, (0, 0))
            counts[name] = locations + count, episodes + count * size
        return counts


def list_location(
    path: str, format_name: str | None = None, incomplete: list[Failure] | None = None
) -> LocationEpisodes | Failure:
    """Return the episodes of a location; format_name: as in wshard.formats.open.open_location.

    incomplete: list to which episodes that refer to a missing file are added.
    """
    missing: dict[str, MissingFileError] = {}
    listed = attempt(partial(list_episodes, path, format_name, missing=missing), EpisodeAddress(path))
    if incomplete is not None:
        incomplete += [Failure.of(error, EpisodeAddress(path, key)) for key, error in missing.items()]
    return listed


class BelongingFiles:
    """The files that are read with those of episodes, such as videos and images, by the locations that were listed."""

    def __init__(self, listed: Sequence[LocationEpisodes]) -> None:
        self._patterns: dict[str, set[str]] = {}  # of names, by the pattern of their folder
        self._stems: set[str] = set()  # of files that may have a video beside them
        for location in listed:
            for path in location.companions:
                self._patterns.setdefault(posixpath.dirname(path), set()).add(posixpath.basename(path))
            first = next((address for address, _ in location), None)
            if first is not None and first.read_as.startswith(LAYOUT) and not location.companions:
                self._stems.add(posixpath.splitext(first.uri)[0])
        self._wild = [folder for folder in self._patterns if "*" in folder]

    def has(self, path: str) -> bool:
        """Return True for a file that is read with that of an episode."""
        folder, name = posixpath.split(path)
        return any(fnmatchcase(name, one) for one in self._names_in(folder))

    def count_in(self, folder: str) -> Counter[str]:
        """Return how many files of a folder that no layout can read alone, as a video, are read with those of episodes.

        Hidden files do not count.
        """
        patterns = self._names_in(locate(folder))
        names = [entry.name for entry in place_of(folder).entries()] if patterns else []
        visible = (name for name in names if not (name.startswith(".") or may_have_layout(name)))
        return Counter(suffix_of(name) for name in visible if any(fnmatchcase(name, one) for one in patterns))

    def is_beside(self, path: str) -> bool:
        """Return True for a video of the name of an episode's file, which is read without it."""
        stem, suffix = posixpath.splitext(path)
        return suffix.lower() in SUFFIXES["video"] and stem in self._stems

    def _names_in(self, folder: str) -> set[str]:
        fitting = [folder, *(one for one in self._wild if fnmatchcase(folder, one))]
        return {name for one in fitting for name in self._patterns.get(one, ())}


def suffix_of(path: str) -> str:
    """Return the suffix of a name in lower case."""
    return posixpath.splitext(path)[1].lower()


class EarlierReadings:
    """How an archive reads locations, by what earlier ingests stored of them and of files that have moved since.

    lists_unchanged: list also the episodes of locations whose files have not changed.
    """

    def __init__(self, catalog: Catalog, *, lists_unchanged: bool = True) -> None:
        self._episodes, self.lists_unchanged = catalog.episodes, lists_unchanged

    def of_paths(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the reading options of the catalogued ones of these locations."""
        return self._episodes.read_as(paths) if paths else {}

    def unchanged_since(self, path: str, state: str) -> Sequence[int] | None:
        """Return the ids of a location's episodes if it had this state when it was listed last."""
        return self._episodes.unchanged_since(path, state)

    def has_maps(self, name: str) -> bool:
        """Return whether lanes of episodes in this format have other names in the archive."""
        return any(parse_read_as(one)[0] == name for one in self._mapped)

    @cached_property
    def _mapped(self) -> list[str]:
        return self._episodes.mapped_readings()  # looks at every episode

    def of_moved(self, formats: Mapping[str, str]) -> dict[str, str]:
        """Return how to read those of these new files and locations that the archive has elsewhere, by size and time.

        formats: the format of each, by path, "" if no format knows it. The catalog has layouts, and maps of lanes, by
        paths alone; files keep size and time when they or their folders are renamed.
        """
        near: dict[str, list[str]] = {}
        for path, name in formats.items():
            if place_of(path).is_local:  # in an object store a copy has a time of its own
                near.setdefault(name, []).append(path)
        unknown = near.pop("", [])
        found: dict[str, str] = {}
        for reading in self._episodes.readings(LAYOUT) if unknown else ():
            found |= dict.fromkeys(self._same(reading, self._likely(reading, unknown)), reading)
        for reading in self._mapped if near else ():
            found |= dict.fromkeys(self._same(reading, near.get(parse_read_as(reading)[0], ())), reading)
        return found

    def _likely(self, reading: str, paths: Sequence[str]) -> list[str]:
        """Return the files whose size and time are those of an episode, without opening any; of a layout."""
        try:
            layout = find_layout(parse_read_as(reading)[0])
        except WShardError:  # its description is gone
            return []
        beside = [] if layout.file is None else [layout.file]
        states: dict[str, Fingerprint] = {}
        for path in paths:
            with suppress(OSError):
                states[path] = Fingerprint.of(path, *beside)
        if layout.has_files:  # they count, too
            most = self._episodes.highest_fingerprint(reading)
            return [path for path, one in states.items() if one.size <= most.size and one.mtime_ns <= most.mtime_ns]
        known = self._episodes.known_fingerprints(reading, {*states.values()})
        return [path for path, one in states.items() if one in known]

    def _same(self, reading: str, paths: Sequence[str]) -> list[str]:
        """Return the locations of which an episode, if it is read so, is as large and as old as a catalogued one."""
        found: dict[str, Fingerprint] = {}
        for path in paths:
            with suppress(OSError, WShardError, StopIteration):  # not of this layout
                found[path] = next(iter(list_episodes(path, reading)))[1]
        known = self._episodes.known_fingerprints(reading, {*found.values()}) if found else set()
        return [path for path, one in found.items() if one in known]


@dataclass
class Listings:
    """The episodes of the locations that were added; states, unchanged, incomplete, unreadable: as in Discovery.

    earlier: None to list all.
    """

    earlier: EarlierReadings | None
    episodes: list[LocationEpisodes] = field(default_factory=list)
    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    unchanged: dict[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    incomplete: list[Failure] = field(default_factory=list)
    unreadable: list[Failure] = field(default_factory=list)

    def add(self, path: str, how: str, keys: Collection[str]) -> None:
        """Add a location, or its episodes of these keys if there are any."""
        # Of before it is listed: what changes meanwhile is found the next time.
        earlier = None if keys or self.earlier is None or self.earlier.lists_unchanged else self.earlier
        state = None if earlier is None else location_state(path, how)
        if earlier is not None and state and (ids := earlier.unchanged_since(path, state)):
            self.unchanged[path] = how, ids
            return
        incomplete: list[Failure] = []
        listed = list_location(path, how, incomplete)
        self.incomplete += incomplete
        if isinstance(listed, Failure):
            self.unreadable.append(listed)
            return
        if keys:
            listed = listed.of_keys(keys)
            missing = sorted({*keys} - {address.key for address, _ in listed})
            self.unreadable += [Failure(path, "expected an episode of this key", key=key) for key in missing]
        elif state and not incomplete:
            self.states[path] = state, len(listed)
        self.episodes.append(listed)


def location_state(uri: str, how: str) -> str | None:
    """Return a hash of the paths, sizes and modification times of all files of a folder, and of how it is read.

    None for what has to be listed each time: what is not on a disk, a file, or a folder of which parts may lie
    elsewhere (a link, a format of another package or whose folders have others in them).
    """
    name, _ = parse_read_as(how)
    place = place_of(uri)
    if not place.is_local:
        return None  # to list it takes as many requests
    path = place.uri
    try:
        entry = FORMATS.get(name)
        if entry is None or not entry.source or not source_class(name).whole or not os.path.isdir(path):  # noqa: PTH112
            return None
        digest = xxhash.xxh3_128(f"{__version__}\0{how}".encode())
        for file in _files_below(path):
            digest.update(file.encode(errors="surrogateescape"))
    except (OSError, WShardError):
        return None  # listing it reports the error
    return digest.hexdigest()


def _files_below(folder: str) -> Iterator[str]:
    """Yield a line for each file, in order; raises OSError, and for a link to a folder."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
            continue
        status = entry.stat()
        if entry.is_dir():
            raise NotADirectoryError(f"{entry.path}: expected a file, found a link to a folder")
        yield f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n"
