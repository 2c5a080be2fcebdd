"""Write data sets in another format, and several as one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.data.dataset import Dataset
from wshard.data.load import load_dataset
from wshard.data.registry import get_format
from wshard.data.writers import EPISODE_DATA_KEY
from wshard.errors import DatasetError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.data.registry import DatasetFormat

    Place = str | os.PathLike[str]

_SUFFIXES: Final = {"lance": ".lance", "hdf5": ".h5"}
_STATED: Final = (str, bytes, bool, int, float)
_WRITER: Final = frozenset(("mode", "table_name", "jpeg_quality", "fps", "codec", "compression"))


def convert(
    source: Place | Dataset,
    dest: Place,
    *,
    source_format: str | None = None,
    dest_format: str = "lance",
    cache_dir: Place | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Path:
    """Write all episodes of a data set in another format; returns the destination.

    source: a name, or any Dataset. kwargs: options of the writer (mode, jpeg_quality, fps, codec, table_name), all
    others of the reader (keys_to_load, primary_camera_key, ...). Values do not change, except for frames that
    dest_format encodes. dest gets the suffix of the format if it has none. Raises the errors of load_dataset and of the
    writer, DatasetError where dest is the source.
    """
    options = {name: value for name, value in kwargs.items() if name not in _WRITER}
    data = source if isinstance(source, Dataset) else load_dataset(source, cache_dir, source_format, **options)
    writing = {name: value for name, value in kwargs.items() if name in _WRITER}
    place = _choose_place(dest, dest_format, [source], writing)
    return _write([data], place, dest_format, writing, f"Converting → {dest_format}" if progress else "")


def merge(  # noqa: PLR0913  (as above)
    sources: Sequence[Place | Dataset],
    dest: Place,
    *,
    dest_format: str = "lance",
    source_formats: Sequence[str | None] | None = None,
    mode: str = "error",
    cache_dir: Place | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> Path:
    """Write the episodes of two or more data sets with equal columns as one, in order; returns the destination.

    kwargs: as for convert. Raises DatasetError for one source, or one whose columns differ from those of the first.
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence) or len(sources) < 2:
        raise DatasetError(f"merge: expected at least two sources, found {shown(sources)}")
    options = {name: value for name, value in kwargs.items() if name not in _WRITER}
    formats = source_formats or [None] * len(sources)
    if len(formats) != len(sources):
        raise DatasetError(f"source_formats: expected one for each of {len(sources)} sources, found {shown(formats)}")
    loaded = [
        source if isinstance(source, Dataset) else load_dataset(source, cache_dir, name, **options)
        for source, name in zip(sources, formats, strict=True)
    ]
    for source, data in zip(sources, loaded, strict=True):
        missing = sorted(set(loaded[0].column_names) - set(data.column_names))
        unexpected = sorted(set(data.column_names) - set(loaded[0].column_names))
        if missing or unexpected:
            name = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
            raise DatasetError(f"merge: {name}: missing columns: {missing}; unexpected columns: {unexpected}")
    writing = {name: value for name, value in kwargs.items() if name in _WRITER} | {"mode": mode}
    place = _choose_place(dest, dest_format, sources, writing)
    return _write(loaded, place, dest_format, writing, "Merging" if progress else "")


def _choose_place(dest: Place, format_name: str, sources: Sequence[Place | Dataset], options: dict[str, Any]) -> Path:
    """Return the destination with its suffix; raises DatasetError where it is a source, which would be doubled."""
    place = _with_suffix(Path(dest), get_format(format_name), "table_name" in options)
    paths = [Path(source) for source in sources if isinstance(source, (str, os.PathLike))]
    if place.exists() and any(path.exists() and place.samefile(path) for path in paths):
        raise DatasetError(f"{place}: expected a destination that is not the source")
    return place


def _write(data: Sequence[Dataset], place: Path, format_name: str, options: dict[str, Any], title: str) -> Path:
    kind = get_format(format_name)
    with kind.open_writer(place, **options) as writer:
        writer.write_episodes(_read(data, title, _stated_by_all(data) if kind.supports_episode_data else ()))
    return place


def _stated_by_all(data: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return for each episode what all of them state, by the same names and in values of one type."""
    each: list[dict[str, Any]] = []
    for one in data:
        stated = one.get_episode_data()
        each += [{name: values[number] for name, values in stated.items()} for number in range(len(one.lengths))]
    names = [
        name
        for name in (each[0] if each else ())
        if type(each[0][name]) in _STATED and {type(row.get(name)) for row in each} == {type(each[0][name])}
    ]
    return [{name: row[name] for name in names} for row in each]


def _with_suffix(dest: Path, kind: type[DatasetFormat], named: bool) -> Path:  # noqa: FBT001  (private)
    suffix = _SUFFIXES.get(kind.name, "")
    known = dest.suffix.lower() in (suffix, ".hdf5") if suffix else True
    return dest if known or named else dest.with_name(f"{dest.name}{suffix}")


def _read(data: Sequence[Dataset], title: str, stated: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    total, done = sum(len(one.lengths) for one in data), 0
    for one in data:
        for episode in range(len(one.lengths)):
            if title and sys.stderr.isatty():
                sys.stderr.write(f"\r{title} {done + 1}/{total}" + "\n" * (done + 1 == total))
            columns = one.read_episode(episode, encoded=True)
            yield columns | ({EPISODE_DATA_KEY: stated[done]} if stated else {})
            done += 1
