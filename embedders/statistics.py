"""Mergeable moments of lanes, and the archive statistics and drift computed from them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from embedders.numeric import LARGEST, first_bad, is_real
from embedders.space import Statistics
from embedders.standardise import scales
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_SPREAD_SIZE: Final = 4  # numbers of one channel: low, high, mean, std
_SPREAD_ORDER: Final = np.array([2, 3, 0, 1])  # rows of a table in the order of a spread
_BATCH_PARTS: Final = 4096  # limits the memory of merge for any number of parts


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean, sum of squared deviations (m2), low and high of each channel over `count` timesteps: table, float64 [4, D].

    Without timesteps mean and m2 are 0, low is +inf and high is -inf, so merging such a part changes nothing.
    """

    count: int
    table: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean of each channel [D]."""
        return self._row(0)

    @property
    def m2(self) -> NDArray[np.float64]:
        """The sum of each channel's squared deviations from its mean [D]."""
        return self._row(1)

    @property
    def low(self) -> NDArray[np.float64]:
        """The smallest value of each channel [D]."""
        return self._row(2)

    @property
    def high(self) -> NDArray[np.float64]:
        """The largest value of each channel [D]."""
        return self._row(3)

    def _row(self, number: int) -> NDArray[np.float64]:
        row: NDArray[np.float64] = self.table[number]
        return row

    @staticmethod
    def of(lane: NDArray[Any]) -> Moments:
        """Return the moments of a lane [T, ...], T >= 0; each timestep is flattened to D channels.

        Raises EmbedderError for a lane of anything but finite real numbers, naming the first bad timestep and channel.
        """
        if lane.ndim < 1 or not is_real(lane.dtype):
            raise EmbedderError(f"moments of a lane: expected real numbers [T, ...], found {lane.dtype} {lane.shape}")
        count, channels = lane.shape[0], prod(lane.shape[1:])
        if count == 0:
            return _empty_moments(channels)
        rows = lane.reshape(count, channels)
        with np.errstate(over="ignore"):  # a wider float that overflows float64 is refused below
            columns = np.ascontiguousarray(rows.T, np.float64)
        (table,), (usable,) = measure_moments(columns[None])
        if not usable.all():
            row, channel = first_bad(columns.T) or (0, 0)
            found = f"{rows[row, channel]} at timestep {row}, channel {channel}"
            raise EmbedderError(f"moments of a lane: expected finite float32-sized numbers, found {found}")
        return Moments(count, table)


def measure_moments(columns: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the tables [N, 4, D] of the moments of N episodes of one length, and a mask [N, D] of valid channels.

    columns: the numbers [N, D, T >= 1] of their channels. The moments of a channel are invalid if one of its numbers is
    NaN, infinite or beyond float32.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # such channels are masked below
        mean = columns.mean(axis=-1)
        deviations = columns - mean[..., None]
        correction = deviations.mean(
            axis=-1
        )  # rounding error of the first mean; it matters for long lanes with large offsets
        deviations -= correction[..., None]
        low, high = columns.min(axis=-1), columns.max(axis=-1)
        tables = np.stack([mean + correction, np.vecdot(deviations, deviations), low, high], axis=1)
    usable = (low >= -LARGEST) & (high <= LARGEST)  # never true of NaN
    return tables, usable


def spreads_of(tables: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return low, high, mean and population standard deviation [N, D, 4] of moments [N, 4, D] of `count` timesteps."""
    rows: NDArray[np.float64] = tables[:, _SPREAD_ORDER]
    rows[:, 3] = np.sqrt(rows[:, 3] / count)
    return rows.transpose(0, 2, 1)


def merge(parts: Iterable[Moments]) -> Moments:
    """Return the moments of all timesteps of all parts together, whatever their order (up to rounding).

    Streams: memory does not grow with the number of parts. Raises EmbedderError without parts, or if channels differ.
    """
    stream = iter(parts)
    merged = next(stream, None)
    if merged is None:
        raise EmbedderError("moments to merge: expected one part or more, found none")
    while batch := list(islice(stream, _BATCH_PARTS)):
        merged = _merge_batch([merged, *batch])
    return merged


def merge_spreads(parts: Iterable[tuple[int, Sequence[float]]]) -> Moments:
    """Return the moments of parts given by their numbers of timesteps and their flat spreads.

    Raises EmbedderError also for less than one timestep, and for numbers that are not four per channel.
    """
    stream = iter(parts)
    return merge(_of_spreads(batch) for batch in iter(lambda: list(islice(stream, _BATCH_PARTS)), []))


def statistics(moments: Sequence[Moments]) -> Statistics:
    """Return the statistics of concatenated lanes: channels of the first lane first, population standard deviation.

    `moments` has one entry per lane. Raises EmbedderError for no lane, no timestep or counts that differ.
    """
    counts = {lane.count for lane in moments}
    if len(counts) != 1 or 0 in counts:
        raise EmbedderError(f"statistics: expected lanes of one count of timesteps >= 1, found counts {sorted(counts)}")
    count = counts.pop()
    mean = np.concatenate([lane.mean for lane in moments])
    return Statistics(count, mean, np.sqrt(np.concatenate([lane.m2 for lane in moments]) / count))


def drift(frozen: Statistics, now: Statistics) -> float:
    """Return how far statistics have drifted (0 = not at all): the maximum of two changes over all channels.

    These are |change of mean| in frozen standard deviations, and |ln(ratio of standard deviations)|. Constant channels
    count as having standard deviation 1, as in embedding. Raises EmbedderError if the channels differ.
    """
    if frozen.mean.size != now.mean.size:
        raise EmbedderError(f"drift: expected statistics of {frozen.mean.size} channels, found {now.mean.size}")
    frozen_scales, present_scales = scales(frozen), scales(now)
    shift = np.abs(now.mean - frozen.mean) / frozen_scales
    stretch = np.abs(np.log(present_scales / frozen_scales))
    return float(np.maximum(shift, stretch).max(initial=0.0))


def _empty_moments(channels: int) -> Moments:
    return Moments(0, np.repeat([[0.0], [0.0], [np.inf], [-np.inf]], channels, axis=1))


def _of_spreads(parts: Sequence[tuple[int, Sequence[float]]]) -> Moments:
    sizes, min_count = {len(numbers) for _, numbers in parts}, min(count for count, _ in parts)
    if len(sizes) != 1 or min(sizes) % _SPREAD_SIZE or min_count < 1:
        found = f"{sorted(sizes)} for {min_count} timesteps or more"
        raise EmbedderError(
            f"moments to merge: expected {_SPREAD_SIZE} numbers per channel and timesteps, found {found}"
        )
    numbers = np.array([numbers for _, numbers in parts], np.float64).reshape(len(parts), -1, _SPREAD_SIZE)
    low, high, mean, std = np.moveaxis(numbers, 2, 0)
    counts = [count for count, _ in parts]
    return _merge_tables(counts, np.stack([mean, std * std * np.array(counts)[:, None], low, high]))


def _merge_batch(parts: Sequence[Moments]) -> Moments:
    sizes = {part.mean.size for part in parts}
    if len(sizes) != 1:
        raise EmbedderError(f"moments to merge: expected parts of one number of channels, found {sorted(sizes)}")
    return _merge_tables([part.count for part in parts], np.stack([part.table for part in parts], axis=1))


def _merge_tables(counts: Sequence[int], tables: NDArray[np.float64]) -> Moments:
    """Merge parts by the formula of Chan, Golub and LeVeque: numbers of timesteps, and tables [4, n, D]."""
    total = sum(counts)
    means, m2s, lows, highs = tables
    if total == 0:
        return _empty_moments(means.shape[1])
    weights = np.array(counts, np.float64)
    origin = means[weights.argmax()]  # near every mean, so that differences stay small for large offsets
    mean = origin + weights @ (means - origin) / total
    m2 = m2s.sum(axis=0) + weights @ (means - mean) ** 2
    return Moments(total, np.stack([mean, m2, lows.min(axis=0), highs.max(axis=0)]))
