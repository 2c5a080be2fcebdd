"""What every part of the catalog's interface stands on: an open database, and short transactions on it.

Knows: how transactions begin and end, and what a filter means that names saved queries. Does not know: any question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from sqlalchemy import Connection, select, text

from catalog.collections import resolved
from catalog.form_text import as_where
from catalog.schema import archive

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from catalog.engine import Database
    from catalog.filters import Where


# Of the ledger's own file: a table that was dropped, truncated, and filled from a dump has another one.
_FILE = text("SELECT pg_relation_filenode('embedding')")


class Session:
    """An open catalog database. base is the folder that its inner roots are relative to, None for a server.

    archive_id: which archive it is. edition: and which life of it; copies of vectors made in another one, that is, from
    before a server's tables were filled from a dump, do not count.
    """

    def __init__(self, database: Database, *, base: str | None) -> None:
        self._database = database
        self._base = base
        with self._read() as connection:
            self.archive_id = str(connection.execute(select(archive.c.archive_id)).scalar_one())
            life = "" if connection.dialect.name == "sqlite" else f"/{connection.execute(_FILE).scalar_one()}"
            self.edition = self.archive_id + life

    def close(self) -> None:
        """Close the database; the catalog cannot be used any more."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> AbstractContextManager[Connection]:
        return self._database.transaction("read")

    def _write(self, *, durable: bool = False) -> AbstractContextManager[Connection]:
        return self._database.transaction("durable" if durable else "write")

    def _resolved(self, connection: Connection, where: Where | str | None) -> Where:
        """Return the filter that is meant, saved queries put in."""
        return resolved(connection, as_where(where))
