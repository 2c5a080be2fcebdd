"""An archive of the first version opens, and has everything that it had."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from paths import SUPPORT
from sqlalchemy import inspect, select

from catalog import Catalog, F
from catalog.database.migrations import STEPS
from catalog.database.schema import document, episode
from catalog.full_text import bits
from wshard.errors import CatalogExistsError

OLD = (SUPPORT / "data" / "catalog_v1.sql").read_text()


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a database that the software of version 1 wrote."""
    path = tmp_path / "archive" / "catalog.db"
    path.parent.mkdir()
    raw = sqlite3.connect(path)
    raw.executescript(OLD)
    raw.close()
    return path


def test_an_archive_of_version_1_is_upgraded_when_opened(old: Path) -> None:
    with Catalog.open(old) as catalog:
        assert catalog.archive_id == "d413d58c-87aa-48cd-9811-728161186c4e"
        assert catalog.clock() == 15
        rows = catalog.episodes.rows(catalog.query.ids())
        assert sorted(rows) == [1, 2, 3, 4, 5, 7]
        assert rows[1].tags == ("good",)
        assert rows[3].tags == ("good", "ünïcode %")
        assert rows[7].path == f"{old.parent}/own/episode_000006.wshard"
        space = catalog.vectors.spaces("active")[0]
        assert catalog.vectors.state(space.id)[:3] == (5, 5, 14)
        assert [entry.episode_id for entry in catalog.vectors.ledger(space.id) if entry.vectors is None] == [6, 2]
    raw = sqlite3.connect(old)
    assert raw.execute("SELECT version FROM migration").fetchall() == [(step.version,) for step in STEPS]
    raw.close()


def test_what_was_there_can_be_searched_and_reviewed_after_the_upgrade(old: Path) -> None:
    with Catalog.open(old) as catalog:
        assert catalog.query.ids(F.text.contains("pick up the cube")) == [1, 3, 4, 5]
        assert catalog.query.ids('"offne die"') == [7]
        assert catalog.query.ids("meta.seed:>=2") == [3, 4, 5]
        # NaN, infinities and broken Unicode are no JSON: the upgrade makes them null and U+FFFD.
        assert catalog.episodes.get(7).metadata["nested"] == {"a": None, "b": [1, None]}
        assert catalog.episodes.get(7).metadata["odd"] == "\ufffd"
        assert catalog.query.ids("meta.nested.a:*") == []
        assert catalog.query.ids("meta.odd:*") == [7]
        assert catalog.query.facts([1])[1].lanes["signal/state"].whole is None
        catalog.annotations.review([1], "accepted")
        catalog.annotations.add_note([2], "Wackelt")
        assert catalog.query.ids("review:accepted OR wackelt") == [1, 2]


def test_what_old_software_knew_of_lanes_becomes_their_statistics(old: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 2)) * [1.0, 1e6] + [0.5, -3e6]
    means, lows, highs = rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0)
    moments = np.stack([means, ((rows - means) ** 2).sum(axis=0), lows, highs]).astype("<f8").tobytes()
    with closing(sqlite3.connect(old)) as raw, raw:
        raw.execute("UPDATE lane SET moments = ? WHERE name = 'signal/state' AND episode_row != 5", (moments,))
    with Catalog.open(old) as catalog:
        known = catalog.query.facts([1])[1].lanes["signal/state"]
        whole, channels = known.whole, known.channels
        assert np.array(channels) == pytest.approx(np.stack([lows, highs, means, rows.std(axis=0)], axis=1), rel=1e-12)
        assert whole == pytest.approx((rows.min(), rows.max(), rows.mean(), rows.std()), rel=1e-12)
        # One lane kept what nobody can read any more, and one is of images.
        assert catalog.query.ids("lane.signal/state.mean:*") == [1, 2, 3, 4, 7]
        assert [count for count, _ in catalog.query.spreads([1], "signal/state")] == [100] * 5
        assert catalog.query.ids("lane.signal/camera.mean:*") == []


def test_an_upgraded_archive_says_what_words_episodes_may_hold(old: Path) -> None:
    with Catalog.open(old) as catalog, catalog._session.read() as connection:
        held = dict(connection.execute(select(*document.c)).all())
        kept = connection.execute(select(episode.c.id, episode.c.word_bits)).all()
    assert {number: found or 0 for number, found in kept} == {n: bits(held.get(n, "")) for n, _ in kept}
    assert any(found for _, found in kept)


def test_an_upgraded_archive_has_the_tables_of_a_new_one(old: Path, tmp_path: Path) -> None:
    def tables(path: Path) -> dict:
        with Catalog.open(path, create=True) as catalog, catalog._session.read() as connection:
            found = inspect(connection)
            return {
                name: (
                    {column["name"] for column in found.get_columns(name)},
                    {
                        (index["name"], *index["column_names"])
                        for index in found.get_indexes(name)
                        if not index["unique"]
                    },
                    # Before, those of an episode were constraints of the table.
                    {
                        tuple(key["column_names"])
                        for key in (*found.get_indexes(name), *found.get_unique_constraints(name))
                        if key.get("unique", True)
                    },
                )
                for name in found.get_table_names()
            }

    assert tables(old) == tables(tmp_path / "new.db")


def test_an_upgrade_keeps_the_catalog_as_it_was(old: Path) -> None:
    with closing(sqlite3.connect(old)) as raw:
        before = list(raw.iterdump())
    Catalog.open(old).close()
    kept = old.with_name("catalog.db.version-1-15")
    with closing(sqlite3.connect(kept)) as raw:
        assert list(raw.iterdump()) == before
    assert sorted(path.name for path in old.parent.iterdir()) == [old.name, kept.name]
    kept.write_text("mine")
    Catalog.open(old).close()  # there is nothing to upgrade any more
    assert kept.read_text() == "mine"


def test_an_upgrade_whose_copy_cannot_be_kept_does_not_begin(old: Path) -> None:
    kept = old.with_name("catalog.db.version-1-15")
    kept.write_text("mine")
    with pytest.raises(CatalogExistsError, match="version-1-15"):
        Catalog.open(old)
    assert kept.read_text() == "mine"
    with closing(sqlite3.connect(old)) as raw:
        assert raw.execute("SELECT max(version) FROM migration").fetchone() == (1,)


READ_ONLY = """
import os, sys
folder, *sys.path[:0] = sys.argv[1:]
from catalog import Catalog
from wshard.errors import CatalogWriteError
if os.getuid() == 0:  # root may write everywhere
    os.setgid(65534)
    os.setuid(65534)
try:
    Catalog.open(f"{folder}/catalog.db")
except CatalogWriteError as error:
    print(error)
"""


def test_an_older_archive_that_cannot_be_written_says_that_it_must_be_upgraded(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        with closing(sqlite3.connect(f"{place}/catalog.db")) as raw:
            raw.executescript(OLD)
        Path(place, "catalog.db").chmod(0o444)
        Path(place).chmod(0o555)
        command = [sys.executable, "-c", READ_ONLY, place, *sys.path]
        found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
        Path(place).chmod(0o755)
        assert os.listdir(place) == ["catalog.db"]  # noqa: PTH208  (names alone)
    assert f"has version 1 and must be upgraded once to version {STEPS[-1].version}" in found.stdout, found.stderr
    assert "write access" in found.stdout
