"""Many rows at once, as each product takes them fastest.

Knows: how rows are appended, and that SQLite makes an index from all rows several times faster than row by row. Does
not know: what the rows are, transactions.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy.types import TypeDecorator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection, Table


def append(connection: Connection, table: Table, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows that hold a value for each of these columns."""
    if not rows:
        return
    columns: list[Iterable[Any]] = list(zip(*rows, strict=True))
    for place, name in enumerate(names):
        kind = table.c[name].type
        if isinstance(kind, TypeDecorator):
            columns[place] = [kind.process_bind_param(value, connection.dialect) for value in columns[place]]
    values = list(zip(*columns, strict=True))
    listed = ", ".join(f'"{name}"' for name in names)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(names))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({listed}) VALUES ({marks})", values)
        return
    raw: Any = connection.connection.driver_connection
    with raw.cursor() as cursor, cursor.copy(f"COPY {table.name} ({listed}) FROM STDIN") as copy:
        for row in values:
            copy.write_row(row)


@contextmanager
def indexing_once(connection: Connection, table: Table, words: Table) -> Iterator[None]:
    """Have the indexes of a table, and the full text of the words in another, made when the context ends; SQLite only.

    PostgreSQL would keep everybody else from the table meanwhile, and gains less.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    made = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN (?, ?) AND type IN ('index', 'trigger')"
    parts = connection.exec_driver_sql(f"{made} AND sql > ''", (table.name, words.name)).all()
    for kind, name, _ in parts:
        connection.exec_driver_sql(f'DROP {kind} "{name}"')
    yield
    for _, _, statement in parts:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql(f"INSERT INTO {words.name}_index ({words.name}_index) VALUES ('rebuild')")
