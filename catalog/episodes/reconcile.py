"""Decide which records are new, changed, unchanged or moved episodes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import xxhash
from sqlalchemy import Connection, Select, bindparam, func, select, update

from catalog.database.bulk_rows import find
from catalog.database.engine import among_listed, listed, one_of
from catalog.database.roots import load_roots
from catalog.database.schema import archive, episode
from catalog.values import storable
from wshard.episode.protocol import read_as

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog.database.roots import Roots
    from catalog.episode_record import EpisodeRecord
    from catalog.records import Outcome

Place: TypeAlias = tuple[str, str]
"""An absolute path and a key."""


# There are two of these for each record, so they must be made quickly.
class Occupant(NamedTuple):
    """A catalogued episode, with the fields needed for registration."""

    id: int
    uid: str
    digest: str
    format: str
    lane_map: str
    size: int
    mtime_ns: int

    def is_same(self, record: EpisodeRecord) -> bool:
        """Say whether the record has the same data, read in the same way."""
        return (self.digest, self.format, self.lane_map) == (record.digest, record.format, record.lane_map)


class Step(NamedTuple):
    """What to do with one record."""

    record: EpisodeRecord
    outcome: Outcome
    occupant: Occupant


def waves(records: Sequence[EpisodeRecord]) -> Iterator[list[EpisodeRecord]]:
    """Split before each record whose path occurred already."""
    wave: dict[Place, EpisodeRecord] = {}
    for record in records:
        place = (record.path, record.key)
        if place in wave:
            yield list(wave.values())
            wave = {}
        wave[place] = record
    if wave:
        yield list(wave.values())


def plan(
    connection: Connection, wave: Sequence[EpisodeRecord], *, roots: Roots
) -> tuple[list[Step], dict[str, Occupant]]:
    """Return what to do with records of different places, in their order, and who is set aside first, by new path."""
    paths, keys = {record.path for record in wave}, {record.key for record in wave}
    here = load_occupants(connection, paths, roots=roots, keys=keys)
    displaced = _displaced(wave, here)
    here = {place: occupant for place, occupant in here.items() if place not in displaced}
    movers = _movers(connection, wave, here=here)
    gone = {mover.id for mover in movers.values()}
    steps: list[Step | None] = []
    for record in wave:
        place = (record.path, record.key)
        occupant = here.get(place)
        if place in movers:
            steps.append(Step(record, "moved", movers[place]))
        elif occupant is None or occupant.id in gone:
            steps.append(None)
        else:
            steps.append(Step(record, "unchanged" if occupant.is_same(record) else "changed", occupant))
    new = [record for record, step in zip(wave, steps, strict=True) if step is None]
    fresh = iter(_newcomers(connection, new, _free_uids(connection, new)))
    left = {_aside(path, occupant.uid): occupant for (path, _), occupant in displaced.items()}
    return [step or next(fresh) for step in steps], left


def load_occupants(
    connection: Connection, paths: Collection[str], *, roots: Roots, keys: Collection[str] | None = None
) -> dict[Place, Occupant]:
    """Return who is at each absolute path, by place; of one key at one path, the deepest root's.

    keys: only episodes of these, of a location that may have many others.
    """
    wanted: dict[int, dict[str, tuple[int, str]]] = {}
    for path in filter(storable, paths):
        for rank, (root_id, inside) in enumerate(roots.spots(path)):
            wanted.setdefault(root_id, {})[inside] = (rank, path)
    names = ("key", *Occupant._fields)
    found: dict[Place, Occupant] = {}
    ranks: dict[Place, int] = {}
    for root_id, inside, key, *values in find(
        connection, episode, ("root_id", "path"), wanted, names, among=None if keys is None else ("key", keys)
    ):
        rank, path = wanted[root_id][inside]
        if rank <= ranks.setdefault((path, key), rank):
            found[path, key] = Occupant(*values)
            ranks[path, key] = rank
    return found


def load_read_as(connection: Connection, paths: Collection[str], *, base: str | None) -> dict[str, str]:
    """Return how the locations at these absolute paths were read when they were ingested last."""
    roots = load_roots(connection, base=base)
    spots: dict[int, dict[str, str]] = {}
    for path in filter(storable, paths):
        for root_id, inside in roots.spots(path):
            spots.setdefault(root_id, {})[inside] = path
    found: dict[str, str] = {}
    for root_id, named in spots.items():  # by root, as the index goes
        parameters = {"root_id": root_id, **listed(connection, list(named))}
        rows = connection.execute(_read_as_rows(connection.dialect.name), parameters)
        found |= {named[path]: read_as(*how) for path, *how in rows}
    return found


@lru_cache(maxsize=2)
def _read_as_rows(product: str) -> Select[Any]:
    """Return the cached statement for how locations were read, the latest last, which searches by a path use."""
    columns = (episode.c.path, episode.c.format, episode.c.lane_map)
    here = (episode.c.root_id == bindparam("root_id"), among_listed(product, episode.c.path))
    return select(*columns).where(*here).group_by(*columns).order_by(func.max(episode.c.id))


def _displaced(wave: Sequence[EpisodeRecord], here: Mapping[Place, Occupant]) -> dict[Place, Occupant]:
    """Return those who must leave their places."""
    left: dict[Place, Occupant] = {}
    for record in wave:
        occupant = here.get((record.path, record.key)) if record.displaces is not None else None
        if occupant is not None and occupant.id == record.displaces and occupant.digest != record.digest:
            left[record.path, record.key] = occupant
    return left


def _aside(path: str, uid: str) -> str:
    """Return the path of a displaced episode, which no file has."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.replaced/{uid}/{name}"


def _movers(
    connection: Connection, wave: Sequence[EpisodeRecord], *, here: Mapping[Place, Occupant]
) -> dict[Place, Occupant]:
    """Return the episodes that move to a free path, by that path.

    An episode moves once, keeps its digest, and does not move while the same data is still found at its old path.
    """
    claims = {record.moved_from for record in wave if record.moved_from is not None}
    if not claims:
        return {}
    columns = (episode.c[name] for name in Occupant._fields)
    statement = select(*columns).where(one_of(connection, episode.c.id, claims))
    free = {row.id: Occupant(*row) for row in connection.execute(statement)}
    for record in wave:
        occupant = here.get((record.path, record.key))
        if occupant is not None and occupant.digest == record.digest:
            free.pop(occupant.id, None)
    movers: dict[Place, Occupant] = {}
    for record in wave:
        place = (record.path, record.key)
        claimed = free.get(record.moved_from) if record.moved_from is not None else None
        if claimed is not None and claimed.digest == record.digest and place not in here:
            movers[place] = free.pop(claimed.id)
    return movers


def _newcomers(connection: Connection, records: Sequence[EpisodeRecord], uids: Sequence[str]) -> list[Step]:
    """Give each record an id."""
    if not records:
        return []
    return [
        Step(
            record,
            "new",
            Occupant(number, uid, record.digest, record.format, record.lane_map, record.size, record.mtime_ns),
        )
        for number, record, uid in zip(_new_ids(connection, len(records)), records, uids, strict=True)
    ]


def _new_ids(connection: Connection, count: int) -> range:
    """Return so many ids that were never given out."""
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
