"""Spaces and the ledger of embeddings: the vectors of episodes, numbered in the order of commits.

A tombstone has no digest, count, checksum and vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from catalog.database.engine import one_of
from catalog.database.schema import archive, embedding, episode, index_copy, space
from catalog.vectors.checksums import check, entry_of, term
from catalog.vectors.coverage import pending_ids
from catalog.vectors.records import Among, EmbeddingRow, LedgerEntry, LedgerRevision, LedgerState, SpaceRow
from wshard.container.layout import checksum
from wshard.errors import EntryNotFoundError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from catalog.query.iterate import Read
    from catalog.vectors.index_copy_records import CopiedVector


_CONTENT: Final = ("digest", "count", "checksum", "vectors")  # NULL in a tombstone
_FRACTION_RANGE: Final = 1 << 32
ENTRY: Final = tuple(embedding.c[name] for name in ("episode_row", "seq", "count", "vectors", "checksum"))
"""The columns of a LedgerEntry."""


_GOLDEN_RATIO: Final = (1 << 20, 2_654_435_769)  # numbers are taken modulo the first, so that no product leaves 64 bits


def read_clock(connection: Connection) -> int:
    """Return the last issued number."""
    return int(connection.execute(select(archive.c.clock)).scalar_one())


def advance(connection: Connection, ticks: int = 1) -> int:
    """Issue numbers and return the last one; they become visible with the transaction."""
    connection.execute(update(archive).values(clock=archive.c.clock + ticks))
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


def load_spaces(connection: Connection, *conditions: ColumnElement[bool]) -> list[SpaceRow]:
    """Return the spaces that match the conditions, by id."""
    return [SpaceRow(*row) for row in connection.execute(select(*space.c).where(*conditions).order_by(space.c.id))]


def load_space(connection: Connection, space_id: int) -> SpaceRow:
    """Return one space; EntryNotFoundError if there is none with this id."""
    spaces = load_spaces(connection, space.c.id == space_id)
    if not spaces:
        raise EntryNotFoundError(f"expected the id of a space in the catalog, found {space_id}")
    return spaces[0]


def add_space(connection: Connection, fingerprint: str, *, family: str, definition: str) -> SpaceRow:
    """Return the space to fill: the one with the fingerprint, or the one of its family that is being built."""
    existing = load_spaces(connection, space.c.fingerprint == fingerprint)
    if existing and existing[0].state != "retired":
        return existing[0]
    building = load_spaces(connection, space.c.family == family, space.c.state == "building")
    if building:
        return building[0]
    if existing:
        statement = update(space).where(space.c.id == existing[0].id).values(state="building", checked_seq=0)
        connection.execute(statement)
    else:
        values = {"fingerprint": fingerprint, "family": family, "definition": definition}
        connection.execute(insert(space).values(state="building", checked_seq=0, **values))
    return load_spaces(connection, space.c.fingerprint == fingerprint)[0]


def activate(connection: Connection, space_id: int, *, among: Among, ignoring: Collection[int]) -> bool:
    """Make a complete space its family's active one and drop the others' vectors; False while episodes are pending."""
    space_row = _load_usable(connection, space_id)
    limit = len(ignoring) + 1  # one more than may be left out
    if set(pending_ids(connection, space_row.id, among=among, limit=limit)) - set(ignoring):
        return False
    family = load_spaces(connection, space.c.family == space_row.family, space.c.state != "retired")
    other_ids = [other.id for other in family if other.id != space_row.id]
    if other_ids or space_row.state != "active":
        _retire(connection, other_ids)
        connection.execute(update(space).where(space.c.id == space_row.id).values(state="active"))
        advance(connection)
    return True


def retire(connection: Connection, space_id: int) -> None:
    """Delete the vectors of a space and retire it; does nothing more if it is retired already."""
    _retire(connection, [load_space(connection, space_id).id])
    advance(connection)


def _retire(connection: Connection, ids: Sequence[int]) -> None:
    connection.execute(delete(embedding).where(one_of(connection, embedding.c.space_id, ids)))
    connection.execute(update(space).where(one_of(connection, space.c.id, ids)).values(state="retired"))


def mark_checked(connection: Connection, space_id: int, *, seq: int) -> None:
    """Store the clock at which the space was checked; it never decreases."""
    load_space(connection, space_id)
    statement = update(space).where(space.c.id == space_id, space.c.checked_seq < seq)
    connection.execute(statement.values(checked_seq=seq))


def embedded_ids(connection: Connection, space_id: int) -> list[int]:
    """Return the ids of the episodes that have vectors in the space, ascending."""
    conditions = (embedding.c.space_id == space_id, embedding.c.count.is_not(None))
    return sorted(connection.execute(select(embedding.c.episode_row).where(*conditions)).scalars())


def sample_ids(connection: Connection, space_id: int, *, about: int) -> list[int]:
    """Return the ids of about this many episodes with vectors in the space, all if there are fewer."""
    conditions = (embedding.c.space_id == space_id, embedding.c.count.is_not(None))
    rows = int(connection.execute(select(func.count()).select_from(embedding).where(*conditions)).scalar_one())
    step = max(1, rows // about)
    # Every n-th number would be biased: if spaces take turns, only every fourth number, say, is of this space. The
    # fractions of seq times the golden ratio are evenly spread for any such pattern, except for very few rows.
    fraction = embedding.c.seq % _GOLDEN_RATIO[0] * _GOLDEN_RATIO[1] % _FRACTION_RANGE
    result = connection.execute(
        select(embedding.c.episode_row).where(*conditions, fraction * step < _FRACTION_RANGE)
    ).scalars()
    sampled = sorted(result)
    return sampled if len(sampled) >= min(rows, about) // 2 else embedded_ids(connection, space_id)[::step]


def write_embeddings(connection: Connection, space_id: int, *, rows: Sequence[EmbeddingRow]) -> list[LedgerEntry]:
    """Write the rows whose data is still current and return them with their numbers, in order."""
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


def read_ledger(connection: Connection, space_id: int, *, since: int, limit: int) -> list[LedgerEntry]:
    """Return up to limit rows numbered above `since`, ascending, tombstones included; raises VectorsDamagedError."""
    statement = select(*ENTRY).where(embedding.c.space_id == space_id, embedding.c.seq > since)
    return [entry_of(*row) for row in connection.execute(statement.order_by(embedding.c.seq).limit(limit))]


def load_vectors(connection: Connection, space_id: int, *, ids: Collection[int]) -> dict[int, tuple[int, bytes]]:
    """Return (count, vectors) of those of the episodes that have vectors in the space, by id.

    Raises VectorsDamagedError.
    """
    conditions = (embedding.c.space_id == space_id, embedding.c.digest.is_not(None))
    statement = select(*ENTRY).where(one_of(connection, embedding.c.episode_row, ids), *conditions)
    entries = (entry_of(*row) for row in connection.execute(statement))
    return {entry.episode_id: (entry.count, entry.vectors or b"") for entry in entries}


def ledger_state(connection: Connection, space_id: int) -> LedgerState:
    """Return the totals of a space; reads an index, and no vectors."""
    statement = select(
        func.count(embedding.c.count),
        func.sum(embedding.c.count),
        func.max(embedding.c.seq),
        func.sum(term(embedding.c.checksum, embedding.c.seq, embedding.c.episode_row)).filter(embedding.c.count > 0),
    ).where(embedding.c.space_id == space_id)
    return LedgerState(*(int(total or 0) for total in connection.execute(statement).one()))


def ledger_revision(connection: Connection, space_id: int) -> LedgerRevision:
    """Return the revision of a space; takes an eighth of the time of its totals."""
    own = embedding.c.space_id == space_id
    rows = connection.execute(select(func.count()).select_from(embedding).where(own)).scalar_one()
    last = select(embedding.c.seq, embedding.c.episode_row, embedding.c.checksum).where(own)
    found = connection.execute(last.order_by(embedding.c.seq.desc()).limit(1)).one_or_none() or (0, 0, 0)
    return LedgerRevision(rows, *(int(value or 0) for value in found))


def _load_usable(connection: Connection, space_id: int) -> SpaceRow:
    """Return the space; SpaceMismatchError if it is retired, because its vectors are then invalid."""
    space_row = load_space(connection, space_id)
    if space_row.state == "retired":
        raise SpaceMismatchError(
            f"expected a building or active space, "
            f"found space {space_id} ({space_row.family} {space_row.fingerprint}) retired"
        )
    return space_row


LEDGER_BYTES = 4 << 20


def walk_ledger(read: Read, space_id: int, *, since: int) -> Iterator[LedgerEntry]:
    """Yield the space's entries above `since`, read in chunks of about LEDGER_BYTES, estimated from earlier vectors."""
    limit = 64
    while True:
        with read() as connection:
            entries = read_ledger(connection, space_id, since=since, limit=limit)
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
