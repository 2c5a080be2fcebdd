"""Keep the statistics of each Space close to those of the archive as it grows.

Statistics are frozen in a Space and compared with the archive's whenever 5 % of the archive has changed. Where a
channel has drifted by more than 5 % of its standard deviation, a new Space is filled and then replaces the old one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.spaces.glitches import Usual
from bridge.spaces.grouping import LaneGroup, group_episodes
from bridge.spaces.lanes import LaneChoice, block_name
from bridge.spaces.rotations import choose_sample
from catalog.filters.where import Compare
from embedders.base import dim_of
from embedders.numeric import check_number
from embedders.space import LaneSpec, Space, Statistics, count_channels
from embedders.statistics import drift, merge_spreads, statistics
from wshard.errors import EmbedderError, NoLaneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.spaces.rotations import ReadSample
    from catalog.catalog import Catalog
    from catalog.vectors.records import SpaceRow
    from embedders.base import Embedder
    from embedders.rotations import Rotation
    from embedders.windows import WindowPlan

CHANGED_SHARE: Final = 0.05
DRIFT_LIMIT: Final = 0.05
_MAX_FLAGGED: Final = 0.2  # share of flagged episodes beyond which flags are ignored


@dataclass(frozen=True)
class Choice:
    """How to embed: embedder, lanes, and windows."""

    embedder: Embedder
    lanes: LaneChoice
    windows: WindowPlan


def weights_in(weights: Mapping[str, float] | None, lanes: Sequence[LaneSpec]) -> tuple[float, ...] | None:
    """Return the weights of the lanes, in their order, scaled to the sum 1: equal ratios make equal Spaces.

    `weights` names every one of the lanes. Raises EmbedderError for a weight that is not a number > 0.
    """
    if weights is None:
        return None
    names = {lane.name for lane in lanes}
    by_block = {block_name(name, names): check_number(weight, "weights of lanes") for name, weight in weights.items()}
    ordered = [by_block[lane.name] for lane in lanes]
    if min(ordered) <= 0:
        raise EmbedderError(f"weights of lanes: expected numbers > 0, found {by_block}")
    total = math.fsum(ordered)
    if abs(total - 1) < 2**-50:  # already scaled: scaling again could change the last bit, and thereby the Space
        return tuple(ordered)
    return tuple(weight / total for weight in ordered)


@dataclass(frozen=True)
class Family:
    """Episodes that share a Space: the embedder, the lanes, the windows, and the group of episodes with these lanes."""

    embedder: Embedder
    lanes: tuple[LaneSpec, ...]
    windows: WindowPlan
    group: LaneGroup
    weights: tuple[float, ...] | None = None

    @cached_property
    def name(self) -> str:
        """The family name shared by all its Spaces (see Space.family)."""
        return self.space(None).family

    def space(
        self,
        frozen: Statistics | None,
        rates: tuple[float | None, ...] | None = None,
        rotations: tuple[Rotation, ...] | None = None,
    ) -> Space:
        """Return the family's Space with what was found in the archive; without it, it only names the family."""
        return Space(
            embedder=self.embedder.name,
            version=self.embedder.version,
            parameters=self.embedder.parameters(),
            lanes=self.lanes,
            windows=self.windows,
            dim=dim_of(self.embedder, count_channels(self.lanes)),
            metric=self.embedder.metric,
            statistics=frozen,
            weights=self.weights,
            rates=rates,
            rotations=rotations,
        )


def families(catalog: Catalog, choice: Choice) -> tuple[list[Family], dict[int, NoLaneError]]:
    """Group the catalogued layouts by the lanes to embed; returns also why layouts, by id, have none.

    By default lanes without finite numbers are left out for their episode, if it has others. Layouts whose
    lanes the embedder refuses, such as those of other channels than it was trained on, are left out if it accepts
    others. Raises EmbedderError if it accepts none.
    """
    groups, unfit = group_episodes(catalog, choice.lanes)
    usable: list[Family] = []
    refused: list[EmbedderError] = []
    for lanes, group in groups.items():
        try:
            dim_of(choice.embedder, count_channels(lanes))
        except EmbedderError as error:
            refused.append(error)
            unfit |= dict.fromkeys(group.layout_ids, NoLaneError(str(error)))
        else:
            weights = weights_in(choice.lanes.weights, lanes)
            usable.append(Family(choice.embedder, lanes, choice.windows, group, weights))
    if refused and not usable:
        raise refused[0]
    return usable, unfit


def current(catalog: Catalog, family: Family) -> SpaceRow | None:
    """Return the family's active Space, None before its first episodes are embedded."""
    return _living(catalog, family).get("active")


def _living(catalog: Catalog, family: Family) -> dict[str, SpaceRow]:
    """Return the family's living Spaces by state: at most one is active, and one is being built."""
    return {row.state: row for row in catalog.vectors.live_spaces() if row.family == family.name}


def find_space_to_fill(catalog: Catalog, family: Family, read: ReadSample) -> SpaceRow | None:
    """Return the Space that must be filled now: the first one, one begun earlier, or one with new statistics.

    None: the active Space matches the archive. read: see archive_statistics. Raises NoLaneError if no episode has
    finite numbers in a lane.
    """
    living = _living(catalog, family)
    if "building" in living:
        return living["building"]
    active = living.get("active")
    clock = catalog.clock()
    if active is not None and not _is_check_due(catalog, family, active, clock):
        return None
    known = None if active is None else Space.from_json(active.definition)
    present, rotations = None, None
    if family.embedder.uses_statistics:
        present, rotations = archive_statistics(catalog, family, read, known)
    if active is not None and known is not None and not _has_changed(known, present, rotations):
        catalog.vectors.mark_checked(active.id, clock)
        return None
    space = family.space(present, archive_rates(catalog, family), rotations)
    return catalog.vectors.add_space(space.fingerprint, space.family, space.to_json())


def _is_check_due(catalog: Catalog, family: Family, active: SpaceRow, clock: int) -> bool:
    if not family.embedder.uses_statistics:
        return False
    episodes = catalog.vectors.state(active.id).episodes
    return clock - active.checked_seq > CHANGED_SHARE * episodes


def _has_changed(known: Space, present: Statistics | None, rotations: tuple[Rotation, ...] | None) -> bool:
    if present is None or known.statistics is None:
        return False
    return known.rotations != rotations or drift(known.statistics, present) > DRIFT_LIMIT


def archive_statistics(
    catalog: Catalog, family: Family, read: ReadSample, known: Space | None = None
) -> tuple[Statistics, tuple[Rotation, ...] | None]:
    """Return the statistics of all catalogued episodes of the family, and the rotations in them, None for none.

    read: returns a sample of these episodes, in which rotations are found and measured; all else is in the catalog.
    known: the present Space, whose rotations keep their references. An episode with NaN or infinities in one lane
    counts for its other lanes. Raises NoLaneError if that leaves a lane without any episode.
    """
    statistics = lane_statistics(catalog, family.group.measured_layouts, family.lanes)
    if len(family.lanes[0].shape) > 1:  # images
        return statistics, None
    sample = read(family.lanes, choose_sample(catalog.query.ids_of(family.group.measured_layouts)))
    if sample is None or not sample.rotations:
        return statistics, None
    rotations = sample.rotations
    if known is not None and [one.channels for one in rotations] == [one.channels for one in known.rotations or ()]:
        rotations = known.rotations or ()
    return sample.measure(statistics, rotations), rotations


def archive_rates(catalog: Catalog, family: Family) -> tuple[float | None, ...]:
    """Return the timesteps per second of each lane, None if episodes of the family differ or it is unknown."""
    rates_by_lane = [catalog.query.rates(family.group.measured_layouts, lane.name) for lane in family.lanes]
    return tuple(rates.pop() if len(rates) == 1 else None for rates in rates_by_lane)


def lane_statistics(catalog: Catalog, layout_ids: Sequence[int], lanes: Sequence[LaneSpec]) -> Statistics:
    """Return the statistics of concatenated lanes over the episodes of these layouts; raises NoLaneError as above.

    Episodes that a check flagged for spikes, and those with a timestep far beyond all others, set no scale, unless
    flags are too frequent to tell.
    """
    flagged = frozenset(catalog.query.ids(Compare("flag", "eq", "spike")))
    if len(flagged) > _MAX_FLAGGED * catalog.query.count():
        flagged = frozenset()
    by_lane = [_lane_statistics(catalog, layout_ids, lane.name, flagged) for lane in lanes]
    return Statistics(
        min(lane.count for lane in by_lane),
        np.concatenate([lane.mean for lane in by_lane]),
        np.concatenate([lane.std for lane in by_lane]),
    )


def _lane_statistics(catalog: Catalog, layout_ids: Sequence[int], lane: str, flagged: frozenset[int]) -> Statistics:
    for without in (flagged, frozenset()) if flagged else (flagged,):
        usual = Usual.of(catalog.query.spreads(layout_ids, lane, without=without))
        stored = usual.without_glitched(catalog.query.spreads(layout_ids, lane, without=without))
        first = next(stored, None)
        if first is not None:
            return statistics([merge_spreads(chain([first], stored))])
    raise NoLaneError(f"lane {lane!r}: expected finite numbers in one episode at least, found none")
