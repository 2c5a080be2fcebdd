"""Back up an SQLite catalog to one file, a consistent copy of one moment, and restore it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sqlalchemy import select, update

from catalog.database import engine
from catalog.database.engine import A_FILE, absolute_path, file_kind, translate_errors
from catalog.database.migrations import prepare
from catalog.database.schema import archive, index_copy
from catalog.database.sqlite import FILE_SUFFIXES, access, check_finished, connect_file, publish, remove_draft
from catalog.vectors.index_copies import renew_copy
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogExistsError,
    CatalogNotFoundError,
    CatalogWriteError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog.database.engine import Database

_DUMP: Final = b"PGDMP"  # first bytes of a file of pg_dump
_SQLITE: Final = b"SQLite format 3\0"  # first bytes of a database
_DRAFTS: Final = (_DUMP, _SQLITE, bytes(len(_SQLITE)))  # possible first bytes of a draft
_ABANDONED_S: Final = 3600.0  # a younger file may still be written to
_PAGES: Final = 4096  # copied between two checks for Ctrl-C


def back_up(database: Path, target: Path) -> int:
    """Copy the current state of a catalog to one file; return its size in bytes.

    Others may write meanwhile. The file is verified and written atomically; an earlier backup of the same archive is
    replaced. Raises CatalogExistsError if any other file exists at the path, CatalogWriteError, CatalogError.
    """
    database, target = absolute_path(database), absolute_path(target)
    if (kind := file_kind(target)) != "nothing" and (
        kind != A_FILE or target.samefile(database) or archive_id_of(target) != archive_id_of(database)
    ):
        raise CatalogExistsError(f"expected {target} to be free, or an earlier backup of {database}: name another file")
    with draft_beside(target) as draft:
        _copy(database, draft)
        return finish(draft, target)


def restore(source: Path, database: Path, *, force: bool = False) -> Path | None:
    """Restore a backup as the catalog at `database`; force: replace an existing one.

    Restoring is atomic; programs that have the current catalog open continue with the restored one. A current one that
    is too damaged to be replaced is kept under another name, which is returned. Search indexes are rebuilt from the
    catalog. Raises CatalogNotFoundError, CatalogExistsError, CatalogVersionError for a backup by newer software,
    CatalogBusyError, CatalogWriteError, CatalogError.
    """
    source, database = absolute_path(source), absolute_path(database)
    if is_dump(source):
        raise CatalogError(
            f"expected a backup of a catalog in a file at {source}, found one of a catalog on a server: "
            "restore it there, with --archive postgresql://..."
        )
    if not _begins(source, _SQLITE):
        raise CatalogError(f"expected a backup of a catalog at {source}, found another file")
    if (present := file_kind(database)) not in ("nothing", A_FILE):  # --force replaces files alone
        raise CatalogExistsError(f"expected a file at {database}, or nothing, found {present}")
    if present == A_FILE and not force:
        raise CatalogExistsError(f"expected no catalog at {database}, found one: --force replaces it")
    with made_folder(database.parent), draft_beside(database) as draft:
        _copy(source, draft)
        start_new_edition(connect_file(draft, query="mode=rw", journal="DELETE", name=str(database)))
        check_finished(draft)
        if database.exists():
            try:
                _replace_content(database, draft)
            except (CatalogBusyError, CatalogWriteError):
                raise
            except CatalogError:  # too damaged to be written to
                return _put_in_place(database, draft)
            return None
        return _put_in_place(database, draft)


@contextlib.contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Create the folder of a catalog; within it, folders that an error leaves empty are removed again."""
    new_folders = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CatalogWriteError(f"cannot make a catalog in {folder}: {error.strerror or error}") from error
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for path in new_folders:
                path.rmdir()
        raise


def is_dump(source: Path) -> bool:
    """Return True for a backup of a catalog on a server; CatalogNotFoundError if the file does not exist."""
    if (kind := file_kind(source)) != A_FILE:
        raise CatalogNotFoundError(f"expected a backup at {source}, found {kind}")
    return _begins(source, _DUMP)


def _begins(file: Path, beginning: bytes) -> bool:
    try:
        with file.open("rb") as opened:
            return opened.read(len(beginning)) == beginning
    except OSError as error:
        raise CatalogWriteError(f"cannot read {file}: {error.strerror}") from error


@contextlib.contextmanager
def draft_beside(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; a file left there is removed.

    CatalogWriteError if the folder is missing or not writable.
    """
    if file_kind(target.parent) != "a folder":
        raise CatalogWriteError(f"cannot write {target}: {target.parent} is not a folder")
    _remove_abandoned(target)
    draft = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        draft.touch(exist_ok=False)
    except OSError as error:
        raise CatalogWriteError(f"cannot write {target}: {error.strerror}") from error
    try:
        yield draft
    finally:
        remove_draft(draft)


def _remove_abandoned(target: Path) -> None:
    """Remove drafts for the target that killed processes left behind at least an hour ago."""
    pattern = re.compile(rf"\.{re.escape(target.name[:40])}\.[0-9a-f]{{8}}\.tmp({'|'.join(FILE_SUFFIXES)})")
    with contextlib.suppress(OSError):
        for child in target.parent.iterdir():
            if pattern.fullmatch(child.name) and child.is_file() and not child.is_symlink():
                is_draft = child.name.endswith(FILE_SUFFIXES[1:]) or any(
                    _begins(child, beginning) for beginning in _DRAFTS
                )
                if is_draft and time.time() - child.stat().st_mtime > _ABANDONED_S:
                    child.unlink()


def finish(draft: Path, target: Path) -> int:
    """Give a finished backup its name, durably, and return its size in bytes; CatalogWriteError where that fails."""
    check_finished(draft)
    try:
        _sync(draft)
        size = draft.stat().st_size
        draft.replace(target)
        _sync(target.parent)
    except OSError as error:
        raise CatalogWriteError(f"cannot write the backup {target}: {error}") from error
    return size


def _copy(source: Path, draft: Path) -> None:
    """Copy the current state of the source and verify the copy, which is one file without a log."""
    with (
        translate_errors(f"{source}, when copying it to {draft.parent}"),
        closing(_connect(source, access(source))) as origin,
        closing(_connect(draft, "mode=rwc")) as copied,
    ):
        origin.execute("BEGIN")
        origin.execute("SELECT archive_id FROM archive").fetchone()  # a read fixes the state that this transaction sees
        # No flush per page: the whole file is flushed before it is renamed.
        copied.execute("PRAGMA synchronous=OFF")
        origin.backup(copied, pages=_PAGES, progress=lambda *_: None)
        (mode,) = copied.execute("PRAGMA journal_mode=DELETE").fetchone()
        if mode != "delete":
            raise CatalogWriteError(f"cannot write {draft}: expected one file without a log, found the mode {mode}")
        problems = [row[0] for row in copied.execute("PRAGMA integrity_check(3)") if row[0] != "ok"]
    if problems:
        raise CatalogError(f"expected a sound catalog at {source}, found: {'; '.join(map(str, problems))}")


def start_new_edition(database: Database) -> None:
    """Upgrade the tables, start a new edition, and close the database.

    This invalidates all copies in search indexes: those of other editions, and those listed in index_copy.
    """
    try:
        prepare(database, create=False)
        with database.transaction("write") as connection:
            connection.execute(update(archive).values(edition=str(uuid.uuid4())))
            for copy_id in connection.execute(select(index_copy.c.id)).scalars().all():
                renew_copy(connection, copy_id)
    finally:
        database.close()


def _replace_content(database: Path, draft: Path) -> None:
    """Write the draft into a catalog that may be in use, in one transaction: giving the file's name to another file
    would mix the log of the one with the pages of the other.
    """  # noqa: D205  (one sentence)
    deadline = time.monotonic() + engine.BUSY_SECONDS

    def wait(status: int, _left: int, _all: int) -> None:
        if status == sqlite3.SQLITE_BUSY and time.monotonic() > deadline:
            raise CatalogBusyError(f"cannot use the catalog at {database}: another process kept writing to it")

    with (
        translate_errors(str(database)),
        closing(_connect(draft, "mode=rw")) as origin,
        closing(_connect(database, "mode=rw")) as target,
    ):
        target.execute("SELECT count(*) FROM sqlite_master").fetchone()
        target.execute("PRAGMA synchronous=FULL")
        origin.backup(target, progress=wait)
        target.execute("PRAGMA journal_mode=WAL")


def _put_in_place(database: Path, draft: Path) -> Path | None:
    """Publish the draft; an existing file is kept under another name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    damaged = database.with_name(f"{database.name}.damaged-{stamp}-{secrets.token_hex(2)}")
    existed = database.exists()
    try:
        _sync(draft)
        for suffix in FILE_SUFFIXES:
            with contextlib.suppress(FileNotFoundError):
                database.with_name(database.name + suffix).rename(damaged.with_name(damaged.name + suffix))
        publish(draft, database)
        _sync(database.parent)
    except OSError as error:
        raise CatalogWriteError(f"cannot make a catalog at {database}: {error.strerror or error}") from error
    return damaged if existed else None


def _connect(path: Path, query: str) -> sqlite3.Connection:
    uri = f"{path.as_uri()}?{query}"
    return sqlite3.connect(uri, uri=True, timeout=engine.BUSY_SECONDS, isolation_level=None)


def archive_id_of(path: Path) -> str | None:
    """Return the archive id of a catalog or backup, None for any other file."""
    try:
        with closing(_connect(absolute_path(path), "mode=ro")) as connection:
            return str(connection.execute("SELECT archive_id FROM archive").fetchone()[0])
    except (sqlite3.Error, TypeError):
        return None


def _sync(path: Path) -> None:
    """Make a file, or what was renamed in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
