"""Write world-model data sets as a Lance table; all that is written appears at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import EpisodeError, FormatError
from wshard.formats.draft import Draft
from wshard.formats.world_model.columns import TEXT, StepColumn
from wshard.formats.world_model.lance import BLOCK, EPISODE, SHAPE, STEP, LanceSource
from wshard.formats.world_model.rows_sink import RowsSink, image_bytes
from wshard.plugins import import_library

if TYPE_CHECKING:
    from collections.abc import Mapping

_BUFFER_SIZE: Final = 1 << 26


class LanceSink(RowsSink):
    """A table with a row a timestep. A new table is made beside its place; appended rows are one version of it."""

    frame_encoding = "jpeg"
    reserved = (EPISODE, STEP)
    separator = "_"
    quality: int = 95

    def _open(self) -> tuple[dict[str, StepColumn] | None, int]:
        import_library("lance", "lance")
        target, known, self._next = Path(self.path), None, 0
        if target.suffix.lower() != ".lance":
            raise FormatError(f"{self.path}: expected a table whose name ends in .lance")
        self._draft: Draft | None = None
        mode = self.mode
        if target.exists() and mode == "append":
            with LanceSource(target) as source:
                known, keys = source.stored_columns() or None, source.keys()
            self._next = int(keys[-1]) + 1 if keys else 0
            mode = "append" if keys else "overwrite"
        if known is None:
            self._draft = Draft(target, mode, folder=True)
        self._table = str(target if self._draft is None else self._draft.path)
        self._batches: list[Any] = []
        self._fragments: list[Any] = []
        return known, self._next

    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        self._batches.append(self._make_batch(columns, length))
        if sum(batch.nbytes for batch in self._batches) >= _BUFFER_SIZE:
            self._flush()

    def _make_batch(self, columns: Mapping[str, Any], length: int) -> Any:
        pa = import_library("pyarrow", "lance")
        index = {EPISODE: np.full(length, self.count, np.int32), STEP: np.arange(length, dtype=np.int32)}
        fields = [pa.field(name, pa.int32()) for name in index]
        arrays = [pa.array(array) for array in index.values()]
        for name, rows in columns.items():
            array, about = self._make_column((self._columns or {})[name], rows)
            fields.append(pa.field(name, array.type, metadata=about))
            arrays.append(array)
        return pa.table(arrays, schema=pa.schema(fields))

    def _make_column(self, column: StepColumn, rows: Any) -> tuple[Any, dict[bytes, bytes]]:
        pa = import_library("pyarrow", "lance")
        about = {BLOCK: column.block.encode()} if column.block else {}
        if column.encoding == TEXT:
            return pa.array(rows, pa.string()), about
        if column.encoding:
            return pa.array(image_bytes(rows, self.quality), pa.binary()), about
        if rows.dtype.kind == "V":
            raise EpisodeError(f"{self.path}: column {column.name!r}: a Lance table cannot hold {rows.dtype}")
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        width = int(np.prod(column.shape))
        about |= {SHAPE: json.dumps(column.shape).encode()}
        return pa.FixedSizeListArray.from_arrays(flat, width), about

    def _flush(self) -> None:
        if self._batches:
            table = import_library("pyarrow", "lance").concat_tables(self._batches)
            mode = "create" if self._draft is not None and not self._fragments else "append"
            self._schema = table.schema
            self._fragments += import_library("lance.fragment", "lance").write_fragments(table, self._table, mode=mode)
            self._batches = []

    def _publish(self) -> None:
        self._flush()
        lance = import_library("lance", "lance")
        if self._draft is None and self._fragments:
            version = lance.dataset(self._table).version
            operation = lance.LanceOperation.Append(self._fragments)
            lance.LanceDataset.commit(self._table, operation, read_version=version)
        elif self._draft is not None:
            if self._fragments:
                operation = lance.LanceOperation.Overwrite(self._schema, self._fragments)
                lance.LanceDataset.commit(self._table, operation)
            else:
                empty = self._make_batch({}, 0)
                lance.write_dataset(empty, self._table, mode="overwrite")
            self._draft.publish()

    def _discard(self) -> None:
        if self._draft is not None:
            self._draft.discard()
            return
        for fragment in self._fragments:  # files that no version of the table names
            for file in fragment.files:
                Path(self._table, "data", file.path).unlink(missing_ok=True)
