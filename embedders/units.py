"""Units among episodes: lanes that some give in another unit than most, such as mm and m, in that of most."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.canonical_json import check_count
from embedders.numeric import check_number
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]


RATIOS: Final = {1000.0: "m and mm", 100.0: "m and cm", 180 / math.pi: "degrees and rad"}
"""Ratios of units that are looked for, and what they may be of."""


def name_ratio(ratio: float) -> str:
    """Return what units of this ratio, or of its inverse, may be: "x 1000, m and mm?"."""
    nearest = min(RATIOS, key=lambda one: abs(one - max(ratio, 1 / ratio)))
    return f"x {nearest:.4g}, {RATIOS[nearest]}?"


@dataclass(frozen=True)
class Unit:
    """Channels of a Space that some episodes give in another unit: their rows are divided by `ratio`.

    A ratio above 1 is for episodes whose root mean squares are above `limits`, one for each channel, in most channels;
    a ratio below 1 is for those below.
    """

    channels: tuple[int, ...]
    limits: tuple[float, ...]
    ratio: float

    def __post_init__(self) -> None:
        channels = tuple(check_count(channel + 1, "channels of a unit, plus 1") - 1 for channel in self.channels)
        limits = tuple(check_number(limit, "limits of a unit") for limit in self.limits)
        ratio = check_number(self.ratio, "ratio of a unit")
        if not limits or len(limits) != len(channels) or min(*limits, ratio) <= 0 or ratio == 1:
            found = f"{len(channels)} channels, limits {limits} and ratio {ratio}"
            raise EmbedderError(f"unit: expected a limit > 0 for each channel, and a ratio > 0 but 1, found {found}")
        for name, value in (("channels", channels), ("limits", limits), ("ratio", ratio)):
            object.__setattr__(self, name, value)

    def at(self, first: int) -> Unit:
        """Return the same unit for a lane whose first channel is that of a Space."""
        return Unit(tuple(channel + first for channel in self.channels), self.limits, self.ratio)

    def is_other(self, sizes: Rows) -> NDArray[np.bool_]:
        """Return which episodes, or parts of one, are in the other unit, by root mean squares [N, D] of all channels.

        Channels that are 0 throughout show nothing.
        """
        with np.errstate(divide="ignore"):
            distances = np.log(sizes[:, [*self.channels]] / np.array(self.limits))
        if self.ratio < 1:
            distances = -distances
        return np.array([bool(known.size) and np.median(known) > 0 for known in map(_finite, distances)], np.bool_)

    def to_shared(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows [T, D] in the unit that most episodes have; the rows themselves if they are in it."""
        with np.errstate(over="ignore", invalid="ignore"):
            sizes = np.sqrt(np.square(rows, dtype=np.float64).mean(axis=0))
        if not self.is_other(sizes[None])[0]:
            return rows
        changed = rows.astype(np.float64)
        changed[:, [*self.channels]] /= self.ratio
        return changed

    def share_spreads(self, spreads: Iterable[tuple[int, Sequence[float]]]) -> Iterator[tuple[int, Sequence[float]]]:
        """Yield (timesteps, spread) of episodes in the unit that most have; see embedders.statistics.merge_spreads."""
        for count, spread in spreads:
            numbers = np.array(spread, np.float64).reshape(-1, 4)
            if self.is_other(np.hypot(numbers[:, 2], numbers[:, 3])[None])[0]:
                numbers[[*self.channels]] /= self.ratio
                yield count, numbers.ravel().tolist()
            else:
                yield count, spread


def check_units(units: Sequence[Unit] | None, channels: int) -> tuple[Unit, ...] | None:
    """Return the units, None if there are none; raises EmbedderError unless each has channels of its own.

    channels: their number in all.
    """
    used = [channel for unit in units or () for channel in unit.channels]
    if len({*used}) != len(used) or max(used, default=0) >= channels:
        raise EmbedderError(f"units: expected each in other channels of the {channels}, found {used}")
    return tuple(units or ()) or None


def _finite(values: Rows) -> Rows:
    return values[np.isfinite(values)]
