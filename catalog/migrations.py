"""How a database becomes a catalog of the current version.

Knows: the ordered steps, each applied once, and the table that remembers them. Does not know: what the tables are for.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import Connection, func, insert, inspect, select

from catalog.schema import archive, index_copy, metadata, migration, root, synced
from wshard.errors import CatalogError, CatalogNotFoundError, CatalogVersionError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from catalog.engine import Database


@dataclass(frozen=True)
class Step:
    """One change of the tables: apply turns an archive of the version before into this one. Released, it stays."""

    version: int
    name: str
    apply: Callable[[Connection], None]


def _begin_with_current_tables(connection: Connection) -> None:
    metadata.create_all(connection)


def _remember_what_indexes_hold(connection: Connection) -> None:
    metadata.create_all(connection, tables=[index_copy, synced])


STEPS: tuple[Step, ...] = (
    Step(1, "first tables", _begin_with_current_tables),
    Step(2, "what indexes outside of the archive hold", _remember_what_indexes_hold),
)


def prepare(database: Database, *, create: bool, steps: Sequence[Step] = STEPS) -> None:
    """Bring the database to the last step, or create a catalog in an empty one.

    Raises CatalogNotFoundError for an empty database without create, CatalogError for one that holds something else,
    CatalogVersionError for a catalog of newer software. A failing step leaves the database as it was.
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
    with database.transaction("write") as connection:
        # Another process may have upgraded between the two transactions.
        _upgrade(connection, _version(connection, name=database.name), steps=steps)


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
        connection.execute(insert(archive).values(archive_id=str(uuid.uuid4()), clock=0, last_episode=0))
        # What lies in the catalog's own folder moves with it. A server has no folder: there this row matches no path.
        connection.execute(insert(root).values(place="", inside=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    done = [{"version": s.version, "name": s.name, "applied_at": now} for s in steps if s.version > found]
    if done:
        connection.execute(insert(migration), done)
