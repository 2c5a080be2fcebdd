"""Find which channels lanes of one name but other widths have in common: by their names, else by scale and order.

Lanes without names are compared where the narrower one's channels, in order, have about the mean and spread of channels
of the wider one, and no others have. What is found is part of the Space, so ingest and lists of Spaces show it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.lanes import ChannelPick, LaneSpec
from embedders.standardise import scales
from embedders.statistics import merge_spreads, statistics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.space import Statistics

    Names = tuple[str, ...]
    Places = tuple[int, ...]
    Narrower = dict[LaneSpec, list[LaneSpec]]
    Stated = dict[LaneSpec, tuple[list[int], set[Names]]]

_LEAST_NAMED: Final = 0.5
"""Share of the narrower lane's channels that the other one has too."""
_MEASURED: Final = 256  # episodes, the oldest ones
_MOST_ADDED: Final = 0.25
"""Channels that the wider lane has more, relative to the narrower one: among many, some resemble any others."""
_FARTHEST: Final = 2.0
"""Distance of two channels that have nothing in common: standard deviations, and the logarithm of their ratio."""
_NEAR: Final = 0.4
"""Distance of channels that are the same, relative to the mean distance of any two."""


def find_narrower(catalog: Catalog, layouts: Iterable[Layout], chosen: Mapping[int, Sequence[LaneSpec]]) -> Narrower:
    """Return for each lane those of fewer channels that it is also read as; chosen: the lanes of layouts, by id."""
    by_name: dict[str, Stated] = {}
    for layout in layouts:
        names = {lane.name: lane.names for lane in layout.lanes}
        for lane in chosen.get(layout.id, ()):
            if len(lane.shape) == 1:
                ids, stated = by_name.setdefault(lane.name, {}).setdefault(lane, ([], set()))
                ids.append(layout.id)
                stated.update({names[lane.name]} - {()})
    narrower: Narrower = {}
    for of_name in by_name.values():
        if len(of_name) > 1:
            _add_narrower(catalog, of_name, narrower)
    return narrower


def _add_narrower(catalog: Catalog, stated: Stated, narrower: Narrower) -> None:
    """Add the lanes of one name; stated: the layouts that have each, and what they call its channels."""

    @cache
    def measure(lane: LaneSpec) -> Statistics | None:
        parts = [*islice(catalog.query.spreads(stated[lane][0], lane.name), _MEASURED)]
        return statistics([merge_spreads(parts)]) if parts else None

    names = {lane: next(iter(called), ()) for lane, (_, called) in stated.items() if len(called) < 2}  # else unclear
    picks: dict[LaneSpec, dict[int, ChannelPick]] = {}
    for narrow, wide in combinations(sorted(names, key=lambda lane: lane.channels), 2):
        is_named = bool(names[narrow] and names[wide])
        if is_named:
            places = match_names(names[narrow], names[wide])
        else:
            places = tuple(range(narrow.channels)), match_scales(measure(narrow), measure(wide))
        if not places[1]:
            continue
        common = replace(narrow, shape=(len(places[1]),))
        words = tuple(names[narrow][place] for place in places[0]) if names[narrow] else ()
        if names.setdefault(common, words) == words:
            both = zip((narrow, wide), places, strict=True)
            found = {lane.channels: ChannelPick(lane.channels, own, is_named) for lane, own in both if lane != common}
            picks.setdefault(common, {}).update(found)
    for common, of_common in picks.items():
        picked = replace(common, picks=tuple(sorted(of_common.values())))
        for lane in stated:
            if picked.takes(lane.shape):
                narrower.setdefault(lane, []).append(picked)


def match_names(names: Names, others: Names) -> tuple[Places, Places]:
    """Return where both have the channels that they share, in the order of the first; nothing for too few of them."""
    common = [name for name in names if name in others]
    if len(common) < max(1, _LEAST_NAMED * len(names)):
        return (), ()
    return tuple(map(names.index, common)), tuple(map(others.index, common))


def match_scales(narrow: Statistics | None, wide: Statistics | None) -> Places:
    """Return which channels of the wider lane are, in order, those of the narrower one; nothing if that is unclear."""
    if narrow is None or wide is None:
        return ()
    count, added = narrow.mean.size, wide.mean.size - narrow.mean.size
    if added > _MOST_ADDED * count:
        return ()
    first, second = scales(narrow)[:, None], scales(wide)
    shifts = np.abs(narrow.mean[:, None] - wide.mean) / np.maximum(first, second)
    distances = np.minimum(np.abs(np.log(first / second)) + shifts, _FARTHEST)
    reached, best = [], np.zeros(wide.mean.size)
    for row in distances:  # the least sum of distances that ends with each channel of the wider lane
        reached.append(best + row)
        best = np.concatenate([[np.inf], np.minimum.accumulate(reached[-1])[:-1]])
    places: list[int] = []
    for sums in reversed(reached):
        places.insert(0, int(sums[: places[0] if places else None].argmin()))
    near = distances[np.arange(count), places].mean()
    return tuple(places) if near <= _NEAR * distances.mean() else ()
