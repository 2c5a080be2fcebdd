"""Opening: what is found at the place, old and new versions, damage, and places that cannot be written."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import Connection, text

from catalog import Catalog, EmbeddingRow
from catalog.database import engine, sqlite
from catalog.database.migrations import STEPS, Migration, prepare
from catalog.database.sqlite import open_file
from catalog.maintenance.backup import restore
from catalog.testing.contract import make_record
from wshard.errors import (
    CatalogBusyError,
    CatalogError,
    CatalogNotFoundError,
    CatalogVersionError,
    CatalogWriteError,
    MissingExtraError,
)

if TYPE_CHECKING:
    from catalog.database.engine import Database

LAST = STEPS[-1].version


def make(path: Path, *, episodes: int = 3) -> list[int]:
    with Catalog.open(path, create=True) as catalog:
        return [done.id for done in catalog.episodes.register([make_record(number) for number in range(episodes)])]


@pytest.mark.parametrize("form", ["path", "text", "url"])
def test_every_way_to_name_a_file_opens_the_same(tmp_path: Path, form: str) -> None:
    path = tmp_path / "odd name %20 # ? é" / "catalog.db"
    location = {"path": path, "text": str(path), "url": f"sqlite:///{path}"}[form]
    if form == "url":
        path = tmp_path / "plain" / "catalog.db"
        location = f"sqlite:///{path}"
    with Catalog.open(location, create=True) as catalog:
        archive_id = catalog.archive_id
    assert [entry.name for entry in path.parent.iterdir()] == ["catalog.db"]
    with Catalog.open(path) as again, Catalog.open(path, create=True) as third:
        assert again.archive_id == third.archive_id == archive_id


def test_two_archives_differ(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "a", create=True) as one, Catalog.open(tmp_path / "b", create=True) as two:
        assert one.archive_id != two.archive_id


def test_a_missing_catalog_is_not_made_by_looking(tmp_path: Path) -> None:
    for place in (tmp_path / "catalog.db", tmp_path / "no folder" / "catalog.db", tmp_path):
        with pytest.raises(CatalogNotFoundError, match="expected a catalog at"):
            Catalog.open(place)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_an_archive_is_no_catalog_but_its_file_is(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        assert repr(catalog) == f"<Catalog at {str(tmp_path / 'catalog.db')!r}>"
    with pytest.raises(CatalogNotFoundError, match=r"found a folder: the catalog of an archive is its catalog\.db"):
        Catalog.open(tmp_path)
    with pytest.raises(CatalogError, match=r"opened by Catalog\.open\(PATH\): expected a session, found 'archive'"):
        Catalog("archive")


@pytest.mark.parametrize("location", ["sqlite://", "sqlite:///:memory:", "nonsense://x", "://", "oracle+nothing://h/d"])
def test_a_url_that_cannot_be_a_catalog_is_refused(location: str) -> None:
    with pytest.raises(CatalogError, match="expected"):
        Catalog.open(location, create=True)


def test_a_server_without_its_driver_says_what_is_missing_and_keeps_the_password() -> None:
    with pytest.raises(MissingExtraError, match="needs a driver that is not installed") as caught:
        Catalog.open("postgresql+pg8000://user:secret@host/archive")
    assert "secret" not in str(caught.value)


def test_an_empty_file_becomes_a_catalog_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.touch()
    with pytest.raises(CatalogNotFoundError, match="empty database: `wshard restore`"):
        Catalog.open(path)
    with Catalog.open(path, create=True) as catalog:
        assert catalog.query.count() == 0


@pytest.mark.parametrize("create", [False, True])
def test_a_file_that_is_not_a_catalog_is_left_alone(tmp_path: Path, *, create: bool) -> None:
    noise, foreign = tmp_path / "noise.db", tmp_path / "foreign.db"
    noise.write_bytes(b"no database at all " * 1000)
    raw = sqlite3.connect(foreign)
    raw.execute("CREATE TABLE other (x)")
    raw.close()
    with pytest.raises(CatalogError, match="damaged or no database"):
        Catalog.open(noise, create=create)
    with pytest.raises(CatalogError, match=r"other tables: \['other'\]"):
        Catalog.open(foreign, create=create)
    assert noise.read_bytes() == b"no database at all " * 1000


def test_a_damaged_catalog_says_so(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make(path, episodes=500)
    data = bytearray(path.read_bytes())
    for page in range(3, len(data) // 4096):
        data[page * 4096 : page * 4096 + 512] = b"\xa5" * 512
    path.write_bytes(data)
    with pytest.raises(CatalogError, match="damaged"), Catalog.open(path) as catalog:
        catalog.query.select(order="env_id")


def test_a_newer_catalog_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make(path)
    raw = sqlite3.connect(path)
    raw.execute("INSERT INTO migration VALUES (99, 'from the future', 'now')")
    raw.commit()
    raw.close()
    with pytest.raises(CatalogVersionError, match=r"found version 99.*update the software"):
        Catalog.open(path)


def _add_colour(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE episode ADD COLUMN colour TEXT"))


def _fail_halfway(connection: Connection) -> None:
    connection.execute(text("CREATE TABLE halfway (x INTEGER)"))
    connection.execute(text("INSERT INTO nowhere VALUES (1)"))


def _tables(path: Path) -> tuple[set[str], int]:
    raw = sqlite3.connect(path)
    names = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    (version,) = raw.execute("SELECT max(version) FROM migration").fetchone()
    raw.close()
    return names, version


def _prepare(path: Path, *steps: Migration, create: bool = False) -> None:
    database = open_file(path)
    try:
        prepare(database, create=create, steps=(*STEPS, *steps))
    finally:
        database.close()


def test_an_older_catalog_is_upgraded_once(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make(path)
    colour, nothing = Migration(LAST + 1, "colour", _add_colour), Migration(LAST + 2, "nothing", lambda _: None)
    for steps in ((colour,), (colour,), (colour, nothing)):
        _prepare(path, *steps)
    assert _tables(path)[1] == LAST + 2
    raw = sqlite3.connect(path)
    assert raw.execute("SELECT count(*), max(colour) FROM episode").fetchone() == (3, None)
    assert [row[0] for row in raw.execute("SELECT name FROM migration ORDER BY version")] == [
        *(step.name for step in STEPS),
        "colour",
        "nothing",
    ]
    raw.close()


def know_colour(monkeypatch: pytest.MonkeyPatch) -> Migration:
    """Return a step that the software knows from now on."""
    step = Migration(LAST + 1, "colour", _add_colour)
    monkeypatch.setitem(prepare.__kwdefaults__, "steps", (*STEPS, step))
    return step


def test_an_upgrade_keeps_a_copy_of_the_catalog_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, saved = tmp_path / "catalog.db", tmp_path / f"catalog.db.version-{LAST}"
    make(path)
    colour = know_colour(monkeypatch)
    barrier = threading.Barrier(3)
    counts: list[int] = []

    def open_and_change(number: int) -> None:
        barrier.wait()
        with Catalog.open(path) as catalog:  # the others wait until the first has upgraded it
            catalog.episodes.register([make_record(number)])
            counts.append(catalog.query.count())

    threads = [threading.Thread(target=open_and_change, args=(number,)) for number in (7, 8, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(counts) == 6
    assert {child.name for child in tmp_path.iterdir()} == {path.name, saved.name}
    assert (_tables(path)[1], _tables(saved)[1]) == (colour.version, LAST)
    restore(saved, tmp_path / "again.db")  # which upgrades it
    with Catalog.open(tmp_path / "again.db") as catalog:
        assert catalog.query.count() == 3
    assert _tables(tmp_path / "again.db")[1] == colour.version


def test_an_upgrade_without_room_for_the_copy_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "catalog.db"
    make(path)
    colour = know_colour(monkeypatch)
    (tmp_path / f"{path.name}.version-{LAST}").write_text("own")
    before = _tables(path)
    with pytest.raises(CatalogError, match=f"version-{LAST} to be free"):
        Catalog.open(path)
    assert _tables(path) == before
    assert before[1] < colour.version


def test_an_older_catalog_that_is_read_only_says_that_it_wants_an_upgrade() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make(folder / "catalog.db")
        (folder / "catalog.db").chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-c", OLDER, place, *sys.path]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
        folder.chmod(0o755)
        assert _tables(folder / "catalog.db")[1] == LAST
    assert found.returncode == 0, found.stderr
    assert f"expected a catalog of version {LAST + 1} " in found.stdout
    assert f"found version {LAST}: open it once where it can be written, which upgrades it" in found.stdout
    assert "it is read-only here" in found.stdout


def test_a_failing_upgrade_leaves_the_catalog_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    make(path)
    before = _tables(path)
    with pytest.raises(CatalogError, match="nowhere"):
        _prepare(path, Migration(LAST + 1, "colour", _add_colour), Migration(LAST + 2, "halfway", _fail_halfway))
    assert _tables(path) == before
    with Catalog.open(path) as catalog:
        assert catalog.query.count() == 3


def test_a_new_catalog_needs_no_later_step(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    path.touch()
    _prepare(path, Migration(LAST + 1, "halfway", _fail_halfway), create=True)
    assert _tables(path)[1] == LAST + 1


def test_nothing_is_written_to_a_catalog_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path, create=True) as catalog:
        catalog.episodes.register([make_record(1)])
        path.rename(tmp_path / "aside.db")
        with pytest.raises(CatalogNotFoundError, match="removed while it was open"):
            catalog.episodes.register([make_record(2)])
        (tmp_path / "aside.db").rename(path)
        catalog.episodes.register([make_record(2)])
        assert catalog.query.count() == 2


def test_a_catalog_that_was_made_anew_is_not_taken_for_the_open_one(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    with Catalog.open(path, create=True) as catalog:
        catalog.episodes.register([make_record(1)])
        for file in [*tmp_path.iterdir()]:
            file.unlink()
        assert catalog.query.count() == 1
        with Catalog.open(path, create=True) as other:
            for use in (lambda: catalog.episodes.register([make_record(2)]), catalog.query.count):
                with pytest.raises(CatalogNotFoundError, match="another catalog has replaced"):
                    use()
            assert other.query.count() == 0


def test_a_creation_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(_: Database) -> None:
        raise CatalogError("on purpose")

    with pytest.raises(CatalogError, match="on purpose"):
        sqlite.create_file(tmp_path / "catalog.db", fail)
    (tmp_path / "file").touch()
    with pytest.raises(CatalogWriteError, match="cannot make a catalog"):
        Catalog.open(tmp_path / "file" / "catalog.db", create=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_threads_that_create_at_once_get_one_archive(tmp_path: Path) -> None:
    found: list[str] = []
    barrier = threading.Barrier(4)

    def create() -> None:
        barrier.wait()
        with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
            found.append(catalog.archive_id)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["catalog.db"]


READ_ONLY = """
import os, sys, tempfile
sys.path[:0] = sys.argv[2:]
from catalog import Catalog
from catalog.testing.contract import make_record
from wshard.errors import CatalogWriteError
folder = sys.argv[1]
with tempfile.TemporaryDirectory() as warm, Catalog.open(f"{warm}/catalog.db", create=True) as catalog:
    catalog.episodes.register([make_record(1)])  # modules that load late load now, while they may be read
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with Catalog.open(f"{folder}/catalog.db") as catalog:
    assert catalog.query.count() == 3 and len(catalog.query.select().rows) == 3
    try:
        catalog.episodes.register([make_record(9)])
    except CatalogWriteError as error:
        print("refused:", error)
try:
    Catalog.open(f"{folder}/new/catalog.db", create=True)
except CatalogWriteError as error:
    print("refused:", error)
print(sorted(os.listdir(folder)))
"""
OLDER = """
import os, sys, tempfile
sys.path[:0] = sys.argv[2:]
import catalog.maintenance.backup
from catalog import Catalog
from catalog.database.migrations import STEPS, Migration, prepare
from catalog.testing.contract import make_record
from wshard.errors import CatalogWriteError
with tempfile.TemporaryDirectory() as warm, Catalog.open(f"{warm}/catalog.db", create=True) as catalog:
    catalog.episodes.register([make_record(1)])  # modules that load late load now, while they may be read
prepare.__kwdefaults__["steps"] = (*STEPS, Migration(STEPS[-1].version + 1, "nothing", lambda _: None))
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    Catalog.open(f"{sys.argv[1]}/catalog.db")
except CatalogWriteError as error:
    print("refused:", error)
"""
LOCKED = """
import os, sys, tempfile
sys.path[:0] = sys.argv[2:]
from catalog import Catalog
from catalog.maintenance.backup import back_up, restore
from catalog.location import place_of
from catalog.open import open_place
from catalog.testing.contract import make_record
from wshard.errors import CatalogWriteError
from pathlib import Path
with tempfile.TemporaryDirectory() as warm, Catalog.open(f"{warm}/catalog.db", create=True) as catalog:
    catalog.episodes.register([make_record(1)])  # modules that load late load now, while they may be read
    catalog.maintenance.back_up(Path(warm, "backup"))
locked, own = Path(sys.argv[1], "locked"), Path(sys.argv[1], "own.db")
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for ask in (
    lambda: open_place(place_of(locked / "archive")),
    lambda: open_place(place_of(locked / "archive"), create=True),
    lambda: Catalog.open(locked / "archive" / "catalog.db"),
    lambda: back_up(own, locked / "backup"),
    lambda: restore(locked / "backup", own, force=True),
    lambda: restore(own, locked / "archive" / "catalog.db"),
    lambda: restore(Path(sys.argv[1], "unreadable"), own, force=True),
):
    try:
        ask()
    except CatalogWriteError as error:
        print(error)
"""


@pytest.mark.parametrize("written", ["closed", "still open"])
def test_a_catalog_in_a_read_only_folder_can_be_read(written: str) -> None:
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        make(folder / "catalog.db", episodes=2 if written == "still open" else 3)
        if written == "still open":
            stack.enter_context(Catalog.open(folder / "catalog.db")).episodes.register([make_record(2)])
        (folder / "catalog.db").chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-c", READ_ONLY, place, *sys.path]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
        folder.chmod(0o755)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert "it is read-only here" in lines[0]
    assert "cannot make a catalog" in lines[1]
    assert ("catalog.db-wal" in lines[2]) == (written == "still open")


def test_what_this_account_may_not_see_is_reported_as_such() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, locked = Path(place), Path(place, "locked")
        for path in (folder / "own.db", locked / "archive" / "catalog.db", folder / "unreadable"):
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)
        folder.chmod(0o755)
        (folder / "own.db").chmod(0o644)
        (folder / "unreadable").chmod(0o000)
        locked.chmod(0o000)
        command = [sys.executable, "-c", LOCKED, place, *sys.path]
        found = subprocess.run(command, check=False, capture_output=True, text=True)
        locked.chmod(0o755)
    lines = found.stdout.splitlines()
    assert len(lines) == 7, found.stderr
    assert all("Permission denied" in line and place in line for line in lines)


def test_a_full_disk_is_a_clean_error_and_the_catalog_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"
    ids = make(path)
    with Catalog.open(path) as catalog:
        space = catalog.vectors.add_space("f", "family", "{}")
        rows = [EmbeddingRow(ids[0], make_record(0).digest, 1, bytes(1 << 20))]
        with catalog._session.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA max_page_count=1").scalar_one()
        with pytest.raises(CatalogWriteError, match="the disk is full"):
            catalog.vectors.write(space.id, rows)
        assert catalog.vectors.state(space.id) == (0, 0, 0, 0)
        with catalog._session.read() as connection:
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 10_000}")
        assert len(catalog.vectors.write(space.id, rows)) == 1


def test_a_long_lock_is_reported(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(engine, "BUSY_SECONDS", 0.2)
    path = tmp_path / "catalog.db"
    make(path)
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with Catalog.open(path) as catalog:
        assert catalog.query.count() == 3
        begin = time.monotonic()
        with pytest.raises(CatalogBusyError, match="another process held its write lock"):
            catalog.episodes.register([make_record(9)])
        assert time.monotonic() - begin >= 0.15
        raw.execute("COMMIT")
        raw.close()
        assert catalog.episodes.register([make_record(9)])[0].outcome == "new"


def test_a_closed_catalog_says_so(tmp_path: Path) -> None:
    make(tmp_path / "catalog.db")
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        pass
    with pytest.raises(CatalogError, match="expected an open catalog"):
        catalog.query.count()


def test_vectors_are_on_disk_when_writing_returns(tmp_path: Path) -> None:
    ids = make(tmp_path / "catalog.db")
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        modes = {}
        for durable in (False, True, False):
            with catalog._session.write(durable=durable) as connection:
                modes[durable] = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
        assert modes == {False: 1, True: 2}
        with catalog._session.read() as connection:
            assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar_one() == 1
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert catalog.query.count() == len(ids)
