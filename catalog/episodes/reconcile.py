"""Decide which records are new, changed, unchanged or moved episodes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import xxhash
from sqlalchemy import Connection, Select, bindparam, func, select, update

from catalog.database.bulk_rows import find_rows
from catalog.database.engine import in_parameter, list_parameter, one_of
from catalog.database.roots import load_roots
from catalog.database.schema import archive, episode
from catalog.values import storable
from wshard.core.episode.protocol import read_as

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog.database.roots import Roots
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Outcome

Place: TypeAlias = tuple[str, str]
"""An absolute path and a key."""


# There are two of these for each record, so they must be made quickly.
class StoredEpisode(NamedTuple):
    """A catalogued episode, with the fields needed for registration."""

    id: int
    uid: str
    digest: str
    format: str
    lane_map: str
    size: int
    mtime_ns: int

    def is_same(self, record: EpisodeRecord) -> bool:
        """Return True if the record has the same data, read in the same way."""
        return (self.digest, self.format, self.lane_map) == (record.digest, record.format, record.lane_map)


class Step(NamedTuple):
    """What to do with one record."""

    record: EpisodeRecord
    outcome: Outcome
    stored: StoredEpisode


def split_by_place(records: Sequence[EpisodeRecord]) -> Iterator[list[EpisodeRecord]]:
    """Split before each record whose path occurred already."""
    batch: dict[Place, EpisodeRecord] = {}
    for record in records:
        place = (record.path, record.key)
        if place in batch:
            yield list(batch.values())
            batch = {}
        batch[place] = record
    if batch:
        yield list(batch.values())


def plan(
    connection: Connection, batch: Sequence[EpisodeRecord], *, roots: Roots
) -> tuple[list[Step], dict[str, StoredEpisode]]:
    """Return a step for each record, in order, and the displaced episodes, which move first, by their new path.

    Records must have different paths or keys.
    """
    paths, keys = {record.path for record in batch}, {record.key for record in batch}
    at_place = load_stored_episodes(connection, paths, roots=roots, keys=keys)
    displaced = _find_displaced(batch, at_place)
    at_place = {place: stored for place, stored in at_place.items() if place not in displaced}
    moved = _find_moved(connection, batch, at_place=at_place)
    moved_ids = {moved_episode.id for moved_episode in moved.values()}
    steps: list[Step | None] = []
    for record in batch:
        place = (record.path, record.key)
        stored = at_place.get(place)
        if place in moved:
            steps.append(Step(record, "moved", moved[place]))
        elif stored is None or stored.id in moved_ids:
            steps.append(None)
        else:
            steps.append(Step(record, "unchanged" if stored.is_same(record) else "changed", stored))
    new = [record for record, step in zip(batch, steps, strict=True) if step is None]
    new_steps = iter(_new_steps(connection, new, _free_uids(connection, new)))
    set_aside = {displaced_path(path, stored.uid): stored for (path, _), stored in displaced.items()}
    return [step or next(new_steps) for step in steps], set_aside


def load_stored_episodes(
    connection: Connection, paths: Collection[str], *, roots: Roots, keys: Collection[str] | None = None
) -> dict[Place, StoredEpisode]:
    """Return the catalogued episodes at these absolute paths by (path, key); if two have the same, the deepest root's.

    keys: only episodes of these, of a location that may have many others.
    """
    paths_by_root: dict[int, dict[str, tuple[int, str]]] = {}
    for path in filter(storable, paths):
        for rank, (root_id, inside) in enumerate(roots.stored_paths(path)):
            paths_by_root.setdefault(root_id, {})[inside] = (rank, path)
    names = ("key", *StoredEpisode._fields)
    stored_episodes: dict[Place, StoredEpisode] = {}
    ranks: dict[Place, int] = {}
    for root_id, inside, key, *values in find_rows(
        connection,
        episode,
        ("root_id", "path"),
        paths_by_root,
        names,
        filter_column=None if keys is None else ("key", keys),
    ):
        rank, path = paths_by_root[root_id][inside]
        if rank <= ranks.setdefault((path, key), rank):
            stored_episodes[path, key] = StoredEpisode(*values)
            ranks[path, key] = rank
    return stored_episodes


def load_read_as(connection: Connection, paths: Collection[str]) -> dict[str, str]:
    """Return the reading options of the locations at these absolute paths, as of their last ingest."""
    roots = load_roots(connection)
    paths_by_root: dict[int, dict[str, str]] = {}
    for path in filter(storable, paths):
        for root_id, inside in roots.stored_paths(path):
            paths_by_root.setdefault(root_id, {})[inside] = path
    reading_options: dict[str, str] = {}
    for root_id, path_of in paths_by_root.items():  # by root, as the index is ordered
        parameters = {"root_id": root_id, **list_parameter(connection, list(path_of))}
        rows = connection.execute(_read_as_rows(connection.dialect.name), parameters)
        reading_options |= {path_of[path]: read_as(*format_columns) for path, *format_columns in rows}
    return reading_options


@lru_cache(maxsize=2)
def _read_as_rows(product: str) -> Select[Any]:
    """Return the cached statement for how locations were read, the latest last, which searches by a path use."""
    columns = (episode.c.path, episode.c.format, episode.c.lane_map)
    conditions = (episode.c.root_id == bindparam("root_id"), in_parameter(product, episode.c.path))
    return select(*columns).where(*conditions).group_by(*columns).order_by(func.max(episode.c.id))


def _find_displaced(
    batch: Sequence[EpisodeRecord], at_place: Mapping[Place, StoredEpisode]
) -> dict[Place, StoredEpisode]:
    """Return the episodes that must leave their path for a record that displaces them."""
    displaced: dict[Place, StoredEpisode] = {}
    for record in batch:
        stored = at_place.get((record.path, record.key)) if record.displaces is not None else None
        if stored is not None and stored.id == record.displaces and stored.digest != record.digest:
            displaced[record.path, record.key] = stored
    return displaced


def displaced_path(path: str, uid: str) -> str:
    """Return the new path of a displaced episode, at which there is no file."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.replaced/{uid}/{name}"


def _find_moved(
    connection: Connection, batch: Sequence[EpisodeRecord], *, at_place: Mapping[Place, StoredEpisode]
) -> dict[Place, StoredEpisode]:
    """Return the episodes that move to a free path, by that path.

    An episode moves once, keeps its digest, and does not move while the same data is still found at its old path.
    """
    requested_ids = {record.moved_from for record in batch if record.moved_from is not None}
    if not requested_ids:
        return {}
    columns = (episode.c[name] for name in StoredEpisode._fields)
    statement = select(*columns).where(one_of(connection, episode.c.id, requested_ids))
    movable = {row.id: StoredEpisode(*row) for row in connection.execute(statement)}
    for record in batch:
        stored = at_place.get((record.path, record.key))
        if stored is not None and stored.digest == record.digest:
            movable.pop(stored.id, None)
    moved: dict[Place, StoredEpisode] = {}
    for record in batch:
        place = (record.path, record.key)
        moved_episode = movable.get(record.moved_from) if record.moved_from is not None else None
        if moved_episode is not None and moved_episode.digest == record.digest and place not in at_place:
            moved[place] = movable.pop(moved_episode.id)
    return moved


def _new_steps(connection: Connection, records: Sequence[EpisodeRecord], uids: Sequence[str]) -> list[Step]:
    """Return a step for each new record, with a new id."""
    if not records:
        return []
    return [
        Step(
            record,
            "new",
            StoredEpisode(number, uid, record.digest, record.format, record.lane_map, record.size, record.mtime_ns),
        )
        for number, record, uid in zip(_new_ids(connection, len(records)), records, uids, strict=True)
    ]


def _new_ids(connection: Connection, count: int) -> range:
    """Return `count` ids that were never used."""
    connection.execute(update(archive).values(last_episode=archive.c.last_episode + count))
    last = int(connection.execute(select(archive.c.last_episode)).scalar_one())
    return range(last - count + 1, last + 1)


def _free_uids(connection: Connection, records: Sequence[EpisodeRecord]) -> list[str]:
    """Return a uid for each record, salted if a moved episode keeps that of the same path."""
    salts = [0] * len(records)
    while True:
        uids = [_uid(record, salt=salt) for record, salt in zip(records, salts, strict=True)]
        statement = select(episode.c.uid).where(one_of(connection, episode.c.uid, uids))
        taken = set(connection.execute(statement).scalars()) if uids else set()
        if not taken:
            return uids
        salts = [salt + (uid in taken) for uid, salt in zip(uids, salts, strict=True)]


def _uid(record: EpisodeRecord, *, salt: int = 0) -> str:
    text = f"file://{record.path}\0{record.key}" + (f"\0{salt}" if salt else "")
    return xxhash.xxh3_128_hexdigest(text.encode())
