"""Computes spreads of lanes, and the measures for quality checks, from the numbers of episodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.anomalies import Anomalies, find_anomalies
from embedders.numeric import bridge_gaps
from embedders.statistics import measure_moments, spreads_of
from embedders.windows import count_used, count_valued
from wshard.core.channel_names import channel_labels
from wshard.core.episode.lanes import REWARD, TICKS, TIMESTAMPS
from wshard.core.quality.measure import measure_alike
from wshard.core.quality.measure_vector import MeasureLayout
from wshard.errors import IngestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from wshard.core.episode.protocol import EpisodeReader

_MEASURED: Final = ("signal/", "action/")
_NO_TIME: Final = np.iinfo(np.int64).min  # of a timestep that has none


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of one episode: lanes [T, ...] by block name, and the times of its timesteps in units of unit_s.

    times: those of the timesteps before padding. labels: what the channels of lanes are called that name them. used:
    how many timesteps come before those that end the episode and are all alike; padded: how many do not count, with
    those beyond `length` in which no lane has a number.
    """

    lanes: Mapping[str, NDArray[Any]]
    length: int
    times: NDArray[Any] | None
    unit_s: float
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    used: int = 0
    padded: int = 0

    @property
    def size(self) -> int:
        """Total number of values."""
        return sum(values.size for values in self.lanes.values())

    @cached_property
    def form(self) -> MeasureLayout:
        """Return the lanes by name, with their channels."""
        sizes = tuple((name, self.lanes[name].size // self.length) for name in sorted(self.lanes))
        return MeasureLayout(sizes, tuple(sorted(self.labels.items())))


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of one episode: float32 [form.size]."""

    form: MeasureLayout
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Summary:
    """Values computed from an episode's numbers: what the catalog stores of its lanes, and measures if requested.

    spreads: as in LaneRecord, by lane, with gaps bridged; None if numbers are not finite in too many timesteps. Only
    observations, actions and the reward are measured.
    """

    spreads: Mapping[str, bytes | None]
    measured: Measured | None
    anomalies: Anomalies = field(default_factory=Anomalies)


def check_length(file: EpisodeReader) -> None:
    """Raise IngestError for an episode without timesteps."""
    if file.length < 1:
        raise IngestError(f"{file.where}: expected at least one timestep, found an empty episode")


def numbers_of(file: EpisodeReader, arrays: Mapping[str, NDArray[Any]], *, timed: bool = True) -> Numbers:
    """Return these lanes of an open episode, and its clock, which is read; timed: False to leave the clock out."""
    clock, unit_s = (TIMESTAMPS, 1e-9) if file.has(TIMESTAMPS) else (TICKS, 1.0)
    times = _fill_times(file.lane(clock)) if timed and file.has(clock) else None
    declared = file.lanes()
    labels = {name: named for name in arrays if name in declared and (named := channel_labels(declared[name]))}
    length = count_valued(arrays.values(), file.length)
    arrays = {name: rows[:length] for name, rows in arrays.items()}
    used = count_used((rows for name, rows in arrays.items() if is_measured(name)), length)
    return Numbers(arrays, length, None if times is None else times[:used], unit_s, labels, used, file.length - used)


def _fill_times(times: NDArray[Any]) -> NDArray[Any] | None:
    """Return times [T] with those between their neighbours for timesteps without one; None if fewer than two have."""
    is_known = times != _NO_TIME
    if is_known.all():
        return times
    places = np.flatnonzero(is_known)
    if len(places) < 2:
        return None
    since = (times[places] - times[places[0]]).astype(np.float64)
    filled: NDArray[Any] = times[places[0]] + np.interp(np.arange(len(times)), places, since).astype(np.int64)
    return filled


def summarise(episodes: Sequence[Numbers], *, measuring: bool) -> list[Summary]:
    """Return the summary of each episode of one timestep or more; it does not depend on the other episodes."""
    by_form: dict[tuple[MeasureLayout, int], list[int]] = {}
    for number, episode in enumerate(episodes):
        by_form.setdefault((episode.form, episode.length), []).append(number)
    summaries: dict[int, Summary] = {}
    for (form, _), numbers in by_form.items():
        members = [episodes[number] for number in numbers]
        summaries |= zip(numbers, _summarise_alike(form, members, measuring=measuring), strict=True)
    return [summaries[number] for number in range(len(episodes))]


def _summarise_alike(form: MeasureLayout, members: Sequence[Numbers], *, measuring: bool) -> list[Summary]:
    length = members[0].length
    columns = np.empty((len(members), form.channels, length))
    for place, member in zip(columns, members, strict=True):
        if form.lanes:
            rows = [member.lanes[name].reshape(length, -1).T for name, _ in form.lanes]
            np.concatenate(rows, out=place, casting="unsafe")
    tables, usable = measure_moments(columns)
    by_name = _spreads_by_lane(form, columns, tables, usable)
    for number, used in ((number, one.used) for number, one in enumerate(members) if one.used < length):
        part = np.ascontiguousarray(columns[number : number + 1, :, :used])  # padding is no motion
        (by_name[number],) = _spreads_by_lane(form, part, *measure_moments(part))
    if not measuring:
        return [Summary(spreads, None) for spreads in by_name]
    odd = find_anomalies(form, tables, length, [one.padded for one in members])
    measured_lanes = tuple(lane for lane in form.lanes if is_measured(lane[0]))
    measured_form = MeasureLayout(measured_lanes, tuple(lane for lane in form.labels if is_measured(lane[0])))
    if measured_form != form:
        columns = columns[
            :, np.repeat([lane in measured_form.lanes for lane in form.lanes], [n for _, n in form.lanes])
        ]
    vectors = measure_alike(measured_form, columns, [(member.times, member.unit_s) for member in members])
    return [
        Summary(spreads, Measured(measured_form, vector.copy()), anomalies)
        for spreads, vector, anomalies in zip(by_name, vectors, odd, strict=True)
    ]


def _spreads_by_lane(
    form: MeasureLayout, columns: NDArray[np.float64], tables: NDArray[np.float64], usable: NDArray[np.bool_]
) -> list[dict[str, bytes | None]]:
    """Return the spreads of the lanes of each episode, of which the moments are known."""
    spreads = spreads_of(tables, columns.shape[-1])
    by_episode: list[dict[str, bytes | None]] = [{} for _ in columns]
    edges = pairwise(accumulate((count for _, count in form.lanes), initial=0))
    for (name, _), (start, stop) in zip(form.lanes, edges, strict=True):
        is_finite = np.logical_and.reduce(usable[:, start:stop], axis=1)
        packed = iter(pack_spreads(spreads[is_finite, start:stop]))
        for lanes, is_fine in zip(by_episode, is_finite.tolist(), strict=True):
            lanes[name] = next(packed) if is_fine else None
        for number in np.flatnonzero(~is_finite).tolist():
            by_episode[number][name] = _bridged_spreads(columns[number, start:stop])
    return by_episode


def _bridged_spreads(columns: NDArray[np.float64]) -> bytes | None:
    """Return the spreads of a lane [D, T] whose gaps are bridged, as for its vectors; None if it has too many.

    Those of blank channels are NaN, and the spread of the whole lane is that of the others.
    """
    bridged = bridge_gaps(columns.T)
    if bridged is None:
        return None
    tables, _ = measure_moments(np.ascontiguousarray(bridged.T)[None])
    spreads = spreads_of(tables, len(bridged))
    (whole,) = pack_spreads(spreads[:, ~np.isnan(spreads[0, :, 0])])
    return whole[: spreads[0, 0].nbytes] + bytes(spreads[0].astype("<f8"))


def pack_spreads(channels: NDArray[np.float64]) -> list[bytes]:
    """Return (min, max, mean, std) of the whole lane, then those of each channel, as little-endian float64.

    channels: those of one lane of N episodes, [N, C >= 1, 4].
    """
    low, high, means, stds = np.moveaxis(channels, 2, 0)
    mean = sum(means.T) / means.shape[1]
    deviations = means - mean[:, None]
    variance = (sum((stds * stds).T) + sum((deviations * deviations).T)) / means.shape[1]
    std = np.array([value**0.5 for value in variance.tolist()])  # np.sqrt differs from stored values in the last bit
    whole = np.stack([low.min(axis=1), high.max(axis=1), mean, std], axis=1)
    numbers = np.concatenate([whole[:, None], channels], axis=1, dtype="<f8")
    return [row.tobytes() for row in numbers]


def is_measured(lane: str) -> bool:
    """Return whether a lane is measured: observations, actions and the reward are, predictions are not."""
    return lane.startswith(_MEASURED) or lane == REWARD
