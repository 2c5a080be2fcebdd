"""Collections: virtual datasets without copies of data."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, update

from catalog.curation.annotations import check_text, check_who, utc_now
from catalog.curation.selection import Pick, hash_of, ordered
from catalog.database.bulk_rows import insert_rows
from catalog.database.engine import one_of
from catalog.database.schema import collection, episode, pick, snapshot
from catalog.filters.parse import as_where, parse_where
from catalog.filters.saved_queries import explain_unknown, resolve_saved_queries
from catalog.filters.to_sql import condition
from catalog.filters.to_text import where_text
from catalog.filters.where import Compare, Where
from catalog.values import storable
from catalog.vectors.ledger import advance
from wshard.errors import CollectionError, EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_PICK = ("snapshot_id", "position", "episode_row", "uid", "digest", "start", "stop", "weight")


@dataclass(frozen=True)
class Snapshot:
    """An immutable set of `picks` picks; origin records how it was made, with the hashes of its sources."""

    hash: str
    picks: int
    made_at: str
    origin: Mapping[str, Any]


@dataclass(frozen=True)
class Named:
    """A named collection: a saved query (a filter as text, evaluated on each use), or a snapshot.

    replaced: the collection that previously had the name, if any; None when collections are listed.
    """

    name: str
    query: str | None
    snapshot: Snapshot | None
    who: str
    at: str
    replaced: Named | None = None


def load_named(connection: Connection, name: str | None = None) -> list[Named]:
    """Return all collections, sorted by name, or only the one with this name."""
    if not storable(name):
        return []
    statement = select(*collection.c, *_SNAPSHOT).select_from(collection.outerjoin(snapshot))
    if name is not None:
        statement = statement.where(collection.c.name == name)
    rows = connection.execute(statement.order_by(collection.c.name)).all()
    return [Named(row.name, row.query, None if row.hash is None else _snapshot(row), row.who, row.at) for row in rows]


def load_snapshot(connection: Connection, hash_: str) -> Snapshot | None:
    """Return the snapshot of that hash."""
    if not storable(hash_):
        return None
    row = connection.execute(select(*_SNAPSHOT).where(snapshot.c.hash == hash_)).first()
    return None if row is None else _snapshot(row)


def load_picks(connection: Connection, hash_: str) -> tuple[Pick, ...]:
    """Return the picks of a snapshot in their order."""
    columns = (pick.c.uid, pick.c.digest, pick.c.start, pick.c.stop, pick.c.weight)
    statement = select(*columns).select_from(pick.join(snapshot)).where(snapshot.c.hash == hash_)
    return tuple(Pick(*row) for row in connection.execute(statement.order_by(pick.c.position)).all())


def picks_of(connection: Connection, where: Where) -> tuple[Pick, ...]:
    """Return all timesteps of every matching episode, with weight 1."""
    statement = select(episode.c.uid, episode.c.digest, episode.c.length)
    rows = connection.execute(statement.where(condition(connection, where))).all()
    return ordered(Pick(uid, digest, 0, length) for uid, digest, length in rows)


def store_snapshot(connection: Connection, picks: Sequence[Pick], *, origin: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of these picks, created if necessary; spans must lie within their episodes."""
    ordered_picks = ordered(picks)
    hash_ = hash_of(ordered_picks)
    if existing := load_snapshot(connection, hash_):
        return existing
    ids = _episode_ids(connection, ordered_picks)
    values = {"hash": hash_, "origin": json.dumps(dict(origin)), "picks": len(ordered_picks), "made_at": utc_now()}
    new_key = connection.execute(insert(snapshot).values(values)).inserted_primary_key
    key = int(new_key[0]) if new_key else 0
    rows = ((key, position, ids[part.uid], *part.key, part.weight) for position, part in enumerate(ordered_picks))
    insert_rows(connection, pick, _PICK, rows)
    return Snapshot(hash_, len(ordered_picks), str(values["made_at"]), dict(origin))


def _episode_ids(connection: Connection, picks: Sequence[Pick]) -> dict[str, int]:
    """Return {uid: episode id}, 0 for missing episodes; CollectionError for a span beyond an episode's end."""
    uids = {part.uid for part in picks}
    statement = select(episode.c.uid, episode.c.id, episode.c.digest, episode.c.length)
    rows = connection.execute(statement.where(one_of(connection, episode.c.uid, uids))).all()
    digests_and_lengths = {uid: (digest, length) for uid, _, digest, length in rows}
    for part in picks:
        digest, length = digests_and_lengths.get(part.uid, ("", 0))
        if digest == part.digest and part.stop > length:
            raise CollectionError(
                f"expected a span within the {length} timesteps of {part.uid}, found {part.start}:{part.stop}"
            )
    return dict.fromkeys(uids, 0) | {uid: id_ for uid, id_, _, _ in rows}


def check_current(connection: Connection, picks: Sequence[Pick]) -> None:
    """Raise CollectionError for a pick whose episode is not catalogued or has other data now."""
    uids = {part.uid for part in picks}
    statement = select(episode.c.uid, episode.c.digest).where(one_of(connection, episode.c.uid, uids))
    digests = dict(connection.execute(statement).all())
    for part in picks:
        if digests.get(part.uid) != part.digest:
            raise CollectionError(
                f"expected the uid and digest of a catalogued episode, found {part.uid} {part.digest}"
            )


def count_gone(connection: Connection) -> dict[str, int]:
    """Return, by name, how many picks of snapshots have no episode with their data, where there are any."""
    same = (episode.c.uid == pick.c.uid) & (episode.c.digest == pick.c.digest)
    picks = pick.join(collection, collection.c.snapshot_id == pick.c.snapshot_id).outerjoin(episode, same)
    statement = select(collection.c.name, func.count()).select_from(picks).where(episode.c.id.is_(None))
    rows = connection.execute(statement.group_by(collection.c.name).order_by(collection.c.name)).all()
    return {name: int(count) for name, count in rows}


def name_query(connection: Connection, name: str, *, where: Where | str, who: str) -> Named:
    """Save a query under a name; FilterError for one that cannot be evaluated, or that refers to itself."""
    query = where_text(as_where(where))
    named = _name(connection, name, query=query, snapshot_id=None, who=who)
    resolve_saved_queries(connection, Compare("collection", "eq", name))
    return named


def name_snapshot(connection: Connection, name: str, *, hash_: str, who: str) -> Named:
    """Name a snapshot; a collection that had the name loses it."""
    number = connection.execute(select(snapshot.c.id).where(snapshot.c.hash == hash_)).scalar_one()
    return _name(connection, name, query=None, snapshot_id=number, who=who)


def _name(connection: Connection, name: str, *, query: str | None, snapshot_id: int | None, who: str) -> Named:
    check_text(name, "a collection's name")
    check_who(who)
    if name in (".", "..") or load_snapshot(connection, name):  # browsers take dots out of addresses
        raise CollectionError(f"expected a name other than '.', '..' and hashes of snapshots, found {name!r}")
    values = {"query": query, "snapshot_id": snapshot_id, "who": who, "at": utc_now()}
    previous = load_named(connection, name)
    if connection.execute(update(collection).where(collection.c.name == name).values(values)).rowcount == 0:
        connection.execute(insert(collection).values(name=name, **values))
    advance(connection)
    named = load_named(connection, name)[0]
    replaced = [old for old in previous if (old.query, old.snapshot) != (named.query, named.snapshot)]
    return replace(named, replaced=replaced[0] if replaced else None)


def snapshot_of(connection: Connection, ref: str) -> Snapshot:
    """Return the snapshot with this name or hash; a saved query is evaluated now, and its result stored.

    EntryNotFoundError when there is neither.
    """
    snapshot = load_stored(connection, ref)
    if snapshot:
        return snapshot[0]
    where = resolve_saved_queries(connection, parse_where(load_named(connection, ref)[0].query or ""))
    origin = {"made": "query", "where": where_text(where), "name": ref}
    return store_snapshot(connection, picks_of(connection, where), origin=origin)


def load_stored(connection: Connection, ref: str) -> list[Snapshot]:
    """Return the snapshot of that name or hash, none for a saved query; EntryNotFoundError when there is neither."""
    if named := load_named(connection, ref):
        return [collection_.snapshot for collection_ in named if collection_.snapshot is not None]
    if snapshot := load_snapshot(connection, ref):
        return [snapshot]
    raise EntryNotFoundError(explain_unknown(connection, ref))


_SNAPSHOT = (snapshot.c.hash, snapshot.c.picks, snapshot.c.made_at, snapshot.c.origin)


def _snapshot(row: Any) -> Snapshot:
    return Snapshot(row.hash, row.picks, row.made_at, json.loads(row.origin))
