"""Write world-model data sets as one HDF5 file."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.formats.hdf5.nodes import import_h5py
from wshard.formats.hdf5.sink import LateErrorFile
from wshard.formats.world_model.columns import LENGTHS, OFFSETS, TEXT, StepColumn
from wshard.formats.world_model.hdf5 import BLOCK, ColumnsHDF5Source
from wshard.formats.world_model.rows_sink import RowsSink

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_CHUNK_SIZE: Final = 1 << 16
_ROW_SIZE: Final = 1 << 12  # a larger row has a chunk of its own, so that a clip reads no more than it needs
_EPISODES_AT_ONCE: Final = 1024


class ColumnsHDF5Sink(RowsSink):
    """A file with one dataset per column. Appending copies the file: the old one stays until the end."""

    notes_lanes_of = "all"
    copies_all = True
    stores_empty_rows = False

    in_folder = False

    def _has_episodes(self) -> bool:
        import_h5py()
        return self._target.exists()

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._file: Any = None
        self._disk: LateErrorFile | None = None
        self._datasets: dict[str, Any] = {}
        if continues:
            with ColumnsHDF5Source(draft) as source:
                self._columns = source.stored_columns() if source.keys() else None
        self._disk = LateErrorFile(draft, "r+" if continues else "x+")
        self._file = import_h5py().File(self._disk, "r+" if continues else "w", libver="latest")
        for name, dtype in ((LENGTHS, np.int32), (OFFSETS, np.int64)):
            if name not in self._file:
                self._create(name, np.dtype(dtype), (), _EPISODES_AT_ONCE)
        self._rows, self.count = int(self._file[LENGTHS][()].sum()), len(self._file[LENGTHS])

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return [""] for a file of columns."""
        return [""] if location.is_file() and ColumnsHDF5Source.matches(location) else []

    def _create(self, name: str, dtype: Any, shape: tuple[int, ...], rows: int) -> Any:
        chunks = (rows, *(max(size, 1) for size in shape))
        return self._file.create_dataset(name, (0, *shape), dtype, chunks=chunks, maxshape=(None, *shape))

    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        known = self._columns or {}
        for name, rows in columns.items():
            if name not in self._file:
                self._create_column(known[name])
            dataset = self._dataset(name)
            dataset.resize(self._rows + length, 0)  # drops rows of an interrupted writer
            dataset[self._rows :] = rows
        for name, value in ((LENGTHS, length), (OFFSETS, self._rows)):
            self._dataset(name).resize(self.count + 1, 0)
            self._dataset(name)[self.count] = value
        self._rows += length
        self._check_disk()

    def _dataset(self, name: str) -> Any:
        """Return a dataset, which stays open: the library reports no write errors when it closes one."""
        if name not in self._datasets:
            self._datasets[name] = self._file[name]
        return self._datasets[name]

    def _create_column(self, column: StepColumn) -> None:
        dtype = import_h5py().string_dtype() if column.encoding == TEXT else column.dtype
        size = 16 if column.encoding == TEXT else max(column.dtype.itemsize * int(np.prod(column.shape)), 1)
        dataset = self._create(column.name, dtype, column.shape, max(1, _CHUNK_SIZE // size) if size < _ROW_SIZE else 1)
        if column.block:
            dataset.attrs[BLOCK] = column.block

    def _check_disk(self) -> None:
        if self._disk is not None:
            self._disk.check()

    def _finish(self, draft: Path) -> None:
        self._datasets.clear()
        self._file.close()
        self._check_disk()

    def _release(self) -> None:
        self._datasets.clear()
        if self._file is not None:
            with contextlib.suppress(OSError, RuntimeError, ValueError):  # what it reads is not what it wrote
                self._file.close()
        if self._disk is not None:
            self._disk.close()
