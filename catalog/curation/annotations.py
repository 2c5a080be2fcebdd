"""Annotations of episodes by people and checks: notes, reviews, scores, lineage, and the full text.

Annotations survive a change or a move of a file, except scores: they describe the data and are removed with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, delete, insert, select, update

from catalog.database.bulk_rows import append
from catalog.database.engine import one_of
from catalog.database.schema import checked, document, episode, finding, lineage, note, review, score
from catalog.full_text import indexed, joined
from catalog.query.facts import find_existing, load_notes, load_reviews
from catalog.records import Note, Review
from catalog.values import storable
from catalog.vectors.ledger import advance
from wshard.arguments import episode_ids, finite_number
from wshard.errors import EntryNotFoundError, FilterError
from wshard.messages import shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Table

RELATIONS: Final = ("converted_from", "trimmed_from", "recorded_by")
"""Keys of the metadata that say where an episode comes from."""


def now() -> str:
    """Return the time, UTC in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_text(text: str, what: str) -> str:
    """Return the text; FilterError for an empty one, or one that no database or filter can hold."""
    if not isinstance(text, str) or not text.strip() or not storable(text):
        raise FilterError(f"expected {what}: text in UTF-8 without NUL, not empty; found {text!r}")
    return text


def check_who(who: str) -> str:
    """Return the author's name, "" if anonymous; FilterError for text that no database can store."""
    if not isinstance(who, str) or not storable(who):
        raise FilterError(f"who: expected text in UTF-8 without NUL, found {shown(who)}")
    return who


def add_notes(connection: Connection, ids: Collection[int], *, text: str, who: str) -> list[Note]:
    """Write the same note about each episode and return the notes."""
    check_text(text, "a note")
    check_who(who)
    at, done = now(), []
    for number in find_existing(connection, ids):
        values = {"episode_row": number, "text": text, "who": who, "at": at}
        done.append(Note(_insert(connection, note, values), number, text, who, at))
    if done:
        index_words(connection, [written.episode_id for written in done])
        advance(connection)
    return done


def remove_note(connection: Connection, note_id: int) -> None:
    """Mark a note as removed; it stays in the table. EntryNotFoundError if there is none."""
    there = (note.c.id == note_id, note.c.removed_at.is_(None))
    found = connection.execute(select(note.c.episode_row).where(*there)).scalar() if storable(note_id) else None
    if found is None:
        raise EntryNotFoundError(f"expected the id of a note, found {note_id!r}")
    connection.execute(update(note).where(note.c.id == note_id).values(removed_at=now()))
    index_words(connection, [found])
    advance(connection)


def index_words(connection: Connection, ids: Collection[int]) -> None:
    """Bring the searched words of these episodes up to date."""
    stored = select(episode.c.id, episode.c.metadata).where(one_of(connection, episode.c.id, ids))
    own = {row.id: indexed(json.loads(row.metadata), ()) for row in connection.execute(stored)}
    renew_words(connection, own)


def renew_words(connection: Connection, own: Mapping[int, str]) -> None:
    """Bring the searched words of these episodes up to date: those of their metadata, and of their notes."""
    notes: dict[int, list[str]] = {}
    for written in load_notes(connection, own):
        notes.setdefault(written.episode_id, []).append(written.text)
    wanted = {**own, **{number: joined((own[number], indexed({}, said))) for number, said in notes.items()}}
    there = select(*document.c).where(one_of(connection, document.c.episode_row, own))
    unchanged = {number: words for number, words in connection.execute(there) if wanted[number] == words}
    stale = [number for number in own if number not in unchanged]
    connection.execute(delete(document).where(one_of(connection, document.c.episode_row, stale)))
    rows = [(number, wanted[number]) for number in stale if wanted[number]]
    append(connection, document, ("episode_row", "words"), rows)


def add_reviews(connection: Connection, ids: Collection[int], *, state: str, who: str) -> list[Review]:
    """Bring each episode into the state and return the entries of the audit."""
    check_text(state, "a review state")
    check_who(who)
    at, done = now(), []
    for number in find_existing(connection, ids):
        values = {"episode_row": number, "state": state, "who": who, "at": at}
        done.append(Review(_insert(connection, review, values), number, state, who, at))
    if done:
        advance(connection)
    return done


def undo_reviews(connection: Connection, ids: Collection[int], *, who: str) -> list[Review]:
    """Take back the last review of each episode that has one, by an entry with the state before; return these."""
    check_who(who)
    at, done = now(), []
    for number, audit in sorted(_audits(connection, ids).items()):
        if standing := _standing(audit):
            state, last = (standing[-2].state if len(standing) > 1 else None), standing[-1]
            values = {"episode_row": number, "state": state, "who": who, "at": at, "undoes": last.id}
            done.append(Review(_insert(connection, review, values), number, state, who, at, last.id))
    if done:
        advance(connection)
    return done


def join_reviews(connection: Connection, heir: int) -> None:
    """Make the last entry of a merged review log determine the current state, as in every log.

    The last entry of one part may undo a review of its own, and say nothing about the reviews of another part: then an
    entry that undoes the same review is added at the end.
    """
    audit = _audits(connection, [heir]).get(heir, [])
    standing = _standing(audit)
    if standing and audit[-1].state != standing[-1].state:
        now_, undone = standing[-1], audit[-1].undoes
        values = {"episode_row": heir, "state": now_.state, "who": now_.who, "at": now_.at, "undoes": undone}
        _insert(connection, review, values)


def _audits(connection: Connection, ids: Collection[int]) -> dict[int, list[Review]]:
    found: dict[int, list[Review]] = {}
    for entry in load_reviews(connection, ids):
        found.setdefault(entry.episode_id, []).append(entry)
    return found


def _standing(audit: Sequence[Review]) -> list[Review]:
    """Return the reviews that were not taken back, the oldest first."""
    undone = {entry.undoes for entry in audit}
    return [entry for entry in audit if entry.undoes is None and entry.id not in undone]


def set_scores(connection: Connection, name: str, *, values: Mapping[int, float]) -> int:
    """Give catalogued episodes a score of that name, replacing an older one, and return how many there were."""
    check_text(name, "a score's name")
    if not isinstance(values, Mapping):
        raise FilterError(f"expected scores {name!r} by the ids of episodes, found {shown(values)}")
    scores = {
        number: value
        if type(value) is float and isfinite(value)
        else finite_number(value, f"score {name!r} of episode {number}", FilterError)
        for number, value in zip(episode_ids(values), values.values(), strict=True)
    }
    ids = find_existing(connection, scores)
    drop_scores(connection, name, ids=ids)
    if ids:
        rows = [{"episode_row": number, "name": name, "value": scores[number]} for number in ids]
        connection.execute(insert(score), rows)
        advance(connection)
    return len(ids)


def drop_scores(connection: Connection, name: str, *, ids: Collection[int]) -> int:
    """Take the score away from these episodes and return how many had it."""
    there = (one_of(connection, score.c.episode_row, ids), score.c.name == name)
    count = connection.execute(delete(score).where(*there)).rowcount
    if count:
        advance(connection)
    return count


def add_lineage(connection: Connection, ids: Collection[int], *, relation: str, source: str) -> int:
    """Say that each episode comes from the source by that relation; return for how many that is new."""
    check_text(relation, "a relation")
    check_text(source, "a source")
    known = select(lineage.c.episode_row).where(lineage.c.relation == relation, lineage.c.source == source)
    fresh = sorted(set(find_existing(connection, ids)) - set(connection.execute(known).scalars()))
    if fresh:
        rows = [{"episode_row": number, "relation": relation, "source": source} for number in fresh]
        connection.execute(insert(lineage), rows)
        advance(connection)
    return len(fresh)


def take_lineage(connection: Connection, metadata_by_id: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Store the lineage in the metadata of episodes, by id: text, or a list of texts, under RELATIONS."""
    rows = {
        (number, relation, source)
        for number, metadata in metadata_by_id
        for relation in RELATIONS
        if relation in metadata
        for source in _sources(metadata[relation])
    }
    if rows:
        known = select(*lineage.c).where(one_of(connection, lineage.c.episode_row, {row[0] for row in rows}))
        fresh = sorted(rows - {tuple(row) for row in connection.execute(known)})
        append(connection, lineage, ("episode_row", "relation", "source"), fresh)


def _sources(value: Any) -> list[str]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [one for one in listed if isinstance(one, str) and one.strip() and storable(one)]


def delete_annotations(connection: Connection, ids: Iterable[int]) -> None:
    """Delete all annotations of these episodes."""
    listed = list(ids)
    for table in (document, note, review, score, lineage, checked, finding):
        connection.execute(delete(table).where(one_of(connection, table.c.episode_row, listed)))


def _insert(connection: Connection, table: Table, values: Mapping[str, object]) -> int:
    key = connection.execute(insert(table).values(dict(values))).inserted_primary_key
    return int(key[0]) if key else 0
