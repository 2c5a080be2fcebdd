"""Counts the episodes that pass the filter of a search but were not compared, and says why and what to type."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from bridge.answered import LeftOut
from bridge.spaces.lanes import LaneChoice, choose_lanes, is_summarised
from bridge.spaces.map_command import state_map_commands
from bridge.spaces.renamings import find_renamings
from catalog.filters.where import EVERYTHING
from embedders.registry import DEFAULT_EMBEDDER
from embedders.space import Space
from wshard.errors import NoLaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.records import Layout
    from catalog.session import Instant
    from catalog.vectors.records import Uncovered
    from embedders.lanes import LaneSpec

    FindMap = Callable[[set[str], set[str]], str]

_MAX_CACHED: Final = 1000  # filters
_OBSERVATION: Final = "signal/"

NO_VECTORS: Final = "have no vectors yet"
"""The reason of episodes that nothing but a first or unfinished ingest explains."""

Coverage = tuple[int | None, tuple[LeftOut, ...]]
"""How many episodes were compared, None for all that pass the filter, and those that were not."""


class CoverageReader:
    """Says which episodes a search in some Spaces compares; answers are cached until the catalog changes."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._cache: tuple[Instant | None, dict[tuple[frozenset[str], Where], Coverage]] = (None, {})

    def read(self, spaces: Sequence[Space], where: Where) -> Coverage:
        """Return how many of the episodes that pass the filter have vectors in these Spaces, and why others have none.

        Where every episode has vectors, no filter is counted.
        """
        now = self._catalog.instant()
        if self._cache[0] != now or len(self._cache[1]) >= _MAX_CACHED:
            self._cache = (now, {})
        cached, names = self._cache[1], frozenset(space.fingerprint for space in spaces)
        if (names, where) not in cached:
            everything = where == EVERYTHING or self.read(spaces, EVERYTHING)[1]
            cached[names, where] = self._count(spaces, where) if everything else (None, ())
        return cached[names, where]

    def _count(self, spaces: Sequence[Space], where: Where) -> Coverage:
        rows = {row.id: row for row in self._catalog.vectors.spaces("active")}
        fingerprints = {space.fingerprint for space in spaces}
        own = [id_ for id_, row in rows.items() if row.fingerprint in fingerprints]
        others = {id_: Space.from_json(row.definition) for id_, row in rows.items() if id_ not in own}
        others = {id_: space for id_, space in others.items() if not space.of_text}
        layouts = {layout.id: layout for layout in self._catalog.query.layouts()}
        lanes = {lane.name for layout in layouts.values() for lane in layout.lanes if is_summarised(lane)}
        observed = [name for name in lanes if name.startswith(_OBSERVATION)]
        plans = {space.windows for space in spaces}
        alike = [id_ for id_, space in others.items() if space.windows in plans]
        uncovered = self._catalog.vectors.uncovered(own, where, others=[alike, [*others]], lanes=observed)
        counts: dict[tuple[str, str], int] = {}
        renamings = cache(partial(find_renamings, self._catalog))  # measured only where lanes differ

        def find_map(own: set[str], of_query: set[str]) -> str:
            found = next((one for one in renamings() if one.joins(own, of_query)), None)
            return "" if found is None else state_map_commands(self._catalog, found.maps)

        for group in uncovered:
            reason = _explain(group, layouts[group.layout_id], spaces, others, find_map)
            counts[reason] = counts.get(reason, 0) + group.episodes
        left_out = tuple(LeftOut(count, *reason) for reason, count in counts.items())
        if not left_out:
            return None, ()
        return self._catalog.query.count(where) - sum(one.episodes for one in left_out), left_out


def _explain(
    group: Uncovered, layout: Layout, spaces: Sequence[Space], others: dict[int, Space], find_map: FindMap
) -> tuple[str, str]:
    """Return why the episodes of a group were not compared, and the way on."""
    instead = None if group.space_id is None else others[group.space_id]
    same_windows = [space for space in spaces if instead is not None and space.windows == instead.windows]
    if instead is not None and (not spaces or not same_windows):
        return f"have vectors of {instead.windows} alone", "`wshard ingest FOLDER --windows both` embeds the others"
    if instead is not None and all(space.lanes != instead.lanes for space in spaces):
        searched = {lane: None for space in spaces for lane in space.lanes}
        remedy = _compare_others(instead, searched, find_map)
        known = {lane.name for lane in searched}
        apart = "; none of the query's" if known.isdisjoint(lane.name for lane in instead.lanes) else ""
        return f"have other lanes ({_names(instead.lanes, searched)}{apart})", remedy
    if instead is not None:
        embedder = spaces[-1].embedder
        chosen = "" if embedder == DEFAULT_EMBEDDER else f" --embedder {embedder}"
        return f"are embedded by {instead.embedder} alone", f"`wshard ingest FOLDER{chosen}` embeds them alike"
    try:
        lanes = choose_lanes(layout.lanes, LaneChoice())
    except NoLaneError:
        return "have no lane to embed by default", "`wshard ingest FOLDER --lanes NAME` embeds lanes by name"
    if group.without_numbers:
        reason = f"lack finite numbers in more than a tenth of the timesteps of their lanes ({_names(lanes)})"
        return reason, "`wshard check` says where; `wshard ingest FOLDER --lanes NAME` embeds a lane that is whole"
    return NO_VECTORS, "`wshard ingest FOLDER` embeds them, or says why not"


def _compare_others(instead: Space, searched: Collection[LaneSpec], find_map: FindMap) -> str:
    """Return how to compare episodes that have other lanes than those searched."""
    shared = [lane for lane in searched if lane in instead.lanes]
    names = ",".join(lane.name.removeprefix(_OBSERVATION) for lane in shared)
    if len(shared) == len(instead.lanes):  # only the choice of lanes kept their Space from being searched
        return f"a search with `--lanes {names}`, or without --lanes, compares them"
    own, of_query = ({lane.name for lane in lanes} for lanes in (instead.lanes, searched))
    if how := find_map(own, of_query):
        return f"{how} compares them, if these lanes mean the same"
    if not shared:
        return "a query with these lanes finds them"
    return f"`wshard ingest FOLDER --lanes {names}`, then a search with `--lanes {names}`, compares what they share"


def _names(lanes: Iterable[LaneSpec], known: Iterable[LaneSpec] = ()) -> str:
    """Return the names of lanes; with their shape where only this differs from a known one."""
    shapes = {lane.name: lane.shape for lane in known}
    return ", ".join(
        lane.name.removeprefix(_OBSERVATION)
        + (f" {list(lane.shape)}" if shapes.get(lane.name, lane.shape) != lane.shape else "")
        for lane in lanes
    )
