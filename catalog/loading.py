"""Many rows at once, as each product takes and finds them fastest.

Knows: how rows are appended, renewed and looked up by the thousand, and that SQLite makes an index from all rows
several times faster than row by row. Does not know: what the rows are, transactions.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy.types import Boolean, Double, Integer, Text

from catalog.column_types import Numbers
from catalog.values import storables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Table

    Rows = Sequence[tuple[Any, ...]]

_KINDS = ((Integer, "int8"), (Text, "text"), (Double, "float8"), (Boolean, "bool"))


def append(connection: Connection, table: Table, names: Sequence[str], rows: Rows) -> None:
    """Insert rows that hold a value for each of these columns, packed numbers as they are."""
    if not rows:
        return
    listed = ", ".join(f'"{name}"' for name in names)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(names))
        connection.exec_driver_sql(f"INSERT INTO {table.name} ({listed}) VALUES ({marks})", list(rows))
        return
    for place, name in enumerate(names):
        if isinstance(table.c[name].type, Numbers):
            arrays = Numbers.arrays([row[place] for row in rows])
            rows = [(*row[:place], array, *row[place + 1 :]) for row, array in zip(rows, arrays, strict=True)]
    raw: Any = connection.connection.driver_connection
    with raw.cursor() as cursor, cursor.copy(f"COPY {table.name} ({listed}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([_kind(table, name) for name in names])
        for row in rows:
            copy.write_row(row)


def renew(connection: Connection, table: Table, names: Sequence[str], rows: Rows) -> None:
    """Give each row that the last of these columns names the values in front of it."""
    *changed, key = names
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        told = ", ".join(f'"{name}" = ?' for name in changed)
        connection.exec_driver_sql(f'UPDATE {table.name} SET {told} WHERE "{key}" = ?', list(rows))
        return
    told = ", ".join(f'"{name}" = given."{name}"' for name in changed)
    arrays = ", ".join(f"%s::{_kind(table, name)}[]" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    connection.exec_driver_sql(
        f"UPDATE {table.name} SET {told} FROM unnest({arrays}) AS given ({listed}) "
        f'WHERE {table.name}."{key}" = given."{key}"',
        tuple(map(list, zip(*rows, strict=True))),
    )


def find(
    connection: Connection,
    table: Table,
    keys: tuple[str, str],
    wanted: Mapping[int, Collection[str]],
    names: Sequence[str],
) -> list[tuple[Any, ...]]:
    """Return the rows with one of these pairs of keys (a number and text): the keys, then these columns.

    Text that no database can hold, such as the name of a file that is not UTF-8, has none.
    """
    number, text = keys
    asked = {key: storables(texts) for key, texts in wanted.items()}
    listed = ", ".join(f'{table.name}."{name}"' for name in (*keys, *names))
    if connection.dialect.name == "sqlite":
        # A cross join begins with what is wanted; the index on the keys then finds each.
        pairs = "(SELECT CAST(a.key AS INTEGER) AS k, b.value AS v FROM json_each(?) AS a, json_each(a.value) AS b)"
        return _fetch(
            connection,
            f"SELECT {listed} FROM {pairs} AS wanted CROSS JOIN {table.name} "
            f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v',
            (json.dumps(asked, ensure_ascii=False),),
        )
    numbers = [key for key, texts in asked.items() for _ in texts]
    values = [one for texts in asked.values() for one in texts]
    return _fetch(
        connection,
        f"SELECT {listed} FROM unnest(%s::int8[], %s::text[]) AS wanted (k, v) JOIN {table.name} "
        f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v',
        (numbers, values),
    )


def _fetch(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return plain tuples: rows that know their names take as long again."""
    with connection.exec_driver_sql(statement, parameters) as result:
        return list(result.cursor.fetchall())


def _kind(table: Table, name: str) -> str:
    return next((spelled for kind, spelled in _KINDS if isinstance(table.c[name].type, kind)), "bytea")


@contextmanager
def indexing_once(connection: Connection, table: Table, words: Table, *, keys: bool) -> Iterator[Callable[[], None]]:
    """Have the indexes of a table, and the full text of the words in another, made when the context ends; SQLite only.

    keys: the unique ones too, unless what is yielded is called before, which makes them. PostgreSQL would keep
    everybody else from the table meanwhile, and gains less.
    """
    if connection.dialect.name != "sqlite":
        yield lambda: None
        return
    made = "SELECT type, name, sql FROM sqlite_master WHERE tbl_name IN (?, ?) AND type IN ('index', 'trigger')"
    parts = connection.exec_driver_sql(f"{made} AND sql > ''", (table.name, words.name)).all()
    unique = [part for part in parts if part.sql.startswith("CREATE UNIQUE")]
    late = [part for part in parts if keys or part not in unique]
    for kind, name, _ in late:
        connection.exec_driver_sql(f'DROP {kind} "{name}"')

    def make(wanted: Collection[Any]) -> None:
        for part in [part for part in late if part in wanted]:
            connection.exec_driver_sql(part.sql)
            late.remove(part)

    yield lambda: make(unique)
    make(parts)
    connection.exec_driver_sql(f"INSERT INTO {words.name}_index ({words.name}_index) VALUES ('rebuild')")
