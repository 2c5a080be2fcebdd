"""An open database with short transactions, shared by all parts of the catalog."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from catalog.filters.parse import as_where
from catalog.filters.saved_queries import resolve_saved_queries

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from sqlalchemy import Connection

    from catalog.database.engine import Database
    from catalog.filters.where import Where

# Restoring begins a new edition; a dump that somebody restored by hand has another last column: the number of the
# ledger's own file, which a table that was dropped, truncated, and filled does not keep. That of SQLite is the version
# of the schema, which a backup over it raises.
_NOW: Final = {
    "sqlite": "SELECT clock, archive_id, edition, schema_version FROM archive, pragma_schema_version",
    "postgresql": "SELECT clock, archive_id, edition, pg_relation_filenode('embedding') FROM archive",
}


class Instant(NamedTuple):
    """A state of the catalog: between two equal ones nothing has changed.

    life: identifies the history of the archive. If it differs, the later state may not descend from the earlier one: a
    backup was restored in between (or tables or indexes were rebuilt).
    """

    life: str
    clock: int


class Session:
    """An open catalog database. base is the folder that its inner roots are relative to, None for a server.

    archive_id: which archive it is. edition: and which edition of it, as of the last instant(): every restore begins a
    new one, and copies of vectors that were made in another do not count.
    """

    def __init__(self, database: Database, *, base: str | None) -> None:
        self.database = database
        self.base = base
        self._known: tuple[tuple[object, ...], Instant] | None = None
        self._pinned = threading.local()
        with self.read() as connection:
            self._now = _NOW[connection.dialect.name]
        self.read_instant()

    @contextmanager
    def pin_instant(self) -> Iterator[None]:
        """Let instant() return the present state for this thread until the end, so that it is read once."""
        self._pinned.instant = self.read_instant()
        try:
            yield
        finally:
            self._pinned.instant = None

    def instant(self) -> Instant:
        """Return the state that the catalog is in, or the one that this thread has pinned."""
        return getattr(self._pinned, "instant", None) or self.read_instant()

    def read_instant(self) -> Instant:
        """Return the state that the catalog is in."""
        found = self.database.peek(self._now)
        known = self._known
        if known is None or known[0] is not found:
            clock, archive_id, edition, number = found
            self.archive_id = str(archive_id)
            self.edition = f"{archive_id}/{edition}"
            known = self._known = found, Instant(f"{self.edition}/{number}", int(clock))
        return known[1]

    def close(self) -> None:
        """Close the database; the catalog cannot be used any more."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that reads."""
        return self.database.transaction("read")

    def write(self, *, durable: bool = False) -> AbstractContextManager[Connection]:
        """Begin a transaction that writes; durable: it is on disk when it ends."""
        return self.database.transaction("durable" if durable else "write")

    def resolve(self, connection: Connection, where: Where | str | None) -> Where:
        """Return the filter that is meant, saved queries put in."""
        return resolve_saved_queries(connection, as_where(where))
