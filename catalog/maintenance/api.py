"""catalog.maintenance: integrity checks and backups."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, select

from catalog.database.engine import one_of
from catalog.database.schema import embedding, episode, space
from catalog.maintenance.backup import back_up
from catalog.maintenance.postgres_dump import dump
from catalog.vectors.ledger import delete_rows
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from catalog.session import Session

Reason = Literal["orphaned", "outdated", "retired", "torn"]
_BATCH_SIZE: Final = 64  # rows of the ledger
_LISTED: Final = 100  # maximum number of reported problems


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


class Maintenance:
    """Integrity checks and backups of the database."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(self, *, full: bool = False) -> list[str]:
        """Return the problems of the database as texts; full: read every table and index, which takes minutes."""
        with self._session.read() as connection:
            if connection.dialect.name != "sqlite":  # a server checks its own files
                return []
            pragma = "integrity_check" if full else "quick_check"
            rows = connection.exec_driver_sql(f"PRAGMA {pragma}({_LISTED})")
            problems = [str(row[0]) for row in rows if row[0] != "ok"]
            for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_LISTED):
                problems.append(f"row {row} of {table} speaks of a row of {parent} that is not there")
            return problems

    def strays(self, sizes: Mapping[int, int], *, full: bool = False) -> list[Stray]:
        """Return the invalid ledger rows; sizes: bytes of one vector by space id.

        full: also those with a wrong checksum, which reads all vectors.
        """
        with self._session.read() as connection:
            return _load_strays(connection, sizes, full=full)

    def drop_strays(self, sizes: Mapping[int, int], *, full: bool = False) -> int:
        """Delete the invalid rows, so that their episodes are embedded again, and return their number."""
        with self._session.write() as connection:
            strays = _load_strays(connection, sizes, full=full)
            delete_rows(connection, [stray.seq for stray in strays if stray.reason != "retired"])
            retired = [stray.seq for stray in strays if stray.reason == "retired"]  # which no index follows
            connection.execute(delete(embedding).where(one_of(connection, embedding.c.seq, retired)))
            return len(strays)

    def back_up(self, target: str | os.PathLike[str]) -> int:
        """Copy the current state of the catalog to one file and return its size in bytes.

        Others may write meanwhile. The file is written atomically; an earlier backup of the same archive is replaced.
        For a catalog on a server pg_dump is used. Raises CatalogExistsError if another file exists at the path,
        CatalogWriteError, CatalogError.
        """
        if self._session.base is None:
            return dump(self._session.database, Path(target))
        return back_up(Path(self._session.database.name), Path(target))


def _load_strays(connection: Connection, sizes: Mapping[int, int], *, full: bool = False) -> list[Stray]:
    """Return the invalid rows, by number; sizes: bytes of one vector by space id.

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
        *((strays, "torn") for strays in torn),
    )
    statement = (
        select(embedding.c.seq, embedding.c.space_id, embedding.c.episode_row, reason)
        .select_from(embedding.join(space).outerjoin(episode, episode.c.id == embedding.c.episode_row))
        .where(embedding.c.digest.is_not(None), reason.is_not(None))
        .order_by(embedding.c.seq)
    )
    strays = {row.seq: Stray(*row) for row in connection.execute(statement)}
    if full:
        strays = {stray.seq: stray for stray in _damaged(connection)} | strays
    return [strays[seq] for seq in sorted(strays)]


def _damaged(connection: Connection) -> Iterator[Stray]:
    columns = (embedding.c[name] for name in ("seq", "space_id", "episode_row", "checksum", "vectors"))
    statement = select(*columns).where(embedding.c.digest.is_not(None)).order_by(embedding.c.seq)
    rows = connection.execute(statement, execution_options={"yield_per": _BATCH_SIZE})
    for seq, space_id, episode_id, stored, vectors in rows:
        if stored != checksum(vectors or b""):
            yield Stray(seq, space_id, episode_id, "torn")
