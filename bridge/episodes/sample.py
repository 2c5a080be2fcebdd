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


def read_sample(catalog: Catalog, lanes: tuple[LaneSpec, ...], ids: Sequence[int]) -> Sample | None:
    """Return a sample of the first of these episodes, as many as are needed; None if none of them can be read."""
    found, rows = list[SampledEpisode](), 0
    with OpenLocations() as locations:
        for row in _rows(catalog, ids):
            read = attempt(partial(_read, lanes, row, locations), row.address)
            if isinstance(read, Failure):
                continue
            found.append(read)
            rows += len(read.rows)
            if (len(found) >= _ENOUGH_EPISODES and rows >= _ENOUGH_ROWS) or read.rows.size * len(found) > _MOST_NUMBERS:
                break
    return Sample.of(lanes, found) if found else None


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
