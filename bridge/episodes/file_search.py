"""Search files and folders for episodes: what each file is by its name and a quick look, before any is listed."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bridge.episodes.found import FoundFiles
from bridge.episodes.locations import suffix_of
from bridge.episodes.read import Failure
from wshard.core.chunks.files import SUFFIX, locate
from wshard.core.episode.protocol import OWN_FORMAT, EpisodeAddress, Fingerprint, parse_read_as, read_as
from wshard.core.files.schemes import place_of
from wshard.errors import AmbiguousFormatError, EntryNotFoundError, SourceNotFoundError
from wshard.formats.below import files_below
from wshard.formats.detect import detect_format, known_format
from wshard.formats.layouts.layout import may_have_layout
from wshard.formats.layouts.named import describe_layout
from wshard.formats.table import OTHER_ARRAYS

if TYPE_CHECKING:
    from wshard.core.files.listing import ObjectStatus
    from wshard.core.files.place import Place


@dataclass
class FileSearch:
    """Files of one episode, locations of several with how to read them, and other files."""

    without_maps: bool = False
    read_as: str = ""  # as passed for the place that is searched; "": to be detected
    stated: dict[str, str] = field(default_factory=dict)  # likewise, of locations and unknown files where it says so
    files: FoundFiles = field(default_factory=FoundFiles)
    locations: dict[str, str] = field(default_factory=dict)
    keys: dict[str, set[str]] = field(default_factory=dict)
    ambiguous: dict[str, AmbiguousFormatError] = field(default_factory=dict)
    unknown: dict[str, bool] = field(default_factory=dict)  # files that only a layout can read; True: given as such
    unreadable: list[Failure] = field(default_factory=list)
    skipped: dict[str, Counter[str]] = field(default_factory=dict)  # numbers of files by folder and suffix
    unread: dict[str, str] = field(default_factory=dict)
    guessed: dict[str, str] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)  # files with several episodes that were given as such
    without: list[Place] = field(default_factory=list)  # folders in which nothing was found

    def add_place(self, address: EpisodeAddress, *, may_be_gone: bool) -> None:
        """Add what is at one address; raises as discover."""
        if not address.uri:
            raise SourceNotFoundError("expected a file or folder, found an empty text")
        path = place_of(address.uri)
        self.read_as, located = address.read_as, locate(path.uri)
        if address.key and path.exists():
            self.add_key(located, address.key)
        elif path.is_dir():
            if not self.add_below(path) and not may_be_gone:
                self.without.append(path)
            self.folders.append(located)
        elif path.exists():
            if self.add_file(located):
                self.given.append(located)
        elif may_be_gone:
            self.folders.append(located)
        else:
            raise missing_place(path)

    def add_file(self, path: str) -> bool:
        """Add a file; return True if it is a location of another format than this project's."""
        name, _ = parse_read_as(self._state(path))
        try:
            name = name or (OWN_FORMAT if path.endswith(SUFFIX) else detect_format(path))
            if name in ("", OTHER_ARRAYS):
                self.unknown[path] = True
                return True
        except AmbiguousFormatError as error:
            self.ambiguous[path] = error
            return True
        return self.add(path, name)

    def add_key(self, path: str, key: str) -> None:
        """Add one episode of a location; raises EntryNotFoundError for a file of this project, which has no keys."""
        if place_of(path).is_dir():
            known_format(None, parse_read_as(self.read_as)[0] or detect_format(path), path)  # else names what is inside
        if not self.add_file(path):
            raise EntryNotFoundError(f"{path}: no episode {key!r}: files of this project are one episode without a key")
        self.keys.setdefault(path, set()).add(key)

    def add_below(self, folder: Place) -> bool:
        """Add everything below a folder; return True if there was anything, readable or not."""
        format_name, _ = parse_read_as(self.read_as)
        failures_before, ambiguous_before = len(self.unreadable) + len(self.ambiguous), {*self.ambiguous}
        has_episodes, other_count, unreadable = False, 0, dict[str, OSError]()
        for path, name, status in files_below(folder.uri, unreadable, self.ambiguous, wanted=format_name):
            is_other = name is None or bool(format_name and name != format_name)
            other_count += is_other
            if is_other and not may_have_layout(path):
                self.skip(path)
                continue
            link = folder.is_local and os.path.islink(path)  # noqa: PTH114  (Path.is_symlink is slower)
            if link and not os.path.exists(path):  # noqa: PTH110  (Path.exists can raise)
                self.unreadable.append(Failure(path, f"a link to {locate(path)}, where no file is"))
            elif is_other and format_name:
                self.unread[path] = f"not of {describe_layout(format_name)}"
            elif name is None:
                self._state(file := locate(path))
                self.unknown[file] = False
            else:
                has_episodes = True
                self.add(locate(path) if name != OWN_FORMAT or link else path, name, status)
        for path in self.ambiguous.keys() - ambiguous_before:
            self._state(path)
        self.unreadable += [Failure(path, error.strerror or str(error)) for path, error in unreadable.items()]
        if format_name and not has_episodes and other_count:  # named as an episode, so opening it reports the error
            self.add(locate(folder.uri), format_name)
            has_episodes = True
        return has_episodes or len(self.unreadable) + len(self.ambiguous) > failures_before

    def _state(self, path: str) -> str:
        """Return how to read a file, as passed for its place, and remember it until what is stored of it is known."""
        if self.read_as:
            self.stated[path] = self.read_as
        return self.read_as

    def add(self, path: str, name: str, status: ObjectStatus | None = None) -> bool:
        """Add a file or location of this format; return True if it is of another format than this project's.

        status: as a store listed it.
        """
        _, lane_map = parse_read_as(self.stated.get(path, self.read_as))
        how = read_as(name, lane_map)
        if name == OWN_FORMAT:
            known = None if status is None else Fingerprint(status.size, status.mtime_ns)
            self.files.add(path, how or (OWN_FORMAT if self.without_maps else ""), known)
            return False
        self.locations[path] = how
        self._state(path)
        return True

    def skip(self, path: str) -> None:
        """Count a file that is of no format by its folder and suffix."""
        self.skipped.setdefault(posixpath.dirname(path), Counter())[suffix_of(path)] += 1


def missing_place(path: Place) -> SourceNotFoundError:
    """Return the error of a path where nothing is."""
    return SourceNotFoundError(f"no such file or folder: {path}")
