"""Open training data by name: a path, a data set of a cache, or a repository of the Hugging Face Hub."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wshard.core.files.schemes import place_of
from wshard.core.messages import shown
from wshard.errors import DatasetError, FormatWarning, NoClipsWarning, SourceNotFoundError
from wshard.formats.detect import list_inside
from wshard.training.data.cache import dataset_folder, download_repository, find_repository, may_be_repository
from wshard.training.data.dataset import explain_no_clips
from wshard.training.data.derived.compose import ConcatDataset
from wshard.training.data.readers import find_h5, find_table
from wshard.training.data.registry import detect_format, get_format
from wshard.training.data.source_dataset import SourceDataset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.training.data.dataset import Dataset

    Name = str | os.PathLike[str]

_SAME_RATE = 1.05  # times another rate; those of times that were measured differ a little
_SUFFIXES = ("", ".lance", ".h5", ".hdf5")


def load_dataset(
    name: Name | Sequence[Name],
    cache_dir: str | os.PathLike[str] | None = None,
    format: str | None = None,  # noqa: A002  (the original's name)
    **kwargs: Any,
) -> Dataset:
    """Return the data set with a name; kwargs are options of its reader (frameskip, num_steps, keys_to_load, ...).

    A path is looked up in the working directory, then in the folder of data sets in the cache, where suffixes may be
    omitted; then USER/NAME is looked up in the local caches of the Hugging Face Hub, and downloaded if it is in none.
    `lerobot://USER/NAME` is such a LeRobot data set. Several names form one data set, whose columns must agree. format:
    a name of list_formats. Raises SourceNotFoundError, DatasetError; a NoClipsWarning says why a data set has no clips,
    a FormatWarning that its episodes have several rates.
    """
    data = _load(name, cache_dir, format, kwargs)
    if reason := explain_no_clips(data):
        warnings.warn(f"{name}: {reason}", NoClipsWarning, 2)
    if reason := explain_rates(*(data.datasets if isinstance(data, ConcatDataset) else [data])):
        warnings.warn(f"{name}: {reason}", FormatWarning, 2)
    return data


def explain_rates(*datasets: Dataset) -> str:
    """Return which rates the episodes of data sets have, "" if they are the same, or known of one location only."""
    rates = {rate for data in datasets if isinstance(data, SourceDataset) for rate in data.episodes.rates}
    if not rates or max(rates) <= _SAME_RATE * min(rates):
        return ""
    return (
        f"episodes of {len(rates)} rates, from {min(rates):g} to {max(rates):g} Hz: clips of equally many timesteps "
        "take different times; load one rate at a time, in an archive by the filter lane.signal/NAME.rate:HZ"
    )


def _load(name: Name | Sequence[Name], cache_dir: Any, format_name: str | None, options: dict[str, Any]) -> Dataset:
    if not isinstance(name, (str, os.PathLike, Iterable)) or isinstance(name, bytes):
        raise DatasetError(f"name: expected the name of a data set, or several, found {shown(name)}")
    if not isinstance(name, (str, os.PathLike)):
        parts = [_load(part_name, cache_dir, format_name, options) for part_name in name]
        source_datasets = [part for part in parts if isinstance(part, SourceDataset)]
        return ConcatDataset(source_datasets if len(source_datasets) == len(parts) else parts)
    location: Name = name if "://" in os.fspath(name) else find_dataset(name, cache_dir)
    dataset_format = detect_format(location) if format_name is None else get_format(format_name)
    if dataset_format is None:
        raise DatasetError(f"No format detected for {os.fspath(location)}: {_advise(location)}")
    return dataset_format.open_reader(location, **options)


def _advise(location: Name) -> str:
    """Return advice on what to load instead of a location that is not a data set."""
    place = place_of(location)
    inside = list_inside(place, lambda child: one.name if (one := detect_format(child.uri)) else "")
    if inside:
        return f"it has the data sets {inside}: load one, or several as a list"
    if place.is_dir() and any(file.suffix == ".wshard" for file in place.walk()):
        return "format='wshard' reads all episode files below it"
    return "name one of list_formats()"


def find_dataset(name: Name, cache_dir: Name | None = None) -> Path:
    """Return the path of a data set by its name, as load_dataset does; raises SourceNotFoundError."""
    text = os.fspath(name)
    if not text:
        raise SourceNotFoundError("expected the name of a data set, found an empty text")
    given_path = Path(text).expanduser()
    for base in (given_path, dataset_folder(cache_dir) / text):
        for suffix in _SUFFIXES:
            path = Path(f"{base}{suffix}")
            if path.exists():
                return path
    repository = find_repository(text, cache_dir) if text[:1] not in "./~" else None
    reason = "it is not USER/NAME of the Hugging Face Hub"
    if repository is None and may_be_repository(text):
        try:
            repository = download_repository(text, cache_dir)
        except SourceNotFoundError as error:
            reason = str(error)
    if repository is not None:
        tables, h5_files = sorted(repository.glob("*.lance")), sorted(repository.glob("*.h5"))
        return find_table(repository) if tables else find_h5(repository) if h5_files else repository
    raise SourceNotFoundError(
        f"Cannot resolve {text!r}: no such path in the working directory or in {dataset_folder(cache_dir)}, "
        f"no repository of this name in the local caches, and {reason}"
    )
