"""The part of the catalog's interface about its own soundness: checks, strays of the ledger, backups, tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from catalog.database.roots import ancestors, used_roots
from catalog.maintenance import integrity
from catalog.maintenance.backup import back_up
from catalog.maintenance.postgres_dump import dump
from catalog.session import Session

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from catalog.maintenance.integrity import Stray


class Keeping(Session):
    """Looking after the database."""

    def roots(self) -> list[str]:
        """Return the absolute folders that episodes are stored relative to, without those that lie in another one."""
        with self._read() as connection:
            folders = used_roots(connection, base=self._base)
        return [folder for folder in folders if not any(around in folders for around in ancestors(folder))]

    def check(self, *, full: bool = False) -> list[str]:
        """Return what is wrong with the database, in words; full reads every table and index, which takes minutes."""
        with self._read() as connection:
            return integrity.check_database(connection, full=full)

    def strays(self, sizes: Mapping[int, int], *, full: bool = False) -> list[Stray]:
        """Return the ledger rows whose vectors belong to nothing; sizes: bytes of one vector by space id.

        full: also those that do not have their checksum, which reads all vectors.
        """
        with self._read() as connection:
            return integrity.load_strays(connection, sizes, full=full)

    def drop_strays(self, sizes: Mapping[int, int], *, full: bool = False) -> int:
        """Bury those rows, so that what they stood for is embedded again, and return how many there were."""
        with self._write() as connection:
            found = integrity.load_strays(connection, sizes, full=full)
            integrity.drop_strays(connection, found)
            return len(found)

    def back_up(self, target: str | os.PathLike[str]) -> int:
        """Copy the catalog, as it is at this moment, to one file and return its size in bytes.

        Others may write meanwhile. The file appears whole, or not at all; an earlier backup of the same archive is
        replaced. Of a catalog on a server pg_dump makes it. Raises CatalogExistsError where another file is in the
        way, CatalogWriteError, CatalogError.
        """
        if self._base is None:
            return dump(self._database, Path(target))
        return back_up(Path(self._database.name), Path(target))
