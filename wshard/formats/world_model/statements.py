"""The Lance table beside one of timesteps: what is stated once for each episode.

Both tables name a generation, so that a table that was overwritten never has the statements of another one.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.files.schemes import place_of
from wshard.core.plugins import import_library
from wshard.errors import EpisodeError
from wshard.formats.world_model.lance_tables import EPISODE, GENERATION, SHAPE, find_statements, table_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place


class StatementTable:
    """Rows of episodes in the table `table`, written by commit(); all episodes state values of the same names.

    count: number of episodes that are there already. generation: of the table of timesteps.
    """

    def __init__(self, table: Place, count: int, generation: bytes | None) -> None:
        self.path = Path(table.local_path())
        self._count, self._generation = count, generation
        self._stored = find_statements(table, generation) if count else None
        self._fields: dict[str, Any] | None = None
        if self._stored is not None:
            self._fields = {field.name: field for field in self._stored.schema if field.name != EPISODE}
        elif count:
            self._fields = {}
        self._rows: list[dict[str, Any]] = []

    def add(self, number: int, stated: Mapping[str, Any], where: str) -> None:
        """Add what an episode states; raises EpisodeError for other names or types than those of the first."""
        found = {name: _field_of(name, stated[name], where) for name in sorted(stated)}
        if self._fields is None:
            self._fields = found
        if found and not self._fields and self._count:
            raise EpisodeError(
                f"{where}: expected no episode data: the table has none for its {self._count} episodes. "
                "Regenerate it with episode data"
            )
        missing, unexpected = sorted(self._fields.keys() - found.keys()), sorted(found.keys() - self._fields.keys())
        if missing or unexpected:
            raise EpisodeError(f"{where}: episode-data key mismatch: missing {missing}, unexpected {unexpected}")
        for name, field in found.items():
            if not self._fields[name].equals(field, check_metadata=bool(field.metadata)):
                raise EpisodeError(f"{where}: episode data {name!r}: expected {self._fields[name]}, found {field}")
        if found:
            self._rows.append({EPISODE: number} | {name: _plain(stated[name]) for name in found})

    def commit(self) -> None:
        """Write the rows as one version of the table, before the table of timesteps names their episodes."""
        if not self._rows:
            return
        lance, pa = import_library("lance", "lance"), import_library("pyarrow", "lance")
        about = {GENERATION: self._generation} if self._generation else None
        schema = pa.schema([pa.field(EPISODE, pa.int32()), *(self._fields or {}).values()], metadata=about)
        table = pa.Table.from_pylist(self._rows, schema=schema)
        if self._stored is None:
            lance.write_dataset(table, self.path, mode="overwrite" if self.path.is_dir() else "create")
            return
        if self._stored.version != self._stored.latest_version:  # an overwriting process was killed
            self._stored.restore()
        self._stored.delete(f"{EPISODE} >= {self._count}")  # an appending process was killed
        lance.write_dataset(table, self.path, mode="append")

    def remove_older(self) -> None:
        """Remove a table of episodes that were overwritten by ones that state nothing; files of others stay."""
        if self._count or self._rows:
            return
        folders = set()
        for name in table_files(place_of(self.path)):
            (self.path / name).unlink()
            folders |= {self.path / folder for folder in Path(name).parents}
        for folder in sorted(folders, reverse=True):
            with contextlib.suppress(OSError):  # it has files of others
                folder.rmdir()


def _field_of(name: str, value: Any, where: str) -> Any:
    """Return the column of a value; raises EpisodeError for a value that fits no column."""
    pa = import_library("pyarrow", "lance")
    kinds: dict[Any, Any] = {str: pa.string(), bytes: pa.large_binary(), (bool, np.bool_): pa.bool_()}
    kinds |= {(int, np.integer): pa.int64(), (float, np.floating): pa.float64()}
    for kind, column in kinds.items():
        if isinstance(value, kind):
            return pa.field(name, column)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise EpisodeError(
            f"{where}: episode data {name!r}: expected a text, bytes, a number, a bool or an array of numbers, "
            f"found {type(value).__name__}"
        )
    shape = {SHAPE: json.dumps(array.shape[1:]).encode()} if array.ndim > 1 else None
    return pa.field(name, pa.list_(pa.from_numpy_dtype(array.dtype)), metadata=shape)


def _plain(value: Any) -> Any:
    if isinstance(value, (str, bytes)):
        return value
    array = np.asarray(value)
    return array.item() if array.ndim == 0 else array.reshape(-1)
