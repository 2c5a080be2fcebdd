"""OGBench as a Source: an .npz file with the rows of all episodes, each with one more row than actions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Final

from wshard.core.episode.lanes import DONE, REWARD
from wshard.errors import FormatError
from wshard.formats.d4rl.npz_rows import NpzRows
from wshard.formats.d4rl.source import FlatSpan, flatten_flags, split_at_flags
from wshard.formats.hdf5.lane_table import LaneTable
from wshard.formats.hdf5.source import Hdf5Source
from wshard.formats.look import look_at
from wshard.formats.table import how_to_describe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.formats.hdf5.lane_table import ColumnInfo, DatasetColumn
    from wshard.formats.look import LocationLook

_ARRAYS: Final = frozenset({"observations", "actions", "terminals"})
_STATE: Final = "qpos"  # of the simulator, which most of its files have
_OF_D4RL: Final = frozenset({"timeouts", "next_observations"})  # whose last row of an episode has an action
_OF_OTHERS: Final = _OF_D4RL | {"rewards", "is_first"}  # OGBench computes rewards when a file is loaded
_DATASET_NAME: Final = re.compile(r"[a-z0-9-]+-v\d+(-val)?\.npz")
_VALIDATION: Final = "-val"
_BLOCKS: Final = {"actions": "action/actions", "rewards": REWARD}


class OgbenchSource(Hdf5Source[FlatSpan]):
    """The episodes of a file by their numbers: "0", "1", ..."""

    own_lanes = False
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
    def matches(cls, location: Location | LocationLook) -> bool:
        """Return True for observations, actions, terminals and states of the simulator, or a name of its data sets.

        Rows with rewards, timeouts or next_observations are of other programs: their last actions count.
        """
        look = look_at(location)
        names = look.array_names
        is_own = _STATE in names or _DATASET_NAME.fullmatch(look.place.name) is not None
        return is_own and names >= _ARRAYS and not names & _OF_OTHERS

    def _scan(self) -> Mapping[str, FlatSpan]:
        where = self.where_of("")
        rows = self._open(self._place)
        if others := sorted(_OF_D4RL & {*rows.members}):
            raise FormatError(
                f"{where}: expected rows of OGBench, found {', '.join(others)}: rows whose last action of an episode "
                f"counts, as in D4RL; {how_to_describe(where)}"
            )
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
                    raise FormatError(f"{where}: {name!r}: expected {count} rows to match 'actions', found {row_count}")
                table.add_constant(name, column)
            else:
                table.add(_BLOCKS.get(name, f"signal/{name}"), name, column, rows=table.length + (name not in _BLOCKS))
        table.add(DONE, "terminals", file.column("terminals"), rows=table.length, first=ref.start + 1)
        table.metadata.update({ref.end: True} if ref.end else {})
        table.metadata.update({"split": "val"} if self._place.stem.endswith(_VALIDATION) else {})
        return table.info(f"episode_{key}")

    def _dataset(self, ref: FlatSpan, column: DatasetColumn) -> Any:
        return self._open(self._place).column(column.path)

    def _open(self, place: Place) -> NpzRows:
        return self.open_once(place.uri, lambda: NpzRows(place))
