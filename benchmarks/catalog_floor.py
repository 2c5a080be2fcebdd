"""How fast SQLite itself takes the rows of an archive: what no load of episodes can exceed.

Knows: the tables of a load, and that keys, indexes and full text are made fastest at the end. Does not know: the
package `catalog`, except for the size of its pages.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.engine import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

EPISODES = 100_000
TABLES = {"root": "id", "layout": "id", "episode": "id", "lane": "episode_row", "document": "episode_row"}
"""What a load writes, and by which column its first episodes are found."""


def floor(archive: Path) -> tuple[int, float, float]:
    """Return how many episodes of the archive were written, and how many per second, by clock and of the processor."""
    with closing(sqlite3.connect(archive)) as source:
        made = source.execute("SELECT name, tbl_name, type, sql FROM sqlite_master WHERE sql > ''").fetchall()
        rows = {
            table: source.execute(f"SELECT * FROM {table} WHERE {key} <= {EPISODES}").fetchall()
            for table, key in TABLES.items()
        }
    with tempfile.TemporaryDirectory() as name, closing(_empty(Path(name) / "plain.db", made)) as plain:
        begun = time.perf_counter(), time.process_time()
        plain.execute("BEGIN IMMEDIATE")
        for table, found in rows.items():
            plain.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(found[0]))})", found)
        for _, table, kind, statement in made:
            if table in TABLES and kind != "table":
                plain.execute(statement)
        plain.execute("INSERT INTO document_index (document_index) VALUES ('rebuild')")
        plain.execute("COMMIT")
        clock, processor = time.perf_counter() - begun[0], time.process_time() - begun[1]
    count = len(rows["episode"])
    return count, count / clock, count / processor


def _empty(path: Path, made: Sequence[tuple[str, str, str, str]]) -> sqlite3.Connection:
    plain = sqlite3.connect(path, isolation_level=None)
    for pragma in (f"page_size={PAGE_BYTES}", "journal_mode=WAL", "synchronous=NORMAL", "cache_size=-65536"):
        plain.execute(f"PRAGMA {pragma}")
    for name, _, _, statement in made:
        if name in (*TABLES, "document_index"):
            plain.execute(statement)
    return plain
