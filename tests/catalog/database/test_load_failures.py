"""A load takes indexes, foreign keys and the log away: whatever happens meanwhile, all of it is there afterwards."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError

from catalog import Catalog
from catalog.database import engine
from catalog.testing.contract import make_record
from wshard.errors import CatalogBusyError, CatalogWriteError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from databases import Server

    from catalog import EpisodeRecord

RECORDS = [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(40)]
BATCHES = [RECORDS[start : start + 10] for start in range(0, 40, 10)]


def between(batches: list[list[EpisodeRecord]], look: Callable[[], object]) -> Iterator[list[EpisodeRecord]]:
    """Yield the batches, and look at something before the second one."""
    for number, batch in enumerate(batches):
        if number == 1:
            look()
        yield batch


def asked(path: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as raw:
        return raw.execute(statement).fetchall()


def tables(path: Path) -> list[tuple[Any, ...]]:
    return sorted(asked(path, "SELECT type, name, sql FROM sqlite_master"))


def assert_whole(path: Path, episodes: int) -> None:
    """Check that the file is sound, has its log, every index, and so many episodes, that are found by their words."""
    assert asked(path, "PRAGMA journal_mode") == [("wal",)]
    assert asked(path, "PRAGMA integrity_check") == [("ok",)]
    assert asked(path, "PRAGMA foreign_key_check") == []
    with Catalog.open(path.with_name("fresh.db"), create=True):
        pass
    assert tables(path) == tables(path.with_name("fresh.db"))
    with Catalog.open(path) as catalog:
        assert len(catalog.query.ids("stack")) == catalog.query.count() == episodes


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from catalog import Catalog
from catalog.database import engine
from catalog.testing.contract import make_record
engine.CACHE_KIBIBYTES = 64  # so that most of it is in the file already

def batches():
    for start in range(0, 3000, 500):
        yield [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(start, start + 500)]
    os.kill(os.getpid(), signal.SIGKILL)

with Catalog.open(sys.argv[1]) as catalog:
    catalog.episodes.load(batches())
"""


def test_a_load_that_is_killed_leaves_the_archive_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    Catalog.open(path, create=True).close()
    before = path.stat().st_size
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path), *sys.path], check=False, capture_output=True)
    assert killed.returncode < 0, killed.stderr
    assert path.with_name("catalog.db-journal").exists()
    assert path.stat().st_size > before + (1 << 20)
    with Catalog.open(path) as catalog:
        assert catalog.query.count() == 0
        assert catalog.episodes.load(BATCHES) == {"new": 40}
    assert_whole(path, 40)


@pytest.mark.parametrize("stopped", [KeyboardInterrupt, OSError])
def test_a_load_that_stops_leaves_the_archive_as_it_was(tmp_path: Path, stopped: type[BaseException]) -> None:
    def stop() -> None:
        raise stopped

    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        with pytest.raises(stopped):
            catalog.episodes.load(between(BATCHES, stop))
        assert catalog.query.count() == 0
    assert_whole(tmp_path / "catalog.db", 0)


def test_a_disk_that_fills_leaves_the_archive_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(connection: sqlite3.Connection) -> None:
        plain(connection)
        connection.execute("PRAGMA max_page_count=80")

    plain = engine.add_functions
    Catalog.open(tmp_path / "catalog.db", create=True).close()
    long = [
        replace(record, metadata={"task": f"stack {number}", "log": "x" * 50_000})
        for number, record in enumerate(RECORDS)
    ]
    with monkeypatch.context() as patched:
        patched.setattr(engine, "add_functions", small)
        with Catalog.open(tmp_path / "catalog.db") as catalog:
            with pytest.raises(CatalogWriteError, match="the disk is full"):
                catalog.episodes.load([long[:20], long[20:]])
            assert catalog.query.count() == 0
    assert_whole(tmp_path / "catalog.db", 0)


def test_nobody_is_let_in_during_the_first_load_and_everybody_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.1)
    path = tmp_path / "catalog.db"

    def come() -> None:
        with pytest.raises(CatalogBusyError), Catalog.open(path):
            pass
        with pytest.raises(CatalogBusyError):
            catalog.query.count()

    with Catalog.open(path, create=True) as catalog:
        assert catalog.episodes.load(between(BATCHES, come)) == {"new": 40}
        assert catalog.query.count() == 40
        with catalog._session.write() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    assert_whole(path, 40)


def test_who_has_the_archive_open_goes_on_reading_it(tmp_path: Path) -> None:
    path, seen = tmp_path / "catalog.db", []
    with Catalog.open(path, create=True) as catalog, Catalog.open(path) as other:
        catalog.episodes.load(between(BATCHES, lambda: seen.append(other.query.count())))
        assert other.query.count() == 40
    assert seen == [0]
    assert_whole(path, 40)


def test_what_is_there_already_costs_no_index(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path, create=True) as catalog:
        catalog.episodes.load(BATCHES)
        made = asked(path, "PRAGMA schema_version")
        assert catalog.episodes.load(BATCHES) == {"unchanged": 40}
        assert catalog.episodes.load([[replace(record, digest="newer") for record in RECORDS[:4]]]) == {"changed": 4}
        assert asked(path, "PRAGMA schema_version") == made
        assert catalog.episodes.load([[replace(record, digest="newest") for record in RECORDS[:5]]]) == {"changed": 5}
        assert asked(path, "PRAGMA schema_version") > made
    assert_whole(path, 40)


ON_SERVER = """
    SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index WHERE indisvalid AND indrelid > 16000
    UNION ALL
    SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid > 16000 AND convalidated
    ORDER BY 1, 2
"""


def test_a_server_has_every_index_and_statistics_after_a_load(server: Server) -> None:
    with server.catalog() as url, Catalog.open(url) as catalog:
        raw = create_engine(url)

        def come() -> None:
            with raw.begin() as other:
                other.exec_driver_sql("SET LOCAL lock_timeout = 100")
                with pytest.raises(OperationalError, match="lock timeout"):
                    other.exec_driver_sql("SELECT count(*) FROM episode")

        with raw.begin() as other:
            made = other.exec_driver_sql(ON_SERVER).all()
        assert catalog.episodes.load(between(BATCHES, come)) == {"new": 40}
        with raw.begin() as other:
            assert other.exec_driver_sql(ON_SERVER).all() == made
            counted = other.exec_driver_sql("SELECT reltuples FROM pg_class WHERE relname = 'episode'").scalar()
        raw.dispose()
        assert (counted, len(catalog.query.ids("stack"))) == (40, 40)


def test_who_reads_on_a_server_is_not_disturbed(server: Server) -> None:
    with server.catalog() as url, Catalog.open(url) as catalog:
        raw = create_engine(url)
        with raw.begin() as other:
            made = other.exec_driver_sql(ON_SERVER).all()
            assert other.exec_driver_sql("SELECT count(*) FROM lane").scalar() == 0

            def look() -> None:
                assert other.exec_driver_sql("SELECT count(*) FROM episode").scalar() == 0

            assert catalog.episodes.load(between(BATCHES, look)) == {"new": 40}
            assert other.exec_driver_sql(ON_SERVER).all() == made
        raw.dispose()
        assert len(catalog.query.ids("stack")) == 40
