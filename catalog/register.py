"""One registering transaction: records in, rows out.

Knows: when a record is a new, a changed, an unchanged or a moved episode, and that the caller holds the write lock.
Does not know: transactions or files. `base` is the catalog's folder, None for a server.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import xxhash
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from catalog.assets import inherit, write_assets
from catalog.curation import forget, index_words
from catalog.engine import one_of
from catalog.facts import pack_spread
from catalog.ledger import advance, bury
from catalog.loading import append, indexing_once
from catalog.places import Roots, Spot, add_root, load_roots
from catalog.queries import encode_lanes
from catalog.records import EpisodeRecord, Known, LaneDefinition, Outcome, Registered
from catalog.schema import archive, asset, checked, document, episode, finding, lane, layout, score, tag
from catalog.words import indexed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Place = tuple[str, str]
"""An absolute path and a key."""

_Row = tuple[Any, ...]
_IDENTITY = ("id", "uid", "size", "mtime_ns")
_PLACE = ("root_id", "path", "key")
_CONTENT = (
    *("episode_id", "env_id", "length", "total_reward", "success", "digest"),
    *("metadata", "layout_id", "ingested_at"),
)
_LANE = ("episode_row", "name", "count", "moments", "spread", "rate", "codec", "bytes", "stored")


@dataclass(frozen=True)
class Occupant:
    """A catalogued episode, as far as registering asks."""

    id: int
    uid: str
    digest: str
    fingerprint: tuple[int, int] | None = None


@dataclass(frozen=True)
class Step:
    """What to do with one record."""

    record: EpisodeRecord
    outcome: Outcome
    occupant: Occupant


def register(connection: Connection, records: Sequence[EpisodeRecord], *, base: str | None) -> list[Registered]:
    """Write the records and return what became of each, in their order; of two for one place the later wins."""
    steps = _write(connection, records, base=base)
    return [Registered(step.occupant.id, step.occupant.uid, step.outcome) for step in steps]


def load(connection: Connection, batches: Iterable[Sequence[EpisodeRecord]], *, base: str | None) -> Counter[Outcome]:
    """Write many records and return how many of each outcome; indexes are made once, at the end."""
    done: Counter[Outcome] = Counter()
    with indexing_once(connection, episode, document):
        for batch in batches:
            done.update(step.outcome for step in _write(connection, batch, base=base))
    return done


def _write(connection: Connection, records: Sequence[EpisodeRecord], *, base: str | None) -> list[Step]:
    done: list[Step] = []
    roots = load_roots(connection, base=base)
    for wave in _waves(records):
        steps = _plan(connection, wave, roots=roots)
        _apply(connection, steps, roots=roots)
        done += steps
    return done


def remove(connection: Connection, ids: Collection[int]) -> int:
    """Delete the episodes with their lanes and tags, bury their vectors, and return how many there were."""
    living = list(connection.execute(select(episode.c.id).where(one_of(connection, episode.c.id, ids))).scalars())
    if living:
        bury(connection, living)
        forget(connection, living)
        for table in (lane, tag, asset):
            connection.execute(delete(table).where(one_of(connection, table.c.episode_row, living)))
        connection.execute(delete(episode).where(one_of(connection, episode.c.id, living)))
        advance(connection)
    return len(living)


def supersede(
    connection: Connection, records: Sequence[EpisodeRecord], done: Sequence[Registered], *, base: str | None
) -> list[Registered]:
    """Forget episodes whose files turned out to be parts of registered ones, and return what became of the records."""
    owners = {part.path: became.id for r, became in zip(records, done, strict=True) for part in r.assets}
    if not owners:
        return list(done)
    gone: dict[int, list[int]] = {}
    for path, found in load_known(connection, owners, roots=load_roots(connection, base=base)).items():
        gone.setdefault(owners[path], []).extend(known.id for known, _ in found if known.id != owners[path])
    for heir, parts in gone.items():
        inherit(connection, heir, parts=parts)
        remove(connection, parts)
    return [replace(became, superseded=tuple(gone.get(became.id, ()))) for became in done]


def load_known(connection: Connection, paths: Collection[str], *, roots: Roots) -> dict[str, list[tuple[Known, str]]]:
    """Return what is catalogued at each absolute path, with its uid; of one key at one path, the deepest root's."""
    spots = {spot: (path, rank) for path in paths for rank, spot in enumerate(roots.spots(path))}
    found: dict[Place, tuple[int, Known, str]] = {}
    for root_id, inside in _by_root(spots):
        statement = select(
            *(episode.c[name] for name in ("path", "uid", "id", "key", "digest", "size", "mtime_ns"))
        ).where(episode.c.root_id == root_id, one_of(connection, episode.c.path, inside))
        for relative, uid, *values in connection.execute(statement):
            path, rank = spots[Spot(root_id, relative)]
            known = Known(*values)
            if (path, known.key) not in found or rank < found[path, known.key][0]:
                found[path, known.key] = (rank, known, uid)
    known_at: dict[str, list[tuple[Known, str]]] = {}
    for (path, _), (_, known, uid) in sorted(found.items(), key=lambda item: item[0]):
        known_at.setdefault(path, []).append((known, uid))
    return known_at


def _by_root(spots: Collection[Spot]) -> Iterator[tuple[int, list[str]]]:
    grouped: dict[int, list[str]] = {}
    for spot in spots:
        grouped.setdefault(spot.root_id, []).append(spot.path)
    yield from grouped.items()


def _waves(records: Sequence[EpisodeRecord]) -> Iterator[list[EpisodeRecord]]:
    """Split before each record whose place came already."""
    wave: dict[Place, EpisodeRecord] = {}
    for record in records:
        place = (record.path, record.key)
        if place in wave:
            yield list(wave.values())
            wave = {}
        wave[place] = record
    if wave:
        yield list(wave.values())


def _plan(connection: Connection, wave: Sequence[EpisodeRecord], *, roots: Roots) -> list[Step]:
    at = load_known(connection, {record.path for record in wave}, roots=roots)
    here = {
        (path, k.key): Occupant(k.id, uid, k.digest, (k.size, k.mtime_ns))
        for path, found in at.items()
        for k, uid in found
    }
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
            steps.append(Step(record, "unchanged" if occupant.digest == record.digest else "changed", occupant))
    fresh = iter(_newcomers(connection, [record for record, step in zip(wave, steps, strict=True) if step is None]))
    return [step or next(fresh) for step in steps]


def _movers(
    connection: Connection, wave: Sequence[EpisodeRecord], *, here: Mapping[Place, Occupant]
) -> dict[Place, Occupant]:
    """Return the episodes that move to a free place, by that place.

    An episode moves once, keeps its digest, and does not move away while the same data is still found where it was.
    """
    claims = {record.moved_from for record in wave if record.moved_from is not None}
    if not claims:
        return {}
    statement = select(episode.c.id, episode.c.uid, episode.c.digest).where(one_of(connection, episode.c.id, claims))
    free = {number: Occupant(number, uid, digest) for number, uid, digest in connection.execute(statement)}
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


def _newcomers(connection: Connection, records: Sequence[EpisodeRecord]) -> list[Step]:
    if not records:
        return []
    connection.execute(update(archive).values(last_episode=archive.c.last_episode + len(records)))
    first = int(connection.execute(select(archive.c.last_episode)).scalar_one()) - len(records) + 1
    uids = _free_uids(connection, [(record.path, record.key) for record in records])
    return [
        Step(record, "new", Occupant(number, uid, record.digest))
        for number, (record, uid) in enumerate(zip(records, uids, strict=True), start=first)
    ]


def _free_uids(connection: Connection, places: Sequence[Place]) -> list[str]:
    """Return a uid for each place; where a moved episode keeps that of its old place, salt it."""
    salts = [0] * len(places)
    while True:
        uids = [_uid(place, salt=salt) for place, salt in zip(places, salts, strict=True)]
        statement = select(episode.c.uid).where(one_of(connection, episode.c.uid, uids))
        taken = set(connection.execute(statement).scalars())
        if not taken:
            return uids
        salts = [salt + (uid in taken) for uid, salt in zip(uids, salts, strict=True)]


def _uid(place: Place, *, salt: int) -> str:
    path, key = place
    text = f"file://{path}\0{key}" + (f"\0{salt}" if salt else "")
    return xxhash.xxh3_128_hexdigest(text.encode())


def _apply(connection: Connection, steps: Sequence[Step], *, roots: Roots) -> None:
    by: dict[Outcome, list[Step]] = {"moved": [], "changed": [], "unchanged": [], "new": []}
    for step in steps:
        by[step.outcome].append(step)
    changed = [step.occupant.id for step in by["changed"]]
    if changed:
        bury(connection, changed)
        for table in (lane, asset, score, checked, finding):
            connection.execute(delete(table).where(one_of(connection, table.c.episode_row, changed)))
    # A moved episode may free the place that a new one takes.
    places = [dict(zip(_PLACE, _place(connection, step, roots=roots), strict=True)) for step in by["moved"]]
    _update(connection, [_fingerprint(step) | place for step, place in zip(by["moved"], places, strict=True)])
    touched = [s for s in by["unchanged"] if s.occupant.fingerprint != (s.record.size, s.record.mtime_ns)]
    _update(connection, [_fingerprint(step) for step in touched])
    _complete_lanes(connection, touched + by["moved"])
    written = by["changed"] + by["new"]
    if written:
        contents = _contents(connection, [step.record for step in written])
        renewed = zip(by["changed"], contents, strict=False)
        _update(connection, [_fingerprint(step) | dict(zip(_CONTENT, c, strict=True)) for step, c in renewed])
        fresh = zip(by["new"], contents[len(changed) :], strict=True)
        rows = [(*_identity(step), *_place(connection, step, roots=roots), *content) for step, content in fresh]
        append(connection, episode, _IDENTITY + _PLACE + _CONTENT, rows)
        append(connection, lane, _LANE, [row for step in written for row in _lanes(step)])
        append(connection, document, ("episode_row", "words"), list(_documents(by["new"])))
    write_assets(connection, ((step.occupant.id, step.record) for step in steps))
    if changed:
        index_words(connection, changed)
    if written or by["moved"]:
        advance(connection)


def _complete_lanes(connection: Connection, steps: Sequence[Step]) -> None:
    """Write the lanes of episodes anew that software wrote which knew less of lanes."""
    told = {step.occupant.id: step for step in steps if any(part.storage for part in step.record.lanes)}
    lacking = select(lane.c.episode_row).where(one_of(connection, lane.c.episode_row, told), lane.c.bytes.is_(None))
    found = sorted(set(connection.execute(lacking).scalars())) if told else []
    if found:
        connection.execute(delete(lane).where(one_of(connection, lane.c.episode_row, found)))
        append(connection, lane, _LANE, [row for number in found for row in _lanes(told[number])])


def _contents(connection: Connection, records: Sequence[EpisodeRecord]) -> list[_Row]:
    """Return the columns _CONTENT, which hold what the episodes are."""
    layouts = _layout_ids(connection, records)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        (r.episode_id, r.env_id, r.length, r.total_reward, r.success, r.digest, r.encoded, number, now)
        for r, number in zip(records, layouts, strict=True)
    ]


def _layout_ids(connection: Connection, records: Sequence[EpisodeRecord]) -> list[int]:
    shapes = [tuple((part.name, part.dtype, part.shape) for part in record.lanes) for record in records]
    written = {shape: encode_lanes(LaneDefinition(*part) for part in shape) for shape in set(shapes)}
    texts = [written[shape] for shape in shapes]
    statement = select(layout.c.definition, layout.c.id).where(one_of(connection, layout.c.definition, set(texts)))
    known = {row.definition: row.id for row in connection.execute(statement)}
    for text in sorted(set(texts) - known.keys()):
        key = connection.execute(insert(layout).values(definition=text)).inserted_primary_key
        known[text] = int(key[0]) if key else 0
    return [known[text] for text in texts]


def _place(connection: Connection, step: Step, *, roots: Roots) -> _Row:
    """Return the columns _PLACE, which hold where the episode is; a path under no root gets its folder as one."""
    record = step.record
    spots = roots.spots(record.path)
    if not spots:
        add_root(connection, posixpath.dirname(record.path), roots=roots)
        spots = roots.spots(record.path)
    return (*spots[0], record.key)


def _fingerprint(step: Step) -> dict[str, Any]:
    return {"row": step.occupant.id, "size": step.record.size, "mtime_ns": step.record.mtime_ns}


def _identity(step: Step) -> _Row:
    record, new = step.record, step.occupant
    return new.id, new.uid, record.size, record.mtime_ns


def _lanes(step: Step) -> list[_Row]:
    number = step.occupant.id
    return [
        (
            *(number, part.name, part.count, part.moments, pack_spread(part.channels), part.rate),
            *((part.storage.codec, part.storage.bytes, part.storage.stored) if part.storage else (None, None, None)),
        )
        for part in step.record.lanes
    ]


def _documents(steps: Sequence[Step]) -> Iterator[_Row]:
    for step in steps:
        if words := indexed(step.record.metadata, ()):
            yield step.occupant.id, words


def _update(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    wanted: ColumnElement[bool] = episode.c.id == bindparam("row")
    if rows:
        connection.execute(update(episode).where(wanted), rows)
