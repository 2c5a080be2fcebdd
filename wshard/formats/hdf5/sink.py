"""The base of Sinks that write episodes as groups of one HDF5 file."""

from __future__ import annotations

import contextlib
import io
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.errors import EpisodeError, WShardError
from wshard.formats.draft_sink import DraftSink
from wshard.formats.hdf5.nodes import import_h5py, translate_errors
from wshard.formats.hdf5.values import NOT_JSON, WSHARD_ID, json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from wshard.core.container.codec_plan import Compression
    from wshard.core.container.draft import WriteMode
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Array, Episode


class Hdf5Sink(DraftSink):
    """Writes each episode as a group of an HDF5 file; ids other than the group's name are kept in an attribute."""

    codecs = "HDF5 has filters of its own"
    copies_all = True

    def __init__(self, location: PathOrFile, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        import_h5py()
        self._file: Any = None
        self._disk: LateErrorFile | None = None
        super().__init__(location, compression=compression, mode=mode)

    def _open(self, path: Path) -> None:
        """Open the file of the draft and read the ids of its episodes; `_finish` closes it by _close_file."""
        exists = path.exists()
        with translate_errors(self._where):
            self._disk = LateErrorFile(path, "r+" if exists else "x+")
            self._file = import_h5py().File(self._disk, "r+" if exists else "w")
            episodes = self._episodes()
            self._ids = {str(_id_of(episodes, name)) for name in episodes}

    def _close_file(self) -> None:
        """Close the file; raises OSError if not all of it was written."""
        self._file.close()
        self._check_disk()

    def _check_disk(self) -> None:
        if self._disk is not None:
            self._disk.check()

    def _release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # after a failed write, closing may fail too
                self._file.close()
        if self._disk is not None:
            self._disk.close()

    @abstractmethod
    def _episodes(self) -> Any:
        """Return the group with the groups of episodes; refuses a file of another format."""

    @abstractmethod
    def _name(self, ep: Episode, episodes: Any) -> str:
        """Return the name of an episode's group."""

    @abstractmethod
    def _fill(self, ep: Episode, group: Any) -> None:
        """Write an episode into its empty group; raises EpisodeError for one that does not fit."""

    def _key(self, name: str) -> str:
        """Return the key of the episode in a group."""
        return name

    def _add(self, ep: Episode, draft: Path) -> str:
        with translate_errors(self._where):
            episodes = self._episodes()
            name = self._name(ep, episodes)
            group = episodes.create_group(name)
        try:
            with _refuse_values(f"{self._where}: episode {ep.id!r}"):
                self._fill(ep, group)
                if ep.id != name:
                    group.attrs[WSHARD_ID] = ep.id
            self._check_disk()
        except BaseException:
            self._check_disk()
            del episodes[name]
            raise
        return self._key(name)


def _id_of(episodes: Any, name: str) -> Any:
    link = episodes.get(name, getlink=True)
    return episodes[name].attrs.get(WSHARD_ID, name) if type(link).__name__ == "HardLink" else name


@contextlib.contextmanager
def _refuse_values(where: str) -> Iterator[None]:
    """Raise EpisodeError for values that the library cannot write; a full disk stays an OSError."""
    try:
        yield
    except WShardError:
        raise
    except (ValueError, TypeError, RuntimeError, KeyError) as error:
        raise EpisodeError(f"{where}: expected names and values that HDF5 can hold: {error}") from error


def put_array(group: Any, path: str, array: Array) -> None:
    """Write an array as the dataset at a path; raises EpisodeError for an invalid path."""
    if not all(part not in ("", ".") and "\0" not in part for part in path.split("/")):
        raise EpisodeError(f"{group.name}: expected a name of a lane with parts between '/', found {path!r}")
    group.create_dataset(path, data=array)


def put_attributes(group: Any, values: Mapping[str, Any]) -> None:
    """Write metadata as attributes, except values that an attribute cannot hold."""
    texts = import_h5py().string_dtype()
    for name, value in values.items():
        if can_hold(name, value):
            strings = np.asarray(value).dtype.kind == "U" and isinstance(value, list)
            group.attrs[name] = np.array(value, dtype=texts) if strings else value


def can_hold(name: str, value: Any) -> bool:
    """Return True if an attribute can store a value of metadata so that it is read back unchanged."""
    if not name or "\0" in name or (isinstance(value, str) and "\0" in value):
        return False
    try:
        stored = json_value(value)
    except ValueError:  # lists of different lengths
        return False
    return stored is not NOT_JSON and bool(stored == value) and value != []


def list_metadata_losses(metadata: Mapping[str, Any], stored: Iterable[str]) -> list[str]:
    """Return a text for each value of metadata that no attribute can hold; stored: names that are stored otherwise."""
    names = sorted(name for name, value in metadata.items() if name not in stored and not can_hold(name, value))
    return [f"metadata {name!r}: no place for it" for name in names]


class LateErrorFile(io.FileIO):
    """A file whose first write error is raised by check(): the HDF5 library may crash after one."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or nothing after an error; returns their number."""
        remaining = memoryview(data).cast("B")
        size = len(remaining)
        try:
            while remaining and self.error is None:
                remaining = remaining[super().write(remaining) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Change the size, unless after an error."""
        try:
            return super().truncate(size) if self.error is None else size or 0
        except OSError as error:
            self.error = error
            return size or 0

    def check(self) -> None:
        """Raise the error."""
        if self.error is not None:
            raise self.error
