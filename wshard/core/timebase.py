"""The clock of an episode."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class TimebaseType(StrEnum):
    """How the time of a timestep is determined."""

    TICKS = "ticks"
    TIMESTAMPS_NS = "timestamps_ns"
    TIMESTAMPS_US = "timestamps_us"


class AssumedRate(float):
    """A default rate, otherwise an ordinary float; setting tick_hz to a number replaces it."""

    __slots__ = ()


ASSUMED_HZ: Final = AssumedRate(30.0)
"""The rate in files for which none was given, as in the format's reference package."""


@dataclass
class TimebaseSpec:
    """The clock of an episode: tick_hz in timesteps per second, epoch_ns = time of timestep 0 since 1970.

    Examples:
        >>> TimebaseSpec(tick_hz=20.0).assumed
        False
    """

    type: TimebaseType = TimebaseType.TICKS
    tick_hz: float = ASSUMED_HZ
    epoch_ns: int = 0

    @property
    def assumed(self) -> bool:
        """True if the rate was not specified."""
        return isinstance(self.tick_hz, AssumedRate)
