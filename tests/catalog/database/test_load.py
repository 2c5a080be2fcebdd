"""Large loads: the same archive as registering makes, whether it was empty or not."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from catalog import Asset, Catalog, LaneRecord, Spread
from catalog.episodes import reconcile
from catalog.testing.contract import make_record
from wshard.errors import CatalogError

if TYPE_CHECKING:
    from pathlib import Path

    from databases import Server

    from catalog import EpisodeRecord

FRESH = [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(12)]
LOADS: dict[str, list[list[EpisodeRecord]]] = {
    "nothing": [],
    "every place once": [FRESH[:5], FRESH[5:]],
    "a place twice in a batch": [FRESH[:5], [*FRESH[5:8], replace(FRESH[6], digest="newer"), *FRESH[8:]]],
    "a place again in another batch": [FRESH[:5], FRESH[3:8], FRESH[8:]],
    "a changed episode in another batch": [FRESH[:5], [replace(FRESH[0], digest="newer", length=3)], FRESH[5:]],
    "more rows than one statement takes": [
        [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(401)],
        [make_record(number) for number in range(401, 601)],
    ],
    "a move within the load": [
        FRESH[:2],
        [make_record(0, folder="/elsewhere", metadata=FRESH[0].metadata, moved_from=1)],
        FRESH[2:],
    ],
    "an episode of files that came as others": [
        FRESH[:2],
        [
            replace(FRESH[2], assets=tuple(Asset("chunk", one.path, one.digest, 1, 1) for one in FRESH[:2])),
            *FRESH[3:],
        ],
    ],
    "episodes of one file": [[replace(FRESH[0], key=key, digest=f"of {key}") for key in "abc"], FRESH[1:3]],
}


def content(catalog: Catalog) -> list[Any]:
    """Return everything that a load writes, except times."""
    rows = catalog.episodes.rows(catalog.query.ids())
    facts = catalog.query.facts(rows)
    return [(row._replace(ingested_at=""), facts[number].lanes) for number, row in rows.items()] + [
        catalog.query.ids("cube")
    ]


@pytest.mark.parametrize("remembered", [reconcile.REMEMBERED, 3])
@pytest.mark.parametrize("batches", LOADS.values(), ids=list(LOADS))
def test_a_load_into_an_empty_archive_is_registering(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[list[EpisodeRecord]], remembered: int
) -> None:
    monkeypatch.setattr(reconcile, "REMEMBERED", remembered)
    with Catalog.open(tmp_path / "registered.db", create=True) as registered:
        wanted = Counter(done.outcome for batch in batches for done in registered.episodes.register(batch))
        expected = content(registered)
        again = [done.outcome for batch in batches[-1:] for done in registered.episodes.register(batch)]
    with server.catalog() as url:
        for location in (tmp_path / "loaded.db", url):
            with Catalog.open(location, create=True) as loaded:
                assert loaded.episodes.load(batches) == wanted
                assert content(loaded) == expected
                assert [done.outcome for batch in batches[-1:] for done in loaded.episodes.register(batch)] == again
    with sqlite3.connect(tmp_path / "loaded.db") as raw:
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []


def test_flags_and_bytes_are_stored_as_such_however_many_come_at_once(tmp_path: Path) -> None:
    def stored(name: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / name)) as raw:
            flags = raw.execute("SELECT success, typeof(success) FROM episode ORDER BY id").fetchall()
            lanes = "SELECT spread, typeof(spread) FROM lane ORDER BY episode_row, name"
            return flags + raw.execute(lanes).fetchall()

    numbers = LaneRecord("a", "f32", (), 1, (Spread(0.0, 1.0, 0.5, 0.5),))
    pictures = LaneRecord("b", "u8", (), 1)
    several = [
        make_record(number, success=(True, False, None)[number % 3], lanes=(numbers, replace(pictures, channels=kept)))
        for number, kept in enumerate(((), None, numbers.channels) * 67)
    ]
    with Catalog.open(tmp_path / "at once.db", create=True) as catalog:
        catalog.episodes.load([several])
    with Catalog.open(tmp_path / "one by one.db", create=True) as catalog:
        for record in several:
            catalog.episodes.register([record])
    assert stored("at once.db") == stored("one by one.db")
    assert {kind for _, kind in stored("at once.db")[:201]} == {"integer", "null"}


def test_a_load_into_an_empty_archive_leaves_every_index_behind(tmp_path: Path) -> None:
    def made(name: str) -> list[Any]:
        with sqlite3.connect(tmp_path / name) as raw:
            return sorted(
                raw.execute("SELECT type, name, sql FROM sqlite_master WHERE name <> 'sqlite_stat1'").fetchall()
            )

    with Catalog.open(tmp_path / "new.db", create=True):
        pass
    with Catalog.open(tmp_path / "loaded.db", create=True) as loaded:
        loaded.episodes.load([FRESH])
    assert made("loaded.db") == made("new.db")
    with sqlite3.connect(tmp_path / "loaded.db") as raw, pytest.raises(sqlite3.IntegrityError, match=r"episode\.uid"):
        raw.execute("UPDATE episode SET uid = (SELECT min(uid) FROM episode)")


def test_an_id_that_is_taken_spoils_nothing_that_was_there(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register(FRESH[:3])
        with catalog._session.write() as connection:
            connection.exec_driver_sql("UPDATE archive SET last_episode = 0")
        before = content(catalog)
        with pytest.raises(CatalogError, match="UNIQUE"):
            catalog.episodes.load([FRESH[3:]])
        assert content(catalog) == before


def test_new_files_have_large_pages_and_old_ones_are_kept(tmp_path: Path) -> None:
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
