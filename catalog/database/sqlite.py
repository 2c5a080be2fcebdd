"""SQLite databases, and the files beside them."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import uuid
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    Engine,
    create_engine,
    event,
)
from sqlalchemy.pool import QueuePool
from sqlalchemy.util import LRUCache

from catalog.database import engine as shared
from catalog.database.data_version import DataVersion
from catalog.database.engine import A_FILE, MODE, SQLITE_REASONS, Database, file_kind
from catalog.database.sqlite_functions import add_functions
from wshard.errors import CatalogError, CatalogNotFoundError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable


CACHE_KIBIBYTES = 8 * 1024


# The most that SQLite maps: reading a row from a page that is not mapped takes three times as long.
MAPPED_BYTES = (2 << 30) - (64 << 10)


# Page size of new files: an episode with its lanes takes 1.5 KB, and its vectors tens of KB.
PAGE_BYTES = 16 * 1024


# With the default of 4 MiB each batch of episodes would write the same index pages twice.
LOG_BYTES = 64 << 20
FILE_SUFFIXES = ("", "-wal", "-shm", "-journal")
"""Suffixes of the files of a database: the file itself, and those that SQLite creates beside it."""


_COMPILED: LRUCache[Any, Any] = LRUCache(2000)
"""SQLAlchemy's cache of compiled statements, shared by all catalogs of this process."""


_SYNCHRONOUS = {"write": "NORMAL", "durable": "FULL"}


def open_file(path: Path) -> Database:
    """Open an existing SQLite file, read-only if it is not writable."""
    if (kind := file_kind(path)) != A_FILE:
        inside = path / "catalog.db"
        hint = f": the catalog of an archive is its {inside.name}" if file_kind(inside) == A_FILE else ""
        raise CatalogNotFoundError(f"expected a catalog at {path}, found {kind}{hint}")
    if not os.access(path, os.R_OK):
        raise CatalogWriteError(f"cannot use the catalog at {path}: {os.strerror(errno.EACCES)}")
    return connect_file(path, query=access(path))


def create_file(path: Path, fill: Callable[[Database], None], *, tables: tuple[str, ...] = ()) -> None:
    """Create a new SQLite file atomically; one that another process created meanwhile is kept.

    tables: the statements that make those that it has before it is filled.
    """
    if file_kind(path.parent) == A_FILE:
        raise CatalogWriteError(f"cannot make a catalog at {path}: expected a folder {path.parent}, found a file")
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(_file_with(tables) if tables else b"")  # SQLite would not report why it cannot create a file
        database = connect_file(draft, query="mode=rwc", journal="DELETE", name=str(path))
        try:
            fill(database)
        finally:
            database.close()
        publish(draft, path)
    except OSError as error:
        if isinstance(error, CatalogError):
            raise
        raise CatalogWriteError(f"cannot make a catalog at {path}: {error.strerror or error}") from error
    finally:
        remove_draft(draft)


@cache
def _file_with(tables: tuple[str, ...]) -> bytes:
    """Return a file with these tables; cached, as making them takes half of the time that a new archive takes."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as empty:
        empty.execute(f"PRAGMA page_size={PAGE_BYTES}")
        for statement in tables:
            empty.execute(statement)
        return empty.serialize()


def connect_file(path: Path, *, query: str, journal: str = "WAL", name: str | None = None) -> Database:
    """Return the SQLite file as a database, opened with the query of its URI.

    journal: DELETE for an unfinished file, whose commits are then in the file itself; on closing a write-ahead log,
    SQLite writes back only what there is room for, without an error. name: used in messages, if not the path.
    """

    def connect(timeout: float) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{path.as_uri()}?{query}", uri=True, timeout=timeout, isolation_level=None, check_same_thread=False
        )

    def connect_fully() -> Any:
        connection = connect(shared.BUSY_SECONDS)
        add_functions(connection)
        pragmas = [
            *(f"page_size={PAGE_BYTES}", "foreign_keys=ON"),
            *(f"cache_size=-{CACHE_KIBIBYTES}", f"mmap_size={MAPPED_BYTES}"),
        ]
        if query in ("mode=rw", "mode=rwc"):
            pragmas.append(f"journal_mode={journal}")
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint={LOG_BYTES // page}")
        return connection

    shared_engine = _sqlite()
    # Threads wait for the write lock inside SQLite, never for a connection.
    pool = QueuePool(connect_fully, max_overflow=-1, dialect=shared_engine.dialect)
    engine = Engine(pool, shared_engine.dialect, shared_engine.url, execution_options={"compiled_cache": _COMPILED})
    event.listen(engine, "begin", partial(_begin, path, _file_number(path)))
    return Database(engine, name or str(path), reasons=SQLITE_REASONS, data_version=DataVersion(partial(connect, 0.0)))


@cache
def _sqlite() -> Engine:
    """Return the SQLAlchemy dialect of SQLite, shared by all catalogs of this process.

    Statements compiled for one need not be compiled for the next, which saves a fifth to a third of a small ingest.
    """
    engine = create_engine("sqlite://")
    with engine.connect():
        pass  # connecting determines the features of this SQLite
    engine.dispose()
    return engine


def _begin(path: Path, opened: tuple[int, int] | None, connection: Connection) -> None:
    """Take SQLite's write lock at the start: a reader that becomes a writer could fail instead of waiting.

    CatalogNotFoundError for writing to a file that was removed, and for any access to one that another has replaced:
    SQLite would go on with the deleted file.
    """
    mode = connection.get_execution_options()[MODE]
    if mode != "read" and file_kind(path) == "nothing":
        raise CatalogNotFoundError(f"expected a catalog at {path}, found nothing: it was removed while it was open")
    if _file_number(path) not in {opened, None}:
        advice = "open it again, or restart the program that has it open"
        raise CatalogNotFoundError(f"another catalog has replaced the one that is open at {path}: {advice}")
    driver: Any = connection.connection.driver_connection  # by SQLAlchemy, these would take ten times as long
    if mode in _SYNCHRONOUS:
        driver.execute(f"PRAGMA synchronous={_SYNCHRONOUS[mode]}")
    driver.execute("BEGIN" if mode == "read" else "BEGIN IMMEDIATE")


def _file_number(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file, which another one in its place does not have; None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  (of every access: a Path takes longer)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def access(path: Path) -> str:
    """Return the options with which SQLite must open the file.

    On read-only media SQLite cannot create the shared memory of the write-ahead log, and opens the file only as
    immutable. A clean close leaves no log and no journal; if there is one, another process may be writing.
    """
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        return "mode=rw"
    has_log = any(Path(f"{path}{suffix}").exists() for suffix in ("-wal", "-journal"))
    return "mode=ro" if has_log else "mode=ro&immutable=1"


def check_finished(draft: Path) -> None:
    """Raise CatalogWriteError for a database with a remaining log or journal."""
    if remaining := [suffix for suffix in ("-wal", "-journal") if Path(f"{draft}{suffix}").exists()]:
        raise CatalogWriteError(
            f"expected {draft.name} to be one complete file, found its {remaining[0]} file: disk full?"
        )


def remove_draft(draft: Path) -> None:
    """Remove a draft that was not published, or was renamed, and the SQLite files beside it."""
    for suffix in FILE_SUFFIXES:
        with contextlib.suppress(OSError):
            Path(f"{draft}{suffix}").unlink()


def publish(draft: Path, path: Path) -> None:
    """Publish a finished file; one that another process created meanwhile is kept.

    CatalogWriteError for an unfinished draft.
    """
    check_finished(draft)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)
