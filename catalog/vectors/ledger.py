"""The ledger of embeddings: the vectors of episodes, numbered in the order of commits.

A tombstone has no digest, count, checksum and vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    select,
    update,
)

from catalog.database.engine import one_of
from catalog.database.schema import archive, embedding, index_copy
from catalog.vectors.checksums import check, entry_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from catalog.query.iterate import Read
    from catalog.vectors.index_copy_records import CopiedVector
    from catalog.vectors.records import LedgerEntry


_CONTENT: Final = ("digest", "count", "checksum", "vectors")  # NULL in a tombstone
ENTRY: Final = tuple(embedding.c[name] for name in ("episode_row", "seq", "count", "vectors", "checksum"))
"""The columns of a LedgerEntry."""
_CLOCK: Final = select(archive.c.clock)
_ADVANCE: Final = update(archive).values(clock=archive.c.clock + bindparam("ticks"))


def read_clock(connection: Connection) -> int:
    """Return the last issued number."""
    return int(connection.execute(_CLOCK).scalar_one())


def advance(connection: Connection, ticks: int = 1) -> int:
    """Issue numbers and return the last one; they become visible with the transaction."""
    connection.execute(_ADVANCE, {"ticks": ticks})
    return read_clock(connection)


def delete_vectors(connection: Connection, ids: Collection[int]) -> None:
    """Turn the ledger rows of these episodes into tombstones with new numbers."""
    statement = select(embedding.c.seq).where(
        one_of(connection, embedding.c.episode_row, ids), embedding.c.digest.is_not(None)
    )
    delete_rows(connection, sorted(connection.execute(statement).scalars()))


def delete_rows(connection: Connection, numbers: Sequence[int]) -> None:
    """Turn the ledger rows of these numbers into tombstones with new numbers, in their order."""
    if numbers:
        first = advance(connection, len(numbers)) - len(numbers) + 1
        statement = update(embedding).where(embedding.c.seq == bindparam("old"))
        values: dict[str, Any] = {"seq": bindparam("new"), **dict.fromkeys(_CONTENT)}
        rows = [{"old": number, "new": first + offset} for offset, number in enumerate(numbers)]
        connection.execute(statement.values(values), rows)


def read_ledger(
    connection: Connection, space_id: int, *, since: int, limit: int, share: Sequence[ColumnElement[bool]] = ()
) -> list[LedgerEntry]:
    """Return up to limit rows numbered above `since`, ascending, tombstones included; raises VectorsDamagedError.

    share: conditions on them.
    """
    statement = select(*ENTRY).where(embedding.c.space_id == space_id, embedding.c.seq > since, *share)
    return [entry_of(*row) for row in connection.execute(statement.order_by(embedding.c.seq).limit(limit))]


LEDGER_BYTES = 4 << 20


def walk_ledger(
    read: Read, space_id: int, *, since: int, share: Sequence[ColumnElement[bool]] = ()
) -> Iterator[LedgerEntry]:
    """Yield the space's entries above `since`, read in chunks of about LEDGER_BYTES, estimated from earlier vectors."""
    limit = 64
    while True:
        with read() as connection:
            entries = read_ledger(connection, space_id, since=since, limit=limit, share=share)
        yield from entries
        if len(entries) < limit:
            return
        since = entries[-1].seq
        size = sum(len(entry.vectors or b"") for entry in entries) // len(entries)
        limit = max(1, min(4096, LEDGER_BYTES // (size + 1)))


def check_rows(connection: Connection, copy_id: int, vectors_: Sequence[CopiedVector]) -> None:
    """Raise VectorsDamagedError unless the ledger rows that these vectors come from match their checksums."""
    if not vectors_:
        return
    ids = {vector.episode_id for vector in vectors_}
    statement = (
        select(embedding.c.episode_row, embedding.c.vectors, embedding.c.checksum)
        .join(index_copy, index_copy.c.space_id == embedding.c.space_id)
        .where(index_copy.c.id == copy_id, embedding.c.digest.is_not(None))
    )
    for number, vectors, stored in connection.execute(
        statement.where(one_of(connection, embedding.c.episode_row, ids))
    ):
        check(number, bytes(vectors), stored)
