"""World-model data sets in one HDF5 file: a dataset a column, and where the episodes are in ep_len and ep_offset."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LimitError
from wshard.formats.look import LocationLook
from wshard.formats.world_model.columns import TEXT, StepColumn, split_rows
from wshard.formats.world_model.rows_source import RowsSource
from wshard.plugins import import_library

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.formats.world_model.columns import RowSpan
    from wshard.types import Array

LENGTHS: Final = "ep_len"
OFFSETS: Final = "ep_offset"
BLOCK: Final = "wshard.block"
"""Attribute of a dataset: the block name of its lane."""

_SIGNATURE: Final = b"\x89HDF\r\n\x1a\n"
_MOST_CHUNK_SIZE: Final = 1 << 30
_MOST_EPISODES: Final = 1 << 27


class ColumnsHDF5Source(RowsSource):
    """Episodes are rows [ep_offset, ep_offset + ep_len) of every dataset in the root of an HDF5 file."""

    @staticmethod
    def matches(location: str | os.PathLike[str]) -> bool:
        """Say whether a path is an HDF5 file with ep_len and ep_offset in its root."""
        look = location if isinstance(location, LocationLook) else LocationLook(location)
        if not look.head.startswith(_SIGNATURE):
            return False
        with _h5py().File(look.path, "r") as file:
            return LENGTHS in file and OFFSETS in file

    def _scan(self) -> Mapping[str, RowSpan]:
        where = self.where_of("")
        with self._translate():
            file = self._file()
            if LENGTHS not in file and OFFSETS not in file and len(file):
                raise FormatError(f"{where}: expected {LENGTHS} and {OFFSETS}, found {', '.join(list(file)[:20])}")
            bounds = []
            for name in (LENGTHS, OFFSETS):  # neither of them: a file to which no episode was written
                dataset = self._dataset(name) if name in file else None
                if dataset is not None and dataset.size > _MOST_EPISODES:
                    raise LimitError(
                        f"{where}: {name}: expected at most {_MOST_EPISODES} episodes, found {dataset.size}"
                    )
                bounds.append(np.zeros(0, np.int64) if dataset is None else dataset[()])
        return split_rows(bounds[0], bounds[1], where)

    def _files(self, found: RowSpan) -> Sequence[str]:
        return [self._path]

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        cache = self._cache("columns")
        if not cache:
            with self._translate():
                names = [name for name in self._file() if name not in (LENGTHS, OFFSETS)]
                cache["all"] = [self._declare(name) for name in names]
        columns: Sequence[StepColumn] = cache["all"]
        return columns

    def _declare(self, name: str) -> StepColumn:
        dataset, at = self._dataset(name), f"{self.where_of('')}: column {name!r}"
        needed = max((rows.stop for rows in self._episodes.values()), default=0)
        if dataset.ndim == 0 or len(dataset) < needed:
            raise FormatError(f"{at}: expected {needed} rows, found {list(dataset.shape)}")
        is_text = _is_text(dataset)
        block = dataset.attrs.get(BLOCK, "")
        return StepColumn(name, dataset.dtype, tuple(dataset.shape[1:]), TEXT if is_text else "", str(block))

    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        with self._translate():
            dataset = self._dataset(column)
            if dataset.dtype.kind == "O":
                dataset = dataset.asstr()
            rows: Array = dataset[start:stop]
            return rows

    def _file(self) -> Any:
        return self._handle().file

    def _handle(self) -> OpenHDF5:
        return self.open_once(self._path, lambda: OpenHDF5(self._path))

    def _dataset(self, name: str) -> Any:
        datasets = self._handle().datasets
        if name not in datasets:
            datasets[name] = self._check_dataset(name)
        return datasets[name]

    def _check_dataset(self, name: str) -> Any:
        """Return a dataset whose data are in this file, by reading it in parts of bounded size."""
        h5py = _h5py()
        file, at = self._file(), f"{self.where_of('')}: {name!r}"
        link = file.get(name, getlink=True)
        dataset = file[name] if isinstance(link, h5py.HardLink) else None
        if not isinstance(dataset, h5py.Dataset):
            found = type(link if dataset is None else dataset).__name__
            raise FormatError(f"{at}: expected a dataset in this file, found {found}")
        if dataset.is_virtual or dataset.external:
            raise FormatError(f"{at}: expected a dataset in this file, found one with external data")
        size = dataset.dtype.itemsize
        for axis in dataset.chunks or ():
            size *= axis
        if size > _MOST_CHUNK_SIZE:
            raise LimitError(f"{at}: expected chunks of at most {_MOST_CHUNK_SIZE} bytes, found {size}")
        return dataset

    @contextlib.contextmanager
    def _translate(self) -> Iterator[None]:
        try:
            yield
        except (FormatError, ImportError, FileNotFoundError):
            raise
        except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
            raise FormatError(f"{self.where_of('')}: expected an HDF5 file that can be read: {error}") from error


class OpenHDF5:
    """An open file, and its datasets that are in use."""

    def __init__(self, path: str) -> None:
        self.file: Any = _h5py().File(path, "r", rdcc_nbytes=1 << 24)
        self.datasets: dict[str, Any] = {}

    def close(self) -> None:
        """Close it."""
        self.datasets.clear()
        self.file.close()


def _is_text(dataset: Any) -> bool:
    return _h5py().check_string_dtype(dataset.dtype) is not None


def _h5py() -> Any:
    return import_library("h5py", "hdf5")
