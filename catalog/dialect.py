"""Expressions that each database product writes in its own way: JSON, packed numbers, text search, read-only SQL.

Knows: how SQLite does it; another product gets its branch in the same functions (JSONB, arrays, tsvector). Does not
know: tables, filters. SQLite reads a decimal number with an error in the last bit now and then, so Python reads those.
"""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Integer,
    LargeBinary,
    Table,
    case,
    column,
    event,
    func,
    literal,
    literal_column,
    table,
    type_coerce,
)

from catalog.values import comparable_number, storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection, FromClause
    from sqlalchemy.schema import ExecutableDDLElement

NUMBERS = LargeBinary()
"""Type of a column of packed float64 numbers."""

_ORDINARY = re.compile(r"\w+", re.ASCII)


def add_functions(connection: sqlite3.Connection) -> None:
    """Teach a SQLite connection what the expressions below call."""
    for name, arity, function in (
        ("float_from_hex", 1, float.fromhex),
        ("json_number", 1, _json_number),
        ("json_scalar", 1, _json_scalar),
        ("json_member", 2, _json_member),
        ("number_at", 2, _number_at),
    ):
        connection.create_function(name, arity, function, deterministic=True)


def pack(numbers: Sequence[float]) -> bytes:
    """Return numbers as a value of type NUMBERS."""
    return struct.pack(f"<{len(numbers)}d", *numbers)


def unpack(stored: bytes) -> tuple[float, ...]:
    """Return the numbers of a stored value."""
    return struct.unpack(f"<{len(stored) // 8}d", stored)


def number_at(numbers: ColumnElement[Any], index: int) -> ColumnElement[Any]:
    """Return one of the packed numbers, NULL behind their end."""
    return func.number_at(numbers, index, type_=Double)


def json_element(document: ColumnElement[Any], keys: Sequence[str]) -> ColumnElement[Any]:
    """Return the JSON text of what lies under the keys in a column of JSON text, NULL where nothing does."""
    if all(_ORDINARY.fullmatch(key) for key in keys):
        path = "$" + "".join(f'."{key}"' for key in keys)
        return document.op("->")(path)
    # SQLite compares other keys with their escaped form.
    return func.json_member(document, json.dumps(keys))


def json_value(element: ColumnElement[Any], kind: str) -> ColumnElement[Any]:
    """Return JSON text as a value of that kind (text, number, flag), NULL where it is another."""
    if kind == "number":
        return func.json_number(element, type_=Double)
    found = func.json_type(element)
    if kind == "flag":
        return type_coerce(case((found == "true", 1), (found == "false", 0)), Boolean)
    return case((found == "text", func.json_extract(element, "$")))


def json_scalar(element: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return JSON text of one value in one spelling, NULL for null, lists and objects: equal values, equal text."""
    return func.json_scalar(element)


def contains(text: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    """Return whether the text contains the part, by code point."""
    return func.instr(text, part) > 0


def square_root(number: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the square root."""
    return func.sqrt(number)


def index_words(words: Column[str], key: Column[int]) -> None:
    """Keep a full-text index over a column of words beside its table, as long as the table is there."""
    owner: Table = words.table
    name, column_name = f"{owner.name}_index", words.name
    removed = f"INSERT INTO {name} ({name}, rowid, {column_name}) VALUES ('delete', old.{key.name}, old.{column_name});"
    added = f"INSERT INTO {name} (rowid, {column_name}) VALUES (new.{key.name}, new.{column_name});"
    options = f"content='{owner.name}', content_rowid='{key.name}', tokenize='ascii'"
    made = (
        f"CREATE VIRTUAL TABLE {name} USING fts5({column_name}, {options})",
        f"CREATE TRIGGER {name}_insert AFTER INSERT ON {owner.name} BEGIN {added} END",
        f"CREATE TRIGGER {name}_delete AFTER DELETE ON {owner.name} BEGIN {removed} END",
        f"CREATE TRIGGER {name}_update AFTER UPDATE ON {owner.name} BEGIN {removed} {added} END",
    )
    for statement in made:
        ddl: ExecutableDDLElement = DDL(statement)  # type: ignore[no-untyped-call]  # so it is in SQLAlchemy
        event.listen(owner, "after_create", ddl.execute_if(dialect="sqlite"))


def words_index(
    words: Column[str], phrases: Iterable[tuple[Sequence[str], bool]]
) -> tuple[FromClause, ColumnElement[int], ColumnElement[bool]]:
    """Return where to find the rows that hold every phrase: the index, the key of a row in it, the condition.

    A phrase is words (letters and digits only) that stand side by side, and whether the last one is only begun. The
    index gives keys in order, ascending or descending, and one after another: the first ones cost little.
    """
    name = f"{words.table.name}_index"
    wanted = " AND ".join(f'"{" ".join(asked)}"' + ("*" if begun else "") for asked, begun in phrases)
    source = table(name, column("rowid", Integer))
    return source, source.c.rowid, literal_column(name).op("MATCH", is_comparison=True)(literal(wanted))


@lru_cache(maxsize=1)
def _parsed(document: str) -> Any:
    return json.loads(document)


@contextmanager
def reading_only(connection: Connection, seconds: float) -> Iterator[None]:
    """Let statements on the connection read, and nothing else, for so long; then they are interrupted."""
    raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]  # it is SQLite
    end = time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > end, 10_000)
    raw.set_authorizer(_authorize)
    try:
        yield
    finally:
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    # Full text asks for the version of its data.
    known = action in _READING or (action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None))
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY


_READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


def _json_member(document: str, keys: str) -> str | None:
    found = _parsed(document)
    for key in json.loads(keys):
        if not isinstance(found, dict) or key not in found:
            return None
        found = found[key]
    return json.dumps(found)


def _json_number(element: str | None) -> int | float | None:
    if element is None or element[:1] not in "-0123456789":
        return None
    return comparable_number(json.loads(element))


def _json_scalar(element: str | None) -> str | None:
    found = None if element is None or element[:1] in "[{n" else json.loads(element)
    if isinstance(found, int | float) and not isinstance(found, bool):
        found = comparable_number(found)
        whole = isinstance(found, float) and found.is_integer() and storable(int(found))
        found = int(found) if whole and found is not None else found
    return None if found is None else json.dumps(found)


def _number_at(numbers: bytes | None, index: int) -> float | None:
    if numbers is None or 8 * index >= len(numbers):
        return None
    return float(struct.unpack_from("<d", numbers, 8 * index)[0])
