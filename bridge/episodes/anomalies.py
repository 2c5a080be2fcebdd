"""What an ingest says about episodes of a location: the flags of quality checks, constant channels, padding."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.channel_names import shorten_names
from wshard.core.messages import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from wshard.core.episode.protocol import EpisodeAddress
    from wshard.core.quality.checks import QualityFinding
    from wshard.core.quality.measure_vector import MeasureLayout

CONSTANT: Final = "constant"
PADDING: Final = "padding at the end"

_ALL: Final = "all channels"
_MIN_STEPS: Final = 8
_PADDED: Final = 0.1  # of the timesteps: fewer that are alike may be a rest
_MIN_EPISODES: Final = 3  # of a location, for a channel that is the same in all of them to be odd
_WIDTH: Final = 72


@dataclass(frozen=True)
class Anomalies:
    """What no check judges in one episode: whether its end is padding; the values of channels that have only one."""

    padded: bool = False
    constant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Anomaly:
    """What is odd in a location: the kind, in how many of its episodes that were read, and in which channels.

    flag: whether the kind is a flag of these episodes.
    """

    path: str
    kind: str
    episodes: int
    channels: tuple[str, ...]
    flag: bool

    def __str__(self) -> str:
        """Say what is odd, without the place."""
        named = f" ({shorten_names(self.channels, _WIDTH)})" if self.channels else ""
        return f"{self.kind} in {plural(self.episodes, 'episode')}{named}"


class AnomalyTally:
    """Counts what is odd by location, episode by episode."""

    def __init__(self) -> None:
        self._episodes: dict[str, int] = defaultdict(int)
        self._flags: dict[tuple[str, str], tuple[int, dict[str, None]]] = {}
        self._padded: dict[str, int] = defaultdict(int)
        self._constant: dict[str, dict[str, float]] = {}

    def add(self, address: EpisodeAddress, one: Anomalies) -> None:
        """Add an episode that was read."""
        path = _location_of(address)
        self._episodes[path] += 1
        self._padded[path] += one.padded
        left = self._constant.get(path, one.constant)
        self._constant[path] = {name: value for name, value in left.items() if one.constant.get(name) == value}

    def add_flags(self, address: EpisodeAddress, findings: Iterable[QualityFinding]) -> None:
        """Add the flags of an episode."""
        for finding in findings:
            place = _location_of(address), finding.check
            count, known = self._flags.get(place, (0, {}))
            named = [finding.channel] if finding.channel else []
            self._flags[place] = (count + 1, known | dict.fromkeys(named))

    def list(self) -> list[Anomaly]:
        """Return what was found, by location, flags first."""
        rows = [Anomaly(*place, count, tuple(known), flag=True) for place, (count, known) in self._flags.items()]
        rows += [Anomaly(path, PADDING, count, (_ALL,), flag=False) for path, count in self._padded.items() if count]
        rows += [
            Anomaly(path, CONSTANT, self._episodes[path], tuple(names), flag=False)
            for path, names in self._constant.items()
            if names and self._episodes[path] >= _MIN_EPISODES
        ]
        return sorted(rows, key=lambda one: one.path)


def find_anomalies(
    form: MeasureLayout, tables: NDArray[np.float64], length: int, padded: Sequence[int]
) -> list[Anomalies]:
    """Return what no check judges in N episodes of one layout and length.

    tables: the moments of their channels [N, 4, D]; padded: how many timesteps at their ends are padding.
    """
    labels = [form.label(channel) for channel in range(form.channels)]
    examined = np.array([label.startswith(("signal/", "action/")) for label in labels], np.bool_)
    same, lows = (tables[:, 2] == tables[:, 3]) & examined, tables[:, 2].tolist()
    return [
        Anomalies(
            count >= max(_MIN_STEPS, _PADDED * length),
            {labels[channel]: row[channel] for channel in np.flatnonzero(mask).tolist()},
        )
        for count, row, mask in zip(padded, lows, same, strict=True)
    ]


def _location_of(address: EpisodeAddress) -> str:
    """Return the location of several episodes, the folder of one that is a file of its own."""
    return address.uri if address.key else posixpath.dirname(address.uri)
