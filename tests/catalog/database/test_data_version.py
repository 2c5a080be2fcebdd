"""A glance tells that a file was written by whomever, and closes it on request."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from catalog import Catalog
from catalog.database.data_version import DataVersion
from catalog.testing.contract import make_record
from wshard.errors import CatalogError


@pytest.fixture
def archive(tmp_path):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        yield catalog


@pytest.fixture
def glance(tmp_path, archive):
    found = DataVersion(lambda: sqlite3.connect(tmp_path / "catalog.db", check_same_thread=False))
    yield found
    found.close()


def test_the_version_moves_with_each_commit_and_only_then(archive, glance):
    seen = [glance.version(), glance.version()]
    archive.episodes.register([make_record(1)])
    seen += [glance.version(), glance.version()]
    archive.annotations.tag([1], "good")
    seen += [glance.version()]
    assert seen[0] == seen[1] != seen[2] == seen[3] != seen[4] != seen[0]


def test_a_commit_of_another_process_is_seen_at_once(tmp_path, archive):
    archive.episodes.register([make_record(1)])
    before = archive.clock()
    assert archive.clock() == before
    script = (
        "import sys; from catalog import Catalog; from catalog.testing.contract import make_record; "
        "catalog = Catalog.open(sys.argv[1]); catalog.episodes.register([make_record(2)]); catalog.close()"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "catalog.db")], check=True, timeout=60)
    assert archive.instant().clock > before


def test_a_pinned_instant_stays_for_its_thread_alone(archive):
    before, others = archive.instant(), []
    with archive.pin_instant():
        archive.episodes.register([make_record(1)])
        assert archive.instant() == before
        assert archive.clock() > before.clock
        other = threading.Thread(target=lambda: others.append(archive.instant()))
        other.start()
        other.join()
    assert others == [archive.instant()] != [before]


def test_it_cannot_report_without_a_file(tmp_path):
    nothing = DataVersion(lambda: sqlite3.connect(f"file:{tmp_path / 'no.db'}?mode=ro", uri=True))
    assert nothing.version() is None


@pytest.mark.long
def test_many_threads_ask_while_one_writes(tmp_path, archive):
    """None is given an older state than it was given before."""
    over, wrong, rounds = threading.Event(), [], []

    def watch():
        last = count = 0
        while not over.is_set():
            now, count = archive.instant().clock, count + 1
            if now < last:
                wrong.append((last, now))
            last = now
        rounds.append(count)

    watchers = [threading.Thread(target=watch) for _ in range(4)]
    for watcher in watchers:
        watcher.start()
    try:
        for number in range(1, 20):
            archive.episodes.register([make_record(number)])
            with closing(sqlite3.connect(tmp_path / "catalog.db")) as plain:
                (written,) = plain.execute("SELECT clock FROM archive").fetchone()
            if archive.instant().clock < written:
                wrong.append((written, "not seen by who wrote it"))
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
    assert not wrong
    assert sum(rounds) > 40


def test_a_closed_catalog_does_not_open_the_file_again(archive):
    archive.instant()
    archive.close()
    with pytest.raises(CatalogError, match="closed"):
        archive.instant()


def test_a_look_after_the_end_does_not_open_the_file_either(tmp_path, archive, glance):
    assert glance.version()
    glance.close()
    assert glance.version() is None
    archive.close()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("catalog.db-")] == []


def test_no_one_waits_for_who_is_looking(tmp_path, archive):
    """Threads that share a catalog would otherwise wait for a locked file one after another."""
    looking, go_on = threading.Event(), threading.Event()

    def slow():
        looking.set()
        assert go_on.wait(30)
        return sqlite3.connect(tmp_path / "catalog.db", check_same_thread=False)

    glance = DataVersion(slow)
    first = threading.Thread(target=glance.version)
    first.start()
    assert looking.wait(30)
    try:
        assert glance.version() is None
    finally:
        go_on.set()
        first.join()
    assert glance.version()
    glance.close()
