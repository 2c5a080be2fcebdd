"""The command that gives lanes of one meaning one name, or others another: which files, and which `--map`."""

from __future__ import annotations

import posixpath
from itertools import count, islice
from shlex import quote
from typing import TYPE_CHECKING, Final

from bridge.spaces.alike_lanes import AlikeLanes, find_alike_lanes
from bridge.spaces.lanes import LaneChoice, choose_lanes
from wshard.core.channel_names import shorten_names
from wshard.core.episode.protocol import parse_read_as
from wshard.core.messages import plural
from wshard.errors import NoLaneError
from wshard.formats.lane_map import find_block, parse_lane_map

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catalog.catalog import Catalog
    from catalog.records import Layout
    from embedders.lanes import LaneSpec

_MOST_READ: Final = 1000  # episodes, by which the files are found
_MOST_NAMED: Final = 3
_WIDTH: Final = 40


def state_map_command(catalog: Catalog, alike: Sequence[AlikeLanes]) -> str:
    """Return the command that renames the rare lanes of the first pair's files, and of other pairs of their layouts.

    It names a folder where nothing in it but episodes with one of both lanes is catalogued, else the first files. Of
    files with different maps, those of the first one. What a map renames already is named as the files have it.
    """
    both = alike[0].rare_layouts, alike[0].layouts
    alike = [one for one in alike if (one.rare_layouts, one.layouts) == both]
    of_rare, of_frequent = (set(catalog.query.ids_of(layouts)) for layouts in both)
    rows = [*catalog.episodes.rows(islice(sorted(of_rare), _MOST_READ)).values()]
    rows = [row for row in rows if row.lane_map == rows[0].lane_map]

    def is_whole(folder: str) -> bool:
        """Return whether the map fits all that is catalogued below a folder: others have it already, without a map."""
        return all(
            (id_ in of_rare and lane_map == rows[0].lane_map) or (id_ in of_frequent and not lane_map)
            for id_, address in catalog.episodes.places(folder)
            for _, lane_map in [parse_read_as(address.read_as)]
        )

    paths = [*dict.fromkeys(row.path for row in rows)]
    folders = [*dict.fromkeys(posixpath.dirname(path) for path in paths)]
    shared = posixpath.dirname(posixpath.commonprefix([f"{folder}/" for folder in folders]))
    within = len(shared) >= len(rows[0].root) > 0
    candidates = [[shared] if within else folders, folders]
    chosen = next((one for one in candidates if len(one) <= _MOST_NAMED and all(map(is_whole, one))), paths)
    renamed = parse_lane_map(rows[0].lane_map)
    for one in alike:
        rare, frequent = (name.removeprefix("signal/") for name in (one.rare, one.frequent))
        renamed[next((old for old, new in renamed.items() if find_block(new, (one.rare,))), rare)] = frequent
    options = " ".join(f"--map {quote(f'{old}={new}')}" for old, new in renamed.items())
    more = f" (and {plural(len(chosen) - _MOST_NAMED, 'more file')})" if len(chosen) > _MOST_NAMED else ""
    return f"`wshard ingest {' '.join(map(quote, chosen[:_MOST_NAMED]))} {options}`{more}"


def propose_maps(catalog: Catalog) -> list[str]:
    """Return a line for each two kinds of files with lanes that may mean the same, with the command that maps them."""
    pairs: dict[tuple[tuple[int, ...], tuple[int, ...]], list[AlikeLanes]] = {}
    for one in find_alike_lanes(catalog):
        pairs.setdefault((one.rare_layouts, one.layouts), []).append(one)
    return [
        f"{', '.join(f'{one.rare} and {one.frequent}' for one in found)} have one shape and scale, and no episode has "
        f"both: if they mean the same, {state_map_command(catalog, found)} compares them"
        for found in pairs.values()
    ]


def name_differing_channels(catalog: Catalog) -> list[str]:
    """Return a line for each lane whose channels have other names in some episodes, with a way to keep them apart.

    Episodes are compared by all channels of lanes of one name and width, in order.
    """
    called: dict[LaneSpec, dict[tuple[str, ...], list[Layout]]] = {}
    layouts = catalog.query.layouts()
    for layout in layouts:
        names = {lane.name: lane.names for lane in layout.lanes}
        for lane in _chosen(layout):
            if names[lane.name] and len(lane.shape) == 1:
                called.setdefault(lane, {}).setdefault(names[lane.name], []).append(layout)
    used = {lane.name for layout in layouts for lane in layout.lanes}
    lines = []
    for lane, of_names in called.items():
        if len(of_names) < 2:
            continue
        counted = sorted(of_names.items(), key=lambda one: -sum(layout.episodes for layout in one[1]))
        said = ", ".join(
            f"{shorten_names(names, _WIDTH)} in {plural(sum(layout.episodes for layout in found), 'episode')}"
            for names, found in counted[:_MOST_NAMED]
        )
        other = next(name for number in count(2) if (name := f"{lane.name}_{number}") not in used)
        apart = AlikeLanes(lane.name, other, tuple(layout.id for layout in counted[-1][1]), ())
        command = state_map_command(catalog, [apart])
        lines.append(
            f"{lane.name}[{lane.channels}] has channels {said}, which are compared in order: if they differ, {command} "
            "keeps them apart"
        )
    return lines


def _chosen(layout: Layout) -> Sequence[LaneSpec]:
    """Return the lanes that are compared by default."""
    try:
        return choose_lanes(layout.lanes, LaneChoice())
    except NoLaneError:
        return ()
