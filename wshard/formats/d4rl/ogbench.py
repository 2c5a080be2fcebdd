"""OGBench as a Source: an .npz file with the rows of all episodes, each with one more row than actions."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.container.open_file import open_file
from wshard.episode.lanes import DONE, REWARD
from wshard.errors import FormatError
from wshard.formats.d4rl.ends import FlatSpan, flatten_flags, split_at_flags
from wshard.formats.d4rl.npz_rows import NpzRows
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.look import LocationLook

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.formats.base import Location
    from wshard.formats.hdf5.lane_table import ColumnInfo, DatasetColumn

_ZIP_MAGIC: Final = b"PK\x03\x04"
_ARRAYS: Final = frozenset({"observations.npy", "actions.npy", "terminals.npy"})
_VALIDATION: Final = "-val"
_BLOCKS: Final = {"actions": "action/actions", "rewards": REWARD}


class OgbenchSource(Hdf5Source[FlatSpan]):
    """The episodes of a file by their numbers: "0", "1", ..."""

    meaning: ClassVar = (
        ("observations, actions", "signal/observations, action/actions"),
        ("terminals", "the last row of an episode: its observation is metadata final_observation, its action unused"),
        ("done", "the last timestep of an episode that terminals end"),
        ("rewards", "reward"),
        ("qpos, qvel and other rows", "signal/NAME"),
        ("a file NAME-val.npz", "metadata split: val"),
        ("rows after the last end", "an episode of its own: metadata unfinished"),
        ("action alignment", "actions at t follow the observations at t"),
        ("environment, clock", "not stated"),
    )

    @classmethod
    def matches(cls, location: str | os.PathLike[str]) -> bool:
        """Return True for an .npz file with observations, actions and terminals."""
        look = location if isinstance(location, LocationLook) else LocationLook(location)
        if not look.head.startswith(_ZIP_MAGIC):
            return False
        with open_file(look.path) as file, zipfile.ZipFile(file) as archive:
            return {*archive.namelist()} >= _ARRAYS

    def _scan(self) -> Mapping[str, FlatSpan]:
        where = self.where_of("")
        rows = self._open(self._location)
        count = rows.column("actions").shape[0]
        flags = flatten_flags(rows.column("terminals")[:], count, f"{where}: 'terminals'")
        return split_at_flags(flags)

    def _columns(self, key: str, ref: FlatSpan, file: NpzRows) -> ColumnInfo:
        where, count = self.where_of(key), file.column("actions").shape[0]
        table = LaneTable(ref.length - 1, where, first=ref.start)
        for name in file.members:
            column = file.column(name)
            row_count = column.shape[0] if column.shape else 0
            if name == "terminals":
                continue
            if row_count != count:
                if name == "observations":
                    raise FormatError(f"{where}: {name!r}: expected {count} rows, as of actions, found {row_count}")
                table.add_constant(name, column)
            else:
                table.add(_BLOCKS.get(name, f"signal/{name}"), name, column, rows=table.length + (name not in _BLOCKS))
        table.add(DONE, "terminals", file.column("terminals"), rows=table.length, first=ref.start + 1)
        table.metadata.update({ref.end: True} if ref.end else {})
        stem = os.path.splitext(self.where_of(""))[0]  # noqa: PTH122  (of any location)
        table.metadata.update({"split": "val"} if stem.endswith(_VALIDATION) else {})
        return table.info(f"episode_{key}")

    def _dataset(self, ref: FlatSpan, column: DatasetColumn) -> Any:
        return self._open(self._location).column(column.path)

    def _open(self, location: Location) -> NpzRows:
        where = self.where_of("")
        if not isinstance(location, (str, os.PathLike)):
            raise FormatError(f"{where}: expected the path of a file, found a file object")
        path = os.fspath(location)
        return self.open_once(path, lambda: NpzRows(path, where))
