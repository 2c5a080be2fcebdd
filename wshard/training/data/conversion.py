"""Write data sets in another format, and several as one."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.core.episode.protocol import EpisodeAddress, EpisodeSpan, Fingerprint
from wshard.core.messages import shown
from wshard.errors import DatasetError, FormatWarning, WShardError
from wshard.formats.table import FORMATS, FormatEntry
from wshard.training.conversion.jobs import ConversionJob
from wshard.training.conversion.run import Conversion
from wshard.training.data.dataset import Dataset
from wshard.training.data.load import load_dataset
from wshard.training.data.registry import get_format, warn_of_episode_data
from wshard.training.data.replay import ReplayBuffer
from wshard.training.data.source_dataset import SourceDataset
from wshard.training.data.writers import EPISODE_DATA_KEY, SinkWriter, make_episode

if TYPE_CHECKING:
    from wshard.core.types import Episode
    from wshard.training.conversion.target import ConversionTarget
    from wshard.training.data.registry import DatasetFormat

    Place = str | os.PathLike[str]

_EPISODE_DATA_TYPES: Final = (str, bytes, bool, int, float)
_WRITER_OPTIONS: Final = frozenset(("mode", "table_name", "jpeg_quality", "fps", "codec", "compression"))


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
    reader_options = {name: value for name, value in kwargs.items() if name not in _WRITER_OPTIONS}
    data = source if isinstance(source, Dataset) else load_dataset(source, cache_dir, source_format, **reader_options)
    writer_options = {name: value for name, value in kwargs.items() if name in _WRITER_OPTIONS}
    destination = _choose_destination(dest, dest_format, [source], writer_options)
    return _write([data], destination, dest_format, writer_options, f"Converting → {dest_format}" if progress else "")


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

    kwargs: as for convert. Raises DatasetError for one source, or one whose columns differ from those of the first;
    also where their episode data differ, if the format stores those.
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence) or len(sources) < 2:
        raise DatasetError(f"merge: expected at least two sources, found {shown(sources)}")
    reader_options = {name: value for name, value in kwargs.items() if name not in _WRITER_OPTIONS}
    formats = source_formats or [None] * len(sources)
    if len(formats) != len(sources):
        raise DatasetError(f"source_formats: expected one for each of {len(sources)} sources, found {shown(formats)}")
    loaded = [
        source if isinstance(source, Dataset) else load_dataset(source, cache_dir, name, **reader_options)
        for source, name in zip(sources, formats, strict=True)
    ]
    _check_names(sources, [data.column_names for data in loaded], "columns")
    if get_format(dest_format).supports_episode_data:
        _check_names(sources, [_list_statements([data]) for data in loaded], "columns of episode data")
    writer_options = {name: value for name, value in kwargs.items() if name in _WRITER_OPTIONS} | {"mode": mode}
    destination = _choose_destination(dest, dest_format, sources, writer_options)
    return _write(loaded, destination, dest_format, writer_options, "Merging" if progress else "")


def _check_names(sources: Sequence[Place | Dataset], names: Sequence[list[str]], what: str) -> None:
    """Raise DatasetError for the first source that has other names than the first one."""
    for source, found in zip(sources, names, strict=True):
        missing, unexpected = sorted(set(names[0]) - set(found)), sorted(set(found) - set(names[0]))
        if missing or unexpected:
            name = source if isinstance(source, (str, os.PathLike)) else type(source).__name__
            raise DatasetError(f"merge: {name}: missing {what}: {missing}; unexpected {what}: {unexpected}")


def _choose_destination(
    dest: Place, format_name: str, sources: Sequence[Place | Dataset], options: dict[str, Any]
) -> Path:
    """Return the destination with its suffix; raises DatasetError if it is also a source."""
    destination = _with_suffix(Path(dest), get_format(format_name), "table_name" in options)
    paths = [Path(source) for source in sources if isinstance(source, (str, os.PathLike))]
    if destination.exists() and any(path.exists() and destination.samefile(path) for path in paths):
        raise DatasetError(f"{destination}: expected a destination that is not the source")
    return destination


def _write(data: Sequence[Dataset], destination: Path, format_name: str, options: dict[str, Any], title: str) -> Path:
    format_ = get_format(format_name)
    writer = format_.open_writer(destination, **options)
    episode_data = _common_episode_data(data) if format_.supports_episode_data else []
    if not format_.supports_episode_data:
        warn_of_episode_data(format_, _list_statements(data))
    places = [(dataset, number) for dataset in data for number in range(len(dataset.lengths))]
    if isinstance(writer, SinkWriter) and type(writer).write_episode is SinkWriter.write_episode:
        with _DatasetConversion(writer.target, places, episode_data) as conversion:
            for done, (_, outcome) in enumerate(conversion.run(), 1):
                if isinstance(outcome, WShardError):
                    raise outcome
                _show(title, done, len(places))
        return destination
    with writer:
        for done, (dataset, number) in enumerate(places, 1):
            stated = {EPISODE_DATA_KEY: episode_data[done - 1]} if episode_data else {}
            writer.write_episode(dict(dataset.read_episode(number, encoded=True)) | stated)
            _show(title, done, len(places))
    return destination


def _show(title: str, done: int, total: int) -> None:
    if title and sys.stderr.isatty():
        sys.stderr.write(f"\r{title} {done}/{total}" + "\n" * (done == total))


class _DatasetConversion(Conversion):
    """A conversion of the episodes of data sets, which are numbered; episode_data: what is stated once for each."""

    def __init__(
        self, target: ConversionTarget, places: Sequence[tuple[Dataset, int]], episode_data: Sequence[dict[str, Any]]
    ) -> None:
        self._places, self._episode_data = places, episode_data
        names = {dataset: f"{dataset.where} {dataset.column_names}" for dataset in dict(places)}
        addresses = [EpisodeAddress(names[dataset], str(number)) for number, (dataset, _) in enumerate(places)]
        jobs = [ConversionJob(EpisodeSpan(address)) for address in addresses]
        super().__init__(target, jobs, in_parts=not episode_data)  # a table of those may be beside the target

    def _place(self, job: ConversionJob) -> tuple[Dataset, int]:
        return self._places[int(job.span.address.key)]

    def _fingerprint(self, job: ConversionJob) -> Fingerprint:
        dataset, number = self._place(job)
        if isinstance(dataset, SourceDataset):
            return dataset.episodes.fingerprint(number)
        return Fingerprint(0, time.time_ns())  # unlike that of any other run, as its data may be

    def _id_of(self, job: ConversionJob) -> str:
        return f"episode_{job.span.address.key}"

    def _choose_id(self, job: ConversionJob) -> str:
        return self._id_of(job)  # the Sink refuses one that it has

    def _read_episode(self, job: ConversionJob) -> Episode:
        dataset, number = self._place(job)
        return make_episode(dataset.read_episode(number, encoded=True), self._id_of(job))

    def _store(self, episode: Episode, job: ConversionJob) -> None:
        number = int(job.span.address.key)
        self._sink.write_stated(episode, self._episode_data[number] if self._episode_data else {})


def _list_statements(data: Sequence[Dataset]) -> list[str]:
    """Return the names of what tables of episodes state, and replay buffers."""
    names = dict[str, None]()
    for dataset in data:
        if isinstance(dataset, SourceDataset):
            for number in range(len(dataset.episodes)):
                names |= dict.fromkeys(dataset.episodes.statements(number) or ())
        elif isinstance(dataset, ReplayBuffer):
            names |= dict.fromkeys(dataset.episode_column_names)
    return list(names)


def _common_episode_data(data: Sequence[Dataset]) -> list[dict[str, Any]]:
    """Return the per-episode values of each episode that all have, with values of one type per name."""
    statements: list[dict[str, Any]] = []
    for dataset in data:
        by_name = dataset.get_episode_data()
        statements += [
            {name: values[number] for name, values in by_name.items()} for number in range(len(dataset.lengths))
        ]
    names = [
        name
        for name in (statements[0] if statements else ())
        if type(statements[0][name]) in _EPISODE_DATA_TYPES
        and {type(row.get(name)) for row in statements} == {type(statements[0][name])}
    ]
    if others := sorted({name for row in statements for name in row} - {*names}):
        reason = "expected a text, bytes, a bool or a number of one type for every episode"
        warnings.warn(f"episode data left out: {', '.join(others)}: {reason}", FormatWarning, 4)
    return [{name: row[name] for name in names} for row in statements]


def _with_suffix(dest: Path, format_: type[DatasetFormat], has_table_name: bool) -> Path:  # noqa: FBT001  (private)
    entry = FORMATS.get(format_.name, FormatEntry())
    suffix = entry.suffix if entry.writer else ""
    is_complete = dest.suffix.lower() in (suffix, ".hdf5") if suffix else True
    return dest if is_complete or has_table_name else dest.with_name(f"{dest.name}{suffix}")
