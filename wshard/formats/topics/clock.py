"""The clock of an episode: the messages of one topic are its timesteps; of others, the latest message holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import EntryNotFoundError, FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

HOUSEKEEPING: Final = frozenset({"/rosout", "/parameter_events", "/tf", "/tf_static", "/diagnostics", "/clock"})
"""Topics that every robot has; they give no clock where another topic can."""

CAMERA, NUMBERS, TEXTS = range(3)
"""What a topic has, as far as the choice of the clock goes."""

_NS: Final = 1e9
_DIGITS: Final = 6
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?) *hz", re.IGNORECASE)
_FEW, _SHARE = 2, 0.05  # of a topic's messages that may lie outside
_MAX_STEPS: Final = 10_000_000


@dataclass(frozen=True)
class EpisodeClock:
    """When the timesteps are, in nanoseconds [T]: as messages of the topic were recorded; "" at a rate."""

    topic: str
    stamps: NDArray[np.int64]

    @property
    def hz(self) -> float | None:
        """The rate by the median step between stamps, of as many messages as share one; None if it is unknown."""
        stamps = np.unique(self.stamps)
        step = float(np.median(np.diff(stamps))) if len(stamps) > 1 else 0.0
        step *= (len(stamps) - 1) / max(len(self.stamps) - 1, 1)
        return float(f"{_NS / step:.{_DIGITS}g}") if step > 0 else None

    def pick(self, topic: str, stamps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return for each timestep the number of a topic's latest message that was recorded by then, else of its first.

        Each message of the clock's own topic is a timestep, also where several share a stamp.
        """
        if self.topic and topic == self.topic:
            return np.arange(len(stamps))
        found = np.searchsorted(stamps, self.stamps, side="right") - 1
        return np.maximum(found, 0)

    def misses(self, stamps: NDArray[np.int64]) -> bool:
        """Return whether many messages of a topic come more than a step before the first timestep or after the last."""
        step = _NS / self.hz if self.hz else 0.0
        inside = stamps.searchsorted(self.stamps[-1] + step, side="right") - stamps.searchsorted(self.stamps[0] - step)
        return len(stamps) - int(inside) > max(_FEW, _SHARE * len(stamps))

    def describe(self) -> dict[str, Any]:
        """Return its metadata."""
        return ({"topic": self.topic} if self.topic else {"rate": self.hz}) | {"method": "hold"}


def choose_clock(kinds: Mapping[str, int], stamps: Mapping[str, NDArray[np.int64]]) -> EpisodeClock:
    """Return the clock of the camera with the most messages, else of the topic of numbers or texts with the most.

    A camera counts from two messages on. Housekeeping topics come last; among equals, the first name.
    """

    def rank(name: str) -> tuple[int, int, int, str]:
        kind = NUMBERS if kinds[name] == CAMERA and len(stamps[name]) < 2 else kinds[name]
        return (int(name in HOUSEKEEPING), kind, -len(stamps[name]), name)

    topic = min(kinds, key=rank)
    return EpisodeClock(topic, stamps[topic])


def named_clock(
    text: str, kinds: Mapping[str, int], stamps: Mapping[str, NDArray[np.int64]], where: str
) -> EpisodeClock:
    """Return the clock of a topic, or one of a rate such as "20Hz" while the topic of choose_clock was recorded.

    Raises EntryNotFoundError for a topic that is not there or cannot be read, FormatError for a rate that cannot be.
    """
    rate = _RATE.fullmatch(text)
    if rate is None:
        topic = next((name for name in kinds if name.strip("/") == text.strip("/")), None)
        if topic is None:
            raise EntryNotFoundError(f"{where}: no topic {text!r} for the clock; it has {', '.join(kinds)}")
        return EpisodeClock(topic, stamps[topic])
    whole, hz = choose_clock(kinds, stamps).stamps, float(rate[1])
    count = int(float(whole[-1] - whole[0]) * hz / _NS) + 1
    if not hz > 0 or count > _MAX_STEPS:
        raise FormatError(f"{where}: expected a rate that gives at most {_MAX_STEPS} timesteps, found {text!r}")
    return EpisodeClock("", whole[0] + np.round(np.arange(count) * (_NS / hz)).astype(np.int64))
