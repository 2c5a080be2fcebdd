"""Says by which lanes each hit was compared with the query, and by how many of their channels where not by all."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from bridge.search.query.options import SearchOptions
    from bridge.search.query.prepare import PreparedQuery, View
    from bridge.search.ranking.stored_vectors import StoredVectors
    from catalog.catalog import Catalog
    from embedders.lanes import LaneSpec


def name_lanes(
    ids: Sequence[int], prepared: PreparedQuery[SearchOptions], stored: StoredVectors, catalog: Catalog
) -> list[tuple[str, ...]]:
    """Return the lanes by which each of these episodes was compared: those of the views that have vectors of it."""
    views = prepared.views
    is_alone = len(views) == 1 and prepared.options.text is None  # has vectors of all hits
    having = [({*ids} if is_alone else {*stored.load(one.space, ids).episodes.tolist()}, one) for one in views]
    widths: dict[str, int] = {}  # of the query's lanes
    for lane in (lane for space in (*(one.space for one in views), *prepared.others) for lane in space.lanes):
        widths[lane.name] = max(lane.channels, widths.get(lane.name, 0))
    some_differ = any(lane.picks for one in views for lane in one.space.lanes)
    facts = catalog.query.facts(ids, parts=("lanes",)) if some_differ else {}
    named, widest = [], cache(_widest)
    for id_ in ids:
        present = tuple(view for known, view in having if id_ in known)
        own = {} if id_ not in facts else facts[id_].lanes
        totals = widths | {name: max(widths[name], prod(own[name].shape)) for name in widths.keys() & own.keys()}
        names = (name for view in widest(present) for name in _names_of(view, totals))
        named.append(tuple(dict.fromkeys(names)))
    return named


def _widest(views: Collection[View]) -> list[View]:
    return [one for one in views if not any(one.space.is_part_of(other.space) for other in views)]


def _names_of(view: View, totals: Mapping[str, int]) -> list[str]:
    return [*view.lanes] if view.lanes is not None else [_describe(lane, totals) for lane in view.space.lanes]


def _describe(lane: LaneSpec, totals: Mapping[str, int]) -> str:
    total = totals[lane.name]
    return f"{lane.name} ({lane.channels} of {total} channels)" if lane.picks and total > lane.channels else lane.name
