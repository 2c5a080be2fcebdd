"""Which lanes of which episodes should be renamed, so that those of one meaning have one name: group by group."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

from bridge.spaces.alike_lanes import find_alike_lanes
from bridge.spaces.lanes import chosen_lanes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.spaces.alike_lanes import AlikeLanes
    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.lanes import LaneSpec

    Pair = tuple[int, int]

_OBSERVATION: Final = "signal/"


@dataclass(frozen=True)
class Renaming:
    """Lanes that may be those of more episodes under other names.

    maps: {old: new} by the layouts of the fewer episodes. layouts: those of the others.
    """

    maps: Mapping[int, Mapping[str, str]]
    layouts: tuple[int, ...]

    @property
    def pairs(self) -> dict[str, str]:
        """All old names with their new ones."""
        return {old: new for renamed in self.maps.values() for old, new in renamed.items()}

    @property
    def is_of_observations(self) -> bool:
        """Whether lanes are among them by which episodes are compared."""
        return any(name.startswith(_OBSERVATION) for name in self.pairs)

    def joins(self, one: set[str], other: set[str]) -> bool:
        """Return whether it gives a lane of one set the name of a lane of the other."""
        return any((old in one and new in other) or (old in other and new in one) for old, new in self.pairs.items())


def find_renamings(catalog: Catalog) -> list[Renaming]:
    """Return how lanes may get one name: for each group of episodes that share lanes, that of the largest similar one.

    Each lane gets one name, and the other way round: of several that are alike, those that differ least.
    """
    layouts = {layout.id: layout for layout in catalog.query.layouts()}
    groups = _group(layouts)
    sizes = Counter[int]()
    for id_, group in groups.items():
        sizes[group] += layouts[id_].episodes
    found: dict[Pair, list[tuple[str, str]]] = {}
    for one in find_alike_lanes(catalog):
        for pair, names in _orient(one, groups, sizes):
            found.setdefault(pair, []).append(names)
    largest = {fewer: max((sizes[most], -most) for less, most in found if less == fewer) for fewer, _ in found}
    renamings = [
        Renaming(_assign(names, [layouts[id_] for id_ in groups if groups[id_] == fewer]), _of(groups, most))
        for (fewer, most), names in found.items()
        if fewer == most or (sizes[most], -most) == largest[fewer]
    ]
    return [one for one in renamings if one.maps]


def _group(layouts: Mapping[int, Layout]) -> dict[int, int]:
    """Return for each layout the smallest id of those that share lanes with it, directly or by way of others."""
    groups = {id_: id_ for id_ in layouts}
    first: dict[LaneSpec, int] = {}
    for id_, layout in layouts.items():
        for lane in chosen_lanes(layout):
            one, other = groups[id_], groups[first.setdefault(lane, id_)]
            if one != other:
                groups = {known: min(one, other) if own in (one, other) else own for known, own in groups.items()}
    return groups


def _of(groups: Mapping[int, int], group: int) -> tuple[int, ...]:
    return tuple(id_ for id_, own in groups.items() if own == group)


def _orient(one: AlikeLanes, groups: Mapping[int, int], sizes: Mapping[int, int]) -> list[tuple[Pair, tuple[str, str]]]:
    """Return ((group of fewer episodes, of more), (lane of the former, of the latter)) for each two groups."""
    rare, frequent = ({groups[id_] for id_ in ids} for ids in (one.rare_layouts, one.layouts))
    return [
        ((fewer, most), (one.rare, one.frequent))
        if fewer == most or (sizes[fewer], -fewer) < (sizes[most], -most)
        else ((most, fewer), (one.frequent, one.rare))
        for fewer, most in product(sorted(rare), sorted(frequent))
    ]


def _assign(pairs: Sequence[tuple[str, str]], layouts: Sequence[Layout]) -> dict[int, dict[str, str]]:
    """Return {old: new} of each layout that has such lanes; the first pairs come first."""
    maps: dict[int, dict[str, str]] = {}
    for layout in layouts:
        known = {lane.name for lane in layout.lanes}
        renamed: dict[str, str] = {}
        for old, new in pairs:
            if old in known and old not in renamed and new not in {*known, *renamed.values()}:
                renamed[old] = new
        if renamed:
            maps[layout.id] = renamed
    return maps
