"""Formats of training data by name: how they are recognised, read and written."""

from __future__ import annotations

import os
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from wshard.data.lerobot import SCHEME, LeRobotAdapter
from wshard.data.readers import FolderDataset, HDF5Dataset, LanceDataset, LanceVideoDataset, VideoDataset
from wshard.data.source_dataset import SourceDataset
from wshard.data.writers import (
    EPISODE_DATA_KEY,
    FolderWriter,
    HDF5Writer,
    LanceVideoWriter,
    LanceWriter,
    SinkWriter,
    VideoWriter,
    with_parent,
)
from wshard.errors import DatasetError, FormatWarning, UnsupportedFormatError
from wshard.formats import base
from wshard.formats.detect import detect_format as detect_location
from wshard.formats.table import FORMATS as LOCATIONS
from wshard.open import local_path, open_location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wshard.data.dataset import Dataset

    Place = str | os.PathLike[str]


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


FORMATS: Final[dict[str, type[DatasetFormat]]] = {}
"""The registered formats, in the order in which detection tries them."""


def register_format(cls: type[DatasetFormat]) -> type[DatasetFormat]:
    """Register a format; returns it, for use as a decorator. Raises DatasetError for an empty or existing name."""
    if not cls.name:
        raise DatasetError(f"{cls.__name__}: expected a non-empty name")
    if cls.name in FORMATS:
        raise DatasetError(f"format {cls.name!r} is already registered")
    FORMATS[cls.name] = cls
    return cls


def list_formats() -> list[str]:
    """Return the names of all formats: registered ones, then those that `wshard formats` lists."""
    return [*FORMATS, *(name for name in LOCATIONS if name not in FORMATS)]


def get_format(name: str) -> type[DatasetFormat]:
    """Return a format by its name; raises DatasetError with the available names."""
    if name in FORMATS:
        return FORMATS[name]
    if name in LOCATIONS or (isinstance(name, str) and ":" in name):
        return type("LocationFormat", (_LocationFormat,), {"name": name})
    raise DatasetError(f"unknown format {name!r}; available: {list_formats()}")


def detect_format(path: Place) -> type[DatasetFormat] | None:
    """Return the first format that detects a location as its own; None if there is none."""
    detected = next((registered for registered in FORMATS.values() if registered.detect(path)), None)
    if detected is not None or "://" in os.fspath(path) or not Path(path).exists():
        return detected
    name = str(detect_location(path))
    if not name and Path(path).is_dir():
        name = "wshard" if any(Path(path).glob("*.wshard")) else ""
    return get_format(name) if name in LOCATIONS else None


def episodes_for(
    format_: type[DatasetFormat], episodes: Iterable[dict[str, Any]], names: Iterable[str]
) -> Iterator[dict[str, Any]]:
    """Yield episodes to write in a format, without the per-episode values `names` if it cannot store such.

    A FormatWarning names what is left out.
    """
    if format_.supports_episode_data or not names:
        yield from episodes
        return
    left_out = ", ".join(names)
    warnings.warn(f"format {format_.name!r} stores no episode data; left out: {left_out}", FormatWarning, 2)
    for episode in episodes:
        yield {key: values for key, values in episode.items() if key != EPISODE_DATA_KEY}


class _LocationFormat(DatasetFormat):
    """A format of this project, read by its Source and written by its Sink, or by classes with the original's names."""

    reader: Callable[..., Dataset] | None = None
    writer: Callable[..., Writer] | None = None

    @classmethod
    def detect(cls, path: Place) -> bool:
        return str(detect_location(path)) == cls.name

    @classmethod
    def open_reader(cls, path: Place, **kw: Any) -> Dataset:
        location = local_path(path)
        return (
            cls.reader(path=location, **kw) if cls.reader else SourceDataset([open_location(location, cls.name)], **kw)
        )

    @classmethod
    def open_writer(cls, path: Place, **kw: Any) -> Writer:
        if cls.writer:
            return cls.writer(path, **kw)
        if cls.name in LOCATIONS and not LOCATIONS[cls.name].sink:
            raise UnsupportedFormatError(f"format {cls.name!r} is read-only")
        return SinkWriter(partial(base.open_sink, with_parent(path, kw.get("mode", "append")), cls.name, **kw))


@register_format
class LanceFormat(_LocationFormat):
    """Lance tables."""

    name, reader, writer = "lance", LanceDataset, LanceWriter
    supports_episode_data = True

    @classmethod
    def detect(cls, path: Place) -> bool:
        """Return True if a name ends in .lance, or a folder has such tables, without a table of videos."""
        text = os.fspath(path)
        if text.lower().endswith(".lance"):
            return not LanceVideoFormat.detect(path)
        names = _names_in(path)
        return any(name.endswith(".lance") for name in names) and not LanceVideoFormat.detect(path)


@register_format
class FolderFormat(_LocationFormat):
    """Folders of .npz columns and JPEG frames."""

    name, reader, writer = "folder", FolderDataset, FolderWriter


@register_format
class LeRobotFormat(_LocationFormat):
    """LeRobot repositories `lerobot://USER/NAME`, and folders."""

    name = "lerobot"

    @classmethod
    def detect(cls, path: Place) -> bool:
        """Return True if a text starts with lerobot://."""
        return isinstance(path, str) and path.startswith(SCHEME)

    @classmethod
    def open_reader(cls, path: Place, **kw: Any) -> Dataset:
        """Return a LeRobotAdapter of a repository; of a folder, its columns by their own names."""
        if not cls.detect(path):
            return super().open_reader(path, **kw)
        return LeRobotAdapter(os.fspath(path).removeprefix(SCHEME), **kw)


@register_format
class HDF5Format(_LocationFormat):
    """HDF5 files of columns."""

    name, reader, writer = "hdf5", HDF5Dataset, HDF5Writer

    @classmethod
    def detect(cls, path: Place) -> bool:
        """Return True if a name ends in .h5 or .hdf5, or a folder has such a file, unless it is in another format."""
        files = [Path(path, name) for name in _names_in(path)] if Path(path).is_dir() else [Path(path)]
        files = [file for file in files if file.name.endswith((".h5", ".hdf5"))]
        return any(not file.exists() or str(detect_location(file)) == cls.name for file in files)


@register_format
class VideoFormat(_LocationFormat):
    """Folders of .npz columns and one MP4 per episode."""

    name, reader, writer = "video", VideoDataset, VideoWriter


@register_format
class LanceVideoFormat(_LocationFormat):
    """Lance tables with a table of videos beside them."""

    name, reader, writer = "lance_video", LanceVideoDataset, LanceVideoWriter
    supports_episode_data = True

    @classmethod
    def detect(cls, path: Place) -> bool:
        """Return True if a folder has tables of videos, or a table has one beside it."""
        text = os.fspath(path)
        if text.lower().endswith(".lance"):
            return Path(f"{text[:-6]}_videos.lance").is_dir()
        return any(name.endswith("_videos.lance") for name in _names_in(path))


def _names_in(path: Place) -> list[str]:
    return [entry.name for entry in Path(path).iterdir()] if Path(path).is_dir() else []
