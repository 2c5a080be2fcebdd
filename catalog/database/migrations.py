"""How a database becomes a catalog of the current version."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    Column,
    Connection,
    LargeBinary,
    bindparam,
    column,
    create_mock_engine,
    func,
    insert,
    inspect,
    select,
    update,
)

from catalog import full_text
from catalog.database.bulk_rows import pack_spread, renew
from catalog.database.schema import archive, document, embedding, episode, lane, metadata, migration, root
from catalog.values import encode_metadata
from wshard.container.layout import checksum
from wshard.errors import CatalogError, CatalogNotFoundError, CatalogVersionError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.schema import ExecutableDDLElement

    from catalog.database.engine import Database


_ROWS: Final = 256  # of the ledger, at once


@dataclass(frozen=True)
class Step:
    """One change of the tables: apply turns an archive of the version before into this one. Released, it stays."""

    version: int
    name: str
    apply: Callable[[Connection], None]


def _begin_with_current_tables(connection: Connection) -> None:
    for statement in _tables(connection.engine.url.drivername):
        connection.exec_driver_sql(statement)


@cache
def _tables(driver: str) -> tuple[str, ...]:
    """Return the statements that make all tables in an empty database, written once: that takes longer than they do."""
    found: list[str] = []

    def keep(made: ExecutableDDLElement, *_: object, **__: object) -> None:
        found.append(str(made.compile(dialect=teller.dialect)))

    teller = create_mock_engine(f"{driver}://", keep)
    metadata.create_all(teller, checkfirst=False)
    return tuple(found)


def _add_curation(connection: Connection) -> None:
    """Add notes, reviews, scores, lineage, collections and full text; metadata becomes JSON that databases can read."""
    _add_tables(connection, "document", "note", "review", "score", "lineage", "snapshot", "pick", "collection")
    _add_column(connection, lane.c.spread)
    stored = connection.execute(select(episode.c.id, episode.c.path, episode.c.metadata))
    cleaned, searched = [], []
    for number, path, text in stored:
        readable = encode_metadata(json.loads(text), path=path)
        if readable != text:
            cleaned.append({"row": number, "readable": readable})
        if found := full_text.indexed(json.loads(readable), ()):
            searched.append({"episode_row": number, "words": found})
    if cleaned:
        wanted = update(episode).where(episode.c.id == bindparam("row"))
        connection.execute(wanted.values(metadata=bindparam("readable")), cleaned)
    if searched:
        connection.execute(insert(document), searched)


def _add_tables(connection: Connection, *names: str) -> None:
    """Make tables with their present columns and indexes; what a later step adds to them is there already then."""
    metadata.create_all(connection, tables=[metadata.tables[name] for name in names])


def _add_column(connection: Connection, column: Column[Any]) -> None:
    """Add a column that may be NULL, unless it is there."""
    table = column.table
    if column.name not in {found["name"] for found in inspect(connection).get_columns(table.name)}:
        kind = column.type.compile(connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}")


def _remember_what_indexes_hold(connection: Connection) -> None:
    _add_tables(connection, "index_copy", "synced")


def _add_checks(connection: Connection) -> None:
    _add_tables(connection, "checked", "finding")


def _add_storage_of_lanes(connection: Connection) -> None:
    """Leave the new columns empty: an episode that is read again fills them."""
    for name in ("rate", "codec", "bytes", "stored"):
        _add_column(connection, lane.c[name])


def _add_assets(connection: Connection) -> None:
    _add_tables(connection, "asset")


def _add_bits_of_words(connection: Connection) -> None:
    """Say of each episode which words it may hold, also in the indexes that give pages their order."""
    _add_column(connection, episode.c.word_bits)
    late = [index for index in episode.indexes if "id" in index.columns]
    for index in late:
        connection.exec_driver_sql(f"DROP INDEX IF EXISTS {index.name}")
    found = connection.execute(select(document.c.episode_row, document.c.words)).all()
    renew(connection, episode, ("word_bits", "id"), [(full_text.bits(text), number) for number, text in found])
    for index in late:  # those of other products are passed over
        index.create(connection)


def _say_once_what_lanes_are_like(connection: Connection) -> None:
    """Drop the moments of lanes, which their statistics tell; old software kept some alone: those become statistics."""
    if "moments" not in {found["name"] for found in inspect(connection).get_columns(lane.name)}:
        return
    moments = column("moments", LargeBinary)
    key = (lane.c.episode_row, lane.c.name)
    alone = select(*key, lane.c.count, moments).where(lane.c.spread.is_(None), moments.is_not(None))
    found = connection.execute(alone).all()
    told = [
        {"row": row, "lane": name, "spread": spread}
        for row, name, count, stored in found
        if (spread := pack_spread(_spreads(count, stored)))
    ]
    if told:
        wanted = update(lane).where(lane.c.episode_row == bindparam("row"), lane.c.name == bindparam("lane"))
        connection.execute(wanted.values(spread=bindparam("spread")), told)
    connection.exec_driver_sql(f"ALTER TABLE {lane.name} DROP COLUMN moments")


def _spreads(count: int, moments: bytes) -> list[tuple[float, float, float, float]]:
    """Return (min, max, mean, std) of each channel from mean, sum of squares, least and greatest, float64 [4, D]."""
    channels, beyond = divmod(len(moments), 4 * 8)
    if count < 1 or beyond:
        return []
    means, squares, lows, highs = (struct.unpack_from(f"<{channels}d", moments, row * channels * 8) for row in range(4))
    return list(zip(lows, highs, means, (sqrt(max(square, 0.0) / count) for square in squares), strict=True))


def _add_edition_and_checksums(connection: Connection) -> None:
    """Give the archive an edition, and each row of the ledger the checksum of its vectors as they are now."""
    _add_column(connection, archive.c.edition)
    _add_column(connection, embedding.c.checksum)
    connection.execute(update(archive).values(edition=str(uuid.uuid4())))
    last = 0
    living = select(embedding.c.seq, embedding.c.vectors).where(embedding.c.vectors.is_not(None))
    some = living.where(embedding.c.seq > bindparam("last")).order_by(embedding.c.seq).limit(_ROWS)
    while rows := connection.execute(some, {"last": last}).all():
        last = rows[-1].seq
        renew(connection, embedding, ("checksum", "seq"), [(checksum(vectors), seq) for seq, vectors in rows])
    connection.exec_driver_sql("DROP INDEX IF EXISTS embedding_space_seq")
    next(index for index in embedding.indexes if index.name == "embedding_space_seq").create(connection)


STEPS: tuple[Step, ...] = (
    Step(1, "first tables", _begin_with_current_tables),
    Step(2, "notes, reviews, scores, lineage, collections, full text", _add_curation),
    Step(3, "what indexes outside of the archive hold", _remember_what_indexes_hold),
    Step(4, "what checks found", _add_checks),
    Step(5, "rate, codec and bytes of lanes", _add_storage_of_lanes),
    Step(6, "files of episodes that consist of several", _add_assets),
    Step(7, "what words an episode may hold, beside the orders of pages", _add_bits_of_words),
    Step(8, "lanes without moments, which their statistics tell", _say_once_what_lanes_are_like),
    Step(9, "edition of the archive, checksums of vectors", _add_edition_and_checksums),
)


def prepare(
    database: Database,
    *,
    create: bool,
    steps: Sequence[Step] = STEPS,
    keep: Callable[[Database, int], None] | None = None,
) -> None:
    """Bring the database to the last step, or create a catalog in an empty one.

    keep: called with the version of an older catalog before it is upgraded.
    Raises CatalogNotFoundError for an empty database without create, CatalogError for one that holds something else,
    CatalogVersionError for a catalog of newer software, CatalogWriteError for an older one that cannot be written. A
    failing step leaves the database as it was.
    """
    with database.transaction("read") as connection:
        found = _version(connection, name=database.name)
    if found == 0 and not create:
        raise CatalogNotFoundError(f"expected a catalog at {database.name}, found an empty database")
    if found == steps[-1].version:
        return
    if found > steps[-1].version:
        raise CatalogVersionError(
            f"expected a catalog of version {steps[-1].version} or older at {database.name}, found version {found}: "
            "a newer version of this software wrote it; update the software, or ingest into a new catalog"
        )
    try:
        if found and keep is not None:
            keep(database, found)
        with database.transaction("write") as connection:
            # Another process may have upgraded between the two transactions.
            _upgrade(connection, _version(connection, name=database.name), steps=steps)
    except CatalogWriteError as error:
        if not found:
            raise
        raise CatalogWriteError(
            f"the catalog at {database.name} has version {found} and must be upgraded once to version "
            f"{steps[-1].version}, which needs write access and room for a copy of it: {error}"
        ) from error


def _version(connection: Connection, *, name: str) -> int:
    """Return the version of the tables, 0 for an empty database."""
    tables = set(inspect(connection).get_table_names())
    if migration.name in tables:
        return int(connection.execute(select(func.max(migration.c.version))).scalar() or 0)
    if tables:
        raise CatalogError(f"expected a catalog at {name}, found a database with other tables: {sorted(tables)[:5]}")
    return 0


def _upgrade(connection: Connection, found: int, *, steps: Sequence[Step]) -> None:
    # The first step makes the current tables, so a new archive needs none of the later ones.
    for step in steps if found else steps[:1]:
        if step.version > found:
            step.apply(connection)
    if not found:
        connection.execute(
            insert(archive).values(archive_id=str(uuid.uuid4()), clock=0, last_episode=0, edition=str(uuid.uuid4()))
        )
        # What lies in the catalog's own folder moves with it. A server has no folder: there this row matches no path.
        connection.execute(insert(root).values(place="", inside=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    done = [{"version": s.version, "name": s.name, "applied_at": now} for s in steps if s.version > found]
    if done:
        connection.execute(insert(migration), done)
