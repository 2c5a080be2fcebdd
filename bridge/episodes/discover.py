"""Find episodes: the given files and locations, and every episode below the given folders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bridge.episodes.found import DiscoveredEpisodes
from bridge.episodes.locations import Listings
from bridge.episodes.read import Failure, attempt
from wshard.core.chunks.files import SUFFIX, locate, without_chunks
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, parse_read_as, read_as
from wshard.core.files.schemes import place_of
from wshard.core.messages import shown
from wshard.errors import (
    AmbiguousFormatError,
    EntryNotFoundError,
    FormatError,
    IngestError,
    MissingExtraError,
    SourceNotFoundError,
)
from wshard.formats.base import OWN_DATA, load_matchers, select_matchers
from wshard.formats.below import entries_below
from wshard.formats.detect import describe_arrays, detect_format, known_format
from wshard.formats.layouts.guessing.arrays import guess_arrays, has_arrays
from wshard.formats.layouts.guessing.table import guess_table, is_table
from wshard.formats.layouts.layout import SUFFIXES, may_have_layout
from wshard.formats.table import OTHER_ARRAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bridge.episodes.locations import UnchangedSince
    from wshard.core.files.place import Place as FilePlace
    from wshard.formats.base import Matchers

    Place: TypeAlias = str | os.PathLike[str] | EpisodeAddress


NO_LAYOUT: Final = "of no known layout"


@dataclass(frozen=True)
class Discovery:
    """Result of a search for episodes: all episodes in order, the places searched, and what cannot be read.

    folders: those among the arguments; locations: files among them with several episodes. incomplete: episodes that
    refer to a missing file. states: of the locations that were listed whole, with their number of episodes; unchanged:
    of those that need not be listed, how they are read and the ids of their episodes. skipped: number of other files in
    the folders, by suffix, most frequent first. unread: files of arrays or tables of no known layout, with the
    reason: NO_LAYOUT, or the library that is missing.
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

    def count_formats(self, failed: Iterable[str] = ()) -> dict[str, tuple[int, int]]:
        """Return the numbers of locations and of episodes in each format, without failed ones, by their paths."""
        counts: dict[str, tuple[int, int]] = {}
        unlisted = Counter((how, len(ids)) for how, ids in self.unchanged.values())
        for (how, size), count in (self.episodes.count_places(Counter(failed)) + unlisted).items():
            name = parse_read_as(how)[0] or OWN_FORMAT
            locations, episodes = counts.get(name, (0, 0))
            counts[name] = locations + count, episodes + count * size
        return counts


def listed_paths(paths: Place | Iterable[Place]) -> list[Place]:
    """Return the paths in one path or several. Raises IngestError for anything else."""
    given: Any = paths
    is_single = isinstance(given, str | bytes | os.PathLike | EpisodeAddress) or not isinstance(given, Iterable)
    listed = [given] if is_single else list(given)
    for path in listed:
        if not isinstance(path, str | os.PathLike | EpisodeAddress):
            raise IngestError(f"expected files and folders by their paths, found {shown(path)}")
    return listed


def discover(
    places: Sequence[Place],
    *,
    may_be_gone: bool = False,
    remembered: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {},
    unchanged_since: UnchangedSince | None = None,
) -> Discovery:
    """Find the episodes at the paths; folders are searched recursively, hidden names are skipped.

    A manifest stands for the chunks that it lists: these are skipped, also if they are passed themselves. Files and
    folders that a format detects as a location yield all their episodes or, by an address, the one with the key. Any
    other file that is passed itself is included whatever its suffix. An EpisodeAddress may specify how to read its
    location; for others, remembered(locations) returns what earlier ingests stored. unchanged_since(location, state)
    returns the ids of its episodes if it need not be listed. may_be_gone: treat a missing path as an empty folder;
    otherwise, a folder without episodes is unreadable. Raises SourceNotFoundError for a missing
    path, and if no place has episodes; EntryNotFoundError for a key of a file without keys; UnknownSchemeError.
    """
    search = _Search()
    folders, locations = list[str](), list[str]()
    without: list[FilePlace] = []
    for place in places:
        address = place if isinstance(place, EpisodeAddress) else EpisodeAddress.parse(os.fspath(place))
        if not address.uri:
            raise SourceNotFoundError("expected a file or folder, found an empty text")
        path = place_of(address.uri)
        search.read_as, located = address.read_as, locate(path.uri)
        if address.key and path.exists():
            search.add_key(located, address.key)
        elif path.is_dir():
            if not search.add_below(path) and not may_be_gone:
                without.append(path)
            folders.append(located)
        elif path.exists():
            if search.add_file(located):
                locations.append(located)
        elif may_be_gone:
            folders.append(located)
        else:
            raise SourceNotFoundError(f"no such file or folder: {path}")
    listings = Listings(unchanged_since)
    episodes = search.list_episodes(remembered, listings)
    search.unreadable += listings.unreadable
    without = [path for path in without if not _has_some(locate(path.uri), search.locations)]
    empty = [_empty(path) for path in without]
    if empty and len(empty) == len(places):
        raise empty[0]
    search.unreadable += [
        Failure.of(error, EpisodeAddress(locate(path.uri))) for error, path in zip(empty, without, strict=True)
    ]
    skipped = dict(search.skipped.most_common())
    found = episodes, tuple(folders), tuple(locations), tuple(search.unreadable), tuple(listings.incomplete)
    return Discovery(*found, skipped, search.unread, listings.states, listings.unchanged)


def expect_episodes(places: Sequence[Place]) -> None:
    """Raise SourceNotFoundError as `discover` does, but stop at the first episode."""
    matchers = load_matchers()
    empty: list[SourceNotFoundError] = []
    for place in places:
        address = place if isinstance(place, EpisodeAddress) else EpisodeAddress.parse(os.fspath(place))
        path = place_of(address.uri)
        if not path.is_dir() or address.key or parse_read_as(address.read_as)[0]:
            if not path.exists():
                raise SourceNotFoundError(f"no such file or folder: {path}")
            continue
        unreadable: dict[str, OSError] = {}
        found = entries_below(path.uri, matchers, unreadable)
        if (
            not any(name is not None or isinstance(_guess(file, is_given=False), str) for file, name in found)
            and not unreadable
        ):
            empty.append(_empty(path))
    if empty and len(empty) == len(places):
        raise empty[0]


def _has_some(folder: str, locations: Iterable[str]) -> bool:
    """Return True if a location is below a folder: files in it that only an earlier ingest said how to read."""
    return any(path.startswith(f"{folder}/") for path in locations)


def _guess(path: str, *, is_given: bool) -> str | Failure | None:
    """Return the name of the format by a guess, else why there is none; None for files of which none is made."""
    if is_table(path):
        return attempt(partial(guess_table, path, is_given=is_given), EpisodeAddress(path))
    return attempt(partial(guess_arrays, path), EpisodeAddress(path)) if has_arrays(path) else None


def _empty(path: FilePlace) -> SourceNotFoundError:
    expected = f"expected files that end in {SUFFIX}, or data of another format; {OWN_DATA}"
    return SourceNotFoundError(f"no episodes in {path}: {describe_arrays(path) or expected}")


@dataclass
class _Search:
    """Files of one episode, locations of several with how to read them, and other files."""

    read_as: str = ""  # as passed for the place; "": to be detected
    files: dict[str, str] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    ambiguous: dict[str, AmbiguousFormatError] = field(default_factory=dict)
    unknown: dict[str, bool] = field(default_factory=dict)  # files that only a layout can read; True: given as such
    unreadable: list[Failure] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    unread: dict[str, str] = field(default_factory=dict)
    matchers: Matchers = field(default_factory=load_matchers)

    def add_file(self, path: str) -> bool:
        """Add a file; return True if it is a location of another format than this project's."""
        name, _ = parse_read_as(self.read_as)
        try:
            name = name or (OWN_FORMAT if path.endswith(SUFFIX) else detect_format(path))
            if name in ("", OTHER_ARRAYS):
                self.unknown[path] = True
                return True
        except AmbiguousFormatError as error:
            self.ambiguous[path] = error
            return True
        return self._add(path, name)

    def add_key(self, path: str, key: str) -> None:
        """Add one episode of a location; raises EntryNotFoundError for a file of this project, which has no keys."""
        if place_of(path).is_dir():
            known_format(None, parse_read_as(self.read_as)[0] or detect_format(path), path)  # else names what is inside
        if not self.add_file(path):
            raise EntryNotFoundError(f"{path}: no episode {key!r}: files of this project are one episode without a key")
        self.keys.setdefault(path, set()).add(key)

    def add_below(self, folder: FilePlace) -> bool:
        """Add everything below a folder; return True if there was anything, readable or not."""
        format_name, _ = parse_read_as(self.read_as)
        failures_before = len(self.unreadable) + len(self.ambiguous)
        matchers = select_matchers(self.matchers, format_name)
        has_episodes, other_count, unreadable = False, 0, dict[str, OSError]()
        for path, name in entries_below(folder.uri, matchers, unreadable, self.ambiguous):
            if name is None or (format_name and name != format_name):
                other_count += 1
                if name is None and not format_name and may_have_layout(path):
                    self.unknown[locate(path)] = False
                else:
                    self._skip(path)
                continue
            has_episodes, link = True, os.path.islink(path)  # noqa: PTH114  (likewise)
            if link and not os.path.exists(path):  # noqa: PTH110  (Path.exists can raise)
                self.unreadable.append(Failure(path, f"a link to {locate(path)}, where no file is"))
            else:
                self._add(locate(path) if name != OWN_FORMAT or link else path, name)
        self.unreadable += [Failure(path, error.strerror or str(error)) for path, error in unreadable.items()]
        if format_name and not has_episodes and other_count:  # named as an episode, so opening it reports the error
            self._add(locate(folder.uri), format_name)
            has_episodes = True
        return has_episodes or len(self.unreadable) + len(self.ambiguous) > failures_before

    def _skip(self, path: str) -> None:
        self.skipped[os.path.splitext(path)[1].lower()] += 1  # noqa: PTH122  (a million times)

    def _leave_out(self, path: str, reason: str) -> None:
        """Skip a file that nothing reads; one that Git LFS has not fetched yet has failed."""
        opened = attempt(lambda: place_of(path).open().close(), EpisodeAddress(path))
        if isinstance(opened, Failure) and isinstance(opened.cause, FormatError):
            self.unreadable.append(opened)
        elif path.lower().endswith((*SUFFIXES["json"], *SUFFIXES["video"])):  # most belong to others
            self._skip(path)
        else:
            self.unread[path] = reason

    def _add_unknown(self, path: str, *, is_given: bool) -> None:
        """Add a file of arrays or a table if what is in it can be guessed."""
        found = _guess(path, is_given=is_given)
        if isinstance(found, str):
            self._add(path, found)
        elif not is_given:
            is_missing = found is not None and isinstance(found.cause, MissingExtraError)
            self._leave_out(path, found.error if found is not None and is_missing else NO_LAYOUT)
        elif found is not None and is_table(path):
            self.unreadable.append(found)
        else:
            self.locations[path] = ""  # opening it reports what it is

    def _add(self, path: str, name: str) -> bool:
        _, lane_map = parse_read_as(self.read_as)
        (self.files if name == OWN_FORMAT else self.locations)[path] = read_as(name, lane_map)
        return name != OWN_FORMAT

    def list_episodes(
        self, remembered: Callable[[Sequence[str]], Mapping[str, str]], listings: Listings
    ) -> DiscoveredEpisodes:
        """Return the episodes of all files and locations; locations that cannot be listed are recorded."""
        asked = [*self.locations, *self.ambiguous, *self.unknown]
        stored = remembered(asked) if asked else {}
        for path, is_given in self.unknown.items():
            if path in stored:
                self.locations[path] = stored[path]
            else:
                self._add_unknown(path, is_given=is_given)
        for path, error in self.ambiguous.items():
            if path in stored:
                self.locations[path] = ""
            else:
                self.unreadable.append(Failure.of(error, EpisodeAddress(path)))
        files = {path: self.files[path] for path in without_chunks([*self.files])}
        for path, how in self.locations.items():
            plain = not parse_read_as(self.read_as)[0] and not parse_read_as(how)[1]
            listings.add(path, stored.get(path, how) if plain else how, self.keys.get(path, ()))
        return DiscoveredEpisodes(files, listings.episodes)
