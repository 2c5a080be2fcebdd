"""An archive of a development version is refused, and nothing in it is changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from catalog import Catalog
from wshard.errors import CatalogVersionError

if TYPE_CHECKING:
    from pathlib import Path

HOW = r"earlier development version; ingest again; .*`wshard annotations export`"


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
