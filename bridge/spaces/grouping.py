"""Group the episodes of an archive by the lanes to embed: those of each episode, and those that many episodes share.

Episodes are compared by the lanes that both have. So each set of lanes that some episodes have in common with others
has a group of all episodes with these lanes, whatever else they have: a few sets, chosen so that as many pairs of
episodes as possible share a group, by as many of their common channels as possible. A lane without finite numbers is
left out for its episode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

from bridge.spaces.lanes import LaneChoice, choose_lanes
from bridge.spaces.shared_channels import find_narrower
from catalog.vectors.records import Among
from embedders.lanes import count_channels
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.lanes import LaneSpec

    Lanes = tuple[LaneSpec, ...]
    Groups = dict[Lanes, "LaneGroup"]
    Bare = Mapping[int, frozenset[str]]
    Narrower = Mapping[LaneSpec, list[LaneSpec]]

_MOST_SHARED: Final = 8
"""Sets of lanes with a group of all episodes that have them: each is one more vector of an episode."""
_MOST_SETS: Final = 64  # the most frequent ones are considered
_LEAST_GAIN: Final = 0.01
"""Share of all pairs of episodes that one more group must compare, or the like by more channels."""


@dataclass(frozen=True)
class LaneGroup:
    """Episodes with the same lanes to embed: of these layouts all but `without`, and parts (layout, ids) of others.

    shared: they have these lanes in common, and some have others too. wider: layouts of them that have more channels in
    a lane.
    """

    layout_ids: tuple[int, ...] = ()
    parts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    without: tuple[int, ...] = ()
    shared: bool = False
    wider: tuple[int, ...] = ()

    def among(self, ids: Sequence[int] | None = None, *, wider: bool = True) -> Among:
        """Return the episodes of the group, or those of them with one of these ids; wider: also of wider lanes."""
        layout_ids = self.layout_ids if wider else tuple(id_ for id_ in self.layout_ids if id_ not in self.wider)
        return Among(layout_ids, ids, parts=self.parts, without=self.without)

    @property
    def measured_layouts(self) -> tuple[int, ...]:
        """The layouts whose episodes count for its statistics."""
        return (*self.layout_ids, *(layout_id for layout_id, _ in self.parts if layout_id not in self.layout_ids))


def group_episodes(catalog: Catalog, choice: LaneChoice) -> tuple[Groups, dict[int, NoLaneError]]:
    """Return the groups by lanes, and why layouts, by id, are in none.

    Lanes that were named are never left out: an episode in which one has no numbers fails when it is read.
    """
    chosen: dict[int, Lanes] = {}
    unfit: dict[int, NoLaneError] = {}
    layouts = {layout.id: layout for layout in catalog.query.layouts()}
    for layout in layouts.values():
        try:
            chosen[layout.id] = choose_lanes(layout.lanes, choice)
        except NoLaneError as error:
            unfit[layout.id] = error
    bare: dict[int, dict[int, frozenset[str]]] = {}
    if choice.names is None and not choice.frames:
        several = {id_: lanes for id_, lanes in chosen.items() if len(lanes) > 1}
        names = sorted({lane.name for lanes in several.values() for lane in lanes})
        bare = catalog.query.lanes_without_numbers([*several], names) if several else {}
    groups: Groups = {}
    counts: dict[Lanes, int] = {}
    for id_, lanes in chosen.items():
        _add(groups, counts, (layouts[id_], lanes), bare.get(id_, {}))
    narrower = find_narrower(catalog, layouts.values(), chosen)
    for shared in share_lanes(counts, narrower):
        lanes = shared if choice.names is None else _in_order(shared, next(iter(chosen.values())))
        groups.pop(lanes, None)  # of the same lanes, though without picks
        groups[lanes] = _gather(lanes, layouts, chosen, (narrower, bare))
    return groups, unfit


def _in_order(lanes: Lanes, named: Lanes) -> Lanes:
    names = [lane.name for lane in named]
    return tuple(sorted(lanes, key=lambda lane: names.index(lane.name)))


def _add(groups: Groups, counts: dict[Lanes, int], of: tuple[Layout, Lanes], bare: Bare) -> None:
    """Add the episodes of a layout to the groups of the lanes that they have numbers of."""
    layout, lanes = of
    ids_by_lanes: dict[Lanes, list[int]] = {}
    for id_, names in bare.items():
        remaining = tuple(lane for lane in lanes if lane.name not in names)
        if remaining and remaining != lanes:
            ids_by_lanes.setdefault(remaining, []).append(id_)
    apart = tuple(id_ for ids in ids_by_lanes.values() for id_ in ids)
    if len(apart) < layout.episodes:
        group = groups.get(lanes, LaneGroup())
        groups[lanes] = replace(group, layout_ids=(*group.layout_ids, layout.id), without=group.without + apart)
        counts[lanes] = counts.get(lanes, 0) + layout.episodes - len(apart)
    for remaining, ids in ids_by_lanes.items():
        group = groups.get(remaining, LaneGroup())
        groups[remaining] = replace(group, parts=(*group.parts, (layout.id, tuple(ids))))
        counts[remaining] = counts.get(remaining, 0) + len(ids)


def _gather(
    lanes: Lanes, layouts: Mapping[int, Layout], chosen: Mapping[int, Lanes], known: tuple[Narrower, Mapping[int, Bare]]
) -> LaneGroup:
    """Return the group of all episodes that have numbers of these lanes, whatever other lanes and channels they have.

    known: which narrower lanes lanes are also read as, and which lanes of episodes have no numbers.
    """
    group, names, (narrower, bare) = LaneGroup(shared=True), {lane.name for lane in lanes}, known
    for id_, own in chosen.items():
        if not {*lanes} <= _extend(own, narrower):
            continue
        is_all = lanes == own  # an episode without any numbers is still read with its own lanes, which says why not
        lacking = tuple(
            episode
            for episode, missing in bare.get(id_, {}).items()
            if names & missing and not (is_all and names <= missing)
        )
        if len(lacking) < layouts[id_].episodes:
            wider = group.wider if {*lanes} <= {*own} else (*group.wider, id_)
            layout_ids, without = (*group.layout_ids, id_), group.without + lacking
            group = replace(group, layout_ids=layout_ids, without=without, wider=wider)
    return group


def _extend(lanes: Iterable[LaneSpec], narrower: Narrower) -> set[LaneSpec]:
    """Return the lanes and those that they are also read as."""
    return {one for lane in lanes for one in (*narrower.get(lane, ()), lane)}


def _widest(lanes: Iterable[LaneSpec]) -> frozenset[LaneSpec]:
    by_name = {lane.name: lane for lane in sorted(lanes, key=lambda lane: lane.channels)}
    return frozenset(by_name.values())


def share_lanes(counts: Mapping[Lanes, int], narrower: Narrower | None = None) -> list[Lanes]:
    """Return the sets of lanes, at most 8, that get a group of all episodes which have them.

    counts: number of episodes by their lanes. None if all have the same, or if too few differ to be worth it. narrower:
    which lanes of fewer channels lanes are also read as.
    """
    also = narrower or {}
    sets = {frozenset(lanes): count for lanes, count in sorted(counts.items(), key=lambda one: -one[1])[:_MOST_SETS]}
    pairs: dict[frozenset[LaneSpec], int] = {}
    for (one, first), (other, second) in combinations(sets.items(), 2):
        if common := _widest(_extend(one, also) & _extend(other, also)):
            pairs[common] = pairs.get(common, 0) + first * second
    within = {lanes: _extend(lanes, also) for lanes in pairs}
    channels = {lanes: count_channels(lanes) for lanes in pairs}
    compared = dict.fromkeys(pairs, 0.0)  # by how many of the channels that they have in common
    total = sum(counts.values())
    least = _LEAST_GAIN * total * (total - 1) / 2
    shared: list[frozenset[LaneSpec]] = []

    def gain(lanes: frozenset[LaneSpec]) -> float:
        return sum(
            weight * max(0.0, channels[lanes] / channels[common] - compared[common])
            for common, weight in pairs.items()
            if lanes <= within[common]
        )

    while pairs and len(shared) < _MOST_SHARED:
        best = max(pairs, key=gain)
        if gain(best) < least or not gain(best):
            break
        shared.append(best)
        for common in pairs:
            if best <= within[common]:
                compared[common] = max(compared[common], channels[best] / channels[common])
    picked = {lane: lane for lanes in also.values() for lane in lanes}
    return [tuple(sorted((picked.get(lane, lane) for lane in lanes), key=lambda lane: lane.name)) for lanes in shared]
