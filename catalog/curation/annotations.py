"""Annotations of episodes by people and checks: notes, reviews, scores, lineage, and the full text.

Annotations survive a change or a move of a file, except scores: they describe the data and are removed with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, delete, insert, select

from catalog.database.bulk_rows import insert_rows
from catalog.database.engine import one_of
from catalog.database.schema import checked, document, episode, finding, lineage, note, review, score
from catalog.full_text import indexed, joined
from catalog.query.facts import find_existing, load_notes, load_reviews
from catalog.values import storable
from catalog.vectors.ledger import advance
from wshard.core.arguments import episode_ids, finite_number
from wshard.core.messages import shown
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from sqlalchemy import Table

    from catalog.records import Review

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


def join_reviews(connection: Connection, episode_id: int) -> None:
    """Append an entry to a merged review log if needed, so that its last entry has the current state, as in every log.

    The last entry of one part may undo a review of its own, and say nothing about the reviews of another part: then an
    entry that undoes the same review is added at the end.
    """
    log = load_logs(connection, [episode_id]).get(episode_id, [])
    effective = effective_reviews(log)
    if effective and log[-1].state != effective[-1].state:
        current, undone = effective[-1], log[-1].undoes
        values = {
            "episode_row": episode_id,
            "state": current.state,
            "who": current.who,
            "at": current.at,
            "undoes": undone,
        }
        insert_row(connection, review, values)


def load_logs(connection: Connection, ids: Collection[int]) -> dict[int, list[Review]]:
    """Return all review entries of these episodes by id, the oldest first."""
    logs: dict[int, list[Review]] = {}
    for entry in load_reviews(connection, ids):
        logs.setdefault(entry.episode_id, []).append(entry)
    return logs


def effective_reviews(log: Sequence[Review]) -> list[Review]:
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


def insert_row(connection: Connection, table: Table, values: Mapping[str, object]) -> int:
    """Insert a row and return its new id."""
    key = connection.execute(insert(table).values(dict(values))).inserted_primary_key
    return int(key[0]) if key else 0
