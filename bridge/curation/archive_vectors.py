"""The vectors of episodes in one Space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bridge.archive import expect_archive
from bridge.index.metric import COSINE
from bridge.index.stored_rows import decode_vectors
from bridge.spaces.identity import describe, newest
from bridge.spaces.space_choice import in_order
from embedders.base import unit_rows
from embedders.space import Space
from wshard.core.messages import plural
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.archive import Archive
    from bridge.curation.arrays import Ids, Vectors
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.windows import WindowPlan


@dataclass(frozen=True, eq=False)
class EpisodeVectors:
    """Vectors float32 [N, E] of one Space; episode i, of M, has rows starts[i]:starts[i + 1], at least one."""

    space: Space
    episodes: tuple[EpisodeRow, ...]
    starts: Ids
    vectors: Vectors

    @cached_property
    def directions(self) -> Vectors:
        """The vectors scaled to unit length, float32 [N, E]; unchanged if the metric is the cosine."""
        return self.vectors if self.space.metric == COSINE else unit_rows(self.vectors.astype(np.float64))

    @cached_property
    def lengths(self) -> Ids:
        """Timesteps of each episode, int64 [M]."""
        return np.array([row.length for row in self.episodes], np.int64)

    @cached_property
    def owners(self) -> Ids:
        """The episode of each vector, as places in `episodes`, int64 [N]."""
        return np.repeat(np.arange(len(self.episodes)), np.diff(self.starts))

    def only(self, places: Sequence[int]) -> EpisodeVectors:
        """Return the vectors of the episodes at these places, ascending."""
        mask = np.isin(self.owners, places)
        sizes = np.diff(self.starts)[places] if len(places) else np.zeros(0, np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return EpisodeVectors(self.space, tuple(self.episodes[place] for place in places), starts, self.vectors[mask])


def read_vectors(archive: Archive, space: Space, where: Where | str) -> EpisodeVectors:
    """Return the vectors that episodes that match the filter have in a Space of the archive, by episode id."""
    catalog = archive.catalog
    allowed = set(catalog.query.ids(where))
    space_id = next(row.id for row in catalog.vectors.spaces() if row.fingerprint == space.fingerprint)
    vectors_by_id = {
        entry.episode_id: decode_vectors(entry.episode_id, entry.vectors, (entry.count, space.dim))
        for entry in catalog.vectors.ledger(space_id)
        if entry.vectors is not None and entry.episode_id in allowed
    }
    rows = catalog.episodes.rows(vectors_by_id)
    ids = sorted(rows)
    sizes = [len(vectors_by_id[id_]) for id_ in ids]
    vectors = np.concatenate([np.zeros((0, space.dim), np.float32), *(vectors_by_id[id_] for id_ in ids)])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return EpisodeVectors(space, tuple(rows[id_] for id_ in ids), starts, vectors)


def find_whole_spaces(archive: Archive, name: str | None = None) -> list[Space]:
    """Return the active Spaces of whole episodes, by the newest version of each embedder; or the one of that name.

    The oldest come first. name: a fingerprint prefix. Raises QueryError if it matches no Space, or several.
    """
    return _spaces(archive, name, "whole episodes", lambda plan: plan.whole)


def find_met(archive: Archive, spaces: Sequence[Space], sets: Sequence[Where | str]) -> tuple[list[Space], int]:
    """Return in which Spaces episodes of the last set meet another one of the first, and how many of it meet none."""
    vectors, first, last = archive.catalog.vectors, *({*archive.catalog.query.ids(sets[place])} for place in (0, -1))
    numbers = {row.fingerprint: row.id for row in vectors.spaces()}
    filled, met = [], set[int]()
    for space in spaces:
        known = {*vectors.embedded(numbers[space.fingerprint])}
        others = known & first
        here = known & last if len(others) > 1 else (known & last) - others
        if others and here:
            filled.append(space)
            met |= here
    return filled, len(last - met)


def find_window_spaces(archive: Archive, name: str | None = None) -> list[Space]:
    """Return the active Spaces of windows; else as find_whole_spaces."""
    return _spaces(archive, name, "windows", lambda plan: not plan.whole)


def _spaces(archive: Archive, name: str | None, what: str, is_searched: Callable[[WindowPlan], bool]) -> list[Space]:
    expect_archive(archive)
    spaces = [Space.from_json(row.definition) for row in in_order(archive.catalog.vectors.spaces())]
    fitting = [space for space in spaces if is_searched(space.windows) and not space.of_text]
    if not spaces:
        raise QueryError("no episode is embedded yet: `wshard ingest FOLDER` embeds those of a folder")
    if not fitting:
        how = "`wshard ingest --windows both` adds them"
        raise QueryError(f"expected vectors of {what}: {how}; there is:\n{_listed(spaces)}")
    if name is None:
        return newest(fitting)
    matching = [space for space in fitting if space.fingerprint.startswith(name)]
    if len(matching) != 1:
        listed = f"several:\n{_listed(matching)}" if matching else f"none; there is:\n{_listed(fitting)}"
        raise QueryError(f"expected one Space of {what} with the fingerprint {name!r}, found {listed}")
    return matching


def group_by_space(
    archive: Archive, where: Where | str, name: str | None = None
) -> tuple[list[tuple[Space, set[int]]], list[Space]]:
    """Return Spaces of whole episodes with the matching episodes that each compares, and the other Spaces.

    Each episode is in one group: in that of the Space with the most of those that are left, the newest of several.
    name: fingerprint prefix of the only Space to use. Raises QueryError if no matching episode has vectors.
    """
    expect_archive(archive)
    catalog = archive.catalog
    remaining, numbers = (
        set(catalog.query.ids(where)),
        {row.fingerprint: row.id for row in catalog.vectors.spaces("active")},
    )
    spaces = find_whole_spaces(archive, name)
    embedded = [remaining & set(catalog.vectors.embedded(numbers[space.fingerprint])) for space in spaces]
    groups: list[tuple[Space, set[int]]] = []
    while any(ids & remaining for ids in embedded):
        best = max(range(len(spaces)), key=lambda number: (len(embedded[number] & remaining), number))
        groups.append((spaces[best], embedded[best] & remaining))
        remaining -= embedded[best]
    if not groups:
        raise QueryError("expected episodes with vectors, found none that pass the filter")
    chosen = [space for space, _ in groups]
    return groups, [space for space, ids in zip(spaces, embedded, strict=True) if ids and space not in chosen]


def choose_space(archive: Archive, where: Where | str, name: str | None = None) -> tuple[Space, list[Space]]:
    """Return the Space of whole episodes that has all matching episodes with vectors, and the others that have some.

    Of several with the same episodes, the newest. name: fingerprint prefix of the Space to use. Raises QueryError if no
    single Space has all of them, or there are none.
    """
    groups, others = group_by_space(archive, where, name)
    if len(groups) > 1:
        listed = "\n".join(f"  {plural(len(ids), 'episode')} by {describe(space)}" for space, ids in groups)
        choose = "choose one by its fingerprint (--space), or episodes of one (--where)"
        raise QueryError(f"vectors of several Spaces cannot be compared; {choose}:\n{listed}")
    return groups[0][0], others


def read_groups(archive: Archive, where: Where | str, name: str | None = None) -> list[EpisodeVectors]:
    """Return the vectors of the matching episodes, a group for each Space of group_by_space. Raises QueryError."""
    groups = []
    for space, ids in group_by_space(archive, where, name)[0]:
        vectors = read_vectors(archive, space, where)
        places = [place for place, row in enumerate(vectors.episodes) if row.id in ids]
        groups.append(vectors if len(places) == len(vectors.episodes) else vectors.only(places))
    return groups


def read_chosen_vectors(archive: Archive, where: Where | str, name: str | None = None) -> EpisodeVectors:
    """Return the vectors of the episodes in the Space chosen by choose_space. Raises QueryError like it."""
    return read_vectors(archive, choose_space(archive, where, name)[0], where)


def _listed(spaces: Sequence[Space]) -> str:
    return "\n".join(f"  {describe(space)}" for space in spaces)
