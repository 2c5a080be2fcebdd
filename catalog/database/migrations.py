"""How an empty database becomes a catalog, and an older catalog one of the present version."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from sqlalchemy import Connection, create_mock_engine, insert, inspect, select

from catalog.database.schema import archive, metadata, migration, root
from wshard.errors import CatalogError, CatalogNotFoundError, CatalogVersionError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.schema import ExecutableDDLElement

    from catalog.database.engine import Database


@dataclass(frozen=True)
class Migration:
    """One migration: apply upgrades an archive from the previous version. Never changed after its release."""

    version: int
    name: str
    apply: Callable[[Connection], None]


def _make_tables(connection: Connection) -> None:
    for statement in _tables(connection.engine.url.drivername):
        connection.exec_driver_sql(statement)


@cache
def _tables(driver: str) -> tuple[str, ...]:
    """Return the statements that make all tables in an empty database, written once: that takes longer than they do."""
    found: list[str] = []

    def collect(made: ExecutableDDLElement, *_: object, **__: object) -> None:
        found.append(str(made.compile(dialect=mock_engine.dialect)))

    mock_engine = create_mock_engine(f"{driver}://", collect)
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        # Named where the tables are defined, they would have every process import all of this dialect.
        index.dialect_options[mock_engine.dialect.name]["where"] = index.dialect_options["sqlite"]["where"]
    metadata.create_all(mock_engine, checkfirst=False)
    return tuple(found)


STEPS: tuple[Migration, ...] = (Migration(1, "tables of 0.1.0", _make_tables),)


def prepare(
    database: Database,
    *,
    create: bool,
    steps: Sequence[Migration] = STEPS,
    copy: Callable[[int], object] | None = None,
) -> None:
    """Migrate the database to the newest version, or create a catalog in an empty one.

    copy: called with the version of a catalog before it is upgraded, while no one else can write to it. Raises
    CatalogNotFoundError for an empty database without create, CatalogError for one with other contents,
    CatalogVersionError for a catalog of newer software or of a development version, CatalogWriteError for an older one
    that cannot be upgraded here. A failing step leaves the database unchanged.
    """
    with database.transaction("read") as connection:
        found = _ledger(connection, name=database.name)
    if not found and not create:
        raise CatalogNotFoundError(
            f"expected a catalog at {database.name}, found an empty database: `wshard restore` a backup or ingest again"
        )
    check_ledger(found, place=database.name, steps=steps)
    if len(found) == len(steps):
        return
    try:
        with database.transaction("write") as connection:
            now = len(_ledger(connection, name=database.name))  # another process may have upgraded meanwhile
            if copy is not None and 0 < now < len(steps):
                copy(steps[now - 1].version)
            _upgrade(connection, now, steps=steps)
    except CatalogWriteError as error:
        if not found:
            raise
        raise CatalogWriteError(
            f"expected a catalog of version {steps[-1].version} at {database.name}, found version {found[-1][0]}: "
            f"open it once where it can be written, which upgrades it; here it cannot: {error}"
        ) from error


def check_ledger(found: Sequence[tuple[int, str]], *, place: str, steps: Sequence[Migration] = STEPS) -> None:
    """Raise CatalogVersionError unless (version, name) are those of the first steps."""
    known = [(step.version, step.name) for step in steps]
    for there, ours in zip(found, known, strict=False):
        if there != ours:
            raise CatalogVersionError(
                f"expected the schema {ours[0]} ({ours[1]}) of the catalog at {place}, found {there[0]} ({there[1]}): "
                "written by an earlier development version; ingest again; take tags and notes along with "
                "`wshard annotations export` and `wshard annotations import`"
            )
    if len(found) > len(known):
        raise CatalogVersionError(
            f"expected a catalog of version {known[-1][0]} or older at {place}, found version {found[-1][0]}: "
            "a newer version of this software wrote it; update the software, or ingest into a new catalog"
        )


def _ledger(connection: Connection, *, name: str) -> list[tuple[int, str]]:
    """Return (version, name) of the steps that the tables have been through, none for an empty database."""
    tables = set(inspect(connection).get_table_names())
    if migration.name in tables:
        statement = select(migration.c.version, migration.c.name).order_by(migration.c.version)
        return [(version, step) for version, step in connection.execute(statement)]
    if tables:
        raise CatalogError(f"expected a catalog at {name}, found a database with other tables: {sorted(tables)[:5]}")
    return []


def _upgrade(connection: Connection, found: int, *, steps: Sequence[Migration]) -> None:
    # The first step makes the current tables, so a new archive needs none of the later ones.
    for step in steps[found:] if found else steps[:1]:
        step.apply(connection)
    if not found:
        connection.execute(
            insert(archive).values(archive_id=str(uuid.uuid4()), clock=0, last_episode=0, edition=str(uuid.uuid4()))
        )
        # What lies in the catalog's own folder moves with it. A server has no folder: there this row matches no path.
        connection.execute(insert(root).values(place="", inside=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    done = [{"version": s.version, "name": s.name, "applied_at": now} for s in steps[found:]]
    if done:
        connection.execute(insert(migration), done)
