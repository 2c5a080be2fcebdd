"""Run SQL of users: read-only statements, with limits on time and size."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from catalog.database.schema import metadata
from catalog.values import storable
from wshard.core.arguments import finite_number, whole_number
from wshard.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

VALUE_BYTES: Final = 4 << 20
"""Maximum size of a value that a statement may create or read in SQLite."""
ANSWER_BYTES: Final = 64 << 20
"""Size after which a result is truncated."""

_MESSAGES: Final = {
    "interrupted": "it took longer than {seconds:g} s",
    "57014": "it took longer than {seconds:g} s",
    "not authorized": "it would do more than read",
    "25006": "it would do more than read",
    "string or blob too big": f"a value of it has more than {VALUE_BYTES:,} bytes: name other columns",
}
# SQLite cannot interrupt a function; on values of these sizes it takes milliseconds.
_LIMITS: Final = ((sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES), (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200))
_NO_TABLE: Final = "42P01"
_FORMATTING: Final = ("printf", "format")
_NUMBER: Final = re.compile(r"\d+")
_DIGITS: Final = 12  # of a number in a format, at most: more are no width
_PROGRESS_STEPS: Final = 200  # virtual machine steps between two checks of the time
# A superuser's read-only statement could still write files on the server or stop it, so superusers lose their rights.
_DROP_SUPERUSER: Final = (
    "SELECT set_config('role', 'pg_read_all_data', true) FROM pg_roles WHERE rolname = current_user AND rolsuper"
)
_READ_ACTIONS: Final = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)


@dataclass(frozen=True)
class QueryResult:
    """The columns and rows of a statement; more: there were further rows, or rows beyond 64 MiB."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def run_readonly(connection: Connection, text: str, *, seconds: float, limit: int) -> QueryResult:
    """Return the first rows of one statement; StatementError when it is wrong, would write, or takes too long."""
    limit = whole_number(limit, "limit", StatementError, least=1)
    seconds = finite_number(seconds, "seconds", StatementError)
    if not storable(text):
        raise StatementError(f"expected one read-only statement, in UTF-8 without NUL, found {text!r}")
    run = _run_sqlite if connection.dialect.name == "sqlite" else _run_postgresql
    dbapi: Any = connection.dialect.dbapi
    try:
        columns, rows, more = run(connection, text, seconds=seconds, limit=limit)
    except dbapi.Error as error:
        state = getattr(error, "sqlstate", None)
        explanation = _MESSAGES.get(state or str(error))
        message = explanation.format(seconds=seconds) if explanation else str(error)
        if state == _NO_TABLE or message.startswith("no such table"):
            message += f"; there are {', '.join(sorted(metadata.tables))}"
        raise StatementError(f"expected one read-only statement: {message}") from error
    if not columns:
        raise StatementError("expected one read-only statement: it has no columns")
    return QueryResult(columns, tuple(rows), more)


_Rows = tuple[tuple[str, ...], list[tuple[Any, ...]], bool]


def _take_rows(rows: Iterable[tuple[Any, ...]], limit: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the first rows, at least one, up to `limit` and ANSWER_BYTES, and whether there are more."""
    first_rows: list[tuple[Any, ...]] = []
    bytes_left = ANSWER_BYTES
    for row in rows:
        bytes_left -= sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if len(first_rows) == limit or (first_rows and bytes_left < 0):
            return first_rows, True
        first_rows.append(row)
    return first_rows, False


def _run_sqlite(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    raw: Any = connection.connection.driver_connection
    with _read_only(raw, seconds), closing(raw.execute(text)) as cursor:
        return tuple(name for name, *_ in cursor.description or ()), *_take_rows(cursor, limit)


@contextmanager
def _read_only(raw: sqlite3.Connection, seconds: float) -> Iterator[None]:
    """Make the connection read-only, and interrupt statements after the time limit.

    Values are limited in size, since one function on a larger one may exceed the time limit.
    """
    end = time.monotonic() + seconds
    old_limits = [(category, raw.setlimit(category, limit)) for category, limit in _LIMITS]
    raw.set_progress_handler(lambda: time.monotonic() > end, _PROGRESS_STEPS)
    raw.set_authorizer(_authorize)
    for name in _FORMATTING:  # these stay: nothing else here uses them
        raw.create_function(name, -1, _format)
    try:
        yield
    finally:
        for category, limit in old_limits:
            raw.setlimit(category, limit)
        raw.set_authorizer(None)
        raw.set_progress_handler(None, 0)


def _digits_of(value: Any) -> str:
    """Return the text in which a width may be: of a number its integer part."""
    if isinstance(value, float):
        return f"{value:.0f}"
    return "" if value is None else value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _format(*values: Any) -> str | None:
    """Return printf(values) of SQLite, None if a field would be larger than values may be.

    SQLite returns NULL for those as well, but writes %.*c of 900,000,000 for many seconds before.
    """
    if not values or values[0] is None:
        return None
    text_of_format = str(values[0])
    given = values[1:] if "*" in text_of_format else ()  # widths that are values
    widths = [digits for one in (text_of_format, *given) for digits in _NUMBER.findall(_digits_of(one))]
    if sum(int(digits[:_DIGITS]) for digits in widths) > VALUE_BYTES:
        return None
    with closing(sqlite3.connect(":memory:")) as plain:
        (text,) = plain.execute(f"SELECT printf({', '.join('?' * len(values))})", values).fetchone()
    return text if text is None or len(text) <= VALUE_BYTES else None


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    # Full-text search reads this PRAGMA.
    is_allowed = action in _READ_ACTIONS or (
        action == sqlite3.SQLITE_PRAGMA and (first, second) == ("data_version", None)
    )
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _run_postgresql(connection: Connection, text: str, *, seconds: float, limit: int) -> _Rows:
    """Run it in a read-only transaction, on a connection that is closed afterwards, which releases its locks.

    A statement without columns does something else than read, and is not run.
    """
    connection.exec_driver_sql(f"SELECT set_config('statement_timeout', '{max(1, round(1000 * seconds))}', true)")
    connection.exec_driver_sql(_DROP_SUPERUSER)
    raw: Any = connection.connection.driver_connection
    connection.detach()
    try:
        columns = _column_names(raw, text, connection.dialect.dbapi)
        with raw.cursor() as cursor:
            # Row by row: no more rows than requested are in memory, and the protocol then allows one statement only.
            return columns, *_take_rows(cursor.stream(text) if columns else (), limit)
    finally:
        raw.rollback()


def _column_names(raw: Any, text: str, dbapi: Any) -> tuple[str, ...]:
    """Return the names of the columns of the statement; the server neither plans nor runs it."""
    for answer in (raw.pgconn.prepare(b"", text.encode()), raw.pgconn.describe_prepared(b"")):
        if answer.status == dbapi.pq.ExecStatus.FATAL_ERROR:
            raise dbapi.errors.error_from_result(answer, raw.info.encoding)
    return tuple(answer.fname(number).decode() for number in range(answer.nfields))
