"""Write world-model data sets as a Lance table in one commit."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.container.atomic_write import hold_folder
from wshard.core.files.schemes import place_of
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError, FormatError
from wshard.formats.world_model.columns import TEXT, StepColumn
from wshard.formats.world_model.lance import LanceSource
from wshard.formats.world_model.lance_tables import (
    BLOCK,
    EPISODE,
    EPISODES,
    GENERATION,
    SHAPE,
    STEP,
    SUFFIX,
    side_table,
    table_files,
)
from wshard.formats.world_model.rows_sink import RowsSink, image_bytes
from wshard.formats.world_model.statements import StatementTable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard.core.container.draft import Draft, WriteMode
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Channel

_BUFFER_SIZE: Final = 1 << 26


class LanceSink(RowsSink):
    """A table with one row per timestep. A new table is a draft until close; appended rows are one version of it."""

    frame_encoding = "jpeg"
    notes_lanes_of = "all"
    reserved = (EPISODE, STEP)
    stores_empty_rows = False
    stores_statements = True
    separator = "_"
    other_shape = "dimension mismatch"

    def __init__(self, location: PathOrFile, *, quality: int = 95, **options: Any) -> None:
        self.quality = quality
        self._version: int | None = None
        self._table = ""
        self._batches: list[Any] = []
        self._buffered = 0  # bytes of these
        self._fragments: list[Any] = []
        super().__init__(location, **options)

    def _has_episodes(self) -> bool:
        import_library("lance", "lance")
        if self._target.suffix.lower() != SUFFIX:
            raise FormatError(f"{self._where}: expected a table whose name ends in {SUFFIX}")
        return bool(table_files(self._target))

    def _open_draft(self, mode: WriteMode) -> Draft | None:
        """Return None for a table with rows, which gets another version."""
        if mode == "append" and self._existed:
            self._continue(LanceSource(self._where))
        if self._columns is None:
            return super()._open_draft("overwrite" if mode == "append" else mode)
        self._version = self._version_of(self._where)
        return None

    def _continue(self, existing: LanceSource) -> None:
        """Take over columns and the next number; raises FormatError for a damaged end: how to number on is unknown."""
        with existing:
            self._columns, keys = existing.stored_columns() or None, existing.keys()
            for key in keys[-1:]:
                existing.length_of(key)
            self.count = int(keys[-1]) + 1 if self._columns and keys else 0

    def _begin(self, draft: Path, *, continues: bool) -> None:
        self._begin_tables(draft, side_table(self._target, EPISODES))

    def _begin_tables(self, table: Path, episodes: Place) -> None:
        """Begin to write rows and episode-scoped values; those of a new table get a new generation."""
        self._table = str(table)
        generation: bytes | None = secrets.token_hex(8).encode()
        if self.count:
            generation = (import_library("lance", "lance").dataset(self._table).schema.metadata or {}).get(GENERATION)
        self._generation = generation
        self._statements = StatementTable(episodes, self.count, generation)

    def _add_statements(self, stated: Mapping[str, Any], where: str) -> None:
        self._statements.add(self.count, stated, where)

    def _version_of(self, table: str) -> int | None:
        """Return the version of a table, None if it does not exist."""
        if not place_of(table).exists():
            return None
        version: int = import_library("lance", "lance").dataset(table).version
        return version

    def _encode_frames(self, channel: Channel) -> Any:
        return [*image_bytes(channel, self.quality)]

    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        self._batches.append(self._make_batch(columns, length))
        self._buffered += self._batches[-1].nbytes
        if self._buffered >= _BUFFER_SIZE:
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
        metadata = {GENERATION: self._generation} if self._generation else None
        return pa.table(arrays, schema=pa.schema(fields, metadata=metadata))

    def _make_column(self, column: StepColumn, rows: Any) -> tuple[Any, dict[bytes, bytes]]:
        pa = import_library("pyarrow", "lance")
        about = {BLOCK: column.block.encode()} if column.block else {}
        if column.encoding == TEXT:
            return pa.array(rows, pa.string()), about
        if column.encoding:
            return pa.array(rows, pa.binary()), about
        flat = pa.array(np.ascontiguousarray(rows).reshape(-1))
        width = int(np.prod(column.shape))
        about |= {SHAPE: json.dumps(column.shape).encode()}
        return pa.FixedSizeListArray.from_arrays(flat, width), about

    def _flush(self) -> None:
        if self._batches:
            table = import_library("pyarrow", "lance").concat_tables(self._batches)
            mode = "create" if self._version is None and not self._fragments else "append"
            self._schema = table.schema
            self._fragments += import_library("lance.fragment", "lance").write_fragments(table, self._table, mode=mode)
            self._batches, self._buffered = [], 0

    def _finish(self, draft: Path) -> None:
        self._flush()
        with hold_folder(draft.parent):  # of two writers, the later one sees the version of the other
            self._commit()

    def _commit(self) -> None:
        """Make the written rows a version of the table; raises EpisodeError if another writer has made one."""
        if self._version is not None and self._version_of(self._table) != self._version:  # it has the same numbers
            raise EpisodeError(f"{self._where}: expected no other writer, found a newer version of the table")
        self._statements.commit()
        lance = import_library("lance", "lance")
        if self._version is None and self._fragments:
            lance.LanceDataset.commit(self._table, lance.LanceOperation.Overwrite(self._schema, self._fragments))
        elif self._version is None:
            lance.write_dataset(self._make_batch({}, 0), self._table)
        elif self._fragments:
            operation = lance.LanceOperation.Append(self._fragments)
            lance.LanceDataset.commit(self._table, operation, read_version=self._version)

    def _publish(self) -> None:
        super()._publish()
        self._statements.remove_older()

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of a table below its folder."""
        return table_files(place_of(location))

    def _discard(self) -> None:
        super()._discard()
        for fragment in self._fragments if self._draft is None else ():  # files that no version of the table names
            for file in fragment.files:
                (self._path / "data" / file.path).unlink(missing_ok=True)
