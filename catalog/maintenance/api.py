"""catalog.maintenance: integrity checks and backups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.maintenance import integrity
from catalog.maintenance.backup import back_up
from catalog.maintenance.postgres_dump import dump

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from catalog.maintenance.integrity import Stray
    from catalog.session import Session


class Maintenance:
    """Integrity checks and backups of the database."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def check(self, *, full: bool = False) -> list[str]:
        """Return the problems of the database as texts; full: read every table and index, which takes minutes."""
        with self._session.read() as connection:
            return integrity.check_database(connection, full=full)

    def strays(self, sizes: Mapping[int, int], *, full: bool = False) -> list[Stray]:
        """Return the invalid ledger rows; sizes: bytes of one vector by space id.

        full: also those with a wrong checksum, which reads all vectors.
        """
        with self._session.read() as connection:
            return integrity.load_strays(connection, sizes, full=full)

    def drop_strays(self, sizes: Mapping[int, int], *, full: bool = False) -> int:
        """Delete the invalid rows, so that their episodes are embedded again, and return their number."""
        with self._session.write() as connection:
            strays = integrity.load_strays(connection, sizes, full=full)
            integrity.drop_strays(connection, strays)
            return len(strays)

    def back_up(self, target: str | os.PathLike[str]) -> int:
        """Copy the current state of the catalog to one file and return its size in bytes.

        Others may write meanwhile. The file is written atomically; an earlier backup of the same archive is replaced.
        For a catalog on a server pg_dump is used. Raises CatalogExistsError if another file exists at the path,
        CatalogWriteError, CatalogError.
        """
        if self._session.base is None:
            return dump(self._session.database, Path(target))
        return back_up(Path(self._session.database.name), Path(target))
