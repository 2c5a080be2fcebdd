"""The clock of an episode: the messages of one topic are its timesteps; of others, the latest message holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

HOUSEKEEPING: Final = frozenset({"/rosout", "/parameter_events", "/tf", "/tf_static", "/diagnostics", "/clock"})
"""Topics that every robot has; they give no clock where another topic can."""

CAMERA, NUMBERS, TEXTS = range(3)
"""What a topic has, as far as the choice of the clock goes."""

_NS: Final = 1e9
_DIGITS: Final = 6


@dataclass(frozen=True)
class EpisodeClock:
    """The topic whose messages are the timesteps, and when they were recorded, in nanoseconds [T]."""

    topic: str
    stamps: NDArray[np.int64]

    @property
    def hz(self) -> float | None:
        """The rate by the median step, None where there is none."""
        step = float(np.median(np.diff(self.stamps))) if len(self.stamps) > 1 else 0.0
        return float(f"{_NS / step:.{_DIGITS}g}") if step > 0 else None

    def pick(self, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each timestep the number of the latest message that was recorded by then, the first one before."""
        found = np.searchsorted(stamps, self.stamps, side="right") - 1
        return np.maximum(found, 0)

    def describe(self) -> dict[str, Any]:
        """Return what the metadata say of it."""
        return {"topic": self.topic, "method": "hold"}


def choose_clock(kinds: Mapping[str, int], stamps: Mapping[str, NDArray[np.int64]]) -> EpisodeClock:
    """Return the clock of the camera with the most messages, else of the topic of numbers or texts with the most.

    A camera counts from two messages on. Housekeeping topics come last; among equals, the first name.
    """

    def rank(name: str) -> tuple[int, int, int, str]:
        kind = NUMBERS if kinds[name] == CAMERA and len(stamps[name]) < 2 else kinds[name]
        return (int(name in HOUSEKEEPING), kind, -len(stamps[name]), name)

    topic = min(kinds, key=rank)
    return EpisodeClock(topic, stamps[topic])
