"""Export and import annotations as JSON, to move them to another archive; docs/catalog.md shows the document."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Connection, insert, select

from catalog.curation.annotations import check_text, check_who, refresh_words
from catalog.curation.collections import load_named, load_picks, name_query, name_snapshot, store_snapshot
from catalog.curation.selection import Pick, hash_of, ordered
from catalog.database.engine import one_of
from catalog.database.schema import episode, note, review, score, tag
from catalog.filters.parse import parse_where
from catalog.filters.saved_queries import resolve_saved_queries
from catalog.filters.times import EXPECTED_TIME, normal_time, span_of
from catalog.query.facts import load_notes, load_reviews
from catalog.query.pages import load_matching_ids
from catalog.vectors.ledger import advance
from wshard.core.arguments import finite_number
from wshard.core.messages import shown
from wshard.errors import CollectionError, EntryNotFoundError, FilterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from catalog.filters.where import Where

VERSION: Final = 1
_IDENTITY: Final = ("uid", "digest", "path", "key", "episode_id")
_ANNOTATION_KEYS: Final = ("tags", "notes", "reviews", "scores")
Entry: TypeAlias = dict[str, Any]
"""One object of the document."""


@dataclass(frozen=True)
class ImportReport:
    """Result of an import: matched episodes, added annotations, and skipped ones.

    unmatched: (path, episode_id) of annotated episodes that this archive lacks. skipped: for each annotation without a
    matching episode or collection, what it is and why.
    """

    matched: int
    added: int
    unmatched: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]


def export_annotations(connection: Connection, where: Where) -> str:
    """Return the annotations of the matching episodes and all collections as JSON text."""
    ids = load_matching_ids(connection, where)
    collections = [_export_collection(connection, named.name) for named in load_named(connection)]
    columns = (episode.c.id, *(episode.c[name] for name in _IDENTITY))
    rows = connection.execute(select(*columns).where(one_of(connection, episode.c.id, ids)).order_by(episode.c.id))
    entries: dict[int, Entry] = {
        row[0]: dict(zip(_IDENTITY, row[1:], strict=True)) | {"tags": [], "notes": [], "reviews": [], "scores": {}}
        for row in rows
    }
    for name, number in connection.execute(select(tag.c.name, tag.c.episode_row).order_by(tag.c.name)):
        if number in entries:
            entries[number]["tags"].append(name)
    for stored_note in load_notes(connection, ids):
        entries[stored_note.episode_id]["notes"].append(
            {"text": stored_note.text, "who": stored_note.who, "at": stored_note.at}
        )
    log_positions: dict[int, int] = {}
    for entry_of_log in load_reviews(connection, ids):
        log = entries[entry_of_log.episode_id]["reviews"]
        log_positions[entry_of_log.id] = len(log)
        undoes = None if entry_of_log.undoes is None else log_positions.get(entry_of_log.undoes)
        log.append({"state": entry_of_log.state, "who": entry_of_log.who, "at": entry_of_log.at, "undoes": undoes})
    for number, name, value in connection.execute(select(*score.c).where(one_of(connection, score.c.episode_row, ids))):
        entries[number]["scores"][name] = value
    annotated = [entry for entry in entries.values() if any(entry[part] for part in _ANNOTATION_KEYS)]
    document = {"version": VERSION, "episodes": annotated, "collections": collections}
    return json.dumps(document, indent=1, ensure_ascii=False)


def _export_collection(connection: Connection, name: str) -> Entry:
    (named,) = load_named(connection, name)
    entry: Entry = {"name": name, "who": named.who}
    if named.snapshot is None:
        return {**entry, "query": named.query}
    picks = [
        [pick.uid, pick.digest, pick.start, pick.stop, pick.weight]
        for pick in load_picks(connection, named.snapshot.hash)
    ]
    return {**entry, "origin": dict(named.snapshot.origin), "picks": picks}


def import_annotations(connection: Connection, text: str | bytes) -> ImportReport:
    """Add the missing annotations of an exported document; existing ones stay, so that a second import adds nothing.

    FilterError for an invalid document, before anything is added.
    """
    document = _parse(text)
    try:
        return _import(connection, document)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise FilterError(
            f"expected annotations as `wshard annotations export` writes them, found {error!r}"
        ) from error


def _parse(text: str | bytes) -> Entry:
    try:
        document = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise FilterError(f"expected annotations as JSON, found {shown(text)}") from error
    if not isinstance(document, dict) or "version" not in document:
        raise FilterError("expected annotations as `wshard annotations export` writes them, found other JSON")
    if document["version"] != VERSION:
        raise FilterError(f"expected annotations of version {VERSION}, found {shown(document['version'])}")
    return document


def _import(connection: Connection, document: Entry) -> ImportReport:
    digests, locations = _load_keys(connection)
    skipped: list[str] = []
    unmatched: list[tuple[str, str]] = []
    matched = added = 0
    for entry in document["episodes"]:
        number, has_same_data = _match(entry, digests, locations)
        if number is None:
            unmatched.append((entry["path"], entry["episode_id"]))
            continue
        matched += 1
        added += _add_tags(connection, number, entry["tags"]) + _add_notes(connection, number, entry["notes"])
        added += _add_reviews(connection, number, entry["reviews"])
        if has_same_data:
            added += _add_scores(connection, number, entry["scores"])
        elif entry["scores"]:
            skipped.append(f"scores of {entry['path']}: its data changed")
    added_collections, reasons = _add_collections(connection, document["collections"])
    added += added_collections
    if added:
        advance(connection)
    return ImportReport(matched, added, tuple(unmatched), tuple(skipped + reasons))


_Keys: TypeAlias = "dict[Any, list[tuple[int, str, str]]]"


def _load_keys(connection: Connection) -> tuple[_Keys, _Keys]:
    """Return (id, path, key) of all episodes by digest, and by (path, key)."""
    digests: _Keys = {}
    locations: _Keys = {}
    columns = (episode.c.id, episode.c.digest, episode.c.path, episode.c.key)
    for number, digest, path, key in connection.execute(select(*columns).order_by(episode.c.id)):
        digests.setdefault(digest, []).append((number, path, key))
        locations.setdefault((path, key), []).append((number, path, key))
    return digests, locations


def _match(entry: Mapping[str, Any], digests: _Keys, locations: _Keys) -> tuple[int | None, bool]:
    """Return the matching episode and whether it has the same data; among copies the one at the same path."""
    location = (entry["path"], entry["key"])
    if copies := digests.get(entry["digest"]):
        return next(
            (number for number, *copy_location in copies if tuple(copy_location) == location), copies[0][0]
        ), True
    at_location = locations.get(location, [])
    return (at_location[0][0] if len(at_location) == 1 else None), False


def _add_tags(connection: Connection, number: int, names: Sequence[str]) -> int:
    present = set(connection.execute(select(tag.c.name).where(tag.c.episode_row == number)).scalars())
    new_names = [check_text(name, "a tag") for name in dict.fromkeys(names) if name not in present]
    if new_names:
        connection.execute(insert(tag), [{"name": name, "episode_row": number} for name in new_names])
    return len(new_names)


def _read_time(text: str) -> str:
    """Return a time as it is stored: UTC. Other programs write documents, too."""
    time = normal_time(check_text(text, "a time"))
    if time is None:
        raise FilterError(f"expected {EXPECTED_TIME}, found {shown(text)}")
    return span_of(time)[0]  # type: ignore[index]  # it is a time


def _add_notes(connection: Connection, number: int, notes: Sequence[Entry]) -> int:
    """Add notes, except those that exist, or existed and were removed."""
    columns = (note.c.text, note.c.who, note.c.at)
    present = Counter(tuple(row) for row in connection.execute(select(*columns).where(note.c.episode_row == number)))
    new_notes = []
    for imported in notes:
        key = (check_text(imported["text"], "a note"), check_who(imported["who"]), _read_time(imported["at"]))
        if present[key]:
            present[key] -= 1
        else:
            new_notes.append(dict(zip(("text", "who", "at"), key, strict=True), episode_row=number))
    if new_notes:
        connection.execute(insert(note), new_notes)
        refresh_words(connection, [number])
    return len(new_notes)


def _add_reviews(connection: Connection, number: int, reviews: Sequence[Entry]) -> int:
    """Append the entries of the review log that are missing here."""
    present: dict[tuple[Any, ...], list[int]] = {}
    for entry in load_reviews(connection, [number]):
        present.setdefault((entry.state, entry.who, entry.at, entry.undoes), []).append(entry.id)
    ids: list[int] = []
    added = 0
    for imported in reviews:
        state = None if imported["state"] is None else check_text(imported["state"], "a review state")
        undoes = None if imported["undoes"] is None else ids[imported["undoes"]]
        key = (state, check_who(imported["who"]), _read_time(imported["at"]), undoes)
        if matching_ids := present.get(key):
            ids.append(matching_ids.pop(0))
            continue
        values = dict(zip(("state", "who", "at", "undoes"), key, strict=True), episode_row=number)
        new_key = connection.execute(insert(review).values(values)).inserted_primary_key
        ids.append(int(new_key[0]) if new_key else 0)
        added += 1
    return added


def _add_scores(connection: Connection, number: int, scores: Mapping[str, float]) -> int:
    present = set(connection.execute(select(score.c.name).where(score.c.episode_row == number)).scalars())
    rows = [
        {"episode_row": number, "name": check_text(name, "a score"), "value": finite_number(value, name, FilterError)}
        for name, value in scores.items()
        if name not in present
    ]
    if rows:
        connection.execute(insert(score), rows)
    return len(rows)


def _add_collections(connection: Connection, entries: Sequence[Entry]) -> tuple[int, list[str]]:
    """Add the collections whose names are free; return how many, and why others were skipped."""
    added, skipped = 0, []
    remaining = sorted(entries, key=lambda entry: "query" in entry)  # snapshots first, as queries may refer to them
    uids = dict(connection.execute(select(episode.c.digest, episode.c.uid).order_by(episode.c.id.desc())).all())
    reasons: dict[str, str] = {}
    while remaining:
        postponed = []
        for entry in remaining:
            name = check_text(entry["name"], "a collection's name")
            try:
                added += _add_query(connection, entry) if "query" in entry else _add_snapshot(connection, entry, uids)
            except (
                EntryNotFoundError,
                FilterError,
            ) as error:  # a query that refers to another one, which may be added later
                reasons[name] = str(error)
                postponed.append(entry)
            except CollectionError as error:
                skipped.append(f"collection {name}: {error}")
        if len(postponed) == len(remaining):
            return added, skipped + [f"collection {entry['name']}: {reasons[entry['name']]}" for entry in postponed]
        remaining = postponed
    return added, skipped


def _add_query(connection: Connection, entry: Entry) -> bool:
    """Add a saved query; return whether that is new."""
    for named in load_named(connection, entry["name"]):
        if named.query != entry["query"]:
            raise CollectionError("expected its name to be free here, found another collection")
        return False
    resolve_saved_queries(connection, parse_where(entry["query"]))
    name_query(connection, entry["name"], where=entry["query"], who=entry["who"])
    return True


def _is_there(connection: Connection, entry: Entry) -> bool:
    """Return whether a snapshot of that name has the same spans of the same data, whether these are still here."""
    snapshots = [named.snapshot for named in load_named(connection, entry["name"]) if named.snapshot is not None]
    given = sorted(map(tuple, (pick[1:] for pick in entry["picks"])))
    return any(
        sorted((pick.digest, pick.start, pick.stop, pick.weight) for pick in load_picks(connection, one.hash)) == given
        for one in snapshots
    )


def _add_snapshot(connection: Connection, entry: Entry, uids: Mapping[str, str]) -> bool:
    """Add a snapshot of the same spans of the same data; return whether that is new."""
    if _is_there(connection, entry):
        return False
    picks = []
    for uid, digest, start, stop, weight in entry["picks"]:
        if digest not in uids:
            raise CollectionError(f"expected the data of all of its picks here, found none with the digest {digest}")
        has_same_data = connection.execute(select(episode.c.digest).where(episode.c.uid == uid)).scalar() == digest
        picks.append(Pick(uid if has_same_data else uids[digest], digest, start, stop, weight))
    for named in load_named(connection, entry["name"]):
        if named.snapshot is None or named.snapshot.hash != hash_of(ordered(picks)):
            raise CollectionError("expected its name to be free here, found another collection")
        return False
    stored = store_snapshot(connection, picks, origin=entry["origin"])
    name_snapshot(connection, entry["name"], hash_=stored.hash, who=entry["who"])
    return True
