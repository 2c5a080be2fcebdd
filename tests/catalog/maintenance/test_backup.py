"""Backups and the way back: whole or not at all, also beside writers, under kill -9 and on a full disk."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from random import Random
from typing import TYPE_CHECKING

import pytest

from catalog import Catalog, EmbeddingRow
from catalog.maintenance.backup import back_up, restore
from catalog.maintenance.postgres_dump import restore_dump
from catalog.testing.contract import make_record
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogExistsError,
    CatalogNotFoundError,
    CatalogVersionError,
    CatalogWriteError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from databases import Server


def make(path: Path | str, episodes: int = 20, env: str = "env") -> None:
    with Catalog.open(path, create=True) as catalog:
        records = [make_record(n, env_id=env) for n in range(episodes)]
        done = catalog.episodes.register(records)
        space = catalog.vectors.add_space("fingerprint", "family", "{}")
        rows = [
            EmbeddingRow(d.id, r.digest, 1, bytes([n]) * 64) for n, (d, r) in enumerate(zip(done, records, strict=True))
        ]
        catalog.vectors.write(space.id, rows)
        catalog.annotations.tag([done[0].id], "good")
        catalog.annotations.add_note([done[1].id], "pick up the cube", who="ann")
        catalog.annotations.review([done[2].id], "accepted", who="ann")
        catalog.collections.save_snapshot("some", "tag:good")


def content(path: Path) -> list[str]:
    """Return every row of every table, the full-text index included, as SQL; but for the edition of the archive."""
    with sqlite3.connect(path) as raw:
        (edition,) = raw.execute("SELECT edition FROM archive").fetchone()
        lines = [line.replace(edition, "EDITION") for line in raw.iterdump()]
    raw.close()
    return lines


def strangers(folder: Path, *known: str) -> list[str]:
    return sorted({path.name for path in folder.iterdir()} - set(known))


def test_what_is_restored_is_what_was_backed_up(tmp_path: Path) -> None:
    path, file = tmp_path / "one" / "catalog.db", tmp_path / "backup.db"
    make(path)
    with Catalog.open(path) as catalog:
        assert catalog.maintenance.back_up(file) == file.stat().st_size
        before = content(path)
        catalog.annotations.tag(catalog.query.ids(), "later")
    assert content(file) == before
    assert strangers(tmp_path, "one", "backup.db") == []
    assert restore(file, tmp_path / "two" / "catalog.db") is None
    assert strangers(tmp_path / "two", "catalog.db") == []
    assert content(tmp_path / "two" / "catalog.db") == before
    with Catalog.open(tmp_path / "two" / "catalog.db") as catalog:
        assert catalog.query.count("tag:good") == 1
        assert catalog.query.count('"pick up"') == 1
        assert catalog.query.count("tag:later") == 0
        catalog.annotations.tag(catalog.query.ids(), "goes on")


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    path, other, file = tmp_path / "catalog.db", tmp_path / "other.db", tmp_path / "backup.db"
    make(path)
    make(other, 3)
    (tmp_path / "own.txt").write_text("own")
    with Catalog.open(path) as catalog:
        catalog.maintenance.back_up(file)
        catalog.annotations.tag(catalog.query.ids(), "later")
        catalog.maintenance.back_up(file)  # an earlier backup of the same archive
        for wrong in (tmp_path / "own.txt", other, path):
            before = wrong.read_bytes()
            with pytest.raises(CatalogExistsError, match="to be free, or an earlier backup"):
                catalog.maintenance.back_up(wrong)
            assert wrong.read_bytes() == before
        os.mkfifo(tmp_path / "pipe.db")
        with pytest.raises(CatalogExistsError, match="to be free"):
            catalog.maintenance.back_up(tmp_path / "pipe.db")
        with pytest.raises(CatalogWriteError, match="nowhere"):
            catalog.maintenance.back_up(tmp_path / "nowhere" / "backup.db")
    before = content(other)
    with pytest.raises(CatalogExistsError, match="--force"):
        restore(file, other)
    assert content(other) == before
    restore(file, other, force=True)
    assert content(other) == content(file)
    with pytest.raises(CatalogExistsError, match="or nothing, found something else"):
        restore(file, tmp_path / "pipe.db", force=True)
    with pytest.raises(CatalogExistsError, match="or nothing, found a folder"):
        restore(file, tmp_path, force=True)


def test_a_backup_is_of_one_moment_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make(path, 5)
    stop = threading.Event()

    def write() -> None:
        with Catalog.open(path) as catalog:
            for number in range(2000):  # bounded: the log grows as long as a backup takes
                if stop.wait(0.001):
                    break
                # One transaction each: a backup has both or none.
                catalog.episodes.register([make_record(100 + 2 * number), make_record(101 + 2 * number)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with Catalog.open(path) as catalog:
            counts = []
            for number in range(8):
                catalog.maintenance.back_up(tmp_path / f"{number}.db")
                with Catalog.open(tmp_path / f"{number}.db") as backup:
                    counts.append(backup.query.count())
                    assert backup.maintenance.check(full=True) == []
    finally:
        stop.set()
        writer.join()
    assert all(count % 2 == 1 for count in counts)
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_a_program_that_has_the_catalog_open_goes_on_with_the_restored_one(tmp_path: Path) -> None:
    path, file = tmp_path / "catalog.db", tmp_path / "backup.db"
    make(path)
    with Catalog.open(path) as catalog:
        catalog.maintenance.back_up(file)
        catalog.episodes.remove(catalog.query.ids()[5:])
        catalog.annotations.add_note(catalog.query.ids(), "lost by restoring")
        assert restore(file, path, force=True) is None
        assert catalog.query.count() == 20
        assert catalog.query.count("lost") == 0
        catalog.annotations.tag(catalog.query.ids(), "after")
    assert restore(file, path, force=True) is None
    assert content(path) == content(file)


def test_copies_in_other_indexes_begin_again_after_restoring(tmp_path: Path) -> None:
    path, file = tmp_path / "catalog.db", tmp_path / "backup.db"
    make(path)
    with Catalog.open(path) as catalog:
        before = catalog.index_copies.open("http://host", catalog.vectors.spaces()[0].id)
        catalog.maintenance.back_up(file)
    restore(file, path, force=True)
    with Catalog.open(path) as catalog:
        after = catalog.index_copies.open("http://host", catalog.vectors.spaces()[0].id)
        assert after.generation != before.generation


def test_a_damaged_catalog_is_moved_aside(tmp_path: Path) -> None:
    path, file = tmp_path / "a" / "catalog.db", tmp_path / "backup.db"
    make(path)
    back_up(path, file)
    for damage in (b"no database at all" * 500, b"", path.read_bytes()[:5000]):
        path.write_bytes(damage)
        path.with_name("catalog.db-wal").write_bytes(b"a log of something else")
        saved = restore(file, path, force=True)
        with Catalog.open(path) as catalog:
            assert catalog.maintenance.check(full=True) == []
        assert content(path) == content(file)
        if saved is not None:
            assert saved.read_bytes() == damage


def test_a_log_without_its_database_does_no_harm(tmp_path: Path) -> None:
    path, file = tmp_path / "a" / "catalog.db", tmp_path / "backup.db"
    make(path)
    back_up(path, file)
    catalog = Catalog.open(path)
    catalog.annotations.tag(catalog.query.ids(), "later")
    wal = path.with_name("catalog.db-wal").read_bytes()
    catalog.close()
    path.unlink()
    path.with_name("catalog.db-wal").write_bytes(wal)
    assert restore(file, path) is None
    assert content(path) == content(file)


def test_invalid_sound_backup_is_refused(tmp_path: Path) -> None:
    path, file = tmp_path / "catalog.db", tmp_path / "backup.db"
    make(path)
    back_up(path, file)
    with pytest.raises(CatalogNotFoundError, match="expected a backup"):
        restore(tmp_path / "none.db", tmp_path / "new.db")
    (tmp_path / "text.db").write_text("text" * 2000)
    for place in (tmp_path, tmp_path / "new" / "deeper"):
        with pytest.raises(CatalogError, match=r"expected a backup of a catalog at .*text\.db, found another file$"):
            restore(tmp_path / "text.db", place / "new.db")
    cut = bytearray(file.read_bytes())
    (tmp_path / "cut.db").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(CatalogError):
        restore(tmp_path / "cut.db", tmp_path / "new.db")
    for page in range(4, len(cut) // 4096, 3):
        cut[page * 4096 : page * 4096 + 200] = bytes(200)
    (tmp_path / "holes.db").write_bytes(cut)
    with pytest.raises(CatalogError):
        restore(tmp_path / "holes.db", tmp_path / "new.db")
    with sqlite3.connect(file) as raw:
        raw.execute("INSERT INTO migration VALUES (99, 'of tomorrow', 'then')")
    raw.close()
    with pytest.raises(CatalogVersionError, match="version 99"):
        restore(file, path, force=True)
    assert strangers(tmp_path, "catalog.db", "backup.db", "text.db", "cut.db", "holes.db") == []
    with Catalog.open(path) as catalog:
        assert catalog.query.count() == 20


def test_a_backup_into_no_folder_says_so(location: Path | str, server: Server, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", f"{server.process.bin_path}:{os.environ['PATH']}")
    with (
        Catalog.open(location, create=True) as catalog,
        pytest.raises(CatalogWriteError, match=r"cannot write .*backup: .*none is not a folder$"),
    ):
        catalog.maintenance.back_up(tmp_path / "none" / "backup")


def test_a_writer_that_does_not_end_is_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("catalog.database.engine.BUSY_SECONDS", 0.2)
    path, file = tmp_path / "catalog.db", tmp_path / "backup.db"
    make(path)
    back_up(path, file)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(CatalogBusyError):
        restore(file, path, force=True)
    raw.execute("ROLLBACK")
    raw.close()
    restore(file, path, force=True)


@pytest.fixture
def served(server: Server, monkeypatch) -> Iterator[str]:
    """Return the URL of a catalog with some content; the server's tools are on the path."""
    monkeypatch.setenv("PATH", f"{server.process.bin_path}:{os.environ['PATH']}")
    with server.catalog() as url:
        make(url)
        yield url


def said(url: str) -> tuple[int, int]:
    with Catalog.open(url) as catalog:
        return catalog.query.count(), catalog.query.count(
            'tag:good OR review:accepted OR "the cube" OR collection:some'
        )


def test_a_catalog_on_a_server_is_backed_up_and_restored(served: str, server: Server, tmp_path: Path) -> None:
    file = tmp_path / "backup.dump"
    with Catalog.open(served) as catalog:
        copy_id = catalog.index_copies.open("somewhere", catalog.vectors.spaces()[0].id).id
        generation = catalog.index_copies.open("somewhere", catalog.vectors.spaces()[0].id).generation
        assert catalog.maintenance.back_up(file) == file.stat().st_size
        catalog.episodes.remove(catalog.query.ids()[1:])
        assert catalog.maintenance.back_up(tmp_path / "later.dump") > 0
        with pytest.raises(CatalogExistsError, match="--force"):
            restore_dump(file, served)
        assert catalog.query.count() == 1
        restore_dump(file, served, force=True)
        assert catalog.query.count() == 20  # a program that has it open goes on with the restored one
        again = catalog.index_copies.open("somewhere", catalog.vectors.spaces()[0].id)
        assert (again.id, again.generation != generation) == (copy_id, True)
        catalog.maintenance.back_up(file)  # an earlier backup of the same archive
    assert said(served) == (20, 3)
    elsewhere = server.empty()
    restore_dump(file, elsewhere)
    assert said(elsewhere) == (20, 3)
    assert strangers(tmp_path, "backup.dump", "later.dump") == []


def test_invalid_backup_of_a_server_is_refused_and_nothing_replaced(
    served: str, server: Server, tmp_path: Path, monkeypatch
) -> None:
    own, newer = tmp_path / "own", tmp_path / "newer.dump"
    own.write_bytes(b"own")
    other = server.empty()
    Catalog.open(other, create=True).close()
    with Catalog.open(served) as catalog, Catalog.open(other) as strange:
        strange.maintenance.back_up(newer)
        for taken in (own, newer):
            with pytest.raises(CatalogExistsError):
                catalog.maintenance.back_up(taken)
        with strange._session.write() as connection:
            connection.exec_driver_sql("INSERT INTO migration VALUES (99, 'from the future', 'now')")
        strange.maintenance.back_up(newer)
    assert own.read_bytes() == b"own"
    with pytest.raises(CatalogVersionError, match=r"found version 99.*update"):
        restore_dump(newer, served, force=True)
    with pytest.raises(CatalogNotFoundError):
        restore_dump(tmp_path / "none", served, force=True)
    with pytest.raises(CatalogError, match="found another file"):
        restore_dump(own, served, force=True)
    own.write_bytes(newer.read_bytes()[:2000])
    with pytest.raises(CatalogError, match="pg_restore failed"):
        restore_dump(own, served, force=True)
    with pytest.raises(CatalogError, match="found one of a catalog on a server"):
        restore(newer, tmp_path / "catalog.db")
    monkeypatch.setenv("PATH", str(tmp_path))
    with Catalog.open(served) as catalog, pytest.raises(CatalogError, match="postgresql-client"):
        catalog.maintenance.back_up(tmp_path / "other.dump")
    assert said(served) == (20, 3)


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[4:]
from catalog.maintenance.backup import back_up, restore
from catalog.maintenance.postgres_dump import restore_dump
what, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
print("go", flush=True)
if what == "back_up":
    back_up(source, target)
else:
    restore(source, target, force=True)
"""


def child(what: str, source: Path, target: Path, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, what, str(source), str(target), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a catalog of 24 MB, which takes some time to copy."""
    path = tmp_path_factory.mktemp("large") / "catalog.db"
    make(path)
    with Catalog.open(path) as catalog:
        rows = [EmbeddingRow(row.id, row.digest, 1, bytes(1_200_000)) for row in catalog.query.select().rows]
        catalog.vectors.write(1, rows)
    return path


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("what", ["back_up", "restore"])
def test_killed_at_any_moment_there_is_the_old_file_or_the_new_one(
    tmp_path: Path, large: Path, what: str, seed: int
) -> None:
    target = tmp_path / "target.db"
    if what == "restore":
        make(target, 3, env="before")
    process = child(what, large, target)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    time.sleep(Random(seed).random() * 0.12)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    if target.exists():
        with Catalog.open(target) as catalog:
            assert catalog.maintenance.check(full=True) == []
            assert catalog.query.count() == (20 if catalog.query.count("env:env") else 3)
    else:
        assert what == "back_up"
    assert all(name.startswith(".target.db.") for name in strangers(tmp_path, "target.db") if "-" not in name)


@pytest.mark.long
@pytest.mark.parametrize("what", ["back_up", "restore"])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, large: Path, what: str) -> None:
    target = tmp_path / "target.db"
    make(target, 3, env="before")
    before = content(target)
    place = tmp_path / "new.db" if what == "back_up" else target

    def small() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))

    process = child(what, large, place, preexec_fn=small)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "CatalogWriteError" in errors
    assert strangers(tmp_path, "target.db") == []
    assert content(target) == before


def test_the_next_backup_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    path, target = tmp_path / "catalog.db", tmp_path / "b.db"
    make(path)
    drafts = [tmp_path / f".b.db.0000000{number}.tmp{suffix}" for number, suffix in enumerate(("", "", "-journal"))]
    own = [tmp_path / name for name in (".b.db.00000009.tmp", ".b.db.1.tmp", ".c.db.00000001.tmp", "b.db.00000001.tmp")]
    drafts[0].write_bytes(path.read_bytes())
    drafts[1].write_bytes(b"PGDMP and more")
    drafts[2].write_bytes(b"a journal")
    fresh = tmp_path / ".b.db.0000000a.tmp"
    fresh.write_bytes(path.read_bytes())
    for other in own:
        other.write_bytes(b"a file of others")
    for old in (*drafts, *own):
        os.utime(old, (time.time() - 3700, time.time() - 3700))
    back_up(path, target)
    assert strangers(tmp_path, path.name, target.name) == sorted(other.name for other in (*own, fresh))
