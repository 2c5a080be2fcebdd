"""World-model data sets in one HDF5 file: one dataset per column, and the episodes' rows in ep_len and ep_offset."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import FormatError, LimitError
from wshard.formats.hdf5.kinds import WORLD_MODEL, hdf5_kind
from wshard.formats.hdf5.nodes import expect_dataset, import_h5py, open_hdf5, translate_errors
from wshard.formats.hdf5.values import dataset_unit, read_attribute
from wshard.formats.world_model.columns import LENGTHS, OFFSETS, TEXT, StepColumn, split_rows
from wshard.formats.world_model.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook
    from wshard.formats.world_model.columns import RowSpan

BLOCK: Final = "wshard.block"
"""Attribute of a dataset: the block name of its lane."""

_MAX_EPISODES: Final = 1 << 22
_CHUNK_CACHE: Final = 1 << 24


class ColumnsHDF5Source(RowsSource):
    """Episodes are rows [ep_offset, ep_offset + ep_len) of every dataset in the root of an HDF5 file."""

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is an HDF5 file with ep_len and ep_offset in its root."""
        return hdf5_kind(location) == WORLD_MODEL

    def _scan(self) -> Mapping[str, RowSpan]:
        where = self.where_of("")
        with translate_errors(where):
            file = self._handle().file
            if LENGTHS not in file and OFFSETS not in file and len(file):
                raise FormatError(f"{where}: expected {LENGTHS} and {OFFSETS}, found {', '.join(list(file)[:20])}")
            bounds = []
            for name in (LENGTHS, OFFSETS):  # both are missing in a file without episodes
                dataset = self._dataset(name) if name in file else None
                if dataset is not None and dataset.size > _MAX_EPISODES:
                    raise LimitError(
                        f"{where}: {name}: expected at most {_MAX_EPISODES} episodes, found {dataset.size}"
                    )
                bounds.append(np.zeros(0, np.int64) if dataset is None else dataset[()])
            rows = {column.name: len(self._dataset(column.name)) for column in self._declared}
        return split_rows(bounds[0], bounds[1], rows, where)

    def _files(self, ref: RowSpan) -> Sequence[Place]:
        return [self._place]

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        return self._declared

    @cached_property
    def _declared(self) -> Sequence[StepColumn]:
        with translate_errors(self.where_of("")):
            return [self._declare(name) for name in self._handle().file if name not in (LENGTHS, OFFSETS)]

    def _declare(self, name: str) -> StepColumn:
        where = self.where_of("")
        dataset, at = expect_dataset(self._handle().file, name, where), f"{where}: column {name!r}"
        if dataset.ndim == 0:
            raise FormatError(f"{at}: expected rows, found one value")
        encoding = "" if import_h5py().check_string_dtype(dataset.dtype) is None else TEXT
        block, shape = str(read_attribute(dataset, BLOCK) or ""), tuple(dataset.shape[1:])
        return StepColumn(name, dataset.dtype, shape, encoding, block, dataset_unit(dataset))

    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        with translate_errors(self.where_of("")):
            dataset = self._dataset(column)
            if dataset.dtype.kind == "O":
                dataset = dataset.asstr()
            rows: Array = dataset[start:stop]
            return rows

    def _handle(self) -> OpenHDF5:
        return self.open_once("file", lambda: OpenHDF5(self._place))

    def _dataset(self, name: str) -> Any:
        handle = self._handle()
        if name not in handle.datasets:
            dataset = expect_dataset(handle.file, name, self.where_of(""))
            plain = dataset.dtype.kind != "O" and not dataset.id.get_create_plist().get_nfilters()
            handle.datasets[name] = handle.plain[name] if plain else dataset
        return handle.datasets[name]


class OpenHDF5:
    """An open file, and the datasets in use; `plain`: the file without checks, for numbers that are not compressed."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.file: Any = open_hdf5(place, rdcc_nbytes=_CHUNK_CACHE)
        self.datasets: dict[str, Any] = {}

    @cached_property
    def plain(self) -> Any:
        """The file, which the library reads itself if it is local: twice as quick."""
        return import_h5py().File(self._place.path_or_file(), "r", rdcc_nbytes=_CHUNK_CACHE)

    def close(self) -> None:
        """Close it."""
        self.datasets.clear()
        self.file.close()
        if "plain" in vars(self):
            self.plain.close()
