"""Many rows at once, as each product takes and finds them fastest."""

from __future__ import annotations

import json
import sqlite3
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy.types import Boolean, Double, Integer, LargeBinary, Text

from catalog.database.column_types import NumberArray
from catalog.values import storables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, Table
    from sqlalchemy.types import TypeEngine

    Rows = Sequence[tuple[Any, ...]]
    from collections.abc import Sequence


_AT_ONCE = 200  # rows in one statement of SQLite: a fifth less time than one by one
_FLAGS = {True: 1, False: 0}
_KINDS = ((Integer, "int8"), (Text, "text"), (Double, "float8"), (Boolean, "bool"))


def append(connection: Connection, table: Table, names: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> None:
    """Insert rows with a value for each of these columns, packed numbers unchanged.

    Use a generator: many live rows at once would be traversed by the garbage collector. It must not query the database.
    """
    listed = ", ".join(f'"{name}"' for name in names)
    raw: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        statement, marks = f"INSERT INTO {table.name} ({listed}) VALUES", f"({', '.join('?' * len(names))})"
        many = min(_AT_ONCE, raw.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(names))
        several, kinds = f"{statement} {', '.join([marks] * many)}", [table.c[name].type for name in names]
        given = iter(rows)
        while len(some := list(islice(given, many))) == many:
            raw.execute(several, _quickly_bound(some, kinds))
        raw.executemany(f"{statement} {marks}", some)
        return
    for place, name in enumerate(names):
        if isinstance(table.c[name].type, NumberArray):
            rows = _with_arrays(list(rows), place)
    with raw.cursor() as cursor, cursor.copy(f"COPY {table.name} ({listed}) FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types([_kind(table, name) for name in names])
        for row in rows:
            copy.write_row(row)


def _quickly_bound(rows: Rows, kinds: Sequence[TypeEngine[Any]]) -> list[Any]:
    """Return the values of all rows, concatenated; flags and bytes are converted to equivalent values.

    Python's driver looks for an adapter for each flag and each bytes object, which takes longer than storing them.
    """
    values = list(chain.from_iterable(rows))
    for place, kind in enumerate(kinds):
        column = slice(place, None, len(kinds))
        if isinstance(kind, Boolean):
            values[column] = map(_FLAGS.get, values[column])
        elif isinstance(kind, LargeBinary | NumberArray):
            values[column] = [value and bytearray(value) for value in values[column]]
    return values


def _with_arrays(rows: Rows, place: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows with the packed numbers at that place as PostgreSQL takes them."""
    for row, array in zip(rows, NumberArray.arrays([row[place] for row in rows]), strict=True):
        yield (*row[:place], array, *row[place + 1 :])


def renew(connection: Connection, table: Table, names: Sequence[str], rows: Rows) -> None:
    """Give each row that the last of these columns names the values in front of it."""
    *changed, key = names
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        assignments = ", ".join(f'"{name}" = ?' for name in changed)
        connection.exec_driver_sql(f'UPDATE {table.name} SET {assignments} WHERE "{key}" = ?', list(rows))
        return
    assignments = ", ".join(f'"{name}" = given."{name}"' for name in changed)
    arrays = ", ".join(f"%s::{_kind(table, name)}[]" for name in names)
    listed = ", ".join(f'"{name}"' for name in names)
    connection.exec_driver_sql(
        f"UPDATE {table.name} SET {assignments} FROM unnest({arrays}) AS given ({listed}) "
        f'WHERE {table.name}."{key}" = given."{key}"',
        tuple(map(list, zip(*rows, strict=True))),
    )


def find(
    connection: Connection,
    table: Table,
    keys: tuple[str, str],
    wanted: Mapping[int, Collection[str]],
    names: Sequence[str],
    *,
    among: tuple[str, Collection[str]] | None = None,
) -> list[tuple[Any, ...]]:
    """Return the rows with one of these pairs of keys (a number and text): the keys, then these columns.

    among: another column of text, and its allowed values.

    Text that no database can store, such as the name of a file that is not UTF-8, has no rows.
    """
    number, text = keys
    lists = {key: storables(texts) for key, texts in wanted.items()}
    listed = ", ".join(f'{table.name}."{name}"' for name in (*keys, *names))
    if connection.dialect.name == "sqlite":
        # A cross join begins with what is wanted; the index on the keys then finds each.
        pairs = "(SELECT CAST(a.key AS INTEGER) AS k, b.value AS v FROM json_each(?) AS a, json_each(a.value) AS b)"
        statement = (
            f"SELECT {listed} FROM {pairs} AS wanted CROSS JOIN {table.name} "
            f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v'
        )
        parameters = [json.dumps(lists, ensure_ascii=False)]
        if among is not None:
            statement += f' AND {table.name}."{among[0]}" IN (SELECT value FROM json_each(?))'
            parameters.append(json.dumps(storables(among[1]), ensure_ascii=False))
        return _fetch(connection, statement, tuple(parameters))
    numbers = [key for key, texts in lists.items() for _ in texts]
    values = [one for texts in lists.values() for one in texts]
    statement = (
        f"SELECT {listed} FROM unnest(%s::int8[], %s::text[]) AS wanted (k, v) JOIN {table.name} "
        f'ON {table.name}."{number}" = wanted.k AND {table.name}."{text}" = wanted.v'
    )
    limits: list[Any] = [numbers, values]
    if among is not None:
        statement += f' AND {table.name}."{among[0]}" = ANY(%s)'
        limits.append(storables(among[1]))
    return _fetch(connection, statement, tuple(limits))


def _fetch(connection: Connection, statement: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Return plain tuples: rows that know their names take as long again."""
    with connection.exec_driver_sql(statement, parameters) as result:
        return list(result.cursor.fetchall())


def _kind(table: Table, name: str) -> str:
    return next((spelled for kind, spelled in _KINDS if isinstance(table.c[name].type, kind)), "bytea")


Shape: TypeAlias = tuple[str, str, tuple[int, ...]]
"""Name of a lane, its dtype, the shape of one timestep."""


@lru_cache(maxsize=1024)
def encode_lanes(shapes: tuple[Shape, ...]) -> str:
    """Return the one text of a set of lanes, whatever their order."""
    ordered = sorted(([name, dtype, list(shape)] for name, dtype, shape in shapes), key=lambda lane: str(lane[0]))
    return json.dumps(ordered, separators=(",", ":"))
