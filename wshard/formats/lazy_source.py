"""The base of Sources whose lanes are read on demand."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.errors import EntryNotFoundError, MissingFileError, StepError, WShardError
from wshard.formats.file_per_episode import FilesSource
from wshard.formats.lazy_episode import LazyEpisode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, Episode
    from wshard.formats.open_lanes import OpenLanes

_MAX_INFOS: Final = 64

_fork_count = 0
"""Number of forks between the first process and this one; cheaper to compare than os.getpid()."""


def _count_fork() -> None:
    global _fork_count  # noqa: PLW0603  (process-wide state)
    _fork_count += 1


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_count_fork)


class Closable(Protocol):
    """An open file of some library."""

    def close(self) -> None:
        """Close it."""


_Ref = TypeVar("_Ref")
_Value = TypeVar("_Value")
_Open = TypeVar("_Open", bound=Closable)


class LazySource(FilesSource[_Ref]):
    """A Source that reads data on demand. `ref` is what the format knows of an episode's location, from `_scan`.

    A subclass defines `_scan`, `_files`, `_describe` and `_read`, and opens files by `open_once`. Open episodes stay
    readable after the Source is closed; files are closed with the last of them, and opened again in another process.
    """

    stays_open = True

    most_open = 32
    """Maximum number of open files; the least recently used one of more is closed."""

    _open_episodes = 0
    _closed = False
    _cached_at_fork = -1

    @abstractmethod
    def _describe(self, key: str, ref: _Ref) -> EpisodeInfo:
        """Describe an episode; reads no data, decodes no frame."""

    @abstractmethod
    def _read(self, ref: _Ref, info: EpisodeInfo, block: str, steps: slice) -> Array:
        """Return the timesteps steps.start to steps.stop, which exist, as a new array."""

    def _encoded(self, ref: _Ref, info: EpisodeInfo, block: str) -> EncodedFrames:
        """Return the EncodedFrames of a lane whose declaration has an encoding."""
        raise EntryNotFoundError(f"{self.where_of('')}: lane {block!r} has no encoded frames")

    def _identify(self, ref: _Ref, info: EpisodeInfo, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do, as far as can be told without reading them."""
        return str(info.stored_sizes.get(block)).encode()

    def _extra_blocks(self, ref: _Ref) -> dict[str, bytes]:
        """Return the other data of an episode, by block name: texts that are too long for metadata."""
        return {}

    # ---- the interface of a Source -----------------------------------------------------------------------------------

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode without reading its data; raises EntryNotFoundError, FormatError."""
        return self._look_up(key)[1]

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane by its block name; raises EntryNotFoundError, StepError."""
        ref, info = self._look_up(key)
        end = info.length if stop is None else stop
        if name not in info.lanes:
            available = ", ".join(info.lanes) or "none"
            raise EntryNotFoundError(f"{self.where_of(key)}: no lane {name!r}; it has {available}")
        if not 0 <= start <= end <= info.length:
            raise StepError(
                f"{self.where_of(key)}: expected 0 <= start <= stop <= {info.length}, found {start} and {end}"
            )
        return self._read(ref, info, name, slice(start, end))

    def encoded(self, key: str, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for a numeric lane."""
        ref, info = self._look_up(key)
        return self._encoded(ref, info, name) if info.lanes[name].encoding else None

    def identify(self, key: str, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do."""
        return self._identify(*self._look_up(key), block)

    def complete(self, key: str, ep: Episode) -> Episode:
        """Return the Episode, which has the lanes, with the other data of the episode as blocks."""
        ep.blocks.update(self._extra_blocks(self._find(key)))
        return ep

    def _look_up(self, key: str) -> tuple[_Ref, EpisodeInfo]:
        """Return an episode's ref and description; the last one is cached, as its lanes are read one after another."""
        last: tuple[str, _Ref, EpisodeInfo] | None = self._cache("last").get("")  # another thread may replace it
        if last is None or last[0] != key:
            ref = self._find(key)
            info = self._remember("infos", key, lambda: self._describe(key, ref))
            last = self._cache("last")[""] = key, ref, info
        return last[1], last[2]

    def open(self, key: str) -> LazyEpisode:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        lanes = self.open_lanes(key)
        try:
            return LazyEpisode(lanes, key)
        except BaseException:
            self.release()
            raise

    def open_lanes(self, _key: str) -> OpenLanes:
        """Return the lanes of one episode, to be released; each reads what it is asked for."""
        self._open_episodes += 1
        return self

    def fingerprint(self, key: str) -> Fingerprint:
        """Return the fingerprint of all files of the episode, as they were at the first call."""
        fingerprints, files = self._cache("states"), self._files_at(key)
        size, newest = 0, 0
        for file in files:
            if file not in fingerprints:
                fingerprints[file] = self._state_of(file, key)
            size, newest = size + fingerprints[file].size, max(newest, fingerprints[file].mtime_ns)
        self._cache("files")[key] = files
        return Fingerprint(size, newest)

    def _files_at(self, key: str) -> Sequence[Place]:
        """Return the files that the fingerprint of an episode covers."""
        return self._files(self._find(key))

    def _state_of(self, file: Place, key: str) -> Fingerprint:
        """Return the fingerprint of a file; raises MissingFileError for a missing one that a folder refers to."""
        try:
            return Fingerprint.of(file)
        except FileNotFoundError:
            if self._place.is_dir():
                raise MissingFileError.at(file, f"{self.where_of(key)}: expected the file {file}, found none") from None
            raise

    def missing_files(self, key: str) -> list[str]:
        """Return the paths of the files that the location lists for an episode and lacks, such as videos."""
        return [str(file) for file in self._files(self._find(key)) if not file.exists()]

    def is_current(self, key: str) -> bool:
        """Return True if the episode is known, and its files with returned fingerprints are unchanged; looks at these.

        Files of other episodes are looked at when those are read.
        """
        states, files = self._cache("states"), self._cache("files").get(key)
        try:
            files = self._files_at(key) if files is None else files
            return all(Fingerprint.of(file) == states[file] for file in files if file in states)
        except (OSError, WShardError):
            return False

    def where_of(self, key: str) -> str:
        """Return the name of an episode in messages."""
        return str(EpisodeAddress(self._place.uri, key))

    # ---- open files --------------------------------------------------------------------------------------------------

    def open_once(self, name: str, opener: Callable[[], _Open]) -> _Open:
        """Return the open file of this name; open it if necessary, and close the least recently used one of many."""
        handles = self._cache("handles")
        if name not in handles:
            handles[name] = opener()
            if len(handles) > self.most_open:
                handles.popitem(last=False)[1].close()
        handles.move_to_end(name)
        handle: _Open = handles[name]
        return handle

    def close(self) -> None:
        """Release the location as soon as the last open episode is closed."""
        self._closed = True
        self._close_unused()

    def release(self) -> None:
        """Note that an open episode was closed."""
        self._open_episodes -= 1
        self._close_unused()

    def _close_unused(self) -> None:
        handles = self._cache("handles")
        while self._closed and self._open_episodes <= 0 and handles:
            handles.popitem()[1].close()

    def _remember(self, cache: str, key: str, make: Callable[[], _Value], limit: int = _MAX_INFOS) -> _Value:
        """Return what `make` returned for a key of a cache; the oldest of more than `most` values is dropped."""
        values = self._cache(cache)
        if key in values:
            value: _Value = values[key]
            return value
        value = values[key] = make()
        if len(values) > limit:
            values.popitem(last=False)
        return value

    def _cache(self, name: str) -> OrderedDict[Any, Any]:
        """Return a cache of this process by its name: files that a parent process opened must not be used."""
        if self._cached_at_fork != _fork_count:
            self._cached_at_fork, self._caches = _fork_count, dict[str, OrderedDict[Any, Any]]()
        cache = self._caches.get(name)
        if cache is None:
            cache = self._caches[name] = OrderedDict()
        return cache
