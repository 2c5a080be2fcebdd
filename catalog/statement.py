"""SQL from people: statements that read, for a limited time.

Knows: what may be asked, how each product is kept from doing more, and how that is told. Does not know: the tables
(SCHEMA.md does).
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from catalog.values import storable
from wshard.arguments import finite_number, whole_number
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
# What only reads the database may still write files of the server's machine, or end its work, for one who may do all.
_LESS_RIGHTS: Final = (
    "SELECT set_config('role', 'pg_read_all_data', true) FROM pg_roles WHERE rolname = current_user AND rolsuper"
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
    limit = whole_number(limit, "limit", StatementError, least=1)
    seconds = finite_number(seconds, "seconds", StatementError)
    if not storable(text):
        raise StatementError(f"expected one statement that reads, in UTF-8 without NUL, found {text!r}")
    answer = _ask_sqlite if connection.dialect.name == "sqlite" else _ask_postgresql
    dbapi: Any = connection.dialect.dbapi
    try:
        columns, rows = answer(connection, text, seconds=seconds, limit=limit + 1)
    except dbapi.Error as error:
        known = _TOLD.get(getattr(error, "sqlstate", None) or str(error))
        told = known.format(seconds=seconds) if known else str(error)
        raise StatementError(f"expected one statement that reads: {told}") from error
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
            return columns, list(islice(cursor.stream(text), limit)) if columns else []
    finally:
        raw.rollback()


def _described(raw: Any, text: str, dbapi: Any) -> tuple[str, ...]:
    """Return the names of the columns that the statement would have; the server plans nothing and runs nothing."""
    for answer in (raw.pgconn.prepare(b"", text.encode()), raw.pgconn.describe_prepared(b"")):
        if answer.status == dbapi.pq.ExecStatus.FATAL_ERROR:
            raise dbapi.errors.error_from_result(answer, raw.info.encoding)
    return tuple(answer.fname(number).decode() for number in range(answer.nfields))
