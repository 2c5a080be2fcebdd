"""Create the tables in an empty database, and upgrade older catalogs to the current version."""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, create_mock_engine, delete, insert, inspect, select

from catalog.database.bulk_rows import insert_rows, update_rows
from catalog.database.schema import archive, document, episode, metadata, migration, note, root
from catalog.full_text import indexed
from wshard.core.episode.natural_order import natural_key
from wshard.errors import CatalogError, CatalogExistsError, CatalogNotFoundError, CatalogVersionError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Select
    from sqlalchemy.schema import ExecutableDDLElement

    from catalog.database.engine import Database

_BEFORE_RELEASE: Final = (
    "written by a development version before 0.1.0; ingest again, into a new archive; for tags and notes run "
    "`wshard annotations export` of that version, and `wshard annotations import` of this one"
)
_CHUNK: Final = 20_000
"""Number of rows that a step changes at once."""


@dataclass(frozen=True)
class Migration:
    """One migration: apply upgrades an archive from the previous version. Never changed after its release.

    adds: the columns, as TABLE.COLUMN, that it adds.
    """

    version: int
    name: str
    apply: Callable[[Connection], None]
    adds: tuple[str, ...] = ()


def _make_tables(connection: Connection) -> None:
    with closing(connection.connection.cursor()) as cursor:  # by SQLAlchemy, sixty statements would take twice as long
        for statement in table_statements(connection.engine.url.drivername):
            cursor.execute(statement)


@cache
def table_statements(driver: str) -> tuple[str, ...]:
    """Return the statements that create all tables in an empty database; cached, as compiling is slow."""
    statements: list[str] = []

    def collect(ddl: ExecutableDDLElement, *_: object, **__: object) -> None:
        statements.append(str(ddl.compile(dialect=mock_engine.dialect)))

    mock_engine = create_mock_engine(f"{driver}://", collect)
    for index in (index for table in metadata.tables.values() for index in table.indexes):
        # Set here and not in schema.py, where every process would import PostgreSQL's dialect.
        index.dialect_options[mock_engine.dialect.name]["where"] = index.dialect_options["sqlite"]["where"]
    metadata.create_all(mock_engine, checkfirst=False)
    return tuple(statements)


def _add_sort_key(connection: Connection) -> None:
    collation = ' COLLATE "C"' if connection.dialect.name == "postgresql" else ""
    connection.exec_driver_sql(f"ALTER TABLE episode ADD COLUMN sort_key TEXT{collation} DEFAULT '' NOT NULL")
    last = 0
    while rows := connection.execute(_names_after(last)).all():
        update_rows(connection, episode, ("sort_key", "id"), [(natural_key(name), number) for number, name in rows])
        last = rows[-1].id
    connection.exec_driver_sql("CREATE INDEX episode_sort_key ON episode (sort_key, id)")


def _names_after(number: int) -> Select[Any]:
    names = select(episode.c.id, episode.c.episode_id).where(episode.c.id > number)
    return names.order_by(episode.c.id).limit(_CHUNK)


def _add_scans(connection: Connection) -> None:
    # The text of the table as of this version, not of the schema, which may change later.
    is_server = connection.dialect.name == "postgresql"
    number, text = ("BIGINT", 'TEXT COLLATE "C"') if is_server else ("INTEGER", "TEXT")
    connection.exec_driver_sql(
        f"CREATE TABLE scan (root_id {number} NOT NULL, path {text} NOT NULL, state {text} NOT NULL, "
        "PRIMARY KEY (root_id, path), FOREIGN KEY(root_id) REFERENCES root (id))"
    )


def _index_metadata(connection: Connection) -> None:
    last = 0
    while rows := connection.execute(_metadata_after(last)).all():
        ids = document.c.episode_row.between(rows[0].id, rows[-1].id)
        texts: dict[int, list[str]] = {}
        of_rows = (note.c.episode_row.between(rows[0].id, rows[-1].id), note.c.removed_at.is_(None))
        for number, text in connection.execute(
            select(note.c.episode_row, note.c.text).where(*of_rows).order_by(note.c.id)
        ):
            texts.setdefault(number, []).append(text)
        words = ((row.id, indexed(json.loads(row.metadata), texts.get(row.id, ()))) for row in rows)
        connection.execute(delete(document).where(ids))
        insert_rows(connection, document, ("episode_row", "words"), [one for one in words if one[1]])
        last = rows[-1].id


def _metadata_after(number: int) -> Select[Any]:
    found = select(episode.c.id, episode.c.metadata).where(episode.c.id > number)
    return found.order_by(episode.c.id).limit(_CHUNK)


STEPS: tuple[Migration, ...] = (
    Migration(1, "tables of 0.1.0", _make_tables),
    Migration(2, "natural order of episode ids", _add_sort_key, adds=("episode.sort_key",)),
    Migration(3, "names of channels in layouts", lambda _: None),
    Migration(4, "unchanged locations", _add_scans, adds=("scan.root_id", "scan.path", "scan.state")),
    Migration(5, "words of all metadata", lambda _: None),
    Migration(6, "words of metadata at any depth", _index_metadata),
)


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
        applied = _applied_steps(connection, name=database.name)
    if not applied and not create:
        raise CatalogNotFoundError(
            f"expected a catalog at {database.name}, found an empty database: `wshard restore` a backup or ingest again"
        )
    check_ledger(applied, place=database.name, steps=steps)
    if len(applied) == len(steps):
        return
    try:
        with database.transaction("write") as connection:
            applied_count = len(
                _applied_steps(connection, name=database.name)
            )  # another process may have upgraded meanwhile
            if applied_count:
                _check_columns(connection, steps[applied_count:], place=database.name)
            if copy is not None and 0 < applied_count < len(steps):
                copy(steps[applied_count - 1].version)
            _upgrade(connection, applied_count, steps=steps)
    except CatalogWriteError as error:
        if not applied:
            raise
        raise CatalogWriteError(
            f"expected a catalog of version {steps[-1].version} at {database.name}, found version {applied[-1][0]}: "
            f"open it once where it can be written, which upgrades it; here it cannot: {error}"
        ) from error


def begin(database: Database) -> None:
    """Write the first rows of a catalog that has the tables of table_statements, and nothing in them."""
    with database.transaction("write") as connection:
        _record(connection, 0, steps=STEPS)


def create_tables(connection: Connection, *, name: str) -> None:
    """Create an empty catalog, within a transaction; raises CatalogExistsError if the database has any tables."""
    if inspect(connection).get_table_names():
        raise CatalogExistsError(f"expected no tables at {name}, found some: name an empty database")
    _upgrade(connection, 0, steps=STEPS)


def check_ledger(applied: Sequence[tuple[int, str]], *, place: str, steps: Sequence[Migration] = STEPS) -> None:
    """Raise CatalogVersionError unless (version, name) are those of the first steps."""
    expected = [(step.version, step.name) for step in steps]
    for applied_step, expected_step in zip(applied, expected, strict=False):
        if applied_step != expected_step:
            raise CatalogVersionError(
                f"expected the schema {expected_step[0]} ({expected_step[1]}) of the catalog at {place}, "
                f"found {applied_step[0]} ({applied_step[1]}): {_BEFORE_RELEASE}"
            )
    if len(applied) > len(expected):
        raise CatalogVersionError(
            f"expected a catalog of version {expected[-1][0]} or older at {place}, found version {applied[-1][0]}: "
            "a newer version of this software wrote it; update the software, or ingest into a new catalog"
        )


def _check_columns(connection: Connection, pending: Sequence[Migration], *, place: str) -> None:
    """Raise CatalogVersionError if columns are missing that no pending step adds, as in catalogs before 0.1.0."""
    inspector = inspect(connection)
    found = {f"{table}.{one['name']}" for table in inspector.get_table_names() for one in inspector.get_columns(table)}
    found |= {column for step in pending for column in step.adds}
    expected = {f"{table.name}.{column.name}" for table in metadata.tables.values() for column in table.columns}
    if missing := sorted(expected - found):
        raise CatalogVersionError(
            f"expected the tables of 0.1.0 in the catalog at {place}, found no {', '.join(missing[:5])}: "
            f"{_BEFORE_RELEASE}"
        )


def _applied_steps(connection: Connection, *, name: str) -> list[tuple[int, str]]:
    """Return (version, name) of the steps that were applied to the tables; [] for an empty database."""
    tables = set(inspect(connection).get_table_names())
    if migration.name in tables:
        statement = select(migration.c.version, migration.c.name).order_by(migration.c.version)
        return [(version, step) for version, step in connection.execute(statement)]
    if tables:
        raise CatalogError(f"expected a catalog at {name}, found a database with other tables: {sorted(tables)[:5]}")
    return []


def _upgrade(connection: Connection, applied_count: int, *, steps: Sequence[Migration]) -> None:
    # The first step makes the current tables, so a new archive needs none of the later ones.
    for step in steps[applied_count:] if applied_count else steps[:1]:
        step.apply(connection)
    _record(connection, applied_count, steps=steps)


def _record(connection: Connection, applied_count: int, *, steps: Sequence[Migration]) -> None:
    """Write which steps were applied, and the first rows of a new archive."""
    if not applied_count:
        connection.execute(
            insert(archive).values(archive_id=str(uuid.uuid4()), clock=0, last_episode=0, edition=str(uuid.uuid4()))
        )
        # The root of the catalog's own folder, which moves with it. For a server, this row matches no path.
        connection.execute(insert(root).values(place="", inside=True))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows = [{"version": s.version, "name": s.name, "applied_at": now} for s in steps[applied_count:]]
    if rows:
        connection.execute(insert(migration), rows)
