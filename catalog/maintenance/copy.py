"""Copy a whole catalog into another database, of the same product or another."""

from __future__ import annotations

import struct
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, insert, literal_column, select, update

from catalog.database.bulk_rows import insert_rows
from catalog.database.column_types import NumberArray
from catalog.database.engine import file_kind, file_of
from catalog.database.migrations import create_tables
from catalog.database.postgresql import open_server
from catalog.database.roots import absolute, relative
from catalog.database.schema import archive, index_copy, metadata, migration, root, scan, synced
from catalog.database.sqlite import create_file
from catalog.maintenance.backup import made_folder
from wshard.errors import CatalogError, CatalogExistsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sqlalchemy import Connection, Table

    from catalog.database.engine import Database
    from catalog.session import Session

_BATCH: Final = 500
"""Rows in memory at once: some have the vectors of an episode."""
_OWN: Final = frozenset({migration, archive, root, scan, index_copy, synced})
"""Tables that the copy has for itself: what it knows of places and of indexes is of its own place."""


def copy_catalog(source: Session, target: str | Path, *, base: str | None) -> dict[str, int]:
    """Copy the present state to an empty place, a file or the URL of a server; return the number of rows by table.

    base: the folder that inner roots of the copy are relative to. The rest is as in Catalog.copy_to.
    """
    path = file_of(target)
    counts: dict[str, int] = {}
    if path is None:
        with closing(open_server(str(target))) as database:
            _fill(source, base, counts, database)
        return counts
    if (kind := file_kind(path)) != "nothing":
        raise CatalogExistsError(f"expected no catalog at {path}, found {kind}: name another folder")
    with made_folder(path.parent):
        create_file(path, partial(_fill, source, base, counts))
    return counts


def _fill(source: Session, base: str | None, counts: dict[str, int], database: Database) -> None:
    """Fill an empty database in one transaction; base: the folder that its inner roots are relative to."""
    with source.read() as origin, database.transaction("durable") as connection:
        create_tables(connection, name=database.name)
        state = origin.execute(select(archive.c.clock, archive.c.last_episode)).one()
        connection.execute(update(archive).values(state._asdict()))
        roots = _copy_roots(origin, connection, (source.base, base))
        for table in metadata.sorted_tables:
            if table not in _OWN:
                counts[table.name] = _copy_table(origin, connection, table, roots)
        if connection.dialect.name == "postgresql":
            _continue_numbers(connection)


def _copy_roots(origin: Connection, connection: Connection, bases: tuple[str | None, str | None]) -> dict[int, int]:
    """Write the roots; return the new number of each: two that have become the same folder are one."""
    rows = connection.execute(select(root.c.id, root.c.place, root.c.inside)).all()
    numbers = {(row.inside, row.place): row.id for row in rows}
    moved = {}
    for number, place, inside in origin.execute(select(root.c.id, root.c.place, root.c.inside).order_by(root.c.id)):
        folder = absolute(bases[0], place, inside=inside)
        within = "" if inside and bases[0] is None else relative(folder, bases[1])
        key = within is not None, folder if within is None else within
        if key not in numbers:
            result = connection.execute(insert(root).values(inside=key[0], place=key[1]))
            numbers[key] = int((result.inserted_primary_key or (0,))[0])
        moved[number] = numbers[key]
    return moved


def _copy_table(origin: Connection, connection: Connection, table: Table, roots: Mapping[int, int]) -> int:
    """Copy the rows of a table and return their number, which is also that of the rows that are there afterwards."""
    names, count = table.columns.keys(), 0
    packed = [place for place, column in enumerate(table.columns) if isinstance(column.type, NumberArray)]
    of_root = [place for place, column in enumerate(table.columns) if column.references(root.c.id)]
    for batch in _read(origin, table):
        for row in batch:
            for place in packed:
                row[place] = None if row[place] is None else struct.pack(f"<{len(row[place])}d", *row[place])
            for place in of_root:
                row[place] = roots[row[place]]
        insert_rows(connection, table, names, map(tuple, batch))
        count += len(batch)
    written = connection.execute(select(func.count()).select_from(table)).scalar_one()
    if written != count:
        raise CatalogError(f"expected {count} rows of {table.name} in the copy, found {written}: copy again")
    return count


def _read(origin: Connection, table: Table) -> Iterator[list[list[Any]]]:
    statement = select(table).order_by(*table.primary_key)
    with origin.execute(statement, execution_options={"yield_per": _BATCH}) as rows:
        for batch in rows.partitions():
            yield [list(row) for row in batch]


def _continue_numbers(connection: Connection) -> None:
    """Let the server number new rows after the present ones."""
    for table in metadata.sorted_tables:
        if (key := table.autoincrement_column) is not None:
            sequence = func.pg_get_serial_sequence(table.name, key.name)
            following = select(func.coalesce(func.max(key), 0) + 1).scalar_subquery()
            connection.execute(select(func.setval(sequence, following, literal_column("false"))))
