"""The bases of Sources of files, and of Sinks that write one file per episode."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from wshard.core.chunks.manifest import safe_name
from wshard.core.container.atomic_write import publish
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.protocol import Fingerprint
from wshard.core.files.exchange import stamp_owned
from wshard.core.files.schemes import place_of
from wshard.errors import EntryNotFoundError, EpisodeError
from wshard.formats.draft_sink import DraftSink
from wshard.formats.source_base import SourceBase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.container.draft import Draft, WriteMode
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location, PathOrFile
    from wshard.core.types import Array, Episode

_Ref = TypeVar("_Ref")
_MAX_KEYS_IN_MESSAGE = 20  # known keys in the message about an unknown one


class FilesSource(SourceBase, ABC, Generic[_Ref]):
    """A Source of files, which are listed when they are first needed. Raises FileNotFoundError for a missing path."""

    def __init__(self, location: Location) -> None:
        self._place = place_of(location)
        self._place.status()

    @abstractmethod
    def _scan(self) -> Mapping[str, _Ref]:
        """Return {key: ref} of all episodes in order; a ref is what the format needs to find an episode's data."""

    @abstractmethod
    def _files(self, ref: _Ref) -> Sequence[Place]:
        """Return the files of an episode, at least one."""

    @abstractmethod
    def open(self, key: str) -> EpisodeReader:
        """Open one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""

    @cached_property
    def _episodes(self) -> Mapping[str, _Ref]:
        return self._scan()

    def __getstate__(self) -> dict[str, object]:
        return {"_place": self._place} | {name: value for name, value in vars(self).items() if name == "clock"}

    def load(self, key: str) -> Episode:
        """Return one episode; raises EntryNotFoundError, FormatError, FileNotFoundError."""
        with self.open(key) as file:
            return file.load()

    def info(self, key: str) -> EpisodeInfo:
        """Describe one episode; raises what open raises."""
        with self.open(key) as file:
            return EpisodeInfo.of(file)

    def lane(self, key: str, name: str, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane by its block name; raises what open and LazyLane raise."""
        with self.open(key) as file:
            rows: Array = file.lane_view(name)[start : file.length if stop is None else stop]
            return rows

    def fingerprint(self, key: str) -> Fingerprint:
        """Return the fingerprint of all files of the episode; of a file object, its size."""
        return Fingerprint.of(*self._files(self._find(key)))

    def keys(self) -> list[str]:
        """Return the keys; "" for the only episode of a file."""
        return list(self._episodes)

    def _find(self, key: str) -> _Ref:
        try:
            return self._episodes[key]
        except KeyError:
            count = len(self._episodes)
            available = ", ".join([*self._episodes][:_MAX_KEYS_IN_MESSAGE]) + (
                f", ... ({count} in all)" if count > _MAX_KEYS_IN_MESSAGE else ""
            )
        if not key:
            raise EntryNotFoundError(
                f"{self._place}: expected one episode, found a location of {count}: "
                f"name one by PATH#KEY; keys: {available}"
            )
        alternative = "one episode, without a key" if count else "none"
        raise EntryNotFoundError(f"{self._place}: no episode {key!r}; it has {available or alternative}")


def _folder_of(location: PathOrFile) -> Path | None:
    """Return the path of a location that is a folder, None for a file or a file object."""
    return Path(location) if isinstance(location, (str, os.PathLike)) and Path(location).is_dir() else None


class FilesSink(DraftSink):
    """Writes one episode to a path or file object, or many to a folder, in files named after their ids.

    mode "append": a file is replaced by the same episode only, and those in a folder appear one by one. Other modes:
    see Sink.
    """

    suffix: ClassVar[str]
    content: ClassVar[str] = "episodes"
    one_per_file: ClassVar[bool] = True
    takes_file_objects: ClassVar[bool] = True
    keeps_bfloat16: ClassVar[bool] = True
    _there: str | None = None
    """The id of the episode in the file that it alone may replace; None for any."""

    def _has_episodes(self) -> bool:
        self._folder = _folder_of(self._location)
        is_path = isinstance(self._location, (str, os.PathLike))
        return bool(self.owned(self._folder)) if self._folder else is_path and self._target.exists()

    def _open_draft(self, mode: WriteMode) -> Draft | None:
        if self._folder is not None and mode == "overwrite":
            return super()._open_draft(mode)
        if self._folder is None and self._existed:
            stamp_owned(Path(self._where), self.owned(Path(self._where)), "overwrite")  # refuses a file of others
            self._there = self._id_of(Path(self._where)) if mode == "append" else None
        return None

    def has(self, id_: str) -> bool:
        """Return True if the folder has an episode of this id; False for a file, which is replaced."""
        return self._folder is not None and (self._path / f"{safe_name(id_)}{self.suffix}").exists()

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the names of the files of episodes in a folder; [""] for such a file."""
        if location.is_file():
            return [""] if cls._is_own(location) else []
        return sorted(path.name for path in location.glob(f"*{cls.suffix}") if path.is_file() and cls._is_own(path))

    @classmethod
    @abstractmethod
    def _is_own(cls, path: Path) -> bool:
        """Return True if a file is one of the format."""

    def _id_of(self, _path: Path) -> str | None:
        """Return the id of the episode in a file of the format; None if it has none, or cannot be read."""
        return None

    @abstractmethod
    def _save(self, ep: Episode, location: PathOrFile) -> None:
        """Write an episode as a file."""

    def _save_new(self, ep: Episode, path: Path) -> None:
        """Write an episode as a file of a folder; raises FileExistsError for a path in use."""
        with publish(path, unused=True) as file:
            self._save(ep, file)

    def _add(self, ep: Episode, draft: Path) -> str:
        if self._folder is not None:
            path = draft / f"{safe_name(ep.id)}{self.suffix}"
            try:
                self._save_new(ep, path)
            except FileExistsError:  # since has() said that it is free
                reason = "expected no episode there yet, found that another writer has added it"
                raise EpisodeError(f"{self._where}: {ep.id!r}: {reason}") from None
            return self._key(path)
        if self._changed:
            raise EpisodeError(f"{self._where}: expected one episode for one file; give a folder to write several")
        if self._there not in (None, ep.id):
            found = f"found {self._there!r} there: give another path, a folder for several, or --mode overwrite"
            raise EpisodeError(f"{self._where}: {ep.id!r}: expected a new file or one of this episode, {found}")
        self._save(ep, self._location)
        return ""

    def _key(self, path: Path) -> str:
        """Return the key of the episode in this file."""
        return path.name
