"""The command that gives lanes of one meaning one name, or others another: which files, and which `--map`."""

from __future__ import annotations

import posixpath
from itertools import count, islice
from shlex import quote
from typing import TYPE_CHECKING, Final

from bridge.spaces.lanes import chosen_lanes
from bridge.spaces.renamings import find_renamings
from wshard.core.channel_names import shorten_names
from wshard.core.episode.protocol import parse_read_as
from wshard.core.messages import plural
from wshard.formats.lane_map import find_block, parse_lane_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.spaces.renamings import Renaming
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow, Layout
    from embedders.lanes import LaneSpec

_MOST_READ: Final = 1000  # episodes, by which the files are found
_MOST_KINDS: Final = 3  # kinds of names, or folders
_MOST_NAMED: Final = 8  # files
_WIDTH: Final = 40


def state_map_commands(catalog: Catalog, maps: Mapping[int, Mapping[str, str]]) -> str:
    """Return the commands that rename lanes {old: new} of the files with these layouts, one for equal maps."""
    layouts: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for layout_id, renamed in maps.items():
        layouts.setdefault(tuple(sorted(renamed.items())), []).append(layout_id)
    return " and ".join(_state_command(catalog, ids, dict(renamed)) for renamed, ids in layouts.items())


def _state_command(catalog: Catalog, layout_ids: Sequence[int], renamed: Mapping[str, str]) -> str:
    """Return the command that renames lanes of the files with episodes of these layouts.

    It names a folder, or files of it by the beginning of their names, where nothing in it but these episodes and such
    as have the new names is catalogued, else the files. Of files with different maps, those of the first one. What a
    map renames already is named as the files have it.
    """
    news = {*renamed.values()}
    renewed = [one.id for one in catalog.query.layouts() if news <= {lane.name for lane in one.lanes}]
    ids, others = (set(catalog.query.ids_of(some)) for some in (layout_ids, renewed))
    rows = [*catalog.episodes.rows(islice(sorted(ids), _MOST_READ)).values()]
    rows = [row for row in rows if row.lane_map == rows[0].lane_map]
    files = _name_files(catalog, rows, ids, others)
    options = parse_lane_map(rows[0].lane_map)
    for old, new in renamed.items():
        known = [own for own, now in options.items() if find_block(now, (old,))] or [old.removeprefix("signal/")]
        options |= dict.fromkeys(known, new.removeprefix("signal/"))
    written = " ".join(f"--map {quote(f'{old}={new}')}" for old, new in options.items())
    more = f" (and {plural(len(files) - _MOST_NAMED, 'more file')})" if len(files) > _MOST_NAMED else ""
    return f"`wshard ingest {' '.join(files[:_MOST_NAMED])} {written}`{more}"


def _name_files(catalog: Catalog, rows: Sequence[EpisodeRow], ids: set[int], others: set[int]) -> list[str]:
    """Return what names the files of these rows in a shell, as short as it can be said."""

    def is_whole(folder: str, beginning: str = "") -> bool:
        """Return whether the map fits all that is catalogued below a folder: others have it already, without a map."""
        return all(
            (id_ in ids and lane_map == rows[0].lane_map) or (id_ in others and not lane_map)
            for id_, address in catalog.episodes.places(folder)
            if address.uri.startswith(beginning)
            for _, lane_map in [parse_read_as(address.read_as)]
        )

    paths = [*dict.fromkeys(row.path for row in rows)]
    folders = [*dict.fromkeys(posixpath.dirname(path) for path in paths)]
    shared = posixpath.dirname(posixpath.commonprefix([f"{folder}/" for folder in folders]))
    within = len(shared) >= len(rows[0].root) > 0
    for some in ([shared] if within else folders, folders):
        if len(some) <= _MOST_KINDS and all(map(is_whole, some)):
            return [*map(quote, some)]
    beginning, suffix = posixpath.commonprefix(paths), posixpath.splitext(paths[0])[1]
    is_one_folder = len(folders) == 1 and len(beginning) > len(folders[0]) + 1
    if len(paths) > 1 and is_one_folder and is_whole(folders[0], beginning):
        return [f"{quote(beginning)}*{quote(suffix)}"]
    return [*map(quote, paths)]


def propose_maps(catalog: Catalog) -> list[str]:
    """Return a line for each group of episodes with lanes that may be those of others, with what renames them."""
    counts = {layout.id: layout.episodes for layout in catalog.query.layouts()}
    return [_propose(catalog, one, counts) for one in find_renamings(catalog)]


def _propose(catalog: Catalog, one: Renaming, counts: Mapping[int, int]) -> str:
    names = ", ".join(
        f"{old.removeprefix('signal/')} = {new.removeprefix('signal/')}" for old, new in one.pairs.items()
    )
    fewer, more = (plural(sum(counts[id_] for id_ in ids), "episode") for ids in (one.maps, one.layouts))
    effect = "compares them" if one.is_of_observations else "gives them one name"
    return (
        f"{fewer} may have lanes of {more} under other names, of one shape and scale: {names}; if they mean the same, "
        f"{state_map_commands(catalog, one.maps)} {effect}"
    )


def name_differing_channels(catalog: Catalog) -> list[str]:
    """Return a line for each lane whose channels have other names in some episodes, with a way to keep them apart.

    Episodes are compared by all channels of lanes of one name and width, in order.
    """
    called: dict[LaneSpec, dict[tuple[str, ...], list[Layout]]] = {}
    layouts = catalog.query.layouts()
    for layout in layouts:
        names = {lane.name: lane.names for lane in layout.lanes}
        for lane in chosen_lanes(layout):
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
            for names, found in counted[:_MOST_KINDS]
        )
        other = next(name for number in count(2) if (name := f"{lane.name}_{number}") not in used)
        command = state_map_commands(catalog, {layout.id: {lane.name: other} for layout in counted[-1][1]})
        lines.append(
            f"{lane.name}[{lane.channels}] has channels {said}, which are compared in order: if they differ, {command} "
            "keeps them apart"
        )
    return lines
