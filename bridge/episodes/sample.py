"""Reads episodes from which the kinds of an archive's channels are found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.episodes.read import Failure, attempt, read_rows
from bridge.spaces.rotations import Sample, SampledEpisode
from bridge.spaces.source_labels import source_labels
from wshard.core.channel_kinds import declared_kinds
from wshard.core.channel_names import channel_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from embedders.space import LaneSpec

_ENOUGH_EPISODES: Final = 96
_ENOUGH_ROWS: Final = 24_000
_MOST_NUMBERS: Final = 1 << 24


def read_sample(catalog: Catalog, lanes: tuple[LaneSpec, ...], ids: Sequence[int]) -> Sample | None:
    """Return a sample of the first of these episodes, as many as are needed; None if none of them can be read."""
    found, rows, by_id = list[SampledEpisode](), 0, catalog.episodes.rows(ids)
    with OpenLocations() as locations:
        for row in (by_id[id_] for id_ in ids if id_ in by_id):
            read = attempt(partial(_read, lanes, row, locations), row.address)
            if isinstance(read, Failure):
                continue
            found.append(read)
            rows += len(read.rows)
            if (len(found) >= _ENOUGH_EPISODES and rows >= _ENOUGH_ROWS) or read.rows.size * len(found) > _MOST_NUMBERS:
                break
    return Sample.of(lanes, found) if found else None


def _read(lanes: Sequence[LaneSpec], row: EpisodeRow, locations: OpenLocations) -> SampledEpisode:
    with locations.open(row.address) as file:
        declared = [file.lane_view(lane.name).declaration for lane in lanes]
        rows = read_rows(file, lanes)[0].astype(np.float64)
        source = source_labels(row.metadata, row.env_id, row.address)
        return SampledEpisode(rows, tuple(map(declared_kinds, declared)), tuple(map(channel_labels, declared)), source)
