"""Group the episodes of an archive by the lanes to embed; a lane without finite numbers is left out for its episode."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bridge.spaces.lanes import LaneChoice, choose_lanes
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.space import LaneSpec

    Groups = dict[tuple[LaneSpec, ...], "LaneGroup"]


@dataclass
class LaneGroup:
    """Episodes with the same lanes to embed: of these layouts all but `without`, and parts (layout, ids) of others."""

    layout_ids: list[int] = field(default_factory=list)
    parts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    without: list[int] = field(default_factory=list)


def group_episodes(catalog: Catalog, choice: LaneChoice) -> tuple[Groups, dict[int, NoLaneError]]:
    """Return the groups by lanes, and why layouts, by id, are in none.

    Lanes that were named are never left out: an episode in which one has no numbers fails when it is read.
    """
    chosen: dict[int, tuple[LaneSpec, ...]] = {}
    unfit: dict[int, NoLaneError] = {}
    layouts = {layout.id: layout for layout in catalog.query.layouts()}
    for layout in layouts.values():
        try:
            chosen[layout.id] = choose_lanes(layout.lanes, choice)
        except NoLaneError as error:
            unfit[layout.id] = error
    groups: Groups = {}
    bare: dict[int, dict[int, frozenset[str]]] = {}
    if choice.names is None and not choice.frames:
        several = {id_: lanes for id_, lanes in chosen.items() if len(lanes) > 1}
        names = sorted({lane.name for lanes in several.values() for lane in lanes})
        bare = catalog.query.lanes_without_numbers([*several], names) if several else {}
    for id_, lanes in chosen.items():
        _add(groups, layouts[id_], lanes, bare.get(id_, {}))
    return groups, unfit


def _add(groups: Groups, layout: Layout, lanes: tuple[LaneSpec, ...], bare: dict[int, frozenset[str]]) -> None:
    """Add the episodes of a layout to the groups of the lanes that they have numbers of."""
    ids_by_lanes: dict[tuple[LaneSpec, ...], list[int]] = {}
    for id_, names in bare.items():
        remaining = tuple(lane for lane in lanes if lane.name not in names)
        if remaining and remaining != lanes:
            ids_by_lanes.setdefault(remaining, []).append(id_)
    apart = [id_ for ids in ids_by_lanes.values() for id_ in ids]
    if len(apart) < layout.episodes:
        group = groups.setdefault(lanes, LaneGroup())
        group.layout_ids.append(layout.id)
        group.without += apart
    for remaining, ids in ids_by_lanes.items():
        groups.setdefault(remaining, LaneGroup()).parts.append((layout.id, tuple(ids)))
