"""Copies for searching that are not of what the catalog holds, folders of others beside them, damaged vectors."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing, contextmanager

import pytest
from bridge_episodes import assert_complete, copies, episode, files, ingest, opened_archive, rewrite, save, spaces_of
from command_line import app
from index_folders import home_of
from typer.testing import CliRunner

from bridge.index.embedded.index import EmbeddedIndex
from bridge.maintenance import restore_archive
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog.maintenance.backup import back_up, restore
from wshard import Catalog, TrajectoryRetriever, open_archive
from wshard import check_archive as fsck
from wshard import repair_archive as repair
from wshard.errors import VectorsDamagedError

SPACE = make_space()


@contextmanager
def index_of(archive, tail_rows=1000, stored=None):
    with (
        Catalog.open(archive / "catalog.db", create=True) as catalog,
        EmbeddedIndex(catalog, archive / "index", tail_rows=tail_rows) as index,
    ):
        yield Shelf(catalog, index, stored={} if stored is None else stored)


def put(archive, seed, tail_rows=1000, episodes=range(20)):
    """Commit two vectors of each of these episodes, and return what the shelf holds then."""
    with index_of(archive, tail_rows) as shelf:
        ids = shelf.register(20)
        shelf.put(SPACE, {ids[number]: unit_vectors(2, 100 * seed + number) for number in episodes})
        return shelf.stored[SPACE.fingerprint]


def by_hand(saved, archive):
    shutil.copy(saved, archive / "catalog.db")


def killed_before_the_copies_went(saved, archive):
    restore(saved, archive / "catalog.db", force=True)


@pytest.mark.parametrize("go_back", [by_hand, killed_before_the_copies_went])
@pytest.mark.parametrize("further", [0, 1])
def test_a_copy_of_another_future_is_not_believed(tmp_path, go_back, further):
    """Numbers of vectors are equal; the clock is that of the copy, or has passed it."""
    stored = put(tmp_path, 1)
    back_up(tmp_path / "catalog.db", tmp_path / "backup.db")
    put(tmp_path, 2, tail_rows=0, episodes=range(10))
    with index_of(tmp_path) as shelf:
        clock, state = shelf.catalog.clock(), shelf.catalog.vectors.state(1)
    go_back(tmp_path / "backup.db", tmp_path)
    stored |= put(tmp_path, 3, episodes=range(10))
    stored |= put(tmp_path, 4, episodes=range(10, 10 + further))
    with index_of(tmp_path) as shelf:
        assert shelf.catalog.clock() == clock + further
        assert shelf.catalog.vectors.state(1)[:3] == (state.episodes, state.vectors, state.last + further)
    for tail_rows in (1000, 0, 1000):
        with index_of(tmp_path, tail_rows, {SPACE.fingerprint: stored}) as shelf:
            for seed in range(10):
                check(shelf, SPACE, unit_vectors(1, seed)[0], top(100, distinct=False))
            shelf.index.upsert(SPACE, [])


def test_an_exchange_of_two_episodes_vectors_is_another_checksum(tmp_path):
    put(tmp_path, 1)
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        before = catalog.vectors.state(1)
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as raw, raw:
        rows = raw.execute("SELECT checksum, vectors, seq FROM embedding ORDER BY seq LIMIT 2").fetchall()
        for (checksum, vectors, _), (*_, seq) in zip(rows, reversed(rows), strict=True):
            raw.execute("UPDATE embedding SET checksum = ?, vectors = ? WHERE seq = ?", (checksum, vectors, seq))
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        after = catalog.vectors.state(1)
    assert after[:3] == before[:3]
    assert after.checksum != before.checksum


@pytest.fixture
def folder(tmp_path):
    save(tmp_path / "data", *(episode(task, number, 12) for task in range(3) for number in range(4)))
    return tmp_path / "data"


def test_a_check_reports_a_copy_of_another_future(tmp_path, folder):
    archive = tmp_path / "archive"
    ingest(archive, folder)
    back_up(archive / "catalog.db", tmp_path / "backup.db")
    for seed in (98, 99):
        rewrite(files(folder)[0], episode(0, seed, 12, id="task-0-0"))
        ingest(archive, folder)
        if seed == 98:
            copies(archive)
            by_hand(tmp_path / "backup.db", archive)
    with open_archive(archive) as opened:
        found = fsck(opened)
        assert [one.code for one in found.findings] == ["index"]
        assert "does not match the catalog" in found.findings[0].message
        assert repair(opened).ok
        assert fsck(opened, data=True).ok


def test_every_restore_begins_another_edition(tmp_path):
    put(tmp_path, 1)
    back_up(tmp_path / "catalog.db", tmp_path / "backup.db")
    seen = []
    with Catalog.open(tmp_path / "catalog.db") as watching:
        for _ in range(3):
            watching.instant()
            seen.append(watching.edition)
            restore_archive(tmp_path / "backup.db", tmp_path, force=True)
    assert len(set(seen)) == 3


# ---- folders of others -------------------------------------------------------------------------------------------


def test_folders_of_others_in_the_index_stay(tmp_path, folder):
    (tmp_path / "v3").mkdir()
    theirs = [tmp_path / "v3" / name / "x" for name in ("mydata", "ab" * 32, "building-0123456789ab")]
    for name in ("one", "two"):
        ingest(tmp_path / name, folder)
        (tmp_path / name / "index").symlink_to(tmp_path / "v3")
    theirs.append(home_of(tmp_path / "one", make_space("retired")) / "y")
    theirs.append(home_of(tmp_path / "one", spaces_of(tmp_path / "one")[0]) / "own" / "z")
    for path in theirs:
        path.parent.mkdir(parents=True)
        path.write_text("of somebody else")
    copies(tmp_path / "two")
    other = sorted(home_of(tmp_path / "two", spaces_of(tmp_path / "two")[0]).rglob("*"))
    for number in range(4):
        copies(tmp_path / "one") if number else ingest(tmp_path / "one", folder)
        if number == 1:
            assert CliRunner().invoke(app, ["index", "rebuild", "-a", str(tmp_path / "one")]).exit_code == 0
        if number == 2:
            with open_archive(tmp_path / "one") as opened:
                repair(opened, data=True)
        if number == 3:
            back_up(tmp_path / "one" / "catalog.db", tmp_path / "backup.db")
            restore_archive(tmp_path / "backup.db", tmp_path / "one", force=True)
        assert [path.exists() for path in theirs] == [True] * 5
        assert sorted(home_of(tmp_path / "two", spaces_of(tmp_path / "two")[0]).rglob("*")) == other
    assert_complete(tmp_path / "one", files(folder))


def test_copies_that_older_software_named_by_the_space_alone_are_removed(tmp_path):
    stored = put(tmp_path, 1, tail_rows=0)
    home = home_of(tmp_path, SPACE)
    for owner, name in ((home.parent.name, "0" * 64), ("another archive", "1" * 64)):
        old = tmp_path / "index" / name
        shutil.copytree(home, old)
        about = old / (old / "CURRENT").read_text() / "generation.json"
        about.write_text(json.dumps({"about": {"archive_id": owner}}))
    with index_of(tmp_path, 0, {SPACE.fingerprint: stored}) as shelf:
        shelf.put(SPACE, {shelf.catalog.query.ids()[0]: unit_vectors(5)})
        assert sorted(path.name for path in (tmp_path / "index").iterdir()) == sorted(["1" * 64, home.parent.name])


# ---- damaged vectors ---------------------------------------------------------------------------------------------


def flip(archive, seq, byte):
    with closing(sqlite3.connect(archive / "catalog.db")) as raw, raw:
        (vectors,) = raw.execute("SELECT vectors FROM embedding WHERE seq = ?", (seq,)).fetchone()
        damaged = bytearray(vectors)
        damaged[byte % len(damaged)] ^= 1
        raw.execute("UPDATE embedding SET vectors = ? WHERE seq = ?", (bytes(damaged), seq))


def numbers(archive):
    with closing(sqlite3.connect(archive / "catalog.db")) as raw:
        return [row[0] for row in raw.execute("SELECT seq FROM embedding WHERE count > 0 ORDER BY seq")]


@pytest.mark.parametrize("byte", [0, 13, 40])
def test_a_flipped_bit_of_a_vector_is_reported_and_repaired(tmp_path, folder, byte):
    archive = tmp_path / "archive"
    ingest(archive, folder)
    seq = numbers(archive)[byte % 12]
    flip(archive, seq, byte)
    with (
        TrajectoryRetriever(archive) as retriever,
        pytest.raises(VectorsDamagedError, match=r"vectors of episode \d+ "),
    ):
        retriever.search_similar_episodes(episode(0, 0, 12), 3)
    with open_archive(archive) as opened:
        with pytest.raises(ValueError, match="wshard fsck --data --repair"):
            opened.catalog.vectors.load(1, opened.catalog.query.ids())
        found = fsck(opened, data=True)
        assert [one.code for one in found.findings] == ["torn"]
        assert ".wshard" in found.findings[0].message
        assert [one.code for one in fsck(opened).findings] == ["torn"]
        assert repair(opened, data=True).ok
        assert fsck(opened, data=True).ok
    assert len(numbers(archive)) == 12
    assert seq not in numbers(archive)
    assert_complete(archive, files(folder))


def test_a_sound_copy_goes_on_answering_beside_a_damaged_row(tmp_path):
    stored = put(tmp_path, 1, tail_rows=0)
    flip(tmp_path, numbers(tmp_path)[3], 5)
    with index_of(tmp_path, stored={SPACE.fingerprint: stored}) as shelf:
        check(shelf, SPACE, unit_vectors(1)[0], top(100, distinct=False))


def test_a_damaged_checksum_is_reported_like_a_damaged_vector(tmp_path):
    put(tmp_path, 1, tail_rows=0)
    with closing(sqlite3.connect(tmp_path / "catalog.db")) as raw, raw:
        raw.execute("UPDATE embedding SET checksum = checksum + 1 WHERE seq = (SELECT max(seq) FROM embedding)")
    with index_of(tmp_path) as shelf, pytest.raises(VectorsDamagedError):
        shelf.index.search(SPACE, unit_vectors(1)[0], top(3))
    with opened_archive(tmp_path) as opened:
        assert [stray.reason for stray in opened.catalog.maintenance.strays({}, full=True)] == ["torn"]
