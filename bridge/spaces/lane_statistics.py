"""Measures lanes over many episodes: mean and standard deviation of each channel, from what the catalog stores."""

from __future__ import annotations

from functools import partial
from itertools import chain
from math import isnan
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from bridge.spaces.glitches import Usual, sample_parts
from bridge.spaces.source_labels import load_labels
from embedders.space import Statistics
from embedders.statistics import merge_spreads, statistics
from embedders.units import NO_LABELS, share_spread
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from bridge.spaces.glitches import Spread
    from catalog.catalog import Catalog
    from embedders.lanes import LaneSpec
    from embedders.units import OtherScale


def lane_statistics(
    catalog: Catalog, layout_ids: Sequence[int], lanes: Sequence[LaneSpec], units: Sequence[OtherScale] = ()
) -> Statistics:
    """Return the statistics of concatenated lanes over the episodes of these layouts.

    units: those of episodes to convert to the unit of most. Raises NoLaneError for a lane without finite numbers.

    Episodes with a timestep far beyond all others set no scale. What checks flag does not matter: they compare episodes
    of one layout, so that the scale would change with lanes that are not embedded.
    """
    by_lane, first = list[Statistics](), 0
    for lane in lanes:
        own = [one.at(-first) for one in units if first <= one.channels[0] < first + lane.channels]
        labels = load_labels(catalog, layout_ids, own)
        read = partial(lane_spreads, catalog, layout_ids, lane, own, labels)
        by_lane.append(_lane_statistics(lane.name, read))
        first += lane.channels
    return Statistics(
        min(lane.count for lane in by_lane),
        np.concatenate([lane.mean for lane in by_lane]),
        np.concatenate([lane.std for lane in by_lane]),
    )


def lane_spreads(
    catalog: Catalog,
    layout_ids: Sequence[int],
    lane: LaneSpec,
    units: Sequence[OtherScale] = (),
    labels: Mapping[int, Mapping[str, str]] = MappingProxyType({}),
    *,
    blank: bool = False,
) -> Iterator[Spread]:
    """Yield the spreads of the lane's channels in every episode, of those that are read as it too.

    units: episodes are converted to that of most; labels: what episodes are labelled with, by id; blank: also those of
    episodes with channels without numbers, as NaN.
    """
    for id_, count, numbers in catalog.query.spreads_by_id(layout_ids, lane.name, blank=blank):
        spread: Sequence[float] = numbers
        if lane.picks:
            spread = lane.pick(np.array(numbers, np.float64).reshape(-1, 4).T).T.ravel().tolist()
        yield count, share_spread(units, spread, labels.get(id_, NO_LABELS)) if units else spread


def _lane_statistics(lane: str, read: Callable[..., Iterable[Spread]]) -> Statistics:
    stored = Usual.of(read()).without_glitched(read())
    first = next(stored, None)
    if first is not None:
        return statistics([merge_spreads(chain([first], stored))])
    if parts := sample_parts(read(blank=True)):
        return _merge_known(parts)
    raise NoLaneError(
        f"lane {lane!r}: expected finite numbers in one episode at least, found none that has them in nine of ten "
        f"timesteps: --lanes NAME embeds another lane; a layout can leave a sparse column out"
    )


def _merge_known(parts: Sequence[Spread]) -> Statistics:
    """Return the statistics of each channel over the episodes that have numbers in it; 0 where none has."""
    means, stds = [], []
    for start in range(0, len(parts[0][1]), 4):
        some = [(count, spread[start : start + 4]) for count, spread in parts if not isnan(spread[start])]
        of_channel = statistics([merge_spreads(some or [(1, (0.0, 0.0, 0.0, 0.0))])])
        means.append(of_channel.mean)
        stds.append(of_channel.std)
    return Statistics(sum(count for count, _ in parts), np.concatenate(means), np.concatenate(stds))
