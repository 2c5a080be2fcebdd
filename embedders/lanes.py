"""The lanes that a Space is made of, and which channels are read of those that have more."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from embedders.canonical_json import check_count, check_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray


class ChannelPick(NamedTuple):
    """Which channels of a lane of `width` numbers per timestep are those of a LaneSpec; named: found by their names."""

    width: int
    channels: tuple[int, ...]
    named: bool


@dataclass(frozen=True)
class LaneSpec:
    """One lane of an episode: its full block name ("signal/state") and its shape per timestep (() = scalar).

    picks: how lanes of this name with other channels are read as this one, of which they have all.
    """

    name: str
    shape: tuple[int, ...]
    picks: tuple[ChannelPick, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        check_text(self.name, "lane name")
        sizes = tuple(check_count(size, f"every size in the shape of lane {self.name!r}") for size in self.shape)
        object.__setattr__(self, "shape", sizes)

    @property
    def channels(self) -> int:
        """Numbers per timestep: the product of the shape, 1 for a scalar."""
        return math.prod(self.shape)

    def takes(self, shape: tuple[int, ...]) -> bool:
        """Return whether a lane of this shape per timestep, and of the same name, is read as this one.

        A matrix is read as the vector of its numbers, row by row.
        """
        return self.shape in (shape, _flat(shape)) or self.picked(shape) is not None

    def pick(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the channels [T, D] of this lane from the rows [T, ...] of a lane that it takes."""
        found = self.picked(rows.shape[1:])
        return rows.reshape(len(rows), self.channels) if found is None else rows.reshape(len(rows), -1)[:, found]

    def picked(self, shape: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return which channels of a lane of this shape are those of this lane; None where all are."""
        return next((pick.channels for pick in self.picks if _flat(shape) == (pick.width,)), None)

    def definition(self) -> dict[str, Any]:
        """Return the JSON value of the lane, without picks where it has none: as before there were such."""
        return {name: value for name, value in asdict(self).items() if value or name != "picks"}

    def is_within(self, other: LaneSpec) -> bool:
        """Return whether an episode that has the other lane has all of this one."""
        return self.name == other.name and self.takes(other.shape)


def _flat(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (math.prod(shape),) if len(shape) > 1 else shape


def count_channels(lanes: Iterable[LaneSpec]) -> int:
    """Return the total number of channels of the lanes."""
    return sum(lane.channels for lane in lanes)


def lane_from(definition: Mapping[str, Any]) -> LaneSpec:
    """Return the lane that has this JSON value."""
    given = {**definition, "shape": tuple(definition["shape"])}
    picks = [ChannelPick(width, tuple(channels), named) for width, channels, named in definition.get("picks", ())]
    return LaneSpec(**{**given, "picks": tuple(picks)})
