"""The base of Sinks that write episodes as groups of one HDF5 file, which appears or changes when they are closed."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wshard.array_fields import DType
from wshard.container.codec_plan import CodecPlan
from wshard.errors import CodecError, EpisodeError, FormatError
from wshard.formats.draft import check_mode
from wshard.formats.hdf5.nodes import import_h5py, translate_errors
from wshard.formats.hdf5.values import NOT_JSON, WSHARD_ID, json_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from wshard.container.codec_plan import Compression
    from wshard.formats.base import Location
    from wshard.formats.draft import Draft, WriteMode
    from wshard.types import Array, Episode


class Hdf5Sink(ABC):
    """A place that takes many episodes. A subclass says where the file is, and what is in the group of an episode.

    Episodes that were written appear together, when the Sink is closed. Ids are kept in an attribute.
    """

    def __init__(self, location: Location, *, compression: Compression = "none", mode: WriteMode = "append") -> None:
        check_mode(mode)
        import_h5py()
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError("expected a path to write episodes to, found a file object")
        if CodecPlan.of(compression).compresses:
            raise CodecError(f"compression: expected none for HDF5, found {compression!r}")
        self._where = os.fspath(location)
        self._draft: Draft | None = self._begin(self._where, mode)
        self._opened: Any = None
        self._wrote = False
        self._known: set[str] | None = None

    @abstractmethod
    def _begin(self, location: str, mode: WriteMode) -> Draft:
        """Return the draft of the file or folder."""

    @abstractmethod
    def _file_of(self, draft: Draft) -> Path:
        """Return the path of the HDF5 file in a draft."""

    @abstractmethod
    def _episodes(self, file: Any) -> Any:
        """Return the group that has the groups of episodes; refuses a file that is not of the format."""

    @abstractmethod
    def _name(self, ep: Episode, episodes: Any) -> str:
        """Return the name of an episode's group."""

    @abstractmethod
    def _fill(self, ep: Episode, group: Any, file: Any) -> None:
        """Write an episode into its empty group; raises EpisodeError for one that does not fit."""

    @abstractmethod
    def _finish(self, file: Any, draft: Draft) -> None:
        """Write what the format says of all episodes, and publish what is told by `is_own`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *exc: object) -> None:
        if kind is not None:
            self._wrote = False
        self.close()

    def has(self, id_: str) -> bool:
        """Say whether an episode of this id is there."""
        return id_ in self._ids()

    def write(self, ep: Episode) -> str:
        """Add one episode; returns its key. Raises EpisodeError for what the format cannot hold, and an id twice."""
        ep.validate()
        file = self._open()
        if self.has(ep.id):
            raise EpisodeError(f"{self._where}: expected no episode {ep.id!r} there yet")
        with translate_errors(self._where):
            episodes = self._episodes(file)
            name = self._name(ep, episodes)
            group = episodes.create_group(name)
        try:
            with _refuse_values(f"{self._where}: episode {ep.id!r}"):
                self._fill(ep, group, file)
                if ep.id != name:
                    group.attrs[WSHARD_ID] = ep.id
        except BaseException:
            del episodes[name]
            raise
        self._ids().add(ep.id)
        self._wrote = True
        return self._key(name)

    def close(self) -> None:
        """End the writing: what was written appears, or takes the place of what was there."""
        if self._draft is None:
            return
        draft, self._draft = self._draft, None
        file, self._opened = self._opened, None
        try:
            if file is None or not self._wrote:
                draft.discard()
            else:
                self._finish(file, draft)
        except BaseException:
            draft.discard()
            raise
        finally:
            if file is not None:
                file.close()

    def _key(self, name: str) -> str:
        """Return the key of the episode in a group."""
        return name

    def _open(self) -> Any:
        if self._draft is None:
            raise EpisodeError(f"{self._where}: expected no more episodes: the Sink is closed")
        if self._opened is None:
            path = self._file_of(self._draft)
            with translate_errors(self._where):
                self._opened = import_h5py().File(path, "a")
        return self._opened

    def _ids(self) -> set[str]:
        if self._known is None:
            with translate_errors(self._where):
                episodes = self._episodes(self._open())
                self._known = {str(_id_of(episodes, name)) for name in episodes}
        return self._known


def _id_of(episodes: Any, name: str) -> Any:
    link = episodes.get(name, getlink=True)
    return episodes[name].attrs.get(WSHARD_ID, name) if type(link).__name__ == "HardLink" else name


@contextlib.contextmanager
def _refuse_values(where: str) -> Iterator[None]:
    """Raise EpisodeError for what the library refuses to write; a full disk stays an OSError."""
    try:
        yield
    except EpisodeError:
        raise
    except (ValueError, TypeError, RuntimeError, KeyError) as error:
        raise EpisodeError(f"{where}: expected names and values that HDF5 can hold: {error}") from error


def put_array(group: Any, path: str, array: Array) -> None:
    """Write an array as the dataset at a path; raises EpisodeError for a path that is none."""
    if not all(part not in ("", ".") and "\0" not in part for part in path.split("/")):
        raise EpisodeError(f"{group.name}: expected a name of a lane with parts between '/', found {path!r}")
    group.create_dataset(path, data=array)


def plain_array(data: Array, dtype: DType) -> Array:
    """Return the values of a lane as HDF5 has them: bf16 as float32."""
    if dtype is not DType.BFLOAT16:
        return data
    bits = np.ascontiguousarray(data).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32)


def put_attributes(group: Any, values: Mapping[str, Any]) -> None:
    """Write metadata as attributes; what no attribute can hold is left out."""
    texts = import_h5py().string_dtype()
    for name, value in values.items():
        if can_hold(name, value):
            strings = np.asarray(value).dtype.kind == "U" and isinstance(value, list)
            group.attrs[name] = np.array(value, dtype=texts) if strings else value


def can_hold(name: str, value: Any) -> bool:
    """Say whether an attribute can hold a value of metadata, so that it is read again as it was."""
    if not name or "\0" in name or (isinstance(value, str) and "\0" in value):
        return False
    try:
        found = json_value(value)
    except ValueError:  # lists of different lengths
        return False
    return found is not NOT_JSON and bool(found == value) and value != []


def without_place(metadata: Mapping[str, Any], known: Iterable[str]) -> list[str]:
    """Return the sentence on metadata that attributes cannot hold, or none; known: what is stored otherwise."""
    lost = sorted(name for name, value in metadata.items() if name not in known and not can_hold(name, value))
    return [f"metadata: {', '.join(lost)}: no place for it"] if lost else []
