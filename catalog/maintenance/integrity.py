"""Rows of the ledger that should not be there, and whether the database itself is sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, select

from catalog.database.engine import one_of
from catalog.database.schema import embedding, episode, space
from catalog.vectors.ledger import bury_rows
from wshard.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Reason = Literal["orphaned", "outdated", "retired", "torn"]
_AT_ONCE: Final = 64  # rows of the ledger
_LISTED: Final = 100  # problems of the database that are listed; one is enough to know


@dataclass(frozen=True)
class Stray:
    """An invalid ledger row.

    orphaned: its episode is gone. outdated: the data of the episode has changed. retired: its space is retired. torn:
    its bytes have the wrong length or, if all vectors were read, the wrong checksum.
    """

    seq: int
    space_id: int
    episode_id: int
    reason: Reason


def load_strays(connection: Connection, sizes: Mapping[int, int], *, full: bool = False) -> list[Stray]:
    """Return the stray rows, by number; sizes: bytes of one vector by space id.

    full: compare checksums, too, which reads all vectors.
    """
    torn: list[ColumnElement[bool]] = [
        and_(embedding.c.space_id == number, func.length(embedding.c.vectors) != embedding.c.count * size)
        for number, size in sizes.items()
    ]
    reason = case(
        (space.c.state == "retired", "retired"),
        (episode.c.id.is_(None), "orphaned"),
        (episode.c.digest != embedding.c.digest, "outdated"),
        *((found, "torn") for found in torn),
    )
    statement = (
        select(embedding.c.seq, embedding.c.space_id, embedding.c.episode_row, reason)
        .select_from(embedding.join(space).outerjoin(episode, episode.c.id == embedding.c.episode_row))
        .where(embedding.c.digest.is_not(None), reason.is_not(None))
        .order_by(embedding.c.seq)
    )
    found = {row.seq: Stray(*row) for row in connection.execute(statement)}
    if full:
        found = {one.seq: one for one in _damaged(connection)} | found
    return [found[seq] for seq in sorted(found)]


def _damaged(connection: Connection) -> Iterator[Stray]:
    columns = (embedding.c[name] for name in ("seq", "space_id", "episode_row", "checksum", "vectors"))
    living = select(*columns).where(embedding.c.digest.is_not(None)).order_by(embedding.c.seq)
    rows = connection.execute(living, execution_options={"yield_per": _AT_ONCE})
    for seq, space_id, episode_id, stored, vectors in rows:
        if stored != checksum(vectors or b""):
            yield Stray(seq, space_id, episode_id, "torn")


def drop_strays(connection: Connection, strays: Sequence[Stray]) -> None:
    """Mark these rows as deleted; those of retired spaces are removed, since no index follows them."""
    bury_rows(connection, [stray.seq for stray in strays if stray.reason != "retired"])
    forgotten = [stray.seq for stray in strays if stray.reason == "retired"]
    if forgotten:
        connection.execute(delete(embedding).where(one_of(connection, embedding.c.seq, forgotten)))


def check_database(connection: Connection, *, full: bool) -> list[str]:
    """Return the problems of the database file, [] for none; a server checks its own files.

    full: also compare every index with its table, which reads both completely.
    """
    if connection.dialect.name != "sqlite":
        return []
    pragma = "integrity_check" if full else "quick_check"
    found = [str(row[0]) for row in connection.exec_driver_sql(f"PRAGMA {pragma}({_LISTED})") if row[0] != "ok"]
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_LISTED):
        found.append(f"row {row} of {table} speaks of a row of {parent} that is not there")
    return found
