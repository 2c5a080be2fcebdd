"""List the episodes of locations of several, but for those whose files are unchanged: their episodes are, too."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import xxhash

from bridge.episodes.read import Failure, attempt
from wshard import __version__
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, parse_read_as
from wshard.core.files.schemes import place_of
from wshard.errors import WShardError
from wshard.formats.base import source_class
from wshard.formats.layouts.layout import SUFFIXES
from wshard.formats.layouts.named import find_layout
from wshard.formats.open import list_episodes
from wshard.formats.table import FORMATS, LAYOUT

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from bridge.episodes.found import DiscoveredEpisodes
    from wshard.errors import MissingFileError
    from wshard.formats.layouts.layout import EpisodeLayout
    from wshard.formats.open import LocationEpisodes

    UnchangedSince: TypeAlias = Callable[[str, str], Sequence[int] | None]


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
    """The files that layouts read with those of episodes, such as videos; read_as: of locations, by their paths."""

    def __init__(self, read_as: Mapping[str, str]) -> None:
        self._patterns: dict[str, set[str]] = {}  # of names, by the pattern of their folder
        self._stems: set[str] = set()  # of files that may have a video beside them
        layouts: dict[str, EpisodeLayout | None] = {}
        for path, how in read_as.items():
            name, _ = parse_read_as(how)
            if not name.startswith(LAYOUT):
                continue
            if name not in layouts:
                layouts[name] = None
                with suppress(WShardError):  # listing reports it
                    layouts[name] = find_layout(name)
            companions = found.companions if (found := layouts[name]) else ()
            for companion in companions:
                pattern = posixpath.normpath(posixpath.join(posixpath.dirname(path), companion))
                self._patterns.setdefault(posixpath.dirname(pattern), set()).add(posixpath.basename(pattern))
            if not companions:
                self._stems.add(posixpath.splitext(path)[0])
        self._wild = [folder for folder in self._patterns if "*" in folder]

    def has(self, path: str) -> bool:
        """Return True for a file that a layout reads."""
        folder, name = posixpath.split(path)
        fitting = [folder, *(one for one in self._wild if fnmatchcase(folder, one))]
        return any(fnmatchcase(name, one) for key in fitting for one in self._patterns.get(key, ()))

    def is_beside(self, path: str) -> bool:
        """Return True for a video of the name of an episode's file, which is read without it."""
        stem, suffix = posixpath.splitext(path)
        return suffix.lower() in SUFFIXES["video"] and stem in self._stems


@dataclass
class Listings:
    """The episodes of the locations that were added; states, unchanged, incomplete, unreadable: as in Discovery.

    unchanged_since(path, state) returns the ids of a location's episodes if it need not be listed.
    """

    unchanged_since: UnchangedSince | None
    episodes: list[LocationEpisodes] = field(default_factory=list)
    states: dict[str, tuple[str, int]] = field(default_factory=dict)
    unchanged: dict[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    incomplete: list[Failure] = field(default_factory=list)
    unreadable: list[Failure] = field(default_factory=list)

    def add(self, path: str, how: str, keys: Collection[str]) -> None:
        """Add a location, or its episodes of these keys if there are any."""
        # Of before it is listed: what changes meanwhile is found the next time.
        state = location_state(path, how) if self.unchanged_since is not None and not keys else None
        if self.unchanged_since is not None and state and (ids := self.unchanged_since(path, state)):
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
