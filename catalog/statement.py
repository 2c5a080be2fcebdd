"""SQL from people: statements that read, for a limited time.

Knows: what may be asked, how each product is kept from doing more, and how that is told. Does not know: the tables
(SCHEMA.md does).
"""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wshard.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_TOLD: Final = {
    "interrupted": "it took longer than {seconds:g} s",
    "57014": "it took longer than {seconds:g} s",
    "not authorized": "it would do something else than read",
    "25006": "it would do something else than read",
}
# PostgreSQL does more than read also where a transaction only reads: it copies into files, locks, sets, notifies.
_QUESTION: Final = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values|table|explain|show)\b", re.IGNORECASE | re.DOTALL
)
_READING: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


@dataclass(frozen=True)
class Answer:
    """The columns and rows of a statement; more says that there were further rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def ask(connection: Connection, text: str, *, seconds: float, limit: int) -> Answer:
    """Return the first rows of one statement; StatementError when it is wrong, would write, or takes too long."""
    if limit < 1:
        raise StatementError(f"expected a limit of at least 1, found {limit}")
    answer = _ask_sqlite if connection.dialect.name == "sqlite" else _ask_postgresql
    dbapi: Any = connection.dialect.dbapi
    try:
        columns, rows = answer(connection, text, seconds=seconds, limit=limit + 1)
    except dbapi.Error as error:
        told = _TOLD.get(getattr(error, "sqlstate", None) or str(error), str(error))
        raise StatementError(f"expected one statement that reads: {told.format(seconds=seconds)}") from error
    if not columns:
        raise StatementError("expected one statement that reads: it has no columns")
    return Answer(columns, tuple(rows[:limit]), len(rows) > limit)


_Rows = tuple[tuple[str, ...], list[tuple[Any, ...]]]


def _ask_sqlite(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    raw: Any = connection.connection.driver_connection
    with _reading_only(raw, seconds), closing(raw.execute(text)) as cursor:
        return tuple(name for name, *_ in cursor.description or ()), cursor.fetchmany(limit)


@contextmanager
def _reading_only(raw: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Let statements on the connection read, and nothing else, for so long; then they are interrupted."""
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


def _ask_postgresql(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    if not _QUESTION.match(text):
        raise StatementError(f"expected one statement that reads, found {text[:80]!r}")
    # A transaction that only reads stays so after its first statement; the connection goes, and its locks with it.
    connection.exec_driver_sql(f"SELECT set_config('statement_timeout', '{max(1, round(1000 * seconds))}', true)")
    raw: Any = connection.connection.driver_connection
    connection.detach()
    with raw.cursor() as cursor:
        # Row by row: no more rows than asked for are held, and the protocol then takes one statement only.
        rows = list(islice(cursor.stream(text), limit))
        if cursor.description is None:  # not told where there are no rows
            cursor.execute(text, binary=True)
        return tuple(found.name for found in cursor.description or ()), rows
