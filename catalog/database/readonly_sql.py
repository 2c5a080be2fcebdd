"""SQL from people: statements that read, for a limited time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog.values import storable
from wshard.arguments import finite_number, whole_number
from wshard.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

VALUE_BYTES: Final = 4 << 20
"""The longest value that a statement may make or read in SQLite."""
ANSWER_BYTES: Final = 64 << 20
"""Where an answer ends, whatever the number of its rows."""

_MESSAGES: Final = {
    "interrupted": "it took longer than {seconds:g} s",
    "57014": "it took longer than {seconds:g} s",
    "not authorized": "it would do more than read",
    "25006": "it would do more than read",
    "string or blob too big": f"a value of it has more than {VALUE_BYTES:,} bytes: name other columns",
}
# A function is not interrupted; on values of these sizes it takes milliseconds.
_LIMITS: Final = ((sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES), (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200))
_STEPS: Final = 200  # between two looks at the clock
# What only reads the database may still write files of the server's machine, or end its work, for one who may do all.
_LESS_RIGHTS: Final = (
    "SELECT set_config('role', 'pg_read_all_data', true) FROM pg_roles WHERE rolname = current_user AND rolsuper"
)
_READING: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


@dataclass(frozen=True)
class QueryResult:
    """The columns and rows of a statement; more: there were further rows, or rows beyond 64 MiB."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def ask(connection: Connection, text: str, *, seconds: float, limit: int) -> QueryResult:
    """Return the first rows of one statement; StatementError when it is wrong, would write, or takes too long."""
    limit = whole_number(limit, "limit", StatementError, least=1)
    seconds = finite_number(seconds, "seconds", StatementError)
    if not storable(text):
        raise StatementError(f"expected one read-only statement, in UTF-8 without NUL, found {text!r}")
    answer = _ask_sqlite if connection.dialect.name == "sqlite" else _ask_postgresql
    dbapi: Any = connection.dialect.dbapi
    try:
        columns, rows, more = answer(connection, text, seconds=seconds, limit=limit)
    except dbapi.Error as error:
        known = _MESSAGES.get(getattr(error, "sqlstate", None) or str(error))
        message = known.format(seconds=seconds) if known else str(error)
        raise StatementError(f"expected one read-only statement: {message}") from error
    if not columns:
        raise StatementError("expected one read-only statement: it has no columns")
    return QueryResult(columns, tuple(rows), more)


_Rows = tuple[tuple[str, ...], list[tuple[Any, ...]], bool]


def _first(rows: Iterable[tuple[Any, ...]], limit: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the first rows, taken one by one, at least one of them, and whether there are more."""
    taken: list[tuple[Any, ...]] = []
    room = ANSWER_BYTES
    for row in rows:
        room -= sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if len(taken) == limit or (taken and room < 0):
            return taken, True
        taken.append(row)
    return taken, False


def _ask_sqlite(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    raw: Any = connection.connection.driver_connection
    with _reading_only(raw, seconds), closing(raw.execute(text)) as cursor:
        return tuple(name for name, *_ in cursor.description or ()), *_first(cursor, limit)


@contextmanager
def _reading_only(raw: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Make the connection read-only, and interrupt statements after the time limit.

    Values are limited in size, since one function on a larger one may exceed the time limit.
    """
    end = time.monotonic() + seconds
    before = [(kind, raw.setlimit(kind, most)) for kind, most in _LIMITS]
    raw.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
    raw.set_authorizer(_authorize)
    try:
        yield
    finally:
        for kind, most in before:
            raw.setlimit(kind, most)
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    # Full text asks for the version of its data.
    known = action in _READING or (action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None))
    return sqlite3.SQLITE_OK if known else sqlite3.SQLITE_DENY


def _ask_postgresql(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    """Run it in a transaction that only reads, on a connection that goes afterwards, and its locks with it.

    A statement without columns does something else than read, and is never begun.
    """
    connection.exec_driver_sql(f"SELECT set_config('statement_timeout', '{max(1, round(1000 * seconds))}', true)")
    connection.exec_driver_sql(_LESS_RIGHTS)
    raw: Any = connection.connection.driver_connection
    connection.detach()
    try:
        columns = _described(raw, text, connection.dialect.dbapi)
        with raw.cursor() as cursor:
            # Row by row: no more rows than asked for are held, and the protocol then takes one statement only.
            return columns, *_first(cursor.stream(text) if columns else (), limit)
    finally:
        raw.rollback()


def _described(raw: Any, text: str, dbapi: Any) -> tuple[str, ...]:
    """Return the names of the columns of the statement; the server neither plans nor runs anything."""
    for answer in (raw.pgconn.prepare(b"", text.encode()), raw.pgconn.describe_prepared(b"")):
        if answer.status == dbapi.pq.ExecStatus.FATAL_ERROR:
            raise dbapi.errors.error_from_result(answer, raw.info.encoding)
    return tuple(answer.fname(number).decode() for number in range(answer.nfields))
