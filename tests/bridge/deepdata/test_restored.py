"""What is believed of a server after the catalog was restored, or an older one copied back; damaged vectors."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest
from deepdata_bench import Bench, Deaf, filled
from deepdata_fake import Fake
from deepdata_replay import serving

from bridge.testing.brute_force import unit_vectors
from bridge.testing.index_contract import check, top
from catalog.maintenance.backup import back_up, restore
from wshard import Catalog
from wshard.errors import IndexDamagedError, VectorsDamagedError

__all__ = ["filled"]


def test_an_open_index_believes_nothing_of_before_a_restore(filled):
    saved, space = filled.folder / "backup.db", filled.space
    back_up(filled.folder / "catalog.db", saved)
    before, clock = dict(filled.shelf.stored[space.fingerprint]), filled.catalog.clock()
    for changed in (5, 6):
        filled.shelf.index = Deaf()
        filled.shelf.put(space, {filled.ids[0]: unit_vectors(1, changed)})
        filled.shelf.index = filled.opened[0]
        filled.check()
        assert filled.catalog.clock() == clock + 1
        restore(saved, filled.folder / "catalog.db", force=True)
        filled.shelf.stored[space.fingerprint] = dict(before)
    filled.catalog.episodes.withdraw(filled.ids[1:2])  # the clock is what it was
    del filled.shelf.stored[space.fingerprint][filled.ids[1]]
    for seed in range(6):
        check(filled.shelf, space, unit_vectors(1, seed)[0], top(10_000))


def test_a_restored_catalog_is_refused_until_a_rebuild(filled):
    saved, path = filled.folder / "backup.db", filled.folder / "catalog.db"
    back_up(path, saved)
    restore(saved, path, force=True)
    with Catalog.open(path) as catalog:
        restored = Bench(filled.folder, filled.fake, filled.url, catalog)
        restored.ids, restored.shelf.stored = filled.ids, filled.shelf.stored
        try:
            again = {filled.ids[0]: filled.shelf.stored[filled.space.fingerprint][filled.ids[0]]}
            for ask in (restored.check, lambda: restored.shelf.put(restored.space, again)):
                with pytest.raises(IndexDamagedError, match="`wshard index rebuild` replaces an older copy"):
                    ask()
            assert len(restored.collection.documents) == 40
            restored.again(always_ask=False)  # so few could be compared here, but a stranger's copy is an error
            with pytest.raises(IndexDamagedError, match="`wshard index rebuild` replaces an older copy"):
                restored.check()
            restored.again().rebuild(restored.space)
            restored.healed()
        finally:
            for index in restored.opened:
                index.close()


def test_an_older_catalog_that_was_copied_back_notices_what_the_server_removed_since(tmp_path, monkeypatch):
    monkeypatch.setattr("bridge.index.deepdata.audit._SAMPLE_SIZE", 0)  # or chance may find it
    path = tmp_path / "catalog.db"
    fake = Fake(tmp_path)
    with serving(fake.respond) as server:
        with Catalog.open(path, create=True) as catalog:
            first = Bench(tmp_path, fake, server.url, catalog)
            ids = first.fill(40)
            stored_vectors = dict(first.shelf.stored[first.space.fingerprint])
        shutil.copy(path, tmp_path / "backup.db")
        with Catalog.open(path) as catalog:
            second = Bench(tmp_path, fake, server.url, catalog)
            second.ids = ids
            second.shelf.bury(ids[:2], second.space)
            second.fill(2)
        shutil.copy(tmp_path / "backup.db", path)
        with Catalog.open(path) as catalog:
            third = Bench(tmp_path, fake, server.url, catalog)
            third.shelf.stored[third.space.fingerprint] = stored_vectors
            assert len(third.collection.documents) == 40
            assert len(third.shelf.index.audit(third.space).missing) == 2
            third.check()
            for index in (*first.opened, *second.opened, *third.opened):
                index.close()


def test_a_flipped_bit_of_a_vector_is_reported_when_the_server_names_it(filled):
    filled.check()
    with closing(sqlite3.connect(filled.folder / "catalog.db")) as raw, raw:
        (vectors,) = raw.execute("SELECT vectors FROM embedding WHERE episode_row = ?", (filled.ids[0],)).fetchone()
        raw.execute(
            "UPDATE embedding SET vectors = ? WHERE episode_row = ?",
            (bytes([vectors[0] ^ 1]) + vectors[1:], filled.ids[0]),
        )
    query = filled.shelf.stored[filled.space.fingerprint][filled.ids[0]][0]
    with pytest.raises(VectorsDamagedError, match=f"of episode {filled.ids[0]} "):
        filled.shelf.index.search(filled.space, query, top(3))
