"""Reads the rows of lanes for embedders, and samples of them from which the kinds of channels are found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt
from bridge.spaces.rotations import Sample, SampledEpisode
from bridge.spaces.source_labels import source_labels
from bridge.support.batches import batches
from bridge.support.episode_cache import NO_CACHE
from embedders.lanes import count_channels
from embedders.numeric import bridge_gaps, first_bad
from embedders.windows import count_valued, cut_padding, extend_rows
from wshard.core.channel_kinds import ChannelKind, KindRun, declared_kinds
from wshard.core.channel_names import channel_label, channel_labels
from wshard.core.episode.lanes import MAX_GAPS
from wshard.errors import NotFiniteError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bridge.support.episode_cache import CachedEpisode, EpisodeCache
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.lanes import LaneSpec
    from embedders.space import Space
    from wshard.core.episode.protocol import EpisodeAddress, EpisodeReader

_ENOUGH_EPISODES: Final = 96
_ENOUGH_ROWS: Final = 24_000
_MOST_NUMBERS: Final = 1 << 24
_OPEN_FILES: Final = 1  # of a location: what is known of one of 1,000 episodes takes 9 MB


def read_sample(
    catalog: Catalog, lanes: tuple[LaneSpec, ...], ids: Sequence[int], cache: EpisodeCache = NO_CACHE
) -> Sample | None:
    """Return a sample of the first of these episodes, as many as are needed; None if none of them can be read.

    Files of those in the cache are not opened.
    """
    found, rows, waiting = dict[int, SampledEpisode](), 0, _rows(catalog, ids)
    with OpenLocations(most_files=_OPEN_FILES) as locations:
        while chosen := [*_take(waiting, count_channels(lanes), (len(found), rows))]:
            read = {}
            for row in sorted(chosen, key=lambda row: row.id):  # as they lie in files, each of which is opened once
                one = attempt(partial(_read, lanes, row, locations, cache), row.address)
                if not isinstance(one, Failure):
                    read[row.id] = one
            found |= {row.id: read[row.id] for row in chosen if row.id in read}
            rows += sum(len(one.rows) for one in read.values())
            if max((one.rows.size for one in read.values()), default=0) * len(found) > _MOST_NUMBERS:
                break
    return Sample.of(lanes, [*found.values()]) if found else None


def _take(waiting: Iterator[EpisodeRow], channels: int, before: tuple[int, int]) -> Iterator[EpisodeRow]:
    """Yield as many of these as are needed; before: the numbers of episodes and of timesteps that were read."""
    episodes, steps = before
    while not (episodes >= _ENOUGH_EPISODES and steps >= _ENOUGH_ROWS):
        row = next(waiting, None)
        if row is None:
            return
        yield row
        episodes, steps = episodes + 1, steps + row.length
        if row.length * channels * episodes > _MOST_NUMBERS:
            return


def _rows(catalog: Catalog, ids: Sequence[int]) -> Iterator[EpisodeRow]:
    """Yield the rows of those of the episodes that are there, in this order; few are in memory."""
    for batch in batches(ids):
        by_id = catalog.episodes.rows(batch)
        yield from (by_id[id_] for id_ in batch if id_ in by_id)


def _read(lanes: Sequence[LaneSpec], row: EpisodeRow, locations: OpenLocations, cache: EpisodeCache) -> SampledEpisode:
    names = [lane.name for lane in lanes]
    if (known := cache.find(row, names)) is not None:
        return _sample(known, lanes, row)
    with locations.open(row.address) as file:
        return _sample(cache.read(file, row, names) if locations.is_as_ingested(file, row) else file, lanes, row)


def _sample(file: EpisodeReader | CachedEpisode, lanes: Sequence[LaneSpec], row: EpisodeRow) -> SampledEpisode:
    rows, declared = cut_padding(read_rows(file, lanes)[0].astype(np.float64)), file.lanes()
    if np.isnan(rows).any():
        raise NotFiniteError(f"{file.where}: expected numbers in all channels, found some without any")
    pairs = [(lane, declared[lane.name]) for lane in lanes]
    kinds = tuple(_pick_kinds(declared_kinds(one), lane.picked(tuple(one.shape))) for lane, one in pairs)
    labels = tuple(_pick_labels(channel_labels(one), lane.picked(tuple(one.shape))) for lane, one in pairs)
    return SampledEpisode(rows, kinds, labels, source_labels(row.metadata, row.env_id, row.address))


def _pick_labels(labels: tuple[str, ...], channels: tuple[int, ...] | None) -> tuple[str, ...]:
    return labels if channels is None or not labels else tuple(labels[channel] for channel in channels)


def _pick_kinds(runs: tuple[KindRun, ...], channels: tuple[int, ...] | None) -> tuple[KindRun, ...]:
    """Return the kinds of these channels, those of a part of a group are numbers; () for channels in another order."""
    if channels is None or [*channels] != sorted(channels):
        return runs if channels is None else ()
    picked, first = list[KindRun](), 0
    for run in runs:
        count = sum(first <= channel < first + run.channels for channel in channels)
        is_part = run.kind.is_group and count < run.channels
        picked.append(KindRun(count, ChannelKind.NUMBER if is_part else run.kind))
        first += run.channels
    return tuple(run for run in picked if run.channels)


def read_lanes(file: EpisodeReader | CachedEpisode, space: Space, address: EpisodeAddress) -> NDArray[Any]:
    """Return [T, *window_shape]: the lanes concatenated in the Space's order, or the single lane of images unchanged.

    Gaps of concatenated lanes are bridged: see bridge_gaps. Rows are canonical: see Space.canonical. Raises
    NotFiniteError if too many timesteps have NaN, infinities or numbers beyond float32.
    """
    return read_bridged(file, space, address)[0]


def read_bridged(
    file: EpisodeReader | CachedEpisode, space: Space, address: EpisodeAddress
) -> tuple[NDArray[Any], bool]:
    """Return what read_lanes does, and whether gaps were bridged."""
    if len(space.window_shape) > 1:
        return file.lane(space.lanes[0].name), False
    rows, bridged = read_rows(file, space.lanes)
    return space.canonical(rows, source_labels(file.metadata, file.env_id, address)), bridged


def read_rows(file: EpisodeReader | CachedEpisode, lanes: Sequence[LaneSpec]) -> tuple[NDArray[Any], bool]:
    """Return concatenated lanes [T, D] as they are, but for gaps, and whether there were any. Raises as read_lanes.

    Blank channels are NaN: see bridge_gaps. Timesteps at the end in which no lane has a number are padding: they repeat
    the last one that has.
    """
    columns, bridged = [], False
    picked = [lane.pick(file.lane(lane.name)) for lane in lanes]
    used = count_valued(picked, file.length)
    for lane, rows in zip(lanes, picked, strict=True):
        values = rows[:used]
        if bad := first_bad(values):
            filled, bridged = bridge_gaps(values), True
            if filled is None:
                raise NotFiniteError(
                    f"{file.where}: lane {lane.name!r}: expected finite float32-sized numbers in at least "
                    f"{1 - MAX_GAPS:.0%} of the values, found {values[bad]} at timestep {bad[0]}, channel "
                    f"{channel_label(file.lanes()[lane.name], bad[1])}, "
                    "and too many more: `wshard check` says where; --lanes NAME embeds other lanes"
                )
            values = filled
        columns.append(extend_rows(values, file.length))
    return (columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1, dtype=np.float64)), bridged
