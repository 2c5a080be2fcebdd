"""Checks ledger and search index for missing, obsolete and damaged vectors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from bridge.ingest.text import episodes_with_text, task_of
from bridge.maintenance import indexes
from bridge.maintenance.findings import Finding
from bridge.spaces.grouping import LaneGroup, group_episodes
from bridge.spaces.identity import describe
from bridge.spaces.lanes import LaneChoice, choose_lanes, is_summarised
from catalog.filters.fields import Field
from catalog.filters.where import Compare, any_of
from catalog.vectors.records import Among
from embedders.registry import embedder_of
from embedders.space import Space
from wshard.core.messages import plural
from wshard.errors import (
    NoLaneError,
    SpaceMismatchError,
    UnknownEmbedderError,
    VectorIndexError,
    VectorsDamagedError,
    WShardError,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from bridge.archive import Archive
    from catalog.catalog import Catalog
    from catalog.vectors.records import SpaceRow
    from embedders.lanes import LaneSpec

_FLOAT_BYTES: Final = 4  # bytes
_NO_SPACE: Final = 0  # not a valid id
_MAX_LISTED: Final = 3  # episodes that are named
_CODES: Final = {"orphaned": "orphaned", "outdated": "stale", "retired": "retired", "torn": "torn"}
_MESSAGES: Final = {
    "orphaned": "embeddings of episodes that are gone",
    "outdated": "embeddings of data that has changed since",
    "retired": "embeddings in a Space that was replaced",
    "torn": "embeddings whose bytes differ from those written",
}


def sizes_of(catalog: Catalog) -> dict[int, int]:
    """Return the bytes of one vector by space id."""
    return {row.id: _FLOAT_BYTES * Space.from_json(row.definition).dim for row in catalog.vectors.spaces()}


def check_ledger(catalog: Catalog, excused: Collection[int], *, data: bool) -> Iterator[Finding]:
    """Yield the problems of the ledger; excused: ids of episodes whose files cannot be embedded.

    data: also compare the checksum of every row.
    """
    names = {row.id: describe(Space.from_json(row.definition)) for row in catalog.vectors.spaces()}
    strays: dict[tuple[int, str], list[int]] = {}
    for stray in catalog.maintenance.strays(sizes_of(catalog), full=data):
        strays.setdefault((stray.space_id, stray.reason), []).append(stray.episode_id)
    for (space_id, reason), episodes in sorted(strays.items()):
        named = f" ({_names(catalog, episodes)})" if reason == "torn" else ""
        yield Finding(_CODES[reason], names[space_id], f"{len(episodes)} {_MESSAGES[reason]}{named}")
    living = catalog.vectors.live_spaces()
    for row in living:
        yield from _check_space(catalog, row, excused)
    if not living and (count := len(_never_embedded(catalog) - set(excused))):
        message = f"{plural(count, 'episode')} without vectors: the ingest ended before embedding them"
        yield Finding("unembedded", "the archive (no Space yet)", message)


def _names(catalog: Catalog, episodes: Sequence[int]) -> str:
    rows = catalog.episodes.rows(episodes[:_MAX_LISTED])
    labels = [rows[id_].path if id_ in rows else f"episode {id_}" for id_ in episodes[:_MAX_LISTED]]
    return ", ".join(labels) + (", ..." if len(episodes) > _MAX_LISTED else "")


def _never_embedded(catalog: Catalog) -> set[int]:
    """Return the ids of the episodes that an ingest would embed by default, if there is no Space yet."""
    ids: set[int] = set()
    layouts_by_lanes: dict[tuple[LaneSpec, ...], list[int]] = {}
    for layout in catalog.query.layouts():
        with contextlib.suppress(NoLaneError):  # e.g. images: such an archive may have no vectors
            layouts_by_lanes.setdefault(choose_lanes(layout.lanes, LaneChoice()), []).append(layout.id)
    for lanes, layouts in layouts_by_lanes.items():
        ids |= set(catalog.vectors.pending_ids(_NO_SPACE, Among(tuple(layouts)))) - _not_finite(catalog, lanes)
    return ids


def _check_space(catalog: Catalog, row: SpaceRow, excused: Collection[int]) -> Iterator[Finding]:
    space = Space.from_json(row.definition)
    try:
        embedder_of(space)
    except SpaceMismatchError as error:
        yield Finding("outdated", describe(space), str(error))
        return  # nothing that is installed can fill it
    except (UnknownEmbedderError, VectorIndexError, WShardError):
        pass  # a custom embedder, which searches must be passed
    if row.state == "building":
        yield Finding("unembedded", describe(space), "a Space that no run has finished filling")
    elif space.windows.whole:
        without = set(unembedded(catalog, row)) - set(excused)
        count = len(without - _not_finite(catalog, space.lanes) if without else without)
        if count:
            yield Finding("unembedded", describe(space), f"{plural(count, 'episode')} without vectors")


def _not_finite(catalog: Catalog, lanes: Sequence[LaneSpec]) -> set[int]:
    """Return the ids of the episodes with NaN or infinities in one of the lanes, for which moments are missing."""
    summarised = {lane.name for layout in catalog.query.layouts() for lane in layout.lanes if is_summarised(lane)}
    means = [Field("lane", (lane.name, "mean")).name for lane in lanes if lane.name in summarised]
    return set(catalog.query.ids(any_of(*(~Compare(mean, "exists") for mean in means))))


def unembedded(catalog: Catalog, row: SpaceRow) -> list[int]:
    """Return the ids of the episodes that belong to a Space of whole episodes but have no vectors in it."""
    space = Space.from_json(row.definition)
    if space.of_text:
        pending = catalog.episodes.rows(catalog.vectors.pending_ids(row.id, episodes_with_text(catalog)))
        return [id_ for id_, episode in sorted(pending.items()) if task_of(episode)]
    group = group_episodes(catalog, choice_of(catalog, space))[0].get(space.lanes, LaneGroup())
    return catalog.vectors.pending_ids(row.id, group.among())


def choice_of(catalog: Catalog, space: Space) -> LaneChoice:
    """Return how the Space's lanes were chosen: by default, if that gives them for any episode, else by name."""
    frames = len(space.window_shape) > 1
    names = tuple(lane.name for lane in space.lanes)
    weights = None if space.weights is None else dict(zip(names, space.weights, strict=True))
    default = LaneChoice(None, None, frames)
    is_default = weights is None and space.lanes in group_episodes(catalog, default)[0]
    return default if is_default else LaneChoice(names, weights, frames)


def check_index(archive: Archive, *, data: bool) -> Iterator[Finding]:
    """Yield how the index differs from the ledger; data: every vector, and every byte of copies on this disk."""
    try:
        states = indexes.audit(archive, full=data)
    except VectorsDamagedError as error:
        yield Finding("torn", str(archive.place.name), str(error))
        return
    except VectorIndexError as error:
        yield Finding("unreachable", str(archive.place.name), str(error))
        return
    for state in states:
        if not state.ok:
            yield Finding("index", describe(state.space), state.message)
    for state in states:
        if damage := archive.index.check_copy(state.space, data=data):
            yield Finding("index", describe(state.space), damage)
