"""Measures lanes over many episodes: mean and standard deviation of each channel, from what the catalog stores."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.glitches import Usual
from bridge.spaces.source_labels import find_labelled_ids
from catalog.filters.where import Compare
from embedders.space import Statistics
from embedders.statistics import merge_spreads, statistics
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.spaces.glitches import Spread
    from catalog.catalog import Catalog
    from embedders.lanes import LaneSpec
    from embedders.units import OtherScale

_MAX_FLAGGED: Final = 0.2  # share of flagged episodes beyond which flags are ignored


def lane_statistics(
    catalog: Catalog, layout_ids: Sequence[int], lanes: Sequence[LaneSpec], units: Sequence[OtherScale] = ()
) -> Statistics:
    """Return the statistics of concatenated lanes over the episodes of these layouts.

    units: those of episodes to convert to the unit of most. Raises NoLaneError for a lane without finite numbers.

    Episodes that a check flagged for spikes, and those with a timestep far beyond all others, set no scale, unless
    flags are too frequent to tell.
    """
    flagged = frozenset(catalog.query.ids(Compare("flag", "eq", "spike")))
    if len(flagged) > _MAX_FLAGGED * catalog.query.count():
        flagged = frozenset()
    by_lane, first = list[Statistics](), 0
    for lane in lanes:
        own = [one.at(-first) for one in units if first <= one.channels[0] < first + lane.channels]
        # Converted to the scale of most, episodes of another source have the same statistics.
        others = find_labelled_ids(catalog, layout_ids, own)
        read = partial(_read_spreads, catalog, layout_ids, lane, own, others)
        by_lane.append(_lane_statistics(lane.name, read, flagged))
        first += lane.channels
    return Statistics(
        min(lane.count for lane in by_lane),
        np.concatenate([lane.mean for lane in by_lane]),
        np.concatenate([lane.std for lane in by_lane]),
    )


def _read_spreads(
    catalog: Catalog, layout_ids: Sequence[int], lane: LaneSpec, units: Sequence[OtherScale], *without: frozenset[int]
) -> Iterable[Spread]:
    spreads = lane_spreads(catalog, layout_ids, lane, frozenset().union(*without))
    for unit in units:
        spreads = unit.share_spreads(spreads)
    return spreads


def lane_spreads(
    catalog: Catalog, layout_ids: Sequence[int], lane: LaneSpec, without: frozenset[int] = frozenset()
) -> Iterable[Spread]:
    """Return the spreads of the lane's channels in every episode, of those that are read as it too."""
    spreads = catalog.query.spreads(layout_ids, lane.name, without=without)
    if not lane.picks:
        return spreads
    tables = ((count, np.array(numbers, np.float64).reshape(-1, 4).T) for count, numbers in spreads)
    return ((count, tuple(lane.pick(table).T.ravel().tolist())) for count, table in tables)


def _lane_statistics(
    lane: str, read: Callable[[frozenset[int]], Iterable[Spread]], flagged: frozenset[int]
) -> Statistics:
    for without in (flagged, frozenset()) if flagged else (flagged,):
        usual = Usual.of(read(without))
        stored = usual.without_glitched(read(without))
        first = next(stored, None)
        if first is not None:
            return statistics([merge_spreads(chain([first], stored))])
    raise NoLaneError(
        f"lane {lane!r}: expected finite numbers in one episode at least, found none that has them in nine of ten "
        f"timesteps: --lanes NAME embeds another lane; a layout can leave a sparse column out"
    )
