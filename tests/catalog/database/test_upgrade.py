"""An archive of an older version is upgraded; one of a development version is refused, and nothing in it is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import inspect

from catalog import Catalog
from catalog.database import migrations
from catalog.testing.records import make_record
from wshard.errors import CatalogVersionError

if TYPE_CHECKING:
    from pathlib import Path

HOW = r"before 0\.1\.0; ingest again, into a new archive; .*`wshard annotations export` of that version"


@pytest.mark.parametrize("versions", [1, 9])
def test_an_archive_of_a_development_version_is_refused_and_left_as_it_is(tmp_path: Path, versions: int) -> None:
    path = tmp_path / "catalog.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE migration (version INTEGER PRIMARY KEY, name TEXT, applied_at TEXT)")
        names = ["first tables", *(f"change {number}" for number in range(2, versions + 1))]
        raw.executemany("INSERT INTO migration VALUES (?, ?, '')", enumerate(names, 1))
    with pytest.raises(CatalogVersionError, match=HOW):
        Catalog.open(path)
    with pytest.raises(CatalogVersionError, match=HOW):
        Catalog.open(path, create=True)
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("SELECT name FROM sqlite_master").fetchall() == [("migration",)]
        assert raw.execute("SELECT name FROM migration ORDER BY version").fetchall() == [(name,) for name in names]


def test_an_archive_whose_tables_lack_columns_of_the_release_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path, create=True):
        pass
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM migration WHERE version > 1")
        raw.execute("ALTER TABLE episode DROP COLUMN lane_map")
    before = path.read_bytes()
    with pytest.raises(CatalogVersionError, match=r"found no episode\.lane_map: written by a .*" + HOW):
        Catalog.open(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["catalog.db"]


NAMES = [f"demo_{number}" for number in (10, 2, 1, 100, 9)] + ["Demo_3", "demo", "", "päivä 12", "päivä 2", "007"]
SORTED = ["", "007", "Demo_3", "demo", "demo_1", "demo_2", "demo_9", "demo_10", "demo_100", "päivä 2", "päivä 12"]


def read_tables(catalog: Catalog) -> object:
    """Return the tables, and the columns and indexes of those that later versions changed or added."""
    with catalog._session.read() as connection:
        found = inspect(connection)
        columns = [
            (table, each["name"], str(each["type"]), each["nullable"])
            for table in ("episode", "scan")
            for each in found.get_columns(table)
        ]
        indexes = {each["name"]: each["column_names"] for each in found.get_indexes("episode")}
        return sorted(found.get_table_names()), sorted(columns), indexes, found.get_pk_constraint("scan")


def test_episodes_of_an_older_archive_get_their_natural_order(
    location: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_CHUNK", 4)
    with Catalog.open(location, create=True) as catalog:
        catalog.episodes.register([make_record(number, episode_id=name) for number, name in enumerate(NAMES)])
        expected = read_tables(catalog)
        with catalog._session.write() as connection:  # the tables as version 1 made them
            connection.exec_driver_sql("DROP TABLE scan")
            connection.exec_driver_sql("DROP INDEX episode_sort_key")
            connection.exec_driver_sql("ALTER TABLE episode DROP COLUMN sort_key")
            connection.exec_driver_sql("DELETE FROM migration WHERE version > 1")
    for _ in range(2):  # it is upgraded once
        with Catalog.open(location) as catalog:
            assert [row.episode_id for row in catalog.query.select().rows] == SORTED
            assert read_tables(catalog) == expected


def test_words_of_other_metadata_and_notes_of_an_older_archive_are_found(
    location: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_CHUNK", 4)
    with Catalog.open(location, create=True) as catalog:
        catalog.episodes.register(
            [make_record(n, metadata={"a": {"b": f"fold {n}"}} if n % 2 else {}) for n in range(9)]
        )
        ids = catalog.query.ids()
        catalog.annotations.add_note(ids[:2], "torn towel")
        with catalog._session.write() as connection:  # as version 4 left them
            connection.exec_driver_sql("DELETE FROM document")
            connection.exec_driver_sql("DELETE FROM migration WHERE version > 4")
    with Catalog.open(location) as catalog:
        assert catalog.query.ids("fold") == ids[1::2]
        assert catalog.query.ids("towel") == ids[:2]
        assert catalog.query.ids("fold towel") == ids[1:2]
