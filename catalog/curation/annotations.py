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

from catalog.database.bulk_rows import insert_rows
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
"""Keys of the metadata that state the source of an episode."""


def utc_now() -> str:
    """Return the time, UTC in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def check_text(text: str, what: str) -> str:
    """Return the text; FilterError for an empty one, or one that databases cannot store."""
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
    at, notes = utc_now(), []
    for number in find_existing(connection, ids):
        values = {"episode_row": number, "text": text, "who": who, "at": at}
        notes.append(Note(_insert(connection, note, values), number, text, who, at))
    if notes:
        refresh_words(connection, [new_note.episode_id for new_note in notes])
        advance(connection)
    return notes


def remove_note(connection: Connection, note_id: int) -> None:
    """Mark a note as removed; it stays in the table. EntryNotFoundError if there is none."""
    if not remove_notes(connection, [note_id]):
        raise EntryNotFoundError(f"expected the id of a note, found {note_id!r}")


def remove_notes(connection: Connection, note_ids: Collection[int]) -> list[int]:
    """Mark those of these notes that still exist as removed, and return the ids of their episodes."""
    conditions = (one_of(connection, note.c.id, note_ids), note.c.removed_at.is_(None))
    ids = sorted(connection.execute(select(note.c.episode_row).where(*conditions)).scalars())
    if ids:
        connection.execute(update(note).where(*conditions).values(removed_at=utc_now()))
        refresh_words(connection, set(ids))
        advance(connection)
    return ids


def refresh_words(connection: Connection, ids: Collection[int]) -> None:
    """Bring the searched words of these episodes up to date."""
    statement = select(episode.c.id, episode.c.metadata).where(one_of(connection, episode.c.id, ids))
    metadata_words = {row.id: indexed(json.loads(row.metadata), ()) for row in connection.execute(statement)}
    update_words(connection, metadata_words)


def update_words(connection: Connection, metadata_words: Mapping[int, str]) -> None:
    """Bring the searched words of these episodes up to date: those of their metadata, and of their notes."""
    notes: dict[int, list[str]] = {}
    for written_note in load_notes(connection, metadata_words):
        notes.setdefault(written_note.episode_id, []).append(written_note.text)
    new_words = {
        **metadata_words,
        **{number: joined((metadata_words[number], indexed({}, note_texts))) for number, note_texts in notes.items()},
    }
    statement = select(*document.c).where(one_of(connection, document.c.episode_row, metadata_words))
    unchanged = {number: words for number, words in connection.execute(statement) if new_words[number] == words}
    stale = [number for number in metadata_words if number not in unchanged]
    connection.execute(delete(document).where(one_of(connection, document.c.episode_row, stale)))
    rows = [(number, new_words[number]) for number in stale if new_words[number]]
    insert_rows(connection, document, ("episode_row", "words"), rows)


def add_reviews(connection: Connection, ids: Collection[int], *, state: str, who: str) -> list[Review]:
    """Bring each episode into the state and return the entries of the audit."""
    check_text(state, "a review state")
    check_who(who)
    at, reviews = utc_now(), []
    for number in find_existing(connection, ids):
        values = {"episode_row": number, "state": state, "who": who, "at": at}
        reviews.append(Review(_insert(connection, review, values), number, state, who, at))
    if reviews:
        advance(connection)
    return reviews


def undo_reviews(
    connection: Connection, ids: Collection[int], *, who: str, reviews_only: Collection[int] | None = None
) -> list[Review]:
    """Undo the last effective review of each episode, by an entry with the previous state; return the new entries.

    reviews_only: episodes whose last effective review is none of these stay as they are.
    """
    check_who(who)
    at, reviews = utc_now(), []
    for number, log in sorted(_load_logs(connection, ids).items()):
        effective = _effective_reviews(log)
        if effective and (reviews_only is None or effective[-1].id in reviews_only):
            state, last = (effective[-2].state if len(effective) > 1 else None), effective[-1]
            values = {"episode_row": number, "state": state, "who": who, "at": at, "undoes": last.id}
            reviews.append(Review(_insert(connection, review, values), number, state, who, at, last.id))
    if reviews:
        advance(connection)
    return reviews


def join_reviews(connection: Connection, episode_id: int) -> None:
    """Append an entry to a merged review log if needed, so that its last entry has the current state, as in every log.

    The last entry of one part may undo a review of its own, and say nothing about the reviews of another part: then an
    entry that undoes the same review is added at the end.
    """
    log = _load_logs(connection, [episode_id]).get(episode_id, [])
    effective = _effective_reviews(log)
    if effective and log[-1].state != effective[-1].state:
        current, undone = effective[-1], log[-1].undoes
        values = {
            "episode_row": episode_id,
            "state": current.state,
            "who": current.who,
            "at": current.at,
            "undoes": undone,
        }
        _insert(connection, review, values)


def _load_logs(connection: Connection, ids: Collection[int]) -> dict[int, list[Review]]:
    logs: dict[int, list[Review]] = {}
    for entry in load_reviews(connection, ids):
        logs.setdefault(entry.episode_id, []).append(entry)
    return logs


def _effective_reviews(log: Sequence[Review]) -> list[Review]:
    """Return the reviews that were not undone, the oldest first."""
    undone = {entry.undoes for entry in log}
    return [entry for entry in log if entry.undoes is None and entry.id not in undone]


def set_scores(connection: Connection, name: str, *, values: Mapping[int, float]) -> int:
    """Set a score of the catalogued episodes among these, replacing an older one, and return their number."""
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
    """Remove a score from these episodes and return how many had it."""
    conditions = (one_of(connection, score.c.episode_row, ids), score.c.name == name)
    count = connection.execute(delete(score).where(*conditions)).rowcount
    if count:
        advance(connection)
    return count


def swap_scores(
    connection: Connection,
    name: str,
    *,
    values: Mapping[int, float | None],
    expected: Mapping[int, float | None] | None,
) -> dict[int, float | None]:
    """Set a score, or remove it (None), where it is as expected, and return the previous values of the changed ones."""
    among_ids = one_of(connection, score.c.episode_row, values)
    statement = select(score.c.episode_row, score.c.value).where(among_ids, score.c.name == name)
    current: dict[int, float] = dict(connection.execute(statement).all())
    previous = {
        number: current.get(number)
        for number in find_existing(connection, values)
        if current.get(number) != values[number] and (expected is None or current.get(number) == expected.get(number))
    }
    set_values = {number: value for number in previous if (value := values[number]) is not None}
    drop_scores(connection, name, ids=[number for number in previous if values[number] is None])
    if set_values:
        set_scores(connection, name, values=set_values)
    return previous


def add_lineage(connection: Connection, ids: Collection[int], *, relation: str, source: str) -> int:
    """Record that each episode comes from the source by this relation; return for how many that is new."""
    check_text(relation, "a relation")
    check_text(source, "a source")
    statement = select(lineage.c.episode_row).where(lineage.c.relation == relation, lineage.c.source == source)
    new_ids = sorted(set(find_existing(connection, ids)) - set(connection.execute(statement).scalars()))
    if new_ids:
        rows = [{"episode_row": number, "relation": relation, "source": source} for number in new_ids]
        connection.execute(insert(lineage), rows)
        advance(connection)
    return len(new_ids)


def take_lineage(connection: Connection, metadata_by_id: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
    """Store the lineage that metadata state under RELATIONS, as a text or a list of texts; input: (id, metadata)."""
    rows = {
        (number, relation, source)
        for number, metadata in metadata_by_id
        for relation in RELATIONS
        if relation in metadata
        for source in _valid_sources(metadata[relation])
    }
    if rows:
        statement = select(*lineage.c).where(one_of(connection, lineage.c.episode_row, {row[0] for row in rows}))
        new_rows = sorted(rows - {tuple(row) for row in connection.execute(statement)})
        insert_rows(connection, lineage, ("episode_row", "relation", "source"), new_rows)


def _valid_sources(value: Any) -> list[str]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [source for source in listed if isinstance(source, str) and source.strip() and storable(source)]


def delete_annotations(connection: Connection, ids: Iterable[int]) -> None:
    """Delete all annotations of these episodes."""
    id_list = list(ids)
    for table in (document, note, review, score, lineage, checked, finding):
        connection.execute(delete(table).where(one_of(connection, table.c.episode_row, id_list)))


def _insert(connection: Connection, table: Table, values: Mapping[str, object]) -> int:
    key = connection.execute(insert(table).values(dict(values))).inserted_primary_key
    return int(key[0]) if key else 0
