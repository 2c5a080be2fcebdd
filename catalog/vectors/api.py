"""catalog.vectors: Spaces and the ledger of their vectors."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, literal, select, update

from catalog.database.engine import one_of
from catalog.database.schema import embedding, episode, space
from catalog.query import pages
from catalog.query.iterate import CHUNK
from catalog.vectors.checksums import entry_of, term
from catalog.vectors.coverage import load_uncovered, pending_ids
from catalog.vectors.ledger import ENTRY, advance, walk_ledger
from catalog.vectors.records import LedgerEntry, LedgerRevision, LedgerState, SpaceRow
from wshard.core.container.layout import checksum
from wshard.errors import EntryNotFoundError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from catalog.session import Session
    from catalog.vectors.records import (
        Among,
        EmbeddingRow,
        Uncovered,
    )

# Built once: an ingest asks for spaces ten times.
_SPACES: Final = select(*space.c).order_by(space.c.id)
_LIVE_SPACES: Final = _SPACES.where(space.c.state != "retired")
_SPACE: Final = _SPACES.where(space.c.id == bindparam("id"))
_STATE: Final = select(
    func.count(embedding.c.count),
    func.sum(embedding.c.count),
    func.max(embedding.c.seq),
    func.sum(term(embedding.c.checksum, embedding.c.seq, embedding.c.episode_row)).filter(embedding.c.count > 0),
).where(embedding.c.space_id == bindparam("space"))
_FRACTION_RANGE: Final = 1 << 32
_GOLDEN_RATIO: Final = (1 << 20, 2_654_435_769)  # numbers are taken modulo the first, so that no product leaves 64 bits


class VectorLedger:
    """The Spaces of a catalog and the ledger of their vectors.

    share: (number, of): ledger, revision and state are those of every of-th episode, by id, from that number on.
    """

    def __init__(self, session: Session, share: tuple[int, int] | None = None) -> None:
        self._session = session
        self._share = () if share is None else (embedding.c.episode_row % share[1] == share[0],)

    def spaces(self, state: str | None = None) -> list[SpaceRow]:
        """Return the spaces, or those in that state, by id."""
        with self._session.read() as connection:
            return _load_spaces(connection, *([] if state is None else [space.c.state == state]))

    def live_spaces(self) -> list[SpaceRow]:
        """Return the spaces that are not retired, by id."""
        with self._session.read() as connection:
            return [SpaceRow(*row) for row in connection.execute(_LIVE_SPACES)]

    def add_space(self, fingerprint: str, family: str, definition: str) -> SpaceRow:
        """Return the space to fill: that of the fingerprint (a retired one is built again) or a new one.

        While another space of the family is being built, that one: two ingests fill the same.
        """
        with self._session.write() as connection:
            existing = _load_spaces(connection, space.c.fingerprint == fingerprint)
            if existing and existing[0].state != "retired":
                return existing[0]
            building = _load_spaces(connection, space.c.family == family, space.c.state == "building")
            if building:
                return building[0]
            if existing:
                statement = update(space).where(space.c.id == existing[0].id).values(state="building", checked_seq=0)
                connection.execute(statement)
            else:
                values = {"fingerprint": fingerprint, "family": family, "definition": definition}
                connection.execute(insert(space).values(state="building", checked_seq=0, **values))
            return _load_spaces(connection, space.c.fingerprint == fingerprint)[0]

    def activate(self, space_id: int, among: Among, *, ignoring: Collection[int] = ()) -> bool:
        """Make the space the only one of its family and return True, unless episodes of `among` are pending for it.

        ignoring: ids of episodes that cannot be embedded (for example because their files are missing). Raises
        SpaceMismatchError for a retired space.
        """
        with self._session.write() as connection:
            space_row = _load_usable(connection, space_id)
            limit = len(ignoring) + 1  # one more than may be left out
            if set(pending_ids(connection, space_row.id, among=among, limit=limit)) - set(ignoring):
                return False
            family = _load_spaces(connection, space.c.family == space_row.family, space.c.state != "retired")
            other_ids = [other.id for other in family if other.id != space_row.id]
            if other_ids or space_row.state != "active":
                _retire(connection, other_ids)
                connection.execute(update(space).where(space.c.id == space_row.id).values(state="active"))
                advance(connection)
            return True

    def retire(self, space_id: int) -> None:
        """Drop the space's vectors in one transaction; a later add_space builds it again."""
        with self._session.write() as connection:
            _retire(connection, [_load_space(connection, space_id).id])
            advance(connection)

    def mark_checked(self, space_id: int, seq: int) -> None:
        """Store the clock at which the space was checked; an earlier one than stored changes nothing."""
        with self._session.write() as connection:
            _load_space(connection, space_id)
            statement = update(space).where(space.c.id == space_id, space.c.checked_seq < seq)
            connection.execute(statement.values(checked_seq=seq))

    def pending(self, space_id: int, among: Among) -> list[EpisodeRow]:
        """Return the episodes of `among` without vectors in the space, by id."""
        with self._session.read() as connection:
            ids = pending_ids(connection, space_id, among=among)
            return pages.load_ids(connection, ids)

    def pending_ids(self, space_id: int, among: Among) -> list[int]:
        """Return the ids of the episodes of `among` without vectors in the space, ascending."""
        with self._session.read() as connection:
            return pending_ids(connection, space_id, among=among)

    def embedded(self, space_id: int) -> array[int]:
        """Return the ids of all episodes that have vectors in the space, ascending."""
        with self._session.read() as connection:
            return _embedded_ids(connection, space_id)

    def adds(self, space_id: int, others: Collection[int]) -> bool:
        """Return whether the space has vectors of an episode of which none of the others has any."""
        with self._session.read() as connection:
            own, of_others = embedding.alias(), embedding.alias()
            there = select(literal(1)).where(
                of_others.c.episode_row == own.c.episode_row,
                one_of(connection, of_others.c.space_id, others),
                of_others.c.digest.is_not(None),
            )
            conditions = (own.c.space_id == space_id, own.c.digest.is_not(None), ~there.correlate(own).exists())
            return (
                connection.execute(select(literal(1)).select_from(own).where(*conditions).limit(1)).first() is not None
            )

    def uncovered(
        self,
        space_ids: Collection[int],
        where: Where,
        *,
        others: Sequence[Collection[int]] = (),
        lanes: Collection[str] = (),
    ) -> list[Uncovered]:
        """Return how many episodes that pass the filter have no vectors in any of these spaces, by layout.

        others: groups of spaces in which they may have vectors instead; the first that has some counts. lanes: names of
        those with moments where they are finite.
        """
        with self._session.matching(where) as (connection, resolved):
            return load_uncovered(connection, space_ids, others=others, lanes=lanes, where=resolved)

    def sample(self, space_id: int, about: int) -> list[int]:
        """Return the ids of about this many episodes with vectors in the space, all if there are fewer.

        They depend on the ids alone, over which they are spread, so that equal archives give equal samples, however
        many processes embedded them.
        """
        with self._session.read() as connection:
            conditions = (embedding.c.space_id == space_id, embedding.c.count.is_not(None))
            rows = int(connection.execute(select(func.count()).select_from(embedding).where(*conditions)).scalar_one())
            step = max(1, rows // about)
            # Every n-th id would be biased: if kinds of episodes take turns, only every fourth, say, is in this space.
            # Fractions of ids times the golden ratio are evenly spread for any such pattern, except for very few rows.
            fraction = embedding.c.episode_row % _GOLDEN_RATIO[0] * _GOLDEN_RATIO[1] % _FRACTION_RANGE
            result = connection.execute(
                select(embedding.c.episode_row).where(*conditions, fraction * step < _FRACTION_RANGE)
            ).scalars()
            sampled = sorted(result)
            return sampled if len(sampled) >= min(rows, about) // 2 else [*_embedded_ids(connection, space_id)[::step]]

    def load(self, space_id: int, ids: Collection[int]) -> dict[int, tuple[int, bytes]]:
        """Return (count, vectors) of those of the episodes that have vectors in the space, by id.

        VectorsDamagedError where vectors are not what was written.
        """
        with self._session.read() as connection:
            conditions = (embedding.c.space_id == space_id, embedding.c.digest.is_not(None))
            statement = select(*ENTRY).where(one_of(connection, embedding.c.episode_row, ids), *conditions)
            entries = (entry_of(*row) for row in connection.execute(statement))
            return {entry.episode_id: (entry.count, entry.vectors or b"") for entry in entries}

    def write(self, space_id: int, rows: Sequence[EmbeddingRow]) -> list[LedgerEntry]:
        """Write vectors in one durable transaction; return the entries that were written.

        Rows whose episode was removed, or has another digest now, are skipped; of two for one episode the later counts.
        Raises SpaceMismatchError for a retired space.
        """
        with self._session.write(durable=True) as connection:
            _load_usable(connection, space_id)
            latest = {row.episode_id: row for row in rows}
            statement = select(episode.c.id, episode.c.digest).where(one_of(connection, episode.c.id, latest))
            digests = {row.id: row.digest for row in connection.execute(statement)}
            current = [row for row in latest.values() if digests.get(row.episode_id) == row.digest]
            if not current:
                return []
            first = advance(connection, len(current)) - len(current) + 1
            replaced = one_of(connection, embedding.c.episode_row, [row.episode_id for row in current])
            connection.execute(delete(embedding).where(embedding.c.space_id == space_id, replaced))
            entries = [
                LedgerEntry(row.episode_id, seq, row.count, row.vectors, checksum(row.vectors))
                for seq, row in enumerate(current, start=first)
            ]
            values = [
                {
                    "seq": entry.seq,
                    "space_id": space_id,
                    "episode_row": entry.episode_id,
                    "digest": digests[entry.episode_id],
                    "count": entry.count,
                    "checksum": entry.checksum,
                    "vectors": entry.vectors,
                }
                for entry in entries
            ]
            connection.execute(insert(embedding), values)
            return entries

    def ledger(self, space_id: int, *, since: int = 0) -> Iterator[LedgerEntry]:
        """Yield the entries numbered above `since`, ascending; later ones for the same episode replace earlier ones.

        VectorsDamagedError where vectors are not what was written.
        """
        return walk_ledger(self._session.read, space_id, since=since, share=self._share)

    def revision(self, space_id: int) -> LedgerRevision:
        """Return what differs after every change of the space in the ledger; quicker than its state."""
        with self._session.read() as connection:
            own = (embedding.c.space_id == space_id, *self._share)
            rows = connection.execute(select(func.count()).select_from(embedding).where(*own)).scalar_one()
            last = select(embedding.c.seq, embedding.c.episode_row, embedding.c.checksum).where(*own)
            found = connection.execute(last.order_by(embedding.c.seq.desc()).limit(1)).one_or_none() or (0, 0, 0)
            return LedgerRevision(rows, *(int(value or 0) for value in found))

    def state(self, space_id: int) -> LedgerState:
        """Return what the ledger holds of the space, without reading vectors."""
        with self._session.read() as connection:
            statement = _STATE.where(*self._share) if self._share else _STATE
            return LedgerState(*(int(total or 0) for total in connection.execute(statement, {"space": space_id}).one()))


def _load_spaces(connection: Connection, *conditions: ColumnElement[bool]) -> list[SpaceRow]:
    """Return the spaces that match the conditions, by id."""
    return [SpaceRow(*row) for row in connection.execute(_SPACES.where(*conditions))]


def _load_space(connection: Connection, space_id: int) -> SpaceRow:
    """Return one space; EntryNotFoundError if there is none with this id."""
    row = connection.execute(_SPACE, {"id": space_id}).one_or_none()
    if row is None:
        raise EntryNotFoundError(f"expected the id of a space in the catalog, found {space_id}")
    return SpaceRow(*row)


def _retire(connection: Connection, ids: Sequence[int]) -> None:
    connection.execute(delete(embedding).where(one_of(connection, embedding.c.space_id, ids)))
    connection.execute(update(space).where(one_of(connection, space.c.id, ids)).values(state="retired"))


def _embedded_ids(connection: Connection, space_id: int) -> array[int]:
    """Return the ids of the episodes that have vectors in the space, ascending."""
    conditions = (embedding.c.space_id == space_id, embedding.c.count.is_not(None))
    statement = select(embedding.c.episode_row).where(*conditions)
    with connection.execute(statement, execution_options={"yield_per": CHUNK}) as rows:
        return array("q", sorted(array("q", rows.scalars())))


def _load_usable(connection: Connection, space_id: int) -> SpaceRow:
    """Return the space; SpaceMismatchError if it is retired, because its vectors are then invalid."""
    space_row = _load_space(connection, space_id)
    if space_row.state == "retired":
        raise SpaceMismatchError(
            f"expected a building or active space, "
            f"found space {space_id} ({space_row.family} {space_row.fingerprint}) retired"
        )
    return space_row
