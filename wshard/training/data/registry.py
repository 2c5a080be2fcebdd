"""Formats of training data by name: views of the table of formats, and formats that users register."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from wshard.core.files.schemes import local_path, scheme_of
from wshard.core.keywords import check_options
from wshard.core.plugins import load_plugin
from wshard.errors import DatasetError, FormatWarning, UnsupportedFormatError
from wshard.formats.base import sink_class
from wshard.formats.detect import detect_format as detect_location
from wshard.formats.detect import match_format
from wshard.formats.open import open_location
from wshard.formats.table import FORMATS as TABLE
from wshard.formats.table import FormatEntry
from wshard.training.data.lerobot import SCHEME, LeRobotAdapter
from wshard.training.data.source_dataset import SourceDataset
from wshard.training.data.writers import EPISODE_DATA_KEY, SinkWriter, make_target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wshard.training.data.dataset import Dataset

    Place = str | os.PathLike[str]

_HDF5: Final = (".h5", ".hdf5")


@runtime_checkable
class Writer(Protocol):
    """Writes episodes {column: values of the timesteps}, inside `with`; convert needs no write_episodes."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...

    def write_episode(self, ep: Mapping[str, Any]) -> None:
        """Write one episode."""
        ...

    def write_episodes(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Write several episodes."""
        ...


class DatasetFormat:
    """A format: subclasses have a name, recognise their locations, and open readers and writers."""

    name = ""
    supports_episode_data = False

    @classmethod
    def detect(cls, path: Place) -> bool:
        """Return True if a location is in this format."""
        raise NotImplementedError(f"format {cls.name!r} does not support reading")

    @classmethod
    def open_reader(cls, path: Place, **kw: Any) -> Dataset:
        """Return the data set at a location; kw are options of its reader."""
        raise NotImplementedError(f"format {cls.name!r} does not support reading")

    @classmethod
    def open_writer(cls, path: Place, **kw: Any) -> Writer:
        """Return a writer; kw are its options."""
        raise NotImplementedError(f"format {cls.name!r} is read-only")


def register_format(cls: type[DatasetFormat]) -> type[DatasetFormat]:
    """Register a format; returns it, for use as a decorator. Raises DatasetError for an empty or existing name."""
    if not cls.name:
        raise DatasetError(f"{cls.__name__}: expected a non-empty name")
    if cls.name in FORMATS:
        raise DatasetError(f"format {cls.name!r} is already registered")
    FORMATS[cls.name] = cls
    return cls


def list_formats() -> list[str]:
    """Return the names of all formats: those of the original and registered ones, then the others of the table."""
    return [*FORMATS, *(name for name in TABLE if name not in FORMATS)]


def get_format(name: str) -> type[DatasetFormat]:
    """Return a format by its name; raises DatasetError with the available names."""
    if name in FORMATS:
        return FORMATS[name]
    if name in TABLE or (isinstance(name, str) and ":" in name):
        return _view(name)
    raise DatasetError(f"unknown format {name!r}; available: {list_formats()}")


def detect_format(path: Place) -> type[DatasetFormat] | None:
    """Return the format that detects a location as its own, registered ones first; None if there is none."""
    registered = (one for one in FORMATS.values() if not issubclass(one, _TableFormat))
    detected = next((one for one in registered if one.detect(path)), None)
    name = "" if detected else _detect_name(path)
    return get_format(name) if name in TABLE else detected


def _is_far(path: Place) -> bool:
    """Return whether a location is a URI of an object store; raises UnknownSchemeError."""
    return scheme_of(os.fspath(path)) not in ("", "file")


def _detect_name(path: Place) -> str:
    """Return the name of a format of the table: also for tables and files in a folder, and by names of new paths."""
    text = os.fspath(path)
    inside = os.listdir(path) if os.path.isdir(path) else []  # noqa: PTH112, PTH208  (a Path changes "//" of a URI)
    is_table = text.lower().endswith(".lance")
    if is_table or any(name.endswith(".lance") for name in inside):
        is_video = Path(f"{text[:-6]}_videos.lance").is_dir()
        return "lance_video" if is_video or any(name.endswith("_videos.lance") for name in inside) else "lance"
    if text.startswith(SCHEME):
        return "lerobot"
    by_suffix = "hdf5" if text.endswith(_HDF5) else ""
    if _is_far(path) or not Path(path).exists():
        return str(detect_location(path)) if _is_far(path) else by_suffix
    if by_suffix and Path(path).is_file():
        return match_format(path) or by_suffix  # of an empty file, too
    name = str(detect_location(path))
    files = [Path(path, name) for name in inside if name.endswith(_HDF5)]
    if not name and any(str(detect_location(file)) == "hdf5" for file in files):
        return "hdf5"
    return name or ("wshard" if any(name.endswith(".wshard") for name in inside) else "")


def episodes_for(
    format_: type[DatasetFormat], episodes: Iterable[dict[str, Any]], names: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Yield episodes to write in a format, without the per-episode values `names` if it cannot store such."""
    if format_.supports_episode_data or not names:
        yield from episodes
        return
    warn_of_episode_data(format_, names)
    for episode in episodes:
        yield {key: values for key, values in episode.items() if key != EPISODE_DATA_KEY}


def warn_of_episode_data(format_: type[DatasetFormat], names: Iterable[str]) -> None:
    """Warn that a format stores no per-episode values, if there are any."""
    if left_out := ", ".join(names):
        warnings.warn(f"format {format_.name!r} stores no episode data; left out: {left_out}", FormatWarning, 3)


class _TableFormat(DatasetFormat):
    """A format of the table, read by its Source and written by its Sink, or by classes with the original's names."""

    @classmethod
    def detect(cls, path: Place) -> bool:
        return _detect_name(path) == cls.name

    @classmethod
    def open_reader(cls, path: Place, **kw: Any) -> Dataset:
        if cls.name == "lerobot" and os.fspath(path).startswith(SCHEME):
            return LeRobotAdapter(os.fspath(path).removeprefix(SCHEME), **kw)
        entry = TABLE.get(cls.name, FormatEntry())
        if entry.reader and not _is_far(path):  # the original's classes take names and paths
            reader = load_plugin(entry.reader, cls.name, unknown=DatasetError)
            check_options(reader, kw, reader)
            opened: Dataset = reader(path=local_path(path), **kw)
            return opened
        check_options(SourceDataset, kw, SourceDataset)
        return SourceDataset([open_location(path, cls.name)], **kw)

    @classmethod
    def open_writer(cls, path: Place, **kw: Any) -> Writer:
        entry = TABLE.get(cls.name, FormatEntry(sink=cls.name))
        if entry.writer:
            writer = load_plugin(entry.writer, cls.name, unknown=DatasetError)
            check_options(writer, kw, writer)
            opened: Writer = writer(path, **kw)
            return opened
        if not entry.sink:
            raise UnsupportedFormatError(f"format {cls.name!r} is read-only")
        return SinkWriter(make_target(path, cls.name, **kw))


def _view(name: str) -> type[DatasetFormat]:
    """Return a format of the table as a class."""
    states = name in TABLE and bool(TABLE[name].writer) and sink_class(name).stores_statements
    return type("TableFormat", (_TableFormat,), {"name": name, "supports_episode_data": states})


FORMATS: Final = {name: _view(name) for name in ("lance", "folder", "lerobot", "hdf5", "video", "lance_video")}
"""The formats of the original, then those that were registered."""
