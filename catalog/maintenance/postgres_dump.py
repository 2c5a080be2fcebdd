"""Dump and restore a catalog on a PostgreSQL server, with the tools of PostgreSQL.

Passwords are passed to the tools in their environment, which is private.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from typing import TYPE_CHECKING, Final

from catalog.database import engine
from catalog.database.engine import absolute_path, file_kind
from catalog.database.migrations import check_ledger
from catalog.database.postgresql import open_server
from catalog.maintenance.backup import draft_beside, finish, is_dump, start_new_edition
from wshard.errors import CatalogError, CatalogExistsError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import URL

    from catalog.database.engine import Database

_SELECT_ID: Final = "SELECT archive_id FROM archive"
_END: Final = "\\."


def dump(database: Database, target: Path) -> int:
    """Dump the catalog on a server to one file and return its size in bytes; others may write meanwhile.

    The file is written atomically; an earlier backup of the same archive is replaced. Raises CatalogExistsError if any
    other file exists at the path, CatalogWriteError, CatalogError without pg_dump.
    """
    target = absolute_path(target)
    if file_kind(target) != "nothing" and not (is_dump(target) and _archive_id(target) == database.peek(_SELECT_ID)[0]):
        raise CatalogExistsError(f"expected {target} to be free, or an earlier backup of {database.name}: name another")
    with draft_beside(target) as draft:
        _run(database.url, "pg_dump", "--format=custom", f"--file={draft}")
        return finish(draft, target)


def restore_dump(source: Path, location: str, *, force: bool = False) -> None:
    """Restore a dump to the database at a URL; force: replace an existing catalog.

    All in one transaction; programs that have the database open continue with the restored catalog. Search indexes are
    rebuilt. Raises CatalogNotFoundError for a missing dump, CatalogExistsError, CatalogVersionError for one by newer
    software, CatalogError.
    """
    source = absolute_path(source)
    if not is_dump(source):
        raise CatalogError(f"expected a backup of a catalog on a server at {source}, found another file")
    check_ledger([(int(row[0]), row[1]) for row in _rows(source, "migration")], place=str(source))
    with closing(open_server(location)) as database:
        if not force and database.peek("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")[0]:
            raise CatalogExistsError(f"expected no tables at {database.name}, found some: --force replaces them")
        _run(database.url, "pg_restore", "--clean", "--if-exists", "--no-owner", "--single-transaction", str(source))
    start_new_edition(open_server(location))


def archive_id_at(location: str) -> str | None:
    """Return the archive id of the catalog at a URL, None if there is none."""
    try:
        with closing(open_server(location)) as database:
            return str(database.peek(_SELECT_ID)[0])
    except CatalogError:  # restoring there reports the error
        return None


def _archive_id(source: Path) -> str:
    return _rows(source, "archive")[0][0]


def _rows(source: Path, table: str) -> list[list[str]]:
    """Return the rows of a small table in a dump, as text."""
    text = _run(None, "pg_restore", "--data-only", f"--table={table}", "--file=-", str(source))
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines, 1) if line.startswith(f"COPY public.{table} ")), None)
    if start is None:
        raise CatalogError(f"expected a backup of a catalog at {source}, found a dump without the table {table}")
    return [line.split("\t") for line in lines[start : lines.index(_END, start)]]


def _run(url: URL | None, tool: str, *arguments: str) -> str:
    """Run one of PostgreSQL's tools, in the database at the URL if given, and return its output."""
    environment = dict(os.environ, PGOPTIONS=f"-c lock_timeout={engine.BUSY_SECONDS * 1000:.0f}")
    database_option = []
    if url is not None:
        url_without_password = url.set(drivername="postgresql", password=None).render_as_string()
        database_option = [f"--dbname={url_without_password}"]
        environment |= {"PGPASSWORD": url.password} if url.password else {}
    try:
        result = subprocess.run(  # noqa: S603  (a fixed program, found by the user's own PATH)
            [tool, *database_option, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise CatalogError(
            f"cannot run {tool}: {error}; it comes with PostgreSQL's client programs (Debian: postgresql-client)"
        ) from error
    if result.returncode:
        messages = [
            line.removeprefix(f"{tool}: ") for line in result.stderr.splitlines()[:2]
        ]  # an error, and its details
        raise CatalogError(f"{tool} failed: {'; '.join(messages) or 'no reason given'}")
    return result.stdout
