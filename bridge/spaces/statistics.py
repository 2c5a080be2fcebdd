"""Keep the statistics of each Space close to those of the archive as it grows.

Statistics are frozen in a Space and compared with the archive's whenever 5 % of the archive has changed. Where a
channel has drifted by more than 5 % of its standard deviation, a new Space is filled and then replaces the old one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

from bridge.spaces.glitches import sample_parts
from bridge.spaces.grouping import LaneGroup, group_episodes
from bridge.spaces.lane_statistics import lane_spreads, lane_statistics
from bridge.spaces.lanes import LaneChoice, weights_in
from bridge.spaces.rotations import choose_sample
from bridge.spaces.units import find_unit
from embedders.base import dim_of
from embedders.lanes import LaneSpec, count_channels
from embedders.space import Space, Statistics
from embedders.statistics import drift
from wshard.errors import EmbedderError, NoLaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.spaces.rotations import ReadSample
    from catalog.catalog import Catalog
    from catalog.vectors.records import SpaceRow
    from embedders.base import Embedder
    from embedders.rotations import Rotation
    from embedders.units import OtherScale
    from embedders.windows import WindowPlan

    Measure: TypeAlias = Callable[["Family", Space | None], "Scale"]

CHANGED_SHARE: Final = 0.05
DRIFT_LIMIT: Final = 0.05


@dataclass(frozen=True)
class Choice:
    """How to embed: embedder, lanes, and windows."""

    embedder: Embedder
    lanes: LaneChoice
    windows: WindowPlan


@dataclass(frozen=True, eq=False)
class Scale:
    """What is found in the numbers of an archive: what makes rows canonical, and the statistics of such rows."""

    statistics: Statistics
    rotations: tuple[Rotation, ...] | None = None
    units: tuple[OtherScale, ...] | None = None


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

    def reads_as(self, space: Space) -> bool:
        """Return whether a Space of the family reads wider lanes as the family does now."""
        return [lane.picks for lane in space.lanes] == [lane.picks for lane in self.lanes]

    def space(self, scale: Scale | None, rates: tuple[float | None, ...] | None = None) -> Space:
        """Return the family's Space with what was found in the archive; without it, it only names the family."""
        return Space(
            embedder=self.embedder.name,
            version=self.embedder.version,
            parameters=self.embedder.parameters(),
            lanes=self.lanes,
            windows=self.windows,
            dim=dim_of(self.embedder, count_channels(self.lanes)),
            metric=self.embedder.metric,
            statistics=None if scale is None else scale.statistics,
            weights=self.weights,
            rates=rates,
            rotations=None if scale is None else scale.rotations,
            units=None if scale is None else scale.units,
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


def find_space_to_fill(catalog: Catalog, family: Family, measure: Measure) -> SpaceRow | None:
    """Return the Space that must be filled now: the first one, one begun earlier, or one with new statistics.

    None: the active Space matches the archive. measure: see measure_once. Raises NoLaneError if no episode has
    finite numbers in a lane.
    """
    living = _living(catalog, family)
    if "building" in living:
        return living["building"]
    active = living.get("active")
    clock = catalog.clock()
    known = None if active is None else Space.from_json(active.definition)
    reads_alike = known is not None and family.reads_as(known)
    if active is not None and reads_alike and not _is_check_due(catalog, family, active, clock):
        return None
    scale = measure(family, known) if family.embedder.uses_statistics else None
    if active is not None and known is not None and reads_alike and not _has_changed(known, scale):
        catalog.vectors.mark_checked(active.id, clock)
        return None
    space = family.space(scale, archive_rates(catalog, family))
    row = catalog.vectors.add_space(space.fingerprint, space.family, space.to_json())
    if row.fingerprint != space.fingerprint:  # that of another ingest
        return row
    catalog.vectors.mark_checked(row.id, clock)
    return replace(row, checked_seq=clock)


def _is_check_due(catalog: Catalog, family: Family, active: SpaceRow, clock: int) -> bool:
    if not family.embedder.uses_statistics:
        return False
    episodes = catalog.vectors.state(active.id).episodes
    return clock - active.checked_seq > CHANGED_SHARE * episodes


def _has_changed(known: Space, scale: Scale | None) -> bool:
    if scale is None or known.statistics is None:
        return False
    found = known.rotations, known.units
    return found != (scale.rotations, scale.units) or drift(known.statistics, scale.statistics) > DRIFT_LIMIT


def measure_once(catalog: Catalog, read: ReadSample) -> Measure:
    """Return archive_scale as of a family and its present Space, measured once for all families of the same lanes."""
    scales: dict[tuple[object, ...], Scale] = {}

    def measure(family: Family, known: Space | None) -> Scale:
        key = family.lanes, family.group.measured_layouts, known and (known.rotations, known.units)
        if key not in scales:
            scales[key] = archive_scale(catalog, family, read, known)
        return scales[key]

    return measure


def archive_scale(catalog: Catalog, family: Family, read: ReadSample, known: Space | None = None) -> Scale:
    """Return the scale of all catalogued episodes of the family.

    read: returns a sample of these episodes, in which rotations are found and measured; all else is in the catalog.
    known: the present Space, whose rotations and units keep their references and limits. An episode with NaN or
    infinities in one lane counts for its other lanes. Raises NoLaneError if that leaves a lane without any episode.
    """
    layout_ids = family.group.measured_layouts
    if len(family.lanes[0].shape) > 1:  # images
        return Scale(lane_statistics(catalog, layout_ids, family.lanes))
    sample = read(family.lanes, choose_sample(catalog.query.ids_of(layout_ids)))
    rotations = () if sample is None else sample.rotations
    if known is not None and [one.channels for one in rotations] == [one.channels for one in known.rotations or ()]:
        rotations = known.rotations or ()
    sources = [()] * len(family.lanes) if sample is None else sample.sources
    units = _find_units(catalog, family, (rotations, sources), (known and known.units) or ())
    present = lane_statistics(catalog, layout_ids, family.lanes, units)
    return Scale(present if sample is None else sample.measure(present, rotations), rotations or None, units or None)


def _find_units(
    catalog: Catalog,
    family: Family,
    sampled: tuple[Sequence[Rotation], Sequence[Sequence[OtherScale]]],
    known: Sequence[OtherScale],
) -> tuple[OtherScale, ...]:
    """Return the units in which lanes are, and the sources of the others; known ones are as they were."""
    rotations, sources = sampled
    turning = {channel for one in rotations for channel in range(one.channels.start, one.channels.stop)}
    found: list[OtherScale] = []
    first = 0
    for lane, of_lane in zip(family.lanes, sources, strict=True):
        own = range(first, first + lane.channels)
        parts = sample_parts(lane_spreads(catalog, family.group.measured_layouts, lane))
        unit = find_unit([spread for _, spread in parts], [channel - first for channel in turning.intersection(own)])
        for one in of_lane if unit is None else [unit]:
            present = one.at(first)
            found.append(next((old for old in known if old.is_like(present) and old.channels[0] in own), present))
        first = own.stop
    return tuple(found)


def archive_rates(catalog: Catalog, family: Family) -> tuple[float | None, ...]:
    """Return the timesteps per second of each lane, None if episodes of the family differ or it is unknown."""
    rates_by_lane = [catalog.query.rates(family.group.measured_layouts, lane.name) for lane in family.lanes]
    return tuple(rates.pop() if len(rates) == 1 else None for rates in rates_by_lane)
