"""Odd numbers of episodes: NaN, stand-ins for no value, spikes, rows of a reset, dropped rows, padding, dead sensors.

They are read as they are. What is odd is found in each episode by itself, and reported once for a location.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.numeric import LARGEST
from wshard.core.channel_names import shorten_names
from wshard.core.messages import plural
from wshard.core.quality.measure import count_missing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wshard.core.quality.measure_vector import MeasureLayout

    Numbers = NDArray[np.float64]

NAN: Final = "NaN"
INFINITE: Final = "infinite"
STAND_IN: Final = "value"
SPIKE: Final = "spike"
RESET: Final = "first row apart"
DROPPED: Final = "dropped rows"
CONSTANT: Final = "constant"
PADDING: Final = "padding at the end"

_CLOCK: Final = "clock"
_ALL: Final = "all channels"
_MAGNITUDES: Final = (999.0, 9999.0, 99999.0, 999999.0, 1e9, 1e10, 1e20, 1e30, LARGEST, 32767.0, 65535.0, 2147483647.0)
_WHOLE: Final = [sign * value for value in _MAGNITUDES for sign in (-1.0, 1.0)] + [-32768.0, -2147483648.0]
_STAND_INS: Final[Numbers] = np.array(sorted({*_WHOLE, *np.array(_WHOLE, np.float32).tolist()}))
"""Values that programs write where they have none; of float32, too."""

_APART: Final = 5.0  # times the range of all other values, or of all other steps
_FEW: Final = 0.05  # of the timesteps: more than that are no spikes
_REACH: Final = 0.4  # of the largest distance from the mean that one value can have: the root of all squared deviations
_MIN_STEPS: Final = 8
_PADDED: Final = 0.1  # of the timesteps: fewer that are alike may be a rest
_MOST_GAPS: Final = 0.2  # of the timesteps: a clock with more has no period
_MIN_EPISODES: Final = 3  # of a location, for a channel that is the same in all of them to be odd
_WIDTH: Final = 72


@dataclass(frozen=True)
class Anomalies:
    """What is odd in one episode: labels of channels by kind; and the values of channels that have only one."""

    found: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constant: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Anomaly:
    """What is odd in a location: the kind, in how many of its episodes that were read, and in which channels."""

    path: str
    kind: str
    episodes: int
    channels: tuple[str, ...]

    def __str__(self) -> str:
        """Say what is odd, without the place."""
        return f"{self.kind} in {plural(self.episodes, 'episode')} ({shorten_names(self.channels, _WIDTH)})"


class AnomalyTally:
    """Counts what is odd by location, episode by episode."""

    def __init__(self) -> None:
        self._episodes: dict[str, int] = defaultdict(int)
        self._found: dict[tuple[str, str], tuple[int, dict[str, None]]] = {}
        self._constant: dict[str, dict[str, float]] = {}

    def add(self, path: str, one: Anomalies) -> None:
        """Add an episode of a location."""
        self._episodes[path] += 1
        for kind, channels in one.found.items():
            count, known = self._found.get((path, kind), (0, {}))
            self._found[path, kind] = (count + 1, known | dict.fromkeys(channels))
        left = self._constant.get(path, one.constant)
        self._constant[path] = {name: value for name, value in left.items() if one.constant.get(name) == value}

    def list(self) -> list[Anomaly]:
        """Return what was found, by location."""
        rows = [Anomaly(path, kind, count, tuple(known)) for (path, kind), (count, known) in self._found.items()]
        rows += [
            Anomaly(path, CONSTANT, self._episodes[path], tuple(names))
            for path, names in self._constant.items()
            if names and self._episodes[path] >= _MIN_EPISODES
        ]
        return sorted(rows, key=lambda one: one.path)


def find_anomalies(
    form: MeasureLayout,
    columns: Numbers,
    tables: Numbers,
    clocks: Sequence[NDArray[Any] | None],
    *,
    padded: Sequence[int],
) -> list[Anomalies]:
    """Return what is odd in N episodes of one layout and length.

    columns: the numbers [N, D, T] of their channels; tables: the moments of these [N, 4, D]; clocks: their times;
    padded: how many timesteps at their ends are padding.
    """
    labels = [form.label(channel) for channel in range(form.channels)]
    examined = np.array([label.startswith(("signal/", "action/")) for label in labels], np.bool_)
    found: list[dict[str, list[str]]] = [{} for _ in columns]
    with np.errstate(all="ignore"):
        doubtful = _doubtful(tables) & examined
        reset = _begins_apart(columns) & examined
        same = (tables[:, 2] == tables[:, 3]) & examined
    for number, channel in np.argwhere(doubtful).tolist():
        values = columns[number, channel]
        if labels[channel].startswith("action/") and np.isnan(values[-1]):
            values = values[:-1]  # of the last observation, after which nobody acts
        for kind in _kinds_of(values):
            found[number].setdefault(kind, []).append(labels[channel])
    for number, channel in np.argwhere(reset).tolist():
        found[number].setdefault(RESET, []).append(labels[channel])
    for kinds, times, count in zip(found, clocks, padded, strict=True):
        if times is not None and _lacks_rows(times):
            kinds[DROPPED] = [_CLOCK]
        if count >= max(_MIN_STEPS, _PADDED * columns.shape[-1]):
            kinds[PADDING] = [_ALL]
    lows = tables[:, 2].tolist()
    constant = [
        {labels[channel]: row[channel] for channel in np.flatnonzero(mask).tolist()}
        for row, mask in zip(lows, same, strict=True)
    ]
    return [Anomalies(*parts) for parts in zip(found, constant, strict=True)]


def _doubtful(tables: Numbers) -> NDArray[np.bool_]:
    """Return a mask [N, D] of channels that may have odd values, by their moments; the others have none."""
    mean, deviations, low, high = (tables[:, row] for row in range(4))
    reach = np.maximum(high - mean, mean - low)
    is_odd = ~((low >= -LARGEST) & (high <= LARGEST)) | np.isin(low, _STAND_INS) | np.isin(high, _STAND_INS)
    return is_odd | ((deviations > 0) & (reach > _REACH * np.sqrt(deviations)))


def _kinds_of(values: Numbers) -> list[str]:
    """Return the kinds of odd values of a channel [T]."""
    rest = values[np.abs(values) <= LARGEST]
    missing = int(np.isnan(values).sum())
    kinds = [NAN] if missing else []
    if missing + len(rest) < len(values):
        kinds.append(INFINITE)
    for value in (rest.min(), rest.max()) if len(rest) else ():
        others = rest[rest != value]
        is_apart = not len(others) or float(np.abs(others - value).min()) > _APART * float(np.ptp(others))
        if value in _STAND_INS and is_apart:
            kinds.append(f"{STAND_IN} {value:g}")
            rest = others
    return [*kinds, SPIKE] if _has_spike(rest) else kinds


def _has_spike(values: Numbers) -> bool:
    """Return whether a few values are far from all others, which differ among themselves."""
    if len(values) < _MIN_STEPS:
        return False
    ordered = np.sort(values)
    few = max(1, int(_FEW * len(values)))
    low, high = ordered[few], ordered[-few - 1]
    apart = (values < low - _APART * (high - low)) | (values > high + _APART * (high - low))
    return bool(high > low and apart.any() and len(np.unique(values[~apart])) > 2)


def _begins_apart(columns: Numbers) -> NDArray[np.bool_]:
    """Return a mask [N, D] of channels whose first value is farther from the second than any other two steps are."""
    if columns.shape[-1] < _MIN_STEPS:
        return np.zeros(columns.shape[:2], np.bool_)
    steps = np.abs(np.diff(columns, axis=-1))
    usual = steps[..., 1:].max(axis=-1)
    apart: NDArray[np.bool_] = (usual > 0) & (steps[..., 0] > _APART * usual)
    return apart


def _lacks_rows(times: NDArray[Any]) -> bool:
    """Return whether a clock of a steady period leaves out timesteps."""
    steps = np.diff(times.astype(np.float64))
    if len(steps) < _MIN_STEPS or (period := float(np.median(steps))) <= 0:
        return False
    gaps = np.count_nonzero(count_missing(steps, period))
    return bool(0 < gaps <= _MOST_GAPS * len(steps))
