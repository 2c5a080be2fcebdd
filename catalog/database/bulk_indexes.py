"""Indexes that are made from all rows of a load, at its end: several times faster than row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from catalog.database.engine import CACHE_KIBIBYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection, Row, Table

_SQLITE = text("""
    SELECT 'DROP ' || type || ' "' || name || '"' AS away, sql AS made, sql LIKE 'CREATE UNIQUE%' AS is_key
    FROM sqlite_master
    WHERE type IN ('index', 'trigger') AND sql > '' AND tbl_name IN (SELECT value FROM json_each(:tables))
""")
# Foreign keys too: otherwise each row is looked up in each table that it points to.
_POSTGRESQL = text("""
    SELECT format('DROP INDEX %s', indexrelid::regclass) AS away, pg_get_indexdef(indexrelid) AS made,
           indisunique AS is_key
    FROM pg_index
    WHERE indrelid = ANY(SELECT value::regclass FROM json_array_elements_text(CAST(:tables AS json)))
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
    UNION ALL
    SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
           format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)), false
    FROM pg_constraint
    WHERE contype = 'f'
      AND conrelid = ANY(SELECT value::regclass FROM json_array_elements_text(CAST(:tables AS json)))
""")
_MEMORY = """
    SELECT set_config('maintenance_work_mem', greatest(setting::bigint, 262144)::text, true)
    FROM pg_settings WHERE name = 'maintenance_work_mem'
"""
# SQLite sorts what fills its cache, in a thread of its own while it reads on: with a small one it begins early.
_BESIDE = ("threads=1", "cache_size=-4096")
_ALONE = ("threads=0", f"cache_size=-{CACHE_KIBIBYTES}")
_SHARE = 10
"""To make indexes of so many rows anew costs about as much as to keep them while one is written."""


class LateIndexes:
    """The indexes of some tables, and the full text of the words in one of them, during one transaction of a load.

    rows: how many the first of the tables has.
    """

    def __init__(self, connection: Connection, tables: Sequence[Table], *, words: Table, rows: int) -> None:
        self._connection = connection
        self._rows = rows
        self._written = 0
        self._tables = [table.name for table in tables]
        self._around = sorted({key.column.table.name for table in tables for key in table.foreign_keys})
        self._words = words.name
        self._away: list[Row[Any]] = []
        self._begun = False

    def expect(self, rows: int) -> None:
        """Hear that so many rows are about to be written."""
        self._written += rows
        if self._written * _SHARE > self._rows:
            self.put_off()

    def put_off(self, *, keys: bool = False) -> None:
        """Take the indexes away until they are made; keys: unique ones too, for tables that are empty.

        A server keeps everybody else from the tables meanwhile: there only of empty ones, that nobody is using.
        """
        if self._begun:
            return
        self._begun = True
        if self._connection.dialect.name == "sqlite":
            self._drop(_SQLITE, keys=keys)
        elif keys:
            self._drop_where_alone()

    def make(self, *, keys: bool = False) -> None:
        """Make what was taken away, or, with keys, the unique ones of it."""
        if not self._away:
            return
        now = [part for part in self._away if part.is_key or not keys]
        sqlite = self._connection.dialect.name == "sqlite"
        for setting in _BESIDE if sqlite else ():
            self._connection.exec_driver_sql(f"PRAGMA {setting}")
        try:
            for part in now:
                self._connection.exec_driver_sql(part.made)
        finally:
            for setting in _ALONE if sqlite else ():
                self._connection.exec_driver_sql(f"PRAGMA {setting}")
        self._away = [part for part in self._away if part not in now]
        if not keys:
            self._connection.exec_driver_sql(
                f"INSERT INTO {self._words}_index ({self._words}_index) VALUES ('rebuild')"
                if sqlite
                else f"ANALYZE {', '.join(self._tables)}"
            )

    def _drop(self, listing: Any, *, keys: bool) -> None:
        tables = "[" + ", ".join(f'"{name}"' for name in self._tables) + "]"
        found: Iterable[Row[Any]] = self._connection.execute(listing, {"tables": tables}).all()
        self._away = [part for part in found if keys or not part.is_key]
        for part in self._away:
            self._connection.exec_driver_sql(part.away)

    def _drop_where_alone(self) -> None:
        """Keep everybody from the tables, unless one is there or we may not: waiting could be a deadlock."""
        try:
            with self._connection.begin_nested():
                locked = ", ".join({*self._around, *self._tables})
                self._connection.exec_driver_sql(f"LOCK TABLE {locked} IN ACCESS EXCLUSIVE MODE NOWAIT")
                self._drop(_POSTGRESQL, keys=True)
                self._connection.exec_driver_sql(_MEMORY)
        except DBAPIError:
            self._away = []
