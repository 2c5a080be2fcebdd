"""From the numbers of episodes to their spreads, and to the measures that quality checks judge by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.spaces.lanes import is_vector
from catalog.records import LaneDefinition
from embedders.statistics import measure_moments, spreads_of
from wshard.episode.lanes import REWARD, TICKS, TIMESTAMPS
from wshard.errors import IngestError
from wshard.quality.measure import measure, measure_alike
from wshard.quality.measure_vector import MeasureLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.episodes.open import OpenLocations
    from wshard.episode.protocol import EpisodeAddress, EpisodeReader

_MEASURED: Final = ("signal/", "action/")


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of one episode: lanes [T, ...] by block name, and when its timesteps were, in units of unit_s."""

    lanes: Mapping[str, NDArray[Any]]
    length: int
    times: NDArray[Any] | None
    unit_s: float

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(values.size for values in self.lanes.values())

    @cached_property
    def form(self) -> MeasureLayout:
        """Return the lanes by name, with their channels."""
        return MeasureLayout(tuple((name, self.lanes[name].size // self.length) for name in sorted(self.lanes)))


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of one episode: float32 [form.size]."""

    form: MeasureLayout
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Summary:
    """Values computed from an episode's numbers: what the catalog stores of its lanes, and measures if requested.

    spreads: as in LaneRecord, by lane; None if a number is not finite. Only observations, actions and the reward are
    measured.
    """

    spreads: Mapping[str, bytes | None]
    measured: Measured | None


@dataclass(frozen=True, eq=False)
class Examined:
    """An episode that was read and measured."""

    address: EpisodeAddress
    episode_id: str
    env_id: str
    digest: str
    measured: Measured


def check_length(file: EpisodeReader) -> None:
    """Raise IngestError for an episode without timesteps."""
    if file.length < 1:
        raise IngestError(f"{file.where}: expected at least one timestep, found an empty episode")


def numbers_of(file: EpisodeReader, lanes: Iterable[str], *, timed: bool = True) -> Numbers:
    """Read these lanes of an open episode, and its clock; timed: False to leave the clock out."""
    clock, unit_s = (TIMESTAMPS, 1e-9) if file.has(TIMESTAMPS) else (TICKS, 1.0)
    times = file.lane(clock) if timed and file.has(clock) else None
    return Numbers({name: file.lane(name) for name in lanes}, file.length, times, unit_s)


def summarise(episodes: Sequence[Numbers], *, measuring: bool) -> list[Summary]:
    """Return the summary of each episode of one timestep or more; it does not depend on the other episodes."""
    alike: dict[tuple[MeasureLayout, int], list[int]] = {}
    for number, episode in enumerate(episodes):
        alike.setdefault((episode.form, episode.length), []).append(number)
    found: dict[int, Summary] = {}
    for (form, _), numbers in alike.items():
        members = [episodes[number] for number in numbers]
        found |= zip(numbers, _summarise_alike(form, members, measuring=measuring), strict=True)
    return [found[number] for number in range(len(episodes))]


def _summarise_alike(form: MeasureLayout, members: Sequence[Numbers], *, measuring: bool) -> list[Summary]:
    length = members[0].length
    columns = np.empty((len(members), form.channels, length))
    for place, member in zip(columns, members, strict=True):
        if form.lanes:
            rows = [member.lanes[name].reshape(length, -1).T for name, _ in form.lanes]
            np.concatenate(rows, out=place, casting="unsafe")
    by_name = _spreads_by_lane(form, columns)
    if not measuring:
        return [Summary(one, None) for one in by_name]
    looked = MeasureLayout(tuple(lane for lane in form.lanes if _is_measured(lane[0])))
    if looked != form:
        columns = columns[:, np.repeat([lane in looked.lanes for lane in form.lanes], [n for _, n in form.lanes])]
    vectors = measure_alike(looked, columns, [(member.times, member.unit_s) for member in members])
    return [Summary(one, Measured(looked, vector.copy())) for one, vector in zip(by_name, vectors, strict=True)]


def _spreads_by_lane(form: MeasureLayout, columns: NDArray[np.float64]) -> list[dict[str, bytes | None]]:
    """Return the spreads of the lanes of each episode."""
    tables, usable = measure_moments(columns)
    spreads = spreads_of(tables, columns.shape[-1])
    found: list[dict[str, bytes | None]] = [{} for _ in columns]
    edges = pairwise(accumulate((count for _, count in form.lanes), initial=0))
    for (name, _), (start, stop) in zip(form.lanes, edges, strict=True):
        fine = np.logical_and.reduce(usable[:, start:stop], axis=1)
        packed = iter(pack_spreads(spreads[fine, start:stop]))
        for lanes, is_fine in zip(found, fine.tolist(), strict=True):
            lanes[name] = next(packed) if is_fine else None
    return found


def pack_spreads(channels: NDArray[np.float64]) -> list[bytes]:
    """Return (min, max, mean, std) of the whole lane, then those of each channel, as little-endian float64.

    channels: those of one lane of N episodes, [N, C >= 1, 4].
    """
    low, high, means, stds = np.moveaxis(channels, 2, 0)
    mean = sum(means.T) / means.shape[1]
    apart = means - mean[:, None]
    variance = (sum((stds * stds).T) + sum((apart * apart).T)) / means.shape[1]
    std = np.array([one**0.5 for one in variance.tolist()])  # sqrt differs from what is stored by a last bit
    whole = np.stack([low.min(axis=1), high.max(axis=1), mean, std], axis=1)
    numbers = np.concatenate([whole[:, None], channels], axis=1, dtype="<f8")
    return [row.tobytes() for row in numbers]


def examine(address: EpisodeAddress, locations: OpenLocations, *, every_byte: bool) -> Examined:
    """Read an episode: what is measured, or every_byte of it.

    Raises FormatError and its subclasses where a block that was read is not what was written, IngestError for an empty
    episode, OSError.
    """
    with locations.open(address) as file:
        if every_byte:
            file.verify()
        check_length(file)
        lanes = [LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in file.lanes().items()]
        looked = [lane.name for lane in lanes if is_vector(lane) and _is_measured(lane.name) and file.has(lane.name)]
        found = numbers_of(file, looked)
        measured = Measured(*measure(found.lanes, found.length, found.times, found.unit_s))
        return Examined(address, file.id, file.env_id, file.digest(), measured)


def _is_measured(lane: str) -> bool:
    """Say whether a lane counts: observations, actions and the reward do, predictions do not."""
    return lane.startswith(_MEASURED) or lane == REWARD
