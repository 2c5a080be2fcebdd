"""Rows that are written by the hundred are the same as those that are written one by one."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog import Catalog, LaneRecord, Spread
from catalog.database import sqlite
from catalog.testing.contract import make_record
from catalog.testing.records import pack
from wshard.errors import CatalogError, CatalogWriteError

if TYPE_CHECKING:
    from pathlib import Path

FRESH = [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(12)]


def content(catalog: Catalog) -> list[Any]:
    """Return everything that registering writes, except times."""
    rows = catalog.episodes.rows(catalog.query.ids())
    facts = catalog.query.facts(rows)
    return [(row._replace(ingested_at=""), facts[number].lanes) for number, row in rows.items()] + [
        catalog.query.ids("cube")
    ]


def test_flags_and_bytes_are_stored_as_such_however_many_come_at_once(tmp_path: Path) -> None:
    def stored(name: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / name)) as raw:
            flags = raw.execute("SELECT success, typeof(success) FROM episode ORDER BY id").fetchall()
            lanes = "SELECT spread, typeof(spread) FROM lane ORDER BY episode_row, name"
            return flags + raw.execute(lanes).fetchall()

    numbers = LaneRecord("a", "f32", (), 1, spread=pack(Spread(0.0, 1.0, 0.5, 0.5)))
    pictures = LaneRecord("b", "u8", (), 1)
    several = [
        make_record(number, success=(True, False, None)[number % 3], lanes=(numbers, replace(pictures, spread=saved)))
        for number, saved in enumerate((None, numbers.spread, None) * 67)
    ]
    with Catalog.open(tmp_path / "at once.db", create=True) as catalog:
        catalog.episodes.register(several)
    with Catalog.open(tmp_path / "one by one.db", create=True) as catalog:
        for record in several:
            catalog.episodes.register([record])
    assert stored("at once.db") == stored("one by one.db")
    assert {kind for _, kind in stored("at once.db")[:201]} == {"integer", "null"}


def test_an_id_that_is_taken_spoils_nothing_that_was_there(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register(FRESH[:3])
        with catalog._session.write() as connection:
            connection.exec_driver_sql("UPDATE archive SET last_episode = 0")
        before = content(catalog)
        with pytest.raises(CatalogError, match="UNIQUE"):
            catalog.episodes.register(FRESH[3:])
        assert content(catalog) == before


def test_new_files_have_large_pages_and_old_files_their_own(tmp_path: Path) -> None:
    def page(path: Path) -> int:
        with sqlite3.connect(path) as raw:
            return int(raw.execute("PRAGMA page_size").fetchone()[0])

    with Catalog.open(tmp_path / "new.db", create=True):
        pass
    assert page(tmp_path / "new.db") == 16_384
    with sqlite3.connect(tmp_path / "new.db") as raw:
        raw.execute("PRAGMA journal_mode=DELETE")
        raw.execute("PRAGMA page_size=4096")
        raw.execute("VACUUM")
    with Catalog.open(tmp_path / "new.db") as catalog:
        catalog.episodes.register(FRESH)
    assert page(tmp_path / "new.db") == 4096


def test_a_disk_that_fills_leaves_the_archive_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(connection: sqlite3.Connection) -> None:
        plain(connection)
        connection.execute("PRAGMA max_page_count=80")

    plain = sqlite.add_functions
    Catalog.open(tmp_path / "catalog.db", create=True).close()
    long = [replace(record, metadata={"task": "stack", "log": "x" * 200_000}) for record in FRESH]
    with monkeypatch.context() as patched:
        patched.setattr(sqlite, "add_functions", small)
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            with pytest.raises(CatalogWriteError, match="the disk is full"):
                catalog.episodes.register(long)
            assert catalog.query.count() == 0
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        catalog.episodes.register(FRESH)
        assert len(catalog.query.ids("stack")) == len(FRESH)
