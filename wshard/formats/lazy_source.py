"""The base of Sources whose lanes are read on demand."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from wshard.episode.protocol import EpisodeAddress, Fingerprint
from wshard.errors import EntryNotFoundError, MissingFileError, StepError
from wshard.formats.file_per_episode import FilesSource
from wshard.formats.lazy_episode import LazyEpisode

if TYPE_CHECKING:
    from collections.abc import Callable

    from wshard.episode.info import EpisodeInfo
    from wshard.media.frames import EncodedFrames
    from wshard.types import Array

_MOST_INFOS: Final = 64

_forks = 0
"""How often this process was forked from another one; asking for the number of the process each time takes longer."""


def _count_fork() -> None:
    global _forks  # noqa: PLW0603  (a fact of the process)
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)


class Closable(Protocol):
    """An open file of some library."""

    def close(self) -> None:
        """Close it."""


_Found = TypeVar("_Found")
_Made = TypeVar("_Made")
_Open = TypeVar("_Open", bound=Closable)


class LazySource(FilesSource[_Found]):
    """A Source that reads data on demand.

    A subclass defines `_scan`, `_files`, `_describe` and `_read`, and opens files by `open_once`. Open episodes stay
    readable after the Source is closed; files are closed with the last of them, and opened again in another process.
    """

    most_open = 32
    """Maximum number of open files; the least recently used one of more is closed."""

    _readers = 0
    _closed = False
    _forked = -1

    @abstractmethod
    def _describe(self, key: str, found: _Found) -> EpisodeInfo:
        """Describe an episode; reads no data, decodes no frame."""

    @abstractmethod
    def _read(self, found: _Found, info: EpisodeInfo, block: str, steps: slice) -> Array:
        """Return the timesteps steps.start to steps.stop, which exist, as a new array."""

    def _encoded(self, found: _Found, info: EpisodeInfo, block: str) -> EncodedFrames:
        """Return the EncodedFrames of a lane whose declaration has an encoding."""
        raise EntryNotFoundError(f"{self.where_of('')}: lane {block!r} has no encoded frames")

    def _identify(self, found: _Found, info: EpisodeInfo, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do, as far as is known without reading them."""
        return str(info.stored_sizes.get(block)).encode()

    def _extra_blocks(self, found: _Found) -> dict[str, bytes]:
        """Return the other data of an episode, by block name: texts that are too long for metadata."""
        return {}

    # ---- the interface of a Source -----------------------------------------------------------------------------------

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode without reading its data; raises EntryNotFoundError, FormatError."""
        return self._look_up(key)[1]

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane by its block name; raises EntryNotFoundError, StepError."""
        found, info = self._look_up(key)
        last = info.length if stop is None else stop
        if name not in info.lanes:
            known = ", ".join(info.lanes) or "none"
            raise EntryNotFoundError(f"{self.where_of(key)}: no lane {name!r}; it has {known}")
        if not 0 <= start <= last <= info.length:
            raise StepError(
                f"{self.where_of(key)}: expected 0 <= start <= stop <= {info.length}, found {start} and {last}"
            )
        return self._read(found, info, name, slice(start, last))

    def encoded(self, key: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for a numeric lane."""
        found, info = self._look_up(key)
        return self._encoded(found, info, name) if info.lanes[name].encoding else None

    def identify(self, key: str, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do."""
        return self._identify(*self._look_up(key), block)

    def blocks(self, key: str) -> dict[str, bytes]:
        """Return the other data of an episode, by block name."""
        return self._extra_blocks(self._find(key))

    def _look_up(self, key: str) -> tuple[_Found, EpisodeInfo]:
        """Return where an episode is, and its description; quick for the last one, of which all lanes are read."""
        last: tuple[str, _Found, EpisodeInfo] | None = self._cache("last").get("")  # another thread may replace it
        if last is None or last[0] != key:
            found = self._find(key)
            info = self._remember("infos", key, lambda: self._describe(key, found))
            last = self._cache("last")[""] = key, found, info
        return last[1], last[2]

    def open(self, key: str) -> LazyEpisode:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        self._readers += 1
        try:
            return LazyEpisode(self, key)
        except BaseException:
            self.release()
            raise

    def fingerprint(self, key: str) -> Fingerprint:
        """Return the fingerprint of all files of the episode, as they were at the first call."""
        states = self._cache("states")
        size, newest = 0, 0
        for file in self._files(self._find(key)):
            name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else ""
            if name not in states:
                states[name] = self._state_of(name, key) if name else super().fingerprint(key)
            size, newest = size + states[name].size, max(newest, states[name].mtime_ns)
        return Fingerprint(size, newest)

    def _state_of(self, name: str, key: str) -> Fingerprint:
        """Return the state of a file; raises MissingFileError for one that the location names and lacks."""
        try:
            return Fingerprint.of(name)
        except FileNotFoundError:
            place = self._location
            if isinstance(place, (str, os.PathLike)) and os.path.isdir(place):  # noqa: PTH112  (a million times)
                raise MissingFileError.at(name, f"{self.where_of(key)}: expected the file {name}, found none") from None
            raise

    def missing_files(self, key: str) -> list[str]:
        """Return the paths of the files that the location lists for an episode and lacks, such as videos."""
        files = self._files(self._find(key))
        return [os.fspath(file) for file in files if isinstance(file, (str, os.PathLike)) and not os.path.exists(file)]  # noqa: PTH110  (Path.exists can raise)

    def is_current(self) -> bool:
        """Say whether all files with returned fingerprints are unchanged."""
        try:
            return all(not name or Fingerprint.of(name) == state for name, state in self._cache("states").items())
        except OSError:
            return False

    def where_of(self, key: str) -> str:
        """Return the name of an episode in messages."""
        place = self._location
        uri = os.fspath(place) if isinstance(place, (str, os.PathLike)) else str(getattr(place, "name", "<file>"))
        return str(EpisodeAddress(uri, key))

    # ---- open files --------------------------------------------------------------------------------------------------

    def open_once(self, name: str, opener: Callable[[], _Open]) -> _Open:
        """Return the open file of this name, or open it."""
        handles = self._cache("handles")
        if name not in handles:
            handles[name] = opener()
            if len(handles) > self.most_open:
                handles.popitem(last=False)[1].close()
        handles.move_to_end(name)
        found: _Open = handles[name]
        return found

    def close(self) -> None:
        """Release the location as soon as the last open episode is closed."""
        self._closed = True
        self._close_unused()

    def release(self) -> None:
        """Count one open episode less."""
        self._readers -= 1
        self._close_unused()

    def _close_unused(self) -> None:
        handles = self._cache("handles")
        while self._closed and self._readers <= 0 and handles:
            handles.popitem()[1].close()

    def _remember(self, cache: str, key: str, make: Callable[[], _Made], most: int = _MOST_INFOS) -> _Made:
        """Return what `make` returned for a key of a cache; the oldest of more than `most` values is dropped."""
        values = self._cache(cache)
        if key in values:
            made: _Made = values[key]
            return made
        made = values[key] = make()
        if len(values) > most:
            values.popitem(last=False)
        return made

    def _cache(self, name: str) -> OrderedDict[str, Any]:
        """Return a cache of this process by its name: files that a parent process opened must not be used."""
        if self._forked != _forks:
            self._forked, self._caches = _forks, dict[str, OrderedDict[str, Any]]()
        found = self._caches.get(name)
        if found is None:
            found = self._caches[name] = OrderedDict()
        return found
