"""An open database: short transactions, and errors of this project only."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from sqlalchemy import (
    ARRAY,
    Boolean,
    ColumnElement,
    Connection,
    Engine,
    Text,
    any_,
    bindparam,
    func,
    literal,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, PendingRollbackError, ResourceClosedError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.sql.expression import BinaryExpression
from sqlalchemy.sql.functions import FunctionElement

from catalog.database.abandon import CANCELLATION
from catalog.values import Scalar, storables
from wshard.core.messages import public_url, shown
from wshard.errors import CatalogBusyError, CatalogError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from sqlalchemy import URL
    from sqlalchemy.sql.compiler import SQLCompiler

    from catalog.database.data_version import DataVersion

BUSY_SECONDS = 30.0

_BOOLEAN = Boolean()

A_FILE = "a file"

MODE = "catalog_mode"

SQLITE_REASONS = (
    (
        ("SQLITE_BUSY", "SQLITE_LOCKED"),
        CatalogBusyError,
        f"another process held its write lock for {BUSY_SECONDS:.0f} s, or it lies on a network disk, where locks fail",
    ),
    (("SQLITE_FULL",), CatalogWriteError, "the disk is full; make room and run the same command again"),
    (("SQLITE_READONLY", "SQLITE_PERM"), CatalogWriteError, "it is read-only here"),
    (
        ("SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_PROTOCOL"),
        CatalogWriteError,
        "reading or writing failed: is the disk full, or is it a network disk, where locks and memory maps fail",
    ),
    (
        ("SQLITE_CORRUPT", "SQLITE_NOTADB"),
        CatalogError,
        "it is damaged or no database; `wshard restore` a backup, or move it away and ingest again (tags were in it)",
    ),
)
Reasons = Sequence[tuple[tuple[str, ...], type[CatalogError], str]]
"""(prefixes of a product's error codes, error class, message) in order of precedence."""
_CONNECTION_ERRORS = (PendingRollbackError, ResourceClosedError, PoolTimeoutError)
"""What SQLAlchemy raises when a connection was lost before."""
NO_ANSWER = "no answer"
"""The code of errors that have none because no server answered."""


class Database:
    """An open database: short transactions, and errors of this project only.

    name: its location, in messages. reasons: what the product's errors mean. reading: execution options of reading
    transactions. data_version: detects commits. Any thread may use it. A forked process must open its own: connections
    do not survive a fork.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        reasons: Reasons,
        reading: Mapping[str, Any] = MappingProxyType({}),
        data_version: DataVersion | None = None,
    ) -> None:
        self._engine = engine
        self.name = name
        self._reasons = reasons
        self._reading = reading
        self._data_version = data_version
        self._last_peek: tuple[object, str, tuple[Any, ...]] | None = None
        self._process = os.getpid()
        self._closed = False

    @contextlib.contextmanager
    def transaction(self, mode: str) -> Iterator[Connection]:
        """Run one transaction; mode is read, write, or durable: on disk when it returns, even through a power loss."""
        self._check_open()
        options = {MODE: mode, **(self._reading if mode == "read" else {})}
        with (
            self._translated(),
            self._engine.connect() as connection,
            connection.execution_options(**options).begin(),
        ):
            cancellation = CANCELLATION.get() if mode == "read" else None
            with cancellation.reading(connection) if cancellation else contextlib.nullcontext():
                yield connection

    def peek(self, statement: str) -> tuple[Any, ...]:
        """Return the single row of a statement without parameters, cached while nothing is written.

        For queries that every search needs, so that they take little time.
        """
        self._check_open()
        version, cached = None if self._data_version is None else self._data_version.version(), self._last_peek
        if version is None or cached is None or cached[:2] != (version, statement):
            cached = self._last_peek = version, statement, self._fetch_row(statement)
        return cached[2]

    def _fetch_row(self, statement: str) -> tuple[Any, ...]:
        """Return the single row of a statement, in an eighth of the time of a transaction."""
        with self._translated(), contextlib.closing(self._engine.raw_connection()) as connection:
            cursor = connection.cursor()
            with contextlib.suppress(self._engine.dialect.loaded_dbapi.Error):
                cursor.execute(statement)
                for row in cursor.fetchall():
                    return tuple(row)
        with self.transaction("read") as connection_:  # repeated, so that the error is translated
            return tuple(connection_.exec_driver_sql(statement).one())

    def _translated(self) -> contextlib.AbstractContextManager[None]:
        return translate_errors(self.name, self._reasons, self._engine.dialect.loaded_dbapi)

    def _check_open(self) -> None:
        if self._closed or self._process != os.getpid():
            state = "closed" if self._closed else "of another process; open it after the fork"
            raise CatalogError(f"expected an open catalog, but the one at {self.name} is {state}")

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: connections are of one process."""
        raise TypeError(f"the catalog at {self.name} can be neither copied nor sent to another process: open it there")

    @property
    def product(self) -> str:
        """The database product: "sqlite" or "postgresql"."""
        return self._engine.dialect.name

    @property
    def url(self) -> URL:
        """The URL of the database, password included."""
        return self._engine.url

    def close_idle(self) -> None:
        """Close the connections that nothing uses, each of which has megabytes of pages in memory; new ones follow."""
        self._engine.dispose()

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._data_version is not None:
            self._data_version.close()
        self._engine.dispose()


@contextlib.contextmanager
def translate_errors(name: str, reasons: Reasons = SQLITE_REASONS, driver: Any = sqlite3) -> Iterator[None]:
    """Translate every error of the database, SQLAlchemy's or its driver's, into one of the catalog's."""
    try:
        yield
    except (DBAPIError, driver.Error, *_CONNECTION_ERRORS) as error:
        raw = getattr(error, "orig", error)
        code = str(getattr(raw, "sqlite_errorname", None) or getattr(raw, "sqlstate", None) or "")
        if not code and isinstance(raw, (driver.OperationalError, *_CONNECTION_ERRORS)):
            code = NO_ANSWER
        words = " ".join(str(raw).split())  # a server's messages have several lines
        for prefixes, error_class, reason in reasons:
            if code.startswith(prefixes):
                raise error_class(f"cannot use the catalog at {name}: {reason} ({words})") from error
        raise CatalogError(f"cannot use the catalog at {name}: {words}") from error
    except UnicodeEncodeError as error:
        raise CatalogError(f"expected text in UTF-8 without NUL, found {shown(error.object)}") from error


def absolute_path(path: str | Path) -> Path:
    """Return the path absolute and without "..", links unresolved: users know their files by these names."""
    return Path(os.path.abspath(path))  # noqa: PTH100 -- Path.absolute keeps "..", resolve follows links


def file_of(location: str | Path) -> Path | None:
    """Return the absolute path of the SQLite file that the location names, None for a database server."""
    if not isinstance(location, str | Path):
        raise CatalogError(f"expected a path or a database URL, found {shown(location)}")
    if isinstance(location, Path) or "://" not in location:
        return absolute_path(location)
    try:
        url = make_url(location)
    except (ArgumentError, ValueError) as error:
        raise CatalogError(f"expected a path or a database URL, found {public_url(location)!r}") from error
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise CatalogError(f"expected a catalog in a file, found the in-memory database {public_url(location)!r}")
    return absolute_path(url.database)


def file_kind(path: Path) -> str:
    """Return "a file", "a folder", "something else" or "nothing"; CatalogWriteError if it cannot be determined."""
    try:
        mode = path.stat().st_mode
        return A_FILE if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "something else"
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, or text that is not UTF-8
        reason = getattr(error, "strerror", None) or str(error)
        raise CatalogWriteError(f"cannot look for a catalog at {path}: {reason}") from error


class _ListedValues(FunctionElement[Any]):
    """The values of a JSON list, in SQLite."""

    inherit_cache = True


@compiles(_ListedValues)
def _compile(element: _ListedValues, compiler: SQLCompiler, **options: Any) -> str:
    return f"(SELECT value FROM json_each({compiler.process(element.clauses, **options)}))"


def one_of(connection: Connection, column: ColumnElement[Any], values: Collection[Scalar]) -> ColumnElement[bool]:
    """Return `column is any of values` with a single parameter, so that no limit on their number applies."""
    storable_values = storables(values)
    if connection.dialect.name != "sqlite":
        return column == any_(literal(storable_values, ARRAY(column.type)))
    if any(isinstance(value, float) for value in storable_values):
        # SQLite's conversion of decimals may differ in the last bit.
        exact = func.json_each(json.dumps([float(value).hex() for value in storable_values])).table_valued("value")
        return column.in_(select(func.float_from_hex(exact.c.value)))
    # Most statements need this; building it takes a third of the time of a SELECT.
    listed = _ListedValues(bindparam(None, json.dumps(storable_values, ensure_ascii=False), Text, unique=True))
    return BinaryExpression(column, listed, operators.in_op, type_=_BOOLEAN, negate=operators.not_in_op)


def in_parameter(product: str, column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return `column IN parameter`, for cached statements."""
    if product != "sqlite":
        return column == any_(bindparam("listed", type_=ARRAY(column.type)))
    return column.in_(select(func.json_each(bindparam("listed")).table_valued("value").c.value))


def list_parameter(connection: Connection, values: Collection[Scalar]) -> dict[str, Any]:
    """Return the parameter of a statement with in_parameter."""
    return {"listed": list(values) if connection.dialect.name != "sqlite" else json.dumps(list(values))}
