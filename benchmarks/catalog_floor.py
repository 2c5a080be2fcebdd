"""How fast SQLite itself takes the rows of an archive, one by one: what a load of episodes is measured against.

Knows: the tables of a load, and that keys, indexes and full text are made fastest at the end, and pages written once
without a log. Does not know: the package `catalog`, except for the size of its pages.
"""

from __future__ import annotations

import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.database.engine import CACHE_KIBIBYTES, MAPPED_BYTES, PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BATCH = 10_000
TABLES = {"root": "id", "layout": "id", "episode": "id", "lane": "episode_row", "document": "episode_row"}
"""What a load writes, and by which column its rows are taken in batches."""


def floor(archive: Path) -> tuple[float, float]:
    """Return how many episodes of the archive were written per second, by clock and of the processor.

    Reading them is not counted.
    """
    with closing(sqlite3.connect(archive)) as source:
        made = source.execute("SELECT name, tbl_name, type, sql FROM sqlite_master WHERE sql > ''").fetchall()
        (count,) = source.execute("SELECT max(id) FROM episode").fetchone()
        spent = [0.0, 0.0]
        with tempfile.TemporaryDirectory(dir=archive.parent) as name, closing(_empty(Path(name), made)) as plain:
            for statement, rows in _work(source, made, count):
                begun = time.perf_counter(), time.process_time()
                plain.executemany(statement, rows) if rows else plain.execute(statement)
                spent[0] += time.perf_counter() - begun[0]
                spent[1] += time.process_time() - begun[1]
    return count / spent[0], count / spent[1]


def _work(
    source: sqlite3.Connection, made: Sequence[tuple[str, str, str, str]], count: int
) -> Iterator[tuple[str, list[tuple[object, ...]]]]:
    """Yield the statements of a load and the rows of each."""
    yield "BEGIN EXCLUSIVE", []
    for start in range(0, count + 1, BATCH):
        for table, key in TABLES.items():
            span = (start, start + BATCH)
            found = source.execute(f"SELECT * FROM {table} WHERE {key} >= ? AND {key} < ?", span)
            # Bytes as what the driver need not adapt, as a load gives them.
            rows = [tuple(bytearray(part) if isinstance(part, bytes) else part for part in row) for row in found]
            if rows:
                yield f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows
    for _, table, kind, statement in made:
        if table in TABLES and kind != "table":
            yield statement, []
    yield "INSERT INTO document_index (document_index) VALUES ('rebuild')", []
    yield "COMMIT", []


def _empty(folder: Path, made: Sequence[tuple[str, str, str, str]]) -> sqlite3.Connection:
    plain = sqlite3.connect(folder / "plain.db", isolation_level=None)
    for pragma in (f"page_size={PAGE_BYTES}", f"cache_size=-{CACHE_KIBIBYTES}", f"mmap_size={MAPPED_BYTES}"):
        plain.execute(f"PRAGMA {pragma}")
    for name, _, _, statement in made:
        if name in (*TABLES, "document_index"):
            plain.execute(statement)
    return plain
