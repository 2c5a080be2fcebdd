"""Keeping each Space's statistics true to the archive as it grows.

Knows: families (same embedder, lanes and windows), when statistics are taken anew, and how one Space replaces another.
Does not know: files or how vectors are made.

An archive may start with one episode. Its Space then holds statistics of one episode; vectors made with other
statistics would not be comparable. So statistics are frozen in the Space, compared with the archive's whenever 5 % of
the archive has changed, and where any channel has moved by more than 5 % of its standard deviation a new Space of the
same family is filled with all episodes, while the old one goes on answering. Then one transaction swaps the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from embedders.space import LaneSpec, Space, Statistics, WindowPlan
from embedders.statistics import Moments, drift, merge, statistics

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.records import SpaceRow
    from embedders.base import Embedder

CHANGED_SHARE: Final = 0.05
DRIFT_LIMIT: Final = 0.05


@dataclass(frozen=True)
class Family:
    """Episodes that share a Space: the embedder, the lanes, the windows, and the layouts that have these lanes."""

    embedder: Embedder
    lanes: tuple[LaneSpec, ...]
    windows: WindowPlan
    layout_ids: tuple[int, ...]

    def space(self, frozen: Statistics | None) -> Space:
        """Return the family's Space with these statistics; without any it serves to name the family only."""
        return Space(
            embedder=self.embedder.name,
            version=self.embedder.version,
            parameters=self.embedder.parameters(),
            lanes=self.lanes,
            windows=self.windows,
            dim=self.embedder.dim(sum(lane.channels for lane in self.lanes)),
            metric=self.embedder.metric,
            statistics=frozen,
        )


def current(catalog: Catalog, family: Family) -> SpaceRow | None:
    """Return the family's active Space, None before its first episodes are embedded."""
    return _of(catalog, family, "active")


def _of(catalog: Catalog, family: Family, state: str) -> SpaceRow | None:
    wanted = family.space(None).family
    return next((row for row in catalog.spaces(state) if row.family == wanted), None)


def due(catalog: Catalog, family: Family) -> SpaceRow | None:
    """Return the Space that must be filled now: the first one, one begun earlier, or one with new statistics.

    None: the active Space is true to the archive.
    """
    building = _of(catalog, family, "building")
    if building is not None:
        return building
    active = current(catalog, family)
    clock = catalog.clock()
    if active is not None and not _worth_checking(catalog, family, active, clock):
        return None
    now = archive_statistics(catalog, family) if family.embedder.uses_statistics else None
    if active is not None:
        frozen = Space.from_json(active.definition).statistics
        if now is None or frozen is None or drift(frozen, now) <= DRIFT_LIMIT:
            catalog.mark_checked(active.id, clock)
            return None
    space = family.space(now)
    return catalog.add_space(space.fingerprint, space.family, space.to_json())


def _worth_checking(catalog: Catalog, family: Family, active: SpaceRow, clock: int) -> bool:
    if not family.embedder.uses_statistics:
        return False
    episodes, _, _ = catalog.ledger_state(active.id)
    return clock - active.checked_seq > CHANGED_SHARE * episodes


def archive_statistics(catalog: Catalog, family: Family) -> Statistics:
    """Return the statistics of all catalogued episodes of the family, from their stored moments."""
    lanes = [
        merge(Moments.from_bytes(count, data) for count, data in catalog.moments(family.layout_ids, lane.name))
        for lane in family.lanes
    ]
    return statistics(lanes)
