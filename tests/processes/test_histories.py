"""Random histories of two archives that share an index folder: whatever happened, every search equals brute force.

They ingest, change, delete, back up, restore, get older catalogs copied back by hand, are killed while copies are
written, rebuild, and never touch what others keep in the folder.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from multiprocessing import get_context
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from index_folders import home_of

from bridge.index.embedded.index import EmbeddedIndex
from bridge.maintenance import restore_archive
from bridge.testing.brute_force import DIM, Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog.maintenance.backup import back_up, restore
from wshard import Catalog
from wshard.errors import EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HISTORIES = int(os.environ.get("WSHARD_HISTORIES", "2"))
STEPS = 14
SPACE = make_space()
KILLED = get_context("forkserver")
KILLED.set_forkserver_preload(["bridge.index.embedded.index", "bridge.testing.brute_force", "catalog.catalog"])


@contextmanager
def index_of(archive: Path, random: Random) -> Iterator[Shelf]:
    """Open an archive, and an index that writes copies early or late, with lists or without."""
    rows = {"tail_rows": random.choice([0, 1000, 1000]), "lists_rows": random.choice([1, 50_000])}
    with (
        Catalog.open(archive / "catalog.db", create=True) as catalog,
        EmbeddedIndex(catalog, archive / "index", direct_rows=0, **rows) as index,
    ):
        yield Shelf(catalog, index)


def rebuild(archive: Path) -> None:
    """Make the copy anew, in a process that will be killed, or ends where whoever kills it cannot any more."""
    until = time.monotonic() + 20
    with Catalog.open(archive / "catalog.db") as catalog, EmbeddedIndex(catalog, archive / "index", tail_rows=0) as one:
        while time.monotonic() < until:
            one.rebuild(SPACE)


def true_vectors(archive: Path) -> dict[int, np.ndarray]:
    """Return what the ledger holds, by episode, as SQLite says."""
    with closing(sqlite3.connect(archive / "catalog.db")) as raw:
        rows = raw.execute("SELECT episode_row, vectors FROM embedding WHERE count > 0").fetchall()
    return {episode: np.frombuffer(data, np.float32).reshape(-1, DIM) for episode, data in rows}


class History:
    """Two archives and what happens to them; `name` is the one that the present step is about."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder, self.made = Random(seed), folder, 1000 * seed
        # In half of the histories numbers of vectors never tell one state from another.
        self.sizes = self.random.choice([[2], [1, 2, 3]])
        self.saved: dict[str, list[Path]] = {"one": [], "two": []}
        shared = folder / "shared"
        self.theirs = [shared / "mydata" / "x", shared / ("ab" * 32) / "x", shared / "notes.txt"]
        for path in self.theirs:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("of somebody else")
        for name in self.saved:
            (folder / name).mkdir()
            (folder / name / "index").symlink_to(shared)
            self.name = name
            self.ingest()
            self.back_up()

    @property
    def archive(self) -> Path:
        return self.folder / self.name

    def ingest(self) -> None:
        with index_of(self.archive, self.random) as shelf:
            ids = shelf.register(15)
            some = {id_ for id_ in ids if self.random.random() < 0.4}
            if len(self.sizes) == 1:
                some |= set(ids) - true_vectors(self.archive).keys()
            shelf.put(SPACE, {id_: self.vectors() for id_ in sorted(some)})

    def vectors(self) -> np.ndarray:
        """Return some vectors, mostly such as never were there before."""
        self.made += self.random.choice([0, 1, 1, 1])
        return unit_vectors(self.random.choice(self.sizes), self.made)

    def change(self) -> None:
        with index_of(self.archive, self.random) as shelf:
            ids = shelf.register(15, change=lambda record: replace(record, digest=f"{record.digest}-{self.made}"))
            shelf.put(SPACE, {id_: self.vectors() for id_ in ids})

    def delete(self) -> None:
        with index_of(self.archive, self.random) as shelf:
            some = [id_ for id_ in shelf.catalog.query.ids() if self.random.random() < 0.3]
            self.random.choice([shelf.catalog.episodes.remove, shelf.catalog.episodes.withdraw])(some)

    def retire(self) -> None:
        """Drop all vectors without tombstones, and write some again."""
        with Catalog.open(self.archive / "catalog.db") as catalog:
            for row in catalog.vectors.spaces():
                catalog.vectors.retire(row.id)
        self.ingest()

    def back_up(self) -> None:
        saved = self.folder / f"{self.name}-{len(self.saved[self.name])}.db"
        back_up(self.archive / "catalog.db", saved)
        self.saved[self.name].append(saved)

    def restore(self) -> None:
        restore_archive(self.random.choice(self.saved[self.name]), self.archive, force=True)

    def restore_and_be_killed(self) -> None:
        """Restore, and be killed before the copies are removed."""
        restore(self.random.choice(self.saved[self.name]), self.archive / "catalog.db", force=True)

    def copy_back(self) -> None:
        """Put an older catalog in the place of this one by hand."""
        for suffix in ("-wal", "-shm"):
            (self.archive / f"catalog.db{suffix}").unlink(missing_ok=True)
        shutil.copy(self.random.choice(self.saved[self.name]), self.archive / "catalog.db")

    def go_back_and_on(self) -> None:
        """Copy an older catalog back, or be killed while one is restored, and ingest until the clock may be as late."""
        self.random.choice([self.copy_back, self.restore_and_be_killed])()
        for _ in range(self.random.randrange(1, 4)):
            self.ingest()

    def write_and_be_killed(self) -> None:
        process = KILLED.Process(target=rebuild, args=(self.archive,))
        process.start()
        process.join(self.random.uniform(0.01, 0.1))
        process.kill()
        process.join()

    def rebuild(self) -> None:
        with index_of(self.archive, self.random) as shelf, suppress(EntryNotFoundError):
            shelf.index.rebuild(SPACE)

    def step(self) -> None:
        """Do something to one of the archives, and compare what both find."""
        self.name = self.random.choice(["one", "two"])
        other = home_of(self.folder / ("two" if self.name == "one" else "one"), SPACE)
        before = sorted(other.rglob("*"))
        what = self.random.choice([*DEEDS, History.back_up, History.ingest])
        watching = what not in (History.copy_back, History.go_back_and_on) and self.random.random() < 0.5
        if watching:  # by hand, a file can only be replaced while nobody has it open
            with index_of(self.archive, self.random) as shelf:
                self.compare(shelf)
                what(self)
                self.compare(shelf)
        else:
            what(self)
        assert sorted(other.rglob("*")) == before, "the copies of the other archive were touched"
        for name in self.saved:
            self.name = name
            with index_of(self.archive, self.random) as shelf:
                self.compare(shelf)
        assert all(path.read_text() == "of somebody else" for path in self.theirs)

    def compare(self, shelf: Shelf) -> None:
        shelf.stored[SPACE.fingerprint] = stored_vectors = true_vectors(self.archive)
        for seed in range(2):
            check(shelf, SPACE, unit_vectors(1, seed)[0], top(self.random.choice([3, 100]), distinct=False))
        if stored_vectors:
            check(shelf, SPACE, next(iter(stored_vectors.values()))[0], top(5))


DEEDS = [
    *(History.ingest, History.change, History.delete, History.retire, History.rebuild, History.write_and_be_killed),
    *(History.restore, History.restore_and_be_killed, History.copy_back, *[History.go_back_and_on] * 4),
]


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_whatever_happened_every_search_equals_brute_force(tmp_path, seed):
    history = History(tmp_path, seed)
    for _ in range(STEPS):
        history.step()
