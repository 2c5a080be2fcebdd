"""Insert, update and look up many rows at once, in the fastest way of each database product."""

from __future__ import annotations

import json
import sqlite3
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from sqlalchemy.types import Boolean, Double, Integer, LargeBinary, Text

from catalog.database.column_types import NumberArray
from catalog.values import storables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Table
    from sqlalchemy.types import TypeEngine

    Rows = Sequence[tuple[Any, ...]]
    from collections.abc import Sequence


_BATCH_SIZE = 200  # rows in one statement of SQLite: a fifth less time than one by one
_FLAGS = {True: 1, False: 0}
_KINDS = ((Integer, "int8"), (Text, "text"), (Double, "float8"), (Boolean, "bool"))


def insert_rows(connection: Connection, table: Table, names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows with a value for each of these columns, packed numbers unchanged.

    Use a generator: many live rows at once would be traversed by the garbage collector. It must not query the database.
    """
    listed = ", ".join(f'"{name}"' for name in names)
    raw: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        statement, placeholders = f"INSERT INTO {table.name} ({listed}) VALUES", f"({', '.join('?' * len(names))})"
        batch_size = min(_BATCH_SIZE, raw.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(names))
        batch_statement, types = (
            f"{statement} {', '.join([placeholders] * batch_size)}",
            [table.c[name].type for name in names],
        )
        remaining = iter(rows)
        while len(batch := list(islice(remaining, batch_size))) == batch_size:
            raw.execute(batch_statement, _bind_quickly(batch, types))
        raw.executemany(f"{statement} {placeholders}", batch)
        return
    for index, name in enumerate(names):
        if isinstance(table.c[name].type, NumberArray):
            rows = _with_arrays(list(rows), index)
    with raw.cursor() as cursor, cursor.copy(f"COPY {table.name} ({listed}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([_sql_type(table, name) for name in names])
        for row in rows:
            copy.write_row(row)


def _bind_quickly(rows: Rows, types: Sequence[TypeEngine[Any]]) -> list[Any]:
    """Return the values of all rows, concatenated; flags and bytes are converted to equivalent values.

    Python's driver looks for an adapter for each flag and each bytes object, which takes longer than storing them.
    """
    values = list(chain.from_iterable(rows))
    for index, type_ in enumerate(types):
        column = slice(index, None, len(types))
        if isinstance(type_, Boolean):
            values[column] = map(_FLAGS.get, values[column])
        elif isinstance(type_, LargeBinary | NumberArray):
            values[column] = [value and bytearray(value) for value in values[column]]
    return values


def _with_arrays(rows: Rows, index: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows with the packed numbers in this column converted to PostgreSQL's binary arrays."""
    for row, array in zip(rows, NumberArray.arrays([row[index] for row in rows]), strict=True):
        yield (*row[:index], array, *row[index + 1 :])


def update_rows(connection: Connection, table: Table, names: Sequence[str], rows: Rows) -> None:
    """Update rows: the last of these columns is the key, the others are set."""
    *changed, key = names
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        assignments = ", ".join(f'"{name}" = ?' for name in changed)
        connection.exec_driver_sql(f'UPDATE {table.name} SET {assignments} WHERE "{key}" = ?', list(rows))
        return
    assignments = ", ".join(f'"{name}" = given."{name}"' for name in changed)
    arrays = ", ".join(f"%s::{_sql_type(table, name)}[]" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    connection.exec_driver_sql(
        f"UPDATE {table.name} SET {assignments} FROM unnest({arrays}) AS given ({listed}) "
        f'WHERE {table.name}."{key}" = given."{key}"',
        tuple(map(list, zip(*rows, strict=True))),
    )


def find_rows(
    connection: Connection,
    table: Table,
    keys: tuple[str, str],
    wanted: Mapping[int, Collection[str]],
    names: Sequence[str],
    *,
    filter_column: tuple[str, Collection[str]] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows with one of these pairs of keys (a number and text): the keys, then these columns.

    among: another column of text, and its allowed values.

    Text that no database can store, such as the name of a file that is not UTF-8, has no rows.
    """
    number, text = keys
    lists = {key: storables(texts) for key, texts in wanted.items()}
    listed = ", ".join(f'{table.name}."{name}"' for name in (*keys, *names))
    if connection.dialect.name == "sqlite":
        # CROSS JOIN makes SQLite start with the requested pairs and look up each by the index on the keys.
        pairs = "(SELECT CAST(a.key AS INTEGER) AS k, b.value AS v FROM json_each(?) AS a, json_each(a.value) AS b)"
        statement = (
            f"SELECT {listed} FROM {pairs} AS wanted CROSS JOIN {table.name} "
            f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v'
        )
        parameters = [json.dumps(lists, ensure_ascii=False)]
        if filter_column is not None:
            statement += f' AND {table.name}."{filter_column[0]}" IN (SELECT value FROM json_each(?))'
            parameters.append(json.dumps(storables(filter_column[1]), ensure_ascii=False))
        return _fetch(connection, statement, tuple(parameters))
    numbers = [key for key, texts in lists.items() for _ in texts]
    values = [value for texts in lists.values() for value in texts]
    statement = (
        f"SELECT {listed} FROM unnest(%s::int8[], %s::text[]) AS wanted (k, v) JOIN {table.name} "
        f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v'
    )
    limits: list[Any] = [numbers, values]
    if filter_column is not None:
        statement += f' AND {table.name}."{filter_column[0]}" = ANY(%s)'
        limits.append(storables(filter_column[1]))
    return _fetch(connection, statement, tuple(limits))


def _fetch(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return plain tuples of the driver: SQLAlchemy's rows would double the time."""
    with connection.exec_driver_sql(statement, parameters) as result:
        return list(result.cursor.fetchall())


def _sql_type(table: Table, name: str) -> str:
    return next((sql_name for type_, sql_name in _KINDS if isinstance(table.c[name].type, type_)), "bytea")
