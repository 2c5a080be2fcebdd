"""catalog.index_copies: which vectors an external index holds, and which are still to be sent."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from catalog.database.column_types import BIG
from catalog.database.engine import one_of
from catalog.database.schema import archive, embedding, index_copy, synced
from catalog.vectors.checksums import entry_of
from catalog.vectors.index_copy_records import CopiedVector, CopyRow, Landed, Synced
from catalog.vectors.ledger import ENTRY, check_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from catalog.session import Session
    from catalog.vectors.records import LedgerEntry

Transaction: TypeAlias = Callable[[], AbstractContextManager[Connection]]

_CHUNK = 500


class IndexCopies:
    """The copies of Spaces in external indexes, as recorded in the catalog. Raises the catalog's errors."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find(self, place: str, space_id: int) -> CopyRow | None:
        """Return the copy of a space at a place, None if there is none."""
        with self._session.read() as connection:
            return _find(connection, place, space_id)

    def open(self, place: str, space_id: int) -> CopyRow:
        """Return the copy of a space at a place; created if there is none."""
        with self._session.write() as connection:
            existing = _find(connection, place, space_id)
            if existing is not None:
                return existing
            values = {"place": place, "space_id": space_id, "generation": str(uuid.uuid4())}
            connection.execute(insert(index_copy).values(version=0, damaged=False, removed=0, **values))
            return CopyRow(*connection.execute(_FIND, {"at": place, "of": space_id}).one())

    def of_place(self, place: str) -> list[CopyRow]:
        """Return all copies at a place."""
        with self._session.read() as connection:
            return [CopyRow(*row) for row in connection.execute(_COPIES.where(index_copy.c.place == place))]

    def renew(self, copy_id: int) -> None:
        """Delete the records of the copy's contents, and start a new generation."""
        with self._session.write() as connection:
            renew_copy(connection, copy_id)

    def mark_damaged(self, copy_id: int) -> None:
        """Record that the index returned invalid results."""
        with self._session.write() as connection:
            connection.execute(_update_copy(copy_id).values(damaged=True, version=index_copy.c.version + 1))

    def close(self, copy_id: int) -> None:
        """Delete the copy and its records."""
        with self._session.write() as connection:
            connection.execute(delete(synced).where(synced.c.copy_id == copy_id))
            connection.execute(delete(index_copy).where(index_copy.c.id == copy_id))

    def pending(self, copy: CopyRow, *, after: int = 0, limit: int = _CHUNK) -> list[LedgerEntry]:
        """Return up to limit live ledger rows after `after` whose vectors the copy lacks, by number."""
        copied = select(literal(1)).where(synced.c.copy_id == copy.id, synced.c.seq == embedding.c.seq)
        conditions = (embedding.c.space_id == copy.space_id, embedding.c.seq > after, embedding.c.count > 0)
        statement = select(*ENTRY).where(*conditions, ~copied.correlate(embedding).exists())
        with self._session.read() as connection:
            rows = connection.execute(statement.order_by(embedding.c.seq).limit(limit))
            return [entry_of(*row) for row in rows]

    def begin(self, copy_id: int, rows: Sequence[Synced]) -> None:
        """Insert rows for vectors that will be sent now, or that share the document of another vector."""
        with self._session.write() as connection:
            connection.execute(insert(synced), [{"copy_id": copy_id, **vars(row)} for row in rows])

    def known(self, copy_id: int, refs: Collection[str]) -> dict[str, Landed]:
        """Return the documents of these names that are in the index; about is "" if it is unknown."""
        conditions = (synced.c.copy_id == copy_id, synced.c.run.is_(None), synced.c.document.is_not(None))
        statement = select(synced.c.ref, synced.c.document, synced.c.about, synced.c.served).order_by(synced.c.served)
        with self._session.read() as connection:
            rows = connection.execute(statement.where(*conditions, one_of(connection, synced.c.ref, refs)))
            return {ref: Landed(ref, document, about if served else "") for ref, document, about, served in rows}

    def find_in_transit(
        self, copy_id: int, size: int, *, limit: int = _CHUNK
    ) -> list[tuple[Synced, CopiedVector | None]]:
        """Return up to limit rows of one shipment that may or may not have arrived, with their vectors while living."""
        first = select(func.min(synced.c.run)).where(synced.c.copy_id == copy_id, synced.c.run.is_not(None))
        with self._session.read() as connection:
            run = connection.execute(first).scalar()
            if run is None:
                return []
            columns = [synced.c[name] for name in Synced.__dataclass_fields__]
            statement = (
                select(*columns, embedding.c.episode_row, _vector(size))
                .select_from(synced.outerjoin(embedding, _is_live()))
                .where(synced.c.copy_id == copy_id, synced.c.run == run)
                .order_by(synced.c.seq, synced.c.position)
                .limit(limit)
            )
            results = []
            for *values, episode, vector in connection.execute(statement):
                row = Synced(*values)
                copied = None if vector is None else CopiedVector(None, row.ref, episode, row.position, vector)
                results.append((row, copied))
            check_rows(connection, copy_id, [copied for _, copied in results if copied is not None])
            return results

    def mark_arrived(self, copy_id: int, run: str, landed: Sequence[Landed]) -> int:
        """Record the numbers of the documents of a shipment; return how many rows had one of these numbers before.

        Those are marked as not sent: an index that reuses a number has lost the first document.
        """
        if not landed:
            return 0
        in_copy = synced.c.copy_id == copy_id
        arrived = update(synced).where(in_copy, synced.c.run == run, synced.c.ref == bindparam("name"))
        new_values: dict[str, Any] = {
            "document": bindparam("number"),
            "served": synced.c.about == bindparam("fields"),
            "run": None,
        }
        rows = [{"name": arrival.ref, "number": arrival.document, "fields": arrival.about} for arrival in landed]
        with self._session.write() as connection:
            names = {arrival.document: arrival.ref for arrival in landed}
            statement = select(synced.c.document, synced.c.ref).where(
                in_copy, one_of(connection, synced.c.document, names)
            )
            displaced = [number for number, ref in connection.execute(statement) if names[number] != ref]
            _mark_missing(connection, copy_id, displaced)
            connection.execute(arrived.values(new_values), rows)
        return len(displaced)

    def forget(self, copy_id: int, rows: Iterable[tuple[int, int]], *, removed: int = 0) -> None:
        """Delete rows by (seq, position), after `removed` documents were removed from the index."""
        keys = [{"number": seq, "place": position} for seq, position in rows]
        conditions = (synced.c.copy_id == copy_id, synced.c.seq == bindparam("number"))
        with self._session.write() as connection:
            if keys:
                connection.execute(delete(synced).where(*conditions, synced.c.position == bindparam("place")), keys)
            if removed:
                connection.execute(_update_copy(copy_id).values(removed=index_copy.c.removed + removed))

    def find_stale(self, copy_id: int, *, limit: int = _CHUNK) -> list[tuple[int, int, int | None]]:
        """Return up to limit (seq, position, document) of deleted vectors; document None if others share it."""
        row = synced.alias()
        live_vector = select(literal(1)).where(embedding.c.seq == row.c.seq, embedding.c.digest.is_not(None))
        other_live = (
            select(literal(1))
            .select_from(synced.join(embedding, _is_live()))
            .where(synced.c.copy_id == copy_id, synced.c.document == row.c.document)
        )
        statement = (
            select(row.c.seq, row.c.position, row.c.document, other_live.correlate(row).exists())
            .where(row.c.copy_id == copy_id, row.c.run.is_(None), ~live_vector.correlate(row).exists())
            .limit(limit)
        )
        with self._session.read() as connection:
            return [(seq, at, None if shared else number) for seq, at, number, shared in connection.execute(statement)]

    def lookup(self, copy_id: int, documents: Collection[int], size: int) -> list[CopiedVector]:
        """Return the living vectors of these documents, at most 10,000."""
        values = {"copy": copy_id, "size": size, "documents": list(documents)}
        with self._session.read() as connection:
            vectors = [CopiedVector(*row) for row in connection.execute(_LOOKUP, values)]
            check_rows(connection, copy_id, vectors)
            return vectors

    def find_unserved(self, copy_id: int, size: int) -> list[CopiedVector]:
        """Return the living vectors that have a row and are not served."""
        with self._session.read() as connection:
            conditions = (synced.c.copy_id == copy_id, synced.c.served.is_(False))
            vectors = [CopiedVector(*row) for row in connection.execute(_select_copied(size).where(*conditions))]
            check_rows(connection, copy_id, vectors)
            return vectors

    def count(self, copy_id: int) -> int:
        """Return the number of live vectors that the copy holds."""
        statement = select(func.count()).select_from(synced.join(embedding, _is_live()))
        with self._session.read() as connection:
            of_copy = statement.where(synced.c.copy_id == copy_id, synced.c.run.is_(None))
            return int(connection.execute(of_copy).scalar_one())

    def documents(self, copy_id: int, *, after: int = 0, limit: int = _CHUNK) -> list[tuple[int, str]]:
        """Return up to limit (document, ref) above `after` that the index should hold, by number."""
        conditions = (synced.c.copy_id == copy_id, synced.c.run.is_(None), synced.c.document > after)
        statement = select(synced.c.document, func.min(synced.c.ref)).where(*conditions).group_by(synced.c.document)
        with self._session.read() as connection:
            rows = connection.execute(statement.order_by(synced.c.document).limit(limit))
            return [(document, ref) for document, ref in rows]

    def totals(self, copy_id: int) -> tuple[int, int]:
        """Return (documents that the index should hold, highest number among them)."""
        conditions = (synced.c.copy_id == copy_id, synced.c.run.is_(None))
        statement = select(func.count(synced.c.document.distinct()), func.max(synced.c.document)).where(*conditions)
        with self._session.read() as connection:
            documents, last = connection.execute(statement).one()
            return int(documents), int(last or 0)

    def count_in_transit(self, copy_id: int) -> int:
        """Return how many documents may or may not be in the index, because their arrival is not confirmed."""
        statement = select(func.count(synced.c.ref.distinct()))
        with self._session.read() as connection:
            rows = connection.execute(statement.where(synced.c.copy_id == copy_id, synced.c.run.is_not(None)))
            return int(rows.scalar_one())

    def mark_missing(self, copy_id: int, documents: Collection[int]) -> None:
        """Record that these documents are not in the index, so that they are sent again."""
        with self._session.write() as connection:
            _mark_missing(connection, copy_id, documents)

    def sizes(self, space_id: int, episodes: Sequence[int] | None = None) -> tuple[int, int]:
        """Return (episodes with vectors, vectors) of the space, among these episodes."""
        conditions = [embedding.c.space_id == space_id, embedding.c.count > 0]
        with self._session.read() as connection:
            if episodes is not None:
                conditions.append(one_of(connection, embedding.c.episode_row, episodes))
            totals = connection.execute(select(func.count(), func.sum(embedding.c.count)).where(*conditions)).one()
            return int(totals[0]), int(totals[1] or 0)

    def entries(self, space_id: int, episodes: Sequence[int]) -> Iterator[LedgerEntry]:
        """Yield the living ledger rows of these episodes."""
        statement = select(*ENTRY).where(embedding.c.space_id == space_id, embedding.c.count > 0)
        for start in range(0, len(episodes), _CHUNK):
            with self._session.read() as connection:
                in_batch = one_of(connection, embedding.c.episode_row, episodes[start : start + _CHUNK])
                rows = connection.execute(statement.where(in_batch)).all()
            yield from (entry_of(*row) for row in rows)


def renew_copy(connection: Connection, copy_id: int) -> None:
    """Delete the records of the copy's contents, and start a new generation."""
    connection.execute(delete(synced).where(synced.c.copy_id == copy_id))
    values = {"generation": str(uuid.uuid4()), "damaged": False, "removed": 0}
    connection.execute(_update_copy(copy_id).values(version=index_copy.c.version + 1, **values))


def _find(connection: Connection, place: str, space_id: int) -> CopyRow | None:
    row = connection.execute(_FIND, {"at": place, "of": space_id}).one_or_none()
    return None if row is None else CopyRow(*row)


def _update_copy(copy_id: int) -> Any:
    return update(index_copy).where(index_copy.c.id == copy_id)


def _mark_missing(connection: Connection, copy_id: int, documents: Collection[int]) -> None:
    if documents:
        conditions = (synced.c.copy_id == copy_id, one_of(connection, synced.c.document, documents))
        values = {"document": None, "served": False, "run": str(uuid.uuid4())}
        connection.execute(update(synced).where(*conditions).values(values))
        connection.execute(_update_copy(copy_id).values(version=index_copy.c.version + 1))


def _is_live() -> ColumnElement[bool]:
    return and_(embedding.c.seq == synced.c.seq, embedding.c.digest.is_not(None))


def _vector(size: int | ColumnElement[int]) -> ColumnElement[bytes]:
    # PostgreSQL counts bytes in 32 bits only.
    return func.substr(embedding.c.vectors, cast(synced.c.position * size + 1, Integer), cast(size, Integer))


def _select_copied(size: int | ColumnElement[int]) -> Select[Any]:
    columns = (synced.c.document, synced.c.ref, embedding.c.episode_row, synced.c.position, _vector(size))
    return select(*columns).select_from(synced.join(embedding, _is_live()))


_COPIES: Select[Any] = select(*[*index_copy.c, select(archive.c.clock).scalar_subquery()])

# Built once: every search runs these two, and building them takes longer than running them.
_FIND = _COPIES.where(index_copy.c.place == bindparam("at"), index_copy.c.space_id == bindparam("of"))
_LOOKUP = _select_copied(bindparam("size", type_=BIG)).where(
    synced.c.copy_id == bindparam("copy"), synced.c.document.in_(bindparam("documents", expanding=True))
)
