"""catalog.annotations: tags, notes, reviews, scores and lineage."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from catalog.curation.annotations import (
    check_text,
    check_who,
    drop_scores,
    effective_reviews,
    insert_row,
    load_logs,
    refresh_words,
    set_scores,
    utc_now,
)
from catalog.curation.annotations_json import ImportReport, export_annotations, import_annotations
from catalog.database.engine import one_of
from catalog.database.schema import lineage, note, review, score, tag
from catalog.filters.where import EVERYTHING, Compare
from catalog.query.facts import find_existing, load_reviews
from catalog.records import Note, Review
from catalog.vectors.ledger import advance
from wshard.core.arguments import episode_ids, whole_number
from wshard.errors import EntryNotFoundError, FilterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from catalog.filters.where import Where
    from catalog.session import Session


class Annotations:
    """Tags, notes, reviews, scores and lineage; unknown ids are ignored."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def tag(self, ids: Iterable[int], name: str) -> int:
        """Tag the episodes and return how many did not have the tag; FilterError for an empty name."""
        return len(self.swap_tag(ids, name, tagged=True))

    def untag(self, ids: Iterable[int], name: str) -> int:
        """Remove the tag from the episodes and return how many had it."""
        return len(self.swap_tag(ids, name, tagged=False))

    def swap_tag(self, ids: Iterable[int], name: str, *, tagged: bool) -> list[int]:
        """Tag episodes, or remove the tag, and return the ids of those that were changed.

        The reverse swap of the returned ids reverts this, except where others have reverted it already.
        """
        if tagged:
            check_text(name, "a tag")
        Compare("tag", "eq", name)  # validates the name; an empty one can be removed, as older archives may have it
        with self._session.write() as connection:
            existing = set(find_existing(connection, episode_ids(ids)))
            among_ids = one_of(connection, tag.c.episode_row, existing)
            having = set(connection.execute(select(tag.c.episode_row).where(tag.c.name == name, among_ids)).scalars())
            changed = sorted(existing - having if tagged else having)
            if changed and tagged:
                connection.execute(insert(tag), [{"name": name, "episode_row": number} for number in changed])
            elif changed:
                among_changed = one_of(connection, tag.c.episode_row, changed)
                connection.execute(delete(tag).where(tag.c.name == name, among_changed))
            if changed:
                advance(connection)
            return changed

    def add_note(self, ids: Iterable[int], text: str, *, who: str = "") -> list[Note]:
        """Add a note to each episode; full-text filters search it. FilterError for an empty text."""
        with self._session.write() as connection:
            check_text(text, "a note")
            check_who(who)
            at, notes = utc_now(), []
            for number in find_existing(connection, episode_ids(ids)):
                values = {"episode_row": number, "text": text, "who": who, "at": at}
                notes.append(Note(insert_row(connection, note, values), number, text, who, at))
            if notes:
                refresh_words(connection, [new_note.episode_id for new_note in notes])
                advance(connection)
            return notes

    def remove_note(self, note_id: int) -> None:
        """Remove a note; EntryNotFoundError if there is none with this id."""
        if not self.remove_notes([note_id]):
            raise EntryNotFoundError(f"expected the id of a note, found {note_id!r}")

    def remove_notes(self, note_ids: Iterable[int]) -> list[int]:
        """Remove those of these notes that still exist, and return the ids of their episodes."""
        numbers = [whole_number(one, "id of a note", FilterError) for one in note_ids]
        with self._session.write() as connection:
            conditions = (one_of(connection, note.c.id, numbers), note.c.removed_at.is_(None))
            ids = sorted(connection.execute(select(note.c.episode_row).where(*conditions)).scalars())
            if ids:
                connection.execute(update(note).where(*conditions).values(removed_at=utc_now()))
                refresh_words(connection, set(ids))
                advance(connection)
            return ids

    def review(self, ids: Iterable[int], state: str, *, who: str = "") -> list[Review]:
        """Set the review state of episodes ("accepted", "rejected", or any text); the log keeps all entries."""
        with self._session.write() as connection:
            check_text(state, "a review state")
            check_who(who)
            at, reviews = utc_now(), []
            for number in find_existing(connection, episode_ids(ids)):
                values = {"episode_row": number, "state": state, "who": who, "at": at}
                reviews.append(Review(insert_row(connection, review, values), number, state, who, at))
            if reviews:
                advance(connection)
            return reviews

    def undo_review(self, ids: Iterable[int], *, who: str = "", reviews: Iterable[int] | None = None) -> list[Review]:
        """Undo the last effective review of each episode; the log keeps both entries. Return the new ones.

        reviews: ids of reviews; episodes whose last effective review is another one stay as they are.
        """
        only = None if reviews is None else {whole_number(one, "id of a review", FilterError) for one in reviews}
        with self._session.write() as connection:
            check_who(who)
            at, undone = utc_now(), []
            for number, log in sorted(load_logs(connection, episode_ids(ids)).items()):
                effective = effective_reviews(log)
                if effective and (only is None or effective[-1].id in only):
                    state, last = (effective[-2].state if len(effective) > 1 else None), effective[-1]
                    values = {"episode_row": number, "state": state, "who": who, "at": at, "undoes": last.id}
                    undone.append(Review(insert_row(connection, review, values), number, state, who, at, last.id))
            if undone:
                advance(connection)
            return undone

    def audit(self, ids: Iterable[int]) -> list[Review]:
        """Return all review entries of these episodes, including undone ones and undos, the oldest first."""
        with self._session.read() as connection:
            return load_reviews(connection, episode_ids(ids))

    def set_scores(self, name: str, values: Mapping[int, float]) -> int:
        """Set a score of episodes, by id; return how many are catalogued. FilterError for NaN and infinities."""
        with self._session.write() as connection:
            return set_scores(connection, name, values=values)

    def drop_scores(self, name: str, ids: Iterable[int]) -> int:
        """Remove a score from episodes and return how many had it."""
        with self._session.write() as connection:
            return drop_scores(connection, name, ids=episode_ids(ids))

    def swap_scores(
        self, name: str, values: Mapping[int, float | None], expected: Mapping[int, float | None] | None = None
    ) -> dict[int, float | None]:
        """Set a score by id, or remove it (None), and return the previous values of the episodes that were changed.

        expected: only where the score still has this value, None for no score; by default everywhere.
        """
        with self._session.write() as connection:
            by_id = dict(zip(episode_ids(values), values.values(), strict=True))
            among_ids = one_of(connection, score.c.episode_row, by_id)
            statement = select(score.c.episode_row, score.c.value).where(among_ids, score.c.name == name)
            current: dict[int, float] = dict(connection.execute(statement).all())
            previous = {
                number: current.get(number)
                for number in find_existing(connection, by_id)
                if current.get(number) != by_id[number]
                and (expected is None or current.get(number) == expected.get(number))
            }
            set_values = {number: value for number in previous if (value := by_id[number]) is not None}
            drop_scores(connection, name, ids=[number for number in previous if by_id[number] is None])
            if set_values:
                set_scores(connection, name, values=set_values)
            return previous

    def add_lineage(self, ids: Iterable[int], relation: str, source: str) -> int:
        """Record where episodes come from; return for how many that is new.

        relation: "converted_from", "trimmed_from", "recorded_by", or any text; source: a uid, a URI, a name.
        """
        with self._session.write() as connection:
            check_text(relation, "a relation")
            check_text(source, "a source")
            statement = select(lineage.c.episode_row).where(lineage.c.relation == relation, lineage.c.source == source)
            new_ids = sorted(
                set(find_existing(connection, episode_ids(ids))) - set(connection.execute(statement).scalars())
            )
            if new_ids:
                rows = [{"episode_row": number, "relation": relation, "source": source} for number in new_ids]
                connection.execute(insert(lineage), rows)
                advance(connection)
            return len(new_ids)

    def export_json(self, where: Where | str | None = EVERYTHING) -> str:
        """Return tags, notes, reviews and scores of the matching episodes, and all collections, as JSON text."""
        with self._session.matching(where) as (connection, resolved):
            return export_annotations(connection, resolved)

    def import_json(self, text: str | bytes) -> ImportReport:
        """Add exported annotations to the episodes with the same data, or else at the same path below their root.

        Existing annotations stay, and a second import adds nothing. Entries that match no episode are reported and
        skipped. FilterError for any other text.
        """
        with self._session.write() as connection:
            return import_annotations(connection, text)
