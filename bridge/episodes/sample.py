"""Reads episodes from which the kinds of an archive's channels are found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, read_rows
from bridge.spaces.rotations import Sample, SampledEpisode
from bridge.spaces.source_labels import source_labels
from bridge.support.batches import batches
from embedders.lanes import count_channels
from embedders.windows import cut_padding
from wshard.core.channel_kinds import ChannelKind, KindRun, declared_kinds
from wshard.core.channel_names import channel_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.lanes import LaneSpec

_ENOUGH_EPISODES: Final = 96
_ENOUGH_ROWS: Final = 24_000
_MOST_NUMBERS: Final = 1 << 24
_OPEN_FILES: Final = 2  # of a location: what is known of one of 1,000 episodes takes 9 MB


def read_sample(catalog: Catalog, lanes: tuple[LaneSpec, ...], ids: Sequence[int]) -> Sample | None:
    """Return a sample of the first of these episodes, as many as are needed; None if none of them can be read."""
    found, rows, waiting = dict[int, SampledEpisode](), 0, _rows(catalog, ids)
    with OpenLocations(most_files=_OPEN_FILES) as locations:
        while chosen := [*_take(waiting, count_channels(lanes), (len(found), rows))]:
            read = {}
            for row in sorted(chosen, key=lambda row: row.id):  # as they lie in files, each of which is opened once
                one = attempt(partial(_read, lanes, row, locations), row.address)
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


def _read(lanes: Sequence[LaneSpec], row: EpisodeRow, locations: OpenLocations) -> SampledEpisode:
    with locations.open(row.address) as file:
        declared = [file.lane_view(lane.name).declaration for lane in lanes]
        rows = cut_padding(read_rows(file, lanes)[0].astype(np.float64))
        pairs = [*zip(lanes, declared, strict=True)]
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
