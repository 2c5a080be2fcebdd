"""The columns of training data that correspond to the lanes of an episode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wshard.core.episode.lanes import STEP_TEXTS
from wshard.formats.world_model.columns import name_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.meta_reader import Declaration


@dataclass(frozen=True)
class LaneColumn:
    """A lane by its block name, or a text of the metadata (lane None); loaded: whether items have it by default."""

    block: str
    lane: Declaration | None = None
    loaded: bool = True

    @property
    def is_image(self) -> bool:
        """Whether it has images: frames that are stored encoded, or uint8 [H, W, C] with C 1 or 3."""
        lane = self.lane
        if lane is None or len(lane.shape) != 3:
            return False
        return bool(lane.encoding) or (lane.dtype.value == "u8" and lane.shape[2] in (1, 3))


def name_lanes(lanes: Mapping[str, Declaration]) -> dict[str, LaneColumn]:
    """Return the columns of lanes by their names."""
    return {name: LaneColumn(block, lanes[block]) for block, name in name_columns(lanes, separator="/").items()}


def join_lanes(lane: Declaration, other: Declaration) -> Declaration | None:
    """Return the first lane with a dtype that holds the values of both, None if there is none or the shapes differ."""
    dtype = lane.dtype.joined(other.dtype) if lane.shape == other.shape else None
    return None if dtype is None else replace(lane, dtype=dtype)


def describe_lane(lane: Declaration) -> str:
    """Return dtype and shape of a row, such as "f32 [3]"."""
    return f"{lane.dtype.value} {list(lane.shape)}"


def choose_column(columns: Mapping[str, LaneColumn], name: str) -> LaneColumn | None:
    """Return a column by its name, that of its lane, or that in Lance tables; None if there is none."""
    blocks = (name, f"signal/{name}", f"action/{name}")
    found = columns.get(name) or next((column for column in columns.values() if column.block in blocks), None)
    stored = [column for key, column in columns.items() if _stored_name(key) == _stored_name(name)]
    return stored[0] if found is None and len(stored) == 1 else found


def _stored_name(name: str) -> str:
    """Return the name of a column in Lance tables."""
    return name.replace("/", "_").replace(".", "_")


def find_columns(info: EpisodeInfo, *, texts: bool) -> dict[str, LaneColumn]:
    """Return the columns of an episode by name; texts: whether texts of its metadata are loaded by default."""
    columns = name_lanes(info.lanes)
    for name, value in info.metadata.items():
        listed = isinstance(value, list) and f"{STEP_TEXTS}{name}" in info.lanes
        if isinstance(value, str) or (listed and all(isinstance(text, str) for text in value)):
            columns[name] = LaneColumn(name, None, texts)
    return columns
