"""Columns of world-model data sets and the corresponding lanes, for all of their formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import DONE, REWARD, STEP_TEXTS, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_reader import Declaration
from wshard.core.types import Modality
from wshard.errors import EpisodeError, FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wshard.core.types import Array

LENGTHS: Final = "ep_len"
OFFSETS: Final = "ep_offset"
ACTION: Final = "action"
_ACTIONS: Final = f"{ACTION}."
_BLOCKS: Final = {
    ACTION: "action/action",
    "reward": REWARD,
    "terminated": DONE,
    "truncated": TRUNCATIONS,
    "timestamps_ns": TIMESTAMPS,
}
_COLUMNS: Final = {block: column for column, block in _BLOCKS.items()}
_SCALARS: Final = (REWARD, DONE, TRUNCATIONS, TIMESTAMPS)
_FLAGS: Final = (DONE, TRUNCATIONS)
TEXT: Final = "text"
"""Encoding of a column of texts."""

MEANING: Final = (
    ("action", "action/action; the action of a timestep follows its observation, that of the last one is NaN"),
    ("action.NAME", "action/NAME"),
    ("reward", "reward"),
    ("terminated, truncated", "done, aux/truncations"),
    ("timestamps_ns", "time/timestamps_ns"),
    ("texts, one value in an episode", "metadata COLUMN"),
    (
        "texts, several values",
        "metadata COLUMN, a list, and aux/text/COLUMN, which is not embedded: positions in it",
    ),
    ("every other column", "signal/COLUMN; images are uint8 [H, W, C]"),
    ("clock", "not stated"),
)


@dataclass(frozen=True)
class StepColumn:
    """A column: dtype and shape of a row. encoding: "jpeg" or "mp4" of frames, TEXT, or "" for numbers.

    block: that of its lane, if the data set states it; otherwise it follows from the name. unit: of its numbers.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...] = ()
    encoding: str = ""
    block: str = ""
    unit: str = ""

    @property
    def lane_block(self) -> str:
        """The block name of its lane."""
        if self.encoding == TEXT:
            return f"{STEP_TEXTS}{self.name}"
        return self.block if self.block.startswith(("signal/", "action/")) else block_of(self.name)


@dataclass(frozen=True)
class RowSpan:
    """The rows [start, stop) of episode `number`; what is wrong with them."""

    number: int
    start: int
    stop: int
    damage: str = ""

    @property
    def length(self) -> int:
        """The number of rows."""
        return self.stop - self.start


def block_of(column: str) -> str:
    """Return the block name of a column's lane."""
    if column.startswith(_ACTIONS):
        return f"action/{column.removeprefix(_ACTIONS)}"
    return _BLOCKS.get(column, f"signal/{column}")


def name_columns(blocks: Iterable[str], separator: str = ".") -> dict[str, str]:
    """Return a column name for each lane of an Episode, by block name, except lanes that cannot be columns.

    A single action is `action`. separator: replaces "/" in the names; "_" also replaces ".".
    Raises EpisodeError for two lanes of one column name.
    """
    chosen = [block for block in blocks if block in _COLUMNS or block.startswith(("signal/", "action/"))]
    actions = [block for block in chosen if block.startswith("action/")]
    names: dict[str, str] = {}
    for block in chosen:
        prefix, _, rest = block.partition("/")
        name = _COLUMNS.get(block) or (f"{_ACTIONS}{rest}" if prefix == "action" else rest)
        name = ACTION if actions == [block] else name.replace("/", separator)
        names[block] = name.replace(".", "_") if separator == "_" else name
    for name in names.values():
        same = [block for block in names if names[block] == name]
        if len(same) > 1:
            raise EpisodeError(
                f"{' and '.join(same)}: expected lanes of different column names, found {name!r} for both"
            )
    return names


def id_of_number(number: int) -> str:
    """Return the id of an episode, of which these data sets know only the number."""
    return f"episode_{number}"


def describe_rows(rows: RowSpan, columns: Iterable[StepColumn], about: Mapping[str, Any], where: str) -> EpisodeInfo:
    """Describe an episode: a lane for each column; about: its metadata.

    Raises FormatError for a column that cannot be a lane.
    """
    lanes = {}
    for column in columns:
        lane = _declare(column, where)
        if lane.block in lanes:
            raise FormatError(f"{where}: column {column.name!r}: is there twice")
        lanes[lane.block] = lane
    return EpisodeInfo(id_of_number(rows.number), rows.length, lanes, metadata=about)


def _declare(column: StepColumn, where: str) -> Declaration:
    block, shape = column.lane_block, column.shape
    try:
        dtype = DType.from_numpy(column.dtype)
    except EpisodeError as error:
        raise FormatError(f"{where}: column {column.name!r}: {error}") from None
    if block in _SCALARS:
        if shape not in ((), (1,)):
            raise FormatError(f"{where}: column {column.name!r}: expected one number a row, found {list(shape)}")
        return Declaration(block, DType.BOOL) if block in _FLAGS else Declaration(block, dtype, unit=column.unit)
    image = Modality.RGB if len(shape) == 3 and dtype is DType.UINT8 and shape[2] in (1, 3, 4) else None
    return Declaration(block, dtype, shape, modality=image, encoding=column.encoding, unit=column.unit)


def as_lane(block: str, rows: Array) -> Array:
    """Return the rows of a column as the timesteps of its lane, little-endian."""
    if block in _SCALARS:
        rows = rows.reshape(len(rows))
        rows = rows != 0 if block in _FLAGS else rows
    return rows.astype(rows.dtype.newbyteorder("<"), copy=False)


def split_rows(lengths: Array, offsets: Array, rows: Mapping[str, int], where: str) -> dict[str, RowSpan]:
    """Return the rows of each episode by its number; rows: how many each column has.

    Where an episode does not end at the beginning of the next one, either can be damaged. Raises FormatError for
    bounds that are no whole numbers, one of each kind for every episode.
    """
    for name, array in ((LENGTHS, lengths), (OFFSETS, offsets)):
        if array.shape != (lengths.size,) or array.dtype.kind not in "iu":
            raise FormatError(f"{where}: {name}: expected whole numbers [episodes], found {array.dtype} {array.shape}")
    sizes, starts = lengths.astype(np.int64), offsets.astype(np.int64)
    stops = starts + sizes
    damage = dict[int, str]()
    if rows:
        name, most = min(rows.items(), key=lambda column: column[1])
        beyond = np.flatnonzero(stops > most).tolist()
        damage = {n: f"column {name!r}: expected {stops[n]} rows, found {most}" for n in beyond}
    for n in np.flatnonzero((sizes < 0) | (starts != np.append(0, stops)[:-1])).tolist():
        text = f"{OFFSETS}: expected the sums of {LENGTHS}, found {starts[n]} of episode {n}"
        damage |= dict.fromkeys((n - 1, n), text)
    bounds = enumerate(zip(starts.tolist(), stops.tolist(), strict=True))
    return {str(n): RowSpan(n, 0, 0, damage[n]) if n in damage else RowSpan(n, *bound) for n, bound in bounds}


def is_action(column: str) -> bool:
    """Say whether a column has actions."""
    return column == ACTION or column.startswith(_ACTIONS)
