"""An open database with short transactions, shared by all parts of the catalog."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from catalog.database.roots import BASE
from catalog.filters.parse import as_where
from catalog.filters.saved_queries import resolve_saved_queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from sqlalchemy import Connection

    from catalog.database.engine import Database
    from catalog.filters.where import Where

# Restoring starts a new edition. The last column detects a dump that was restored by hand: the ledger's file number in
# PostgreSQL, which changes when the table is recreated or truncated; in SQLite the schema version, which a backup
# copied over the database increases.
_STATE_STATEMENT: Final = {
    "sqlite": "SELECT clock, archive_id, edition, schema_version FROM archive, pragma_schema_version",
    "postgresql": "SELECT clock, archive_id, edition, pg_relation_filenode('embedding') FROM archive",
}


class Instant(NamedTuple):
    """A state of the catalog: between two equal ones nothing has changed.

    history: identifies the history of the archive. If it differs, the later state may not descend from the earlier one:
    a backup was restored in between (or tables or indexes were rebuilt).
    """

    history: str
    clock: int


class Session:
    """An open catalog database. base is the folder that its inner roots are relative to, None for a server.

    archive_id: identifies the archive. edition: that of the last instant(): every restore starts a new one, and copies
    of vectors that were made in another edition are invalid.
    """

    def __init__(self, database: Database, *, base: str | None) -> None:
        self.database = database
        self.base = base
        self._last_state: tuple[tuple[object, ...], Instant] | None = None
        self._pinned = threading.local()
        self._state_statement = _STATE_STATEMENT[database.product]
        self.read_instant()

    @contextmanager
    def pin_instant(self) -> Iterator[None]:
        """Within the context, instant() returns the state at its start for this thread, so that it is read once."""
        self._pinned.instant = self.read_instant()
        try:
            yield
        finally:
            self._pinned.instant = None

    def instant(self) -> Instant:
        """Return the current state of the catalog, or the one that this thread has pinned."""
        return getattr(self._pinned, "instant", None) or self.read_instant()

    def read_instant(self) -> Instant:
        """Return the current state of the catalog."""
        state = self.database.peek(self._state_statement)
        last_state = self._last_state
        if last_state is None or last_state[0] is not state:
            clock, archive_id, edition, file_number = state
            self.archive_id = str(archive_id)
            self.edition = f"{archive_id}/{edition}"
            last_state = self._last_state = state, Instant(f"{self.edition}/{file_number}", int(clock))
        return last_state[1]

    def close(self) -> None:
        """Close the database; the catalog cannot be used any more."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that reads."""
        return self._transaction("read")

    def write(self, *, durable: bool = False) -> AbstractContextManager[Connection]:
        """Begin a transaction that writes; durable: it is on disk when it ends."""
        return self._transaction("durable" if durable else "write")

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[Connection]:
        with self.database.transaction(mode) as connection:
            connection.info[BASE] = self.base  # which all paths in answers depend on
            yield connection

    @contextmanager
    def matching(self, where: Where | str | None) -> Iterator[tuple[Connection, Where]]:
        """Begin a transaction that reads, and resolve a filter in it."""
        with self.read() as connection:
            yield connection, self.resolve(connection, where)

    def resolve(self, connection: Connection, where: Where | str | None) -> Where:
        """Return the parsed filter with saved queries substituted."""
        return resolve_saved_queries(connection, as_where(where))
