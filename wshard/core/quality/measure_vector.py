"""Layout of the measures of an episode in one vector, so that those of many episodes can be stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.float32]

VERSION: Final = "6"
"""Version of measures and checks; stored measures of another version are not used."""

PHASES: Final = 8
MAX_LAG: Final = 8
MAX_ACTING: Final = 8
MAX_SEEN: Final = 24
EPISODE: Final = ("length", "still", "still_at", "rough")
CLOCK: Final = (
    "missing",
    "missing_at",
    "repeated",
    "repeated_at",
    "backward",
    "backward_at",
    "jitter",
    "drift",
    "period",
)
CHANNEL: Final = (
    *("nan", "nan_at", "infinite", "infinite_at", "placeholder", "placeholder_at", "apart", "apart_at", "reset"),
    *("stuck", "stuck_at", "held", "held_at", "railed", "railed_at", "jump", "jump_at", "std"),
)
"""Measures of one channel; after them come the means of its PHASES parts of equal duration."""


@dataclass(frozen=True)
class MeasureLayout:
    """The lanes that were measured, sorted by name, with their channels; vectors of equal layouts can be compared.

    labels: what the channels of lanes are called that name them.
    """

    lanes: tuple[tuple[str, int], ...]
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def channels(self) -> int:
        """Channels of all lanes together, D."""
        return sum(count for _, count in self.lanes)

    @property
    def size(self) -> int:
        """Length of the vector."""
        return len(EPISODE) + len(CLOCK) + self._lag_size + (len(CHANNEL) + PHASES) * self.channels

    @property
    def _lag_size(self) -> int:
        return (2 * MAX_LAG + 1) * min(self._count("action/"), MAX_ACTING) * min(self._count("signal/"), MAX_SEEN)

    def _count(self, prefix: str) -> int:
        return sum(count for name, count in self.lanes if name.startswith(prefix))

    def read(self, vectors: Numbers) -> Measures:
        """Return the parts of vectors [N, size]."""
        ends = np.cumsum([len(EPISODE), len(CLOCK), self._lag_size])
        episode, clock, lag, channels = np.split(vectors, ends, axis=1)
        return Measures(
            self,
            episode,
            clock,
            lag.reshape(len(vectors), -1, 2 * MAX_LAG + 1),
            channels.reshape(len(vectors), len(CHANNEL) + PHASES, self.channels),
        )

    def label(self, channel: int) -> str:
        """Return the display name of one of the D channels."""
        for name, count in self.lanes:
            if channel < count:
                labels = dict(self.labels).get(name) or range(count)
                return f"{name}[{labels[channel]}]" if count > 1 else name
            channel -= count
        raise IndexError(channel)

    def lane_ranges(self, prefix: str) -> list[slice]:
        """Return the range of channels of each lane with this prefix; they are contiguous."""
        ranges, start = [], 0
        for name, count in self.lanes:
            if name.startswith(prefix):
                ranges.append(slice(start, start + count))
            start += count
        return ranges

    def channel_range(self, prefix: str) -> slice:
        """Return the range of channels of all lanes with this prefix."""
        ranges = self.lane_ranges(prefix)
        return slice(ranges[0].start, ranges[-1].stop) if ranges else slice(0, 0)


@dataclass(frozen=True, eq=False)
class Measures:
    """Measures of N episodes of one layout.

    episode and clock [N, measures], lag [N, pairs, 17], channels [N, measures, D].
    NaN: could not be measured, without a clock or actions.
    """

    layout: MeasureLayout
    episode: Numbers
    clock: Numbers
    lag: Numbers
    channels: Numbers

    def of_episode(self, name: str) -> Numbers:
        """Return one measure of the whole episode [N]."""
        return self.episode[:, EPISODE.index(name)]

    def of_clock(self, name: str) -> Numbers:
        """Return one measure of the clock [N]."""
        return self.clock[:, CLOCK.index(name)]

    def of_channels(self, name: str) -> Numbers:
        """Return one measure of every channel [N, D]."""
        return self.channels[:, CHANNEL.index(name)]

    def phases(self) -> Numbers:
        """Return the means of the PHASES parts [N, PHASES, D]."""
        return self.channels[:, len(CHANNEL) :]
