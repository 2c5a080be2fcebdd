"""Find the quaternions, angles and counters among the channels of the lanes to embed, in sampled episodes."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.labelled_sources import find_labelled
from bridge.spaces.sources import SampledLane
from bridge.spaces.unlabelled_sources import find_source
from embedders.rotations import Rotation, canonical_rows
from embedders.standardise import IGNORED_STD
from wshard.core.channel_kinds import ChannelKind
from wshard.core.quality.kinds import find_kinds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from embedders.lanes import LaneSpec
    from embedders.space import Statistics
    from embedders.units import SourceScale
    from wshard.core.channel_kinds import KindRun

    Rows = NDArray[np.float64]
    ReadSample = Callable[[tuple[LaneSpec, ...], tuple[int, ...]], "Sample | None"]
    _Found = tuple[int, int]  # first channel, number of channels

MOST_SAMPLED: Final = 256
_POOLS: Final = 4
_MIN_SHARE: Final = 0.75
"""Share of the pools in which a rotation must be found: a single episode shows what is none, or hides what is one."""
_MAX_STEPS: Final = 5_000  # of a pool
_BETWEEN: Final = 4  # timesteps without numbers between two episodes: more than kinds are followed over
_MIN_COUNTED: Final = 32  # steps of all episodes together
_EVEN: Final = 0.01  # of an increment
_MIN_EVEN: Final = 0.95  # of the steps
_TURN: Final = 2 * math.pi
_EDGE: Final = 0.1
_BEYOND: Final = 1e-3


@dataclass(frozen=True, eq=False)
class SampledEpisode:
    """The rows [T, D] of an episode as it would be embedded; per lane the kinds that it declares and its labels.

    source: the labels of the episode, see source_labels.
    """

    rows: Rows
    declared: tuple[tuple[KindRun, ...], ...]
    labels: tuple[tuple[str, ...], ...]
    source: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Sample:
    """The rows [R, D] of several episodes, and the rotations, counters and, for each lane, sources found in them."""

    rows: Rows
    rotations: tuple[Rotation, ...]
    counters: tuple[int, ...]
    sources: tuple[tuple[SourceScale, ...], ...]

    @staticmethod
    def of(lanes: Sequence[LaneSpec], episodes: Sequence[SampledEpisode]) -> Sample:
        """Return the sample of episodes with these lanes: the rotations are those that most declare, else found."""
        rows = np.concatenate([episode.rows for episode in episodes])
        edges = [*accumulate((lane.channels for lane in lanes), initial=0)]
        rotations = [
            Rotation.of(first + start, rows[:, first + start : first + start + count])
            for number, (first, stop) in enumerate(pairwise(edges))
            for start, count in _rotations_of(number, slice(first, stop), episodes)
        ]
        sources = [_find_sources(slice(first, stop), rotations, episodes) for first, stop in pairwise(edges)]
        return Sample(rows, tuple(rotations), _find_counters(edges, episodes), tuple(sources))

    def measure(self, statistics: Statistics, rotations: Sequence[Rotation]) -> Statistics:
        """Return the statistics with those of rotations in their canonical form, and those of counters ignored."""
        rows = canonical_rows(self.rows, rotations)
        mean, std = statistics.mean.copy(), statistics.std.copy()
        for rotation in rotations:
            part = rows[:, rotation.channels]
            mean[rotation.channels], std[rotation.channels] = part.mean(axis=0), part.std(axis=0)
        std[[*self.counters]] = IGNORED_STD
        return replace(statistics, mean=mean, std=std)


def choose_sample(ids: Sequence[int]) -> tuple[int, ...]:
    """Return the ids of episodes to read: as an archive grows by a few, so do few of them change."""
    return tuple(heapq.nsmallest(MOST_SAMPLED, ids, key=lambda id_: (id_ * 2654435761) % 2**32))  # a Fibonacci hash


def _find_sources(
    lane: slice, rotations: Sequence[Rotation], episodes: Sequence[SampledEpisode]
) -> tuple[SourceScale, ...]:
    """Return the sources of some episodes in a lane, by their labels, else by values.

    None in a lane with rotations, which have no scale.
    """
    if any(lane.start <= one.channel < lane.stop for one in rotations):
        return ()
    sampled = SampledLane([episode.rows[:, lane] for episode in episodes])
    if labelled := find_labelled(sampled, [episode.source for episode in episodes]):
        return labelled
    source = find_source(sampled)
    return () if source is None else (source,)


def _find_counters(edges: Sequence[int], episodes: Sequence[SampledEpisode]) -> tuple[int, ...]:
    """Return the channels that grow by one increment in all episodes, which tells nothing, or are declared as counters.

    None if there are no others.
    """
    steps = np.concatenate([np.diff(episode.rows, axis=0) for episode in episodes])
    if len(steps) < _MIN_COUNTED:
        return ()
    increments = np.median(steps, axis=0)
    is_even = np.mean(np.abs(steps - increments) <= _EVEN * np.abs(increments), axis=0) >= _MIN_EVEN
    is_counter = is_even & (increments != 0)
    for number, (first, stop) in enumerate(pairwise(edges)):
        if declared := Counter(kinds for episode in episodes if (kinds := episode.declared[number])):
            runs = declared.most_common(1)[0][0]
            is_counter[first:stop] = [kind is ChannelKind.COUNTER for count, kind in runs for _ in range(count)]
    return () if is_counter.all() else tuple(np.flatnonzero(is_counter).tolist())


def _rotations_of(lane: int, channels: slice, sample: Sequence[SampledEpisode]) -> list[_Found]:
    declared = Counter(kinds for episode in sample if (kinds := episode.declared[lane]))
    if declared:
        return [*_rotations_in(declared.most_common(1)[0][0])]
    pools = [sample[place::_POOLS] for place in range(min(_POOLS, len(sample)))]
    votes = Counter(found for pool in pools for found in _find(pool, channels, sample[0].labels[lane]))
    return sorted(found for found, count in votes.items() if count >= _MIN_SHARE * len(pools))


def _find(pool: Sequence[SampledEpisode], channels: slice, labels: Sequence[str]) -> set[_Found]:
    """Return what the episodes show together; none for episodes that hide it, as the many angles that never wrap."""
    steps = _MAX_STEPS // len(pool) - _BETWEEN
    gap = ((0, _BETWEEN), (0, 0))
    parts = [np.pad(episode.rows[:steps, channels], gap, constant_values=np.nan) for episode in pool]
    rows = np.concatenate(parts)
    kinds = find_kinds(rows, labels)
    numbers = [kind is ChannelKind.NUMBER for count, kind in kinds for _ in range(count)]
    turning = {(channel, 1) for channel in np.flatnonzero(_fill_turn(rows) & numbers).tolist()}
    return {*_rotations_in(kinds)} | turning


def _fill_turn(rows: Rows) -> NDArray[np.bool_]:
    """Return which channels [D] have values up to both ends of a turn that ends at pi or 2 pi, and none beyond."""
    low, high = np.nanmin(rows, axis=0), np.nanmax(rows, axis=0)
    ends = [(low - start, start + _TURN - high) for start in (-math.pi, 0.0)]
    is_filled = [(np.minimum(*end) >= -_BEYOND) & (np.maximum(*end) <= _EDGE) for end in ends]
    return np.asarray(np.logical_or(*is_filled))


def _rotations_in(kinds: Sequence[KindRun]) -> Iterator[_Found]:
    start = 0
    for count, kind in kinds:
        if kind.is_quaternion:
            yield start, count
        elif kind is ChannelKind.ANGLE:
            yield from ((channel, 1) for channel in range(start, start + count))
        start += count
