"""The embedded index: its copies on disk, other processes beside it, and everything that may go wrong with a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from index_folders import home_of

from bridge import Point, Request
from bridge.index.derived_numbers import LEDGER_FILE
from bridge.index.embedded import disk_copy
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.embedded.snapshot import CopyRule
from bridge.index.registry import open_index
from bridge.testing.brute_force import DIM, Shelf, make_space, unit_vectors
from bridge.testing.index_contract import check, top
from catalog import EVERYTHING, Among, build_where
from embedders import Statistics
from wshard import Catalog
from wshard.errors import SpaceMismatchError, UnknownIndexError, VectorIndexError

PRELUDE = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from bridge.index.base import Request
from bridge.index.embedded.index import EmbeddedIndex
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING
from wshard.errors import VectorIndexError
folder = Path(sys.argv[1])
catalog = Catalog.open(folder / "catalog.db")
space = make_space()
"""


@contextmanager
def opened(folder, tail_rows=20_000, stored=None):
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        index = EmbeddedIndex(catalog, folder / "index", tail_rows=tail_rows)
        yield Shelf(catalog, index, stored=stored if stored is not None else {})


def start(code, folder):
    command = [sys.executable, "-c", PRELUDE + code, str(folder), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_everything(shelf, space, seeds=range(2)):
    for seed in seeds:
        query = unit_vectors(1, seed)[0]
        check(shelf, space, query, top(1000, distinct=False))
        check(shelf, space, query, top(5, build_where(env_id=["env-1", "env-3"])))
    assert shelf.index.count(space) == sum(map(len, shelf.stored.get(space.fingerprint, {}).values()))


def generation_of(folder, space):
    home = home_of(folder, space)
    return home / (home / "CURRENT").read_text()


def fill_and_compact(folder, episodes=30):
    """Make an archive with one generation and nothing after it; return what it holds."""
    with opened(folder, tail_rows=0) as shelf:
        ids, space = shelf.register(episodes), make_space()
        shelf.put(space, {id_: unit_vectors(1 + id_ % 3, id_) for id_ in ids})
        check_everything(shelf, space)
    return shelf.stored, space, ids


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_in_whatever_order_answers_equal_brute_force(tmp_path, seed):
    random, space, stored = Random(seed), make_space(), {}
    for _ in range(6):
        with opened(tmp_path, tail_rows=random.choice([0, 10, 1000]), stored=stored) as shelf:
            ids = shelf.register(40)
            for _ in range(random.randrange(5)):
                some = random.sample(ids, random.randrange(1, 15))
                if random.random() < 0.7:
                    shelf.put(space, {id_: unit_vectors(random.randrange(1, 5), random.randrange(99)) for id_ in some})
                elif stored:
                    shelf.bury(some, space)
            if stored:
                check_everything(shelf, space, range(2))


def test_a_large_tail_becomes_a_generation_and_the_older_one_goes(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    first = generation_of(tmp_path, space)
    with opened(tmp_path, tail_rows=3, stored=stored) as shelf:
        shelf.put(space, {ids[0]: unit_vectors(3, 1)})
        assert generation_of(tmp_path, space) == first
        shelf.put(space, {ids[1]: unit_vectors(3, 2)})
        assert generation_of(tmp_path, space) != first
        assert not first.exists()
        check_everything(shelf, space)


@pytest.mark.parametrize("gone", [1, 3])
def test_a_copy_lacks_what_is_deleted_while_it_is_written(tmp_path, monkeypatch, gone):
    space, write = make_space(), disk_copy.write_or_explain
    with opened(tmp_path, tail_rows=0) as shelf:
        ids = shelf.register(3)

        def delete_and_write(*arguments: object):
            shelf.bury(ids[:gone])
            write(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(disk_copy, "write_or_explain", delete_and_write)
            shelf.put(space, {id_: unit_vectors(2, id_) for id_ in ids})
        for id_ in ids[:gone]:
            del shelf.stored[space.fingerprint][id_]
        archive = shelf.catalog
        copy = disk_copy.read(home_of(tmp_path, space), archive.edition, space.fingerprint, archive.clock())
        assert (copy and copy.segment.episodes.tolist()) == (ids[gone:] or None)
        check_everything(shelf, space)
        shelf.put(space, {id_: unit_vectors(3, id_) for id_ in ids})
        check_everything(shelf, space)


def test_a_generation_is_read_instead_of_the_ledger(tmp_path):
    _, space, ids = fill_and_compact(tmp_path)
    with Catalog.open(tmp_path / "catalog.db") as catalog:
        home = home_of(tmp_path, space)
        found = disk_copy.read(home, catalog.edition, space.fingerprint, catalog.clock())
        header = found.header
        assert header.seq == catalog.vectors.state(1).last
        assert found.segment.episodes.tolist() == ids
        assert disk_copy.read(home, catalog.edition, space.fingerprint, header.seq - 1) is None
        assert disk_copy.read(home, "another archive", space.fingerprint, header.seq) is None
        assert disk_copy.read(home, catalog.edition, "another space", header.seq) is None


LESS_OFTEN = [pytest.param(name, marks=pytest.mark.long) for name in ("points.i64", "header.json")]


@pytest.mark.parametrize("name", ["vectors.f32", "CURRENT", *LESS_OFTEN])
def test_a_damaged_copy_is_ignored_and_made_again(tmp_path, name):
    stored, space, ids = fill_and_compact(tmp_path)
    whole = tmp_path / "whole"
    shutil.copytree(tmp_path / "index", whole)
    random = Random(name)
    damages = [
        lambda data: data[:0],
        lambda data: data[: random.randrange(len(data))],
        lambda data: data + b"\0" * 8,
        lambda data: bytes(len(data)),
        lambda data: random.randbytes(len(data)),
        *[lambda data: _flip(data, random.randrange(8 * len(data)))] * 2,
        None,
    ]
    for damage in damages:
        shutil.rmtree(tmp_path / "index")
        shutil.copytree(whole, tmp_path / "index")
        home = generation_of(tmp_path, space)
        path = home.parent / name if name == "CURRENT" else home / name
        data = path.read_bytes()
        path.unlink()
        if damage is not None:
            path.write_bytes(damage(data))
        with opened(tmp_path, stored=stored) as shelf:
            check_everything(shelf, space, [3])
        with opened(tmp_path, tail_rows=0, stored=stored) as shelf:
            shelf.put(space, {ids[0]: unit_vectors(2, 3)})
            check_everything(shelf, space, [3])
            shelf.put(space, {})
            assert_whole(shelf, tmp_path, space)


def _flip(data, bit):
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def assert_whole(shelf, folder, space):
    home = home_of(folder, space)
    found = disk_copy.read(home, shelf.catalog.edition, space.fingerprint, shelf.catalog.clock())
    found.segment.checksums.check()


def test_the_copy_of_another_archive_is_ignored(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    _, space, _ = fill_and_compact(tmp_path / "one", episodes=30)
    with opened(tmp_path / "two") as shelf:
        ids = shelf.register(30)
        shelf.put(space, {id_: unit_vectors(2, 50 + id_) for id_ in ids})
        shutil.copytree(tmp_path / "one" / "index", tmp_path / "two" / "index")
        with opened(tmp_path / "two", stored=shelf.stored) as again:
            check_everything(again, space)


def test_a_copy_from_after_the_catalog_was_set_back_is_ignored(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    shutil.copy(tmp_path / "catalog.db", tmp_path / "backup")
    with opened(tmp_path, tail_rows=0) as shelf:
        shelf.put(space, {id_: unit_vectors(1, 400 + id_) for id_ in ids})
    shutil.copy(tmp_path / "backup", tmp_path / "catalog.db")
    with opened(tmp_path, stored=stored) as shelf:
        check_everything(shelf, space)


def test_the_ledger_is_summed_once_after_each_change(tmp_path, monkeypatch):
    stored, space, ids = fill_and_compact(tmp_path)

    def count_sums(change=None):
        """Search in a process of its own, after a change."""
        with opened(tmp_path, stored=stored) as shelf:
            sums, state = [], shelf.catalog.vectors.state
            monkeypatch.setattr(shelf.catalog.vectors, "state", lambda space_id: sums.append(0) or state(space_id))
            if change is not None:
                change(shelf)
            check_everything(shelf, space)
            return len(sums)

    assert count_sums() == 0  # the process that made the copy has summed
    assert count_sums(lambda shelf: shelf.put(space, {ids[0]: unit_vectors(2, 5)})) == 1
    assert count_sums() == 0
    assert count_sums(lambda shelf: shelf.bury(ids[1:3], space)) == 1
    assert count_sums() == 0
    (generation_of(tmp_path, space) / LEDGER_FILE).write_text("nothing")
    assert count_sums() == 1
    assert count_sums() == 0


def test_rows_that_were_dropped_and_written_again_leave_nothing_after(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    other = replace(space, statistics=Statistics(1, np.zeros(DIM), np.ones(DIM)))
    with opened(tmp_path, tail_rows=0, stored=stored) as shelf, opened(tmp_path, stored=stored) as watching:
        among = Among(tuple(layout.id for layout in shelf.catalog.query.layouts()))
        assert shelf.catalog.vectors.activate(1, among)
        check_everything(watching, space)
        shelf.put(other, {id_: unit_vectors(1, id_) for id_ in ids})
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "index", copy)
        assert shelf.catalog.vectors.activate(2, among)
        # Without a tombstone in the first space, whose rows are gone at this moment.
        shelf.catalog.episodes.remove(ids[:4])
        stored[space.fingerprint] = {}
        shelf.put(space, {id_: unit_vectors(1, 200 + id_) for id_ in ids[4:20]})
        shutil.rmtree(tmp_path / "index")
        shutil.copytree(copy, tmp_path / "index")
        check_everything(watching, space)
        with opened(tmp_path, stored=stored) as again:
            check_everything(again, space)


def test_copies_of_replaced_spaces_are_swept(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    other = replace(space, statistics=Statistics(1, np.zeros(DIM), np.ones(DIM)))
    with opened(tmp_path, tail_rows=0, stored=stored) as shelf:
        among = Among(tuple(layout.id for layout in shelf.catalog.query.layouts()))
        assert shelf.catalog.vectors.activate(1, among)
        shelf.put(other, {id_: unit_vectors(1, id_) for id_ in ids})
        assert shelf.catalog.vectors.activate(2, among)
        with pytest.raises(SpaceMismatchError, match="expected a Space of this archive"):
            shelf.index.count(space)
        shelf.put(other, {ids[0]: unit_vectors(40, 1)})
        assert [*(tmp_path / "index").glob("*/*")] == [home_of(tmp_path, other)]
        check_everything(shelf, other)


def test_what_a_killed_builder_left_goes_once_it_is_old(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    home = home_of(tmp_path, space)
    for name in ("building-0123456789ab", "building-ba9876543210"):
        (home / name).mkdir()
        (home / name / "vectors.f32").write_bytes(b"half")
    os.utime(home / "building-0123456789ab", (1, 1))
    with opened(tmp_path, tail_rows=0, stored=stored) as shelf:
        shelf.put(space, {ids[0]: unit_vectors(20, 3)})
        check_everything(shelf, space)
    assert not (home / "building-0123456789ab").exists()
    assert (home / "building-ba9876543210").exists()  # somebody may be writing it right now


def test_points_that_the_ledger_does_not_know_are_refused(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    with opened(tmp_path, stored=stored) as shelf:
        with pytest.raises(VectorIndexError, match="the ledger has committed"):
            shelf.index.upsert(space, [Point(ids[0], shelf.catalog.clock() + 1, unit_vectors(1))])
        check_everything(shelf, space)


def test_thousands_of_equal_vectors_are_ranked_by_episode_and_window(tmp_path):
    with opened(tmp_path) as shelf:
        ids, space = shelf.register(3), make_space()
        shelf.put(space, {id_: np.repeat(unit_vectors(1), 5000, axis=0) for id_ in ids})
        answer = shelf.index.search(space, unit_vectors(1)[0], top(5001, distinct=False))
        found = [(match.episode, match.window) for match in answer.matches]
        assert found == [(ids[0], window) for window in range(5000)] + [(ids[1], 0)]
        assert answer.scored == 15_000


def test_large_vectors_are_copied_and_listed_sooner_and_an_ingest_waits():
    rule = CopyRule(20_000, 50_000)
    assert [rule.is_due(tail, 0, 8) for tail in (20_000, 20_001)] == [False, True]
    assert [rule.is_due(tail, 0, 2048) for tail in (128, 129)] == [False, True]
    assert [rule.is_due(tail, 0, 2048, ingesting=True) for tail in (1024, 1025)] == [False, True]
    assert [rule.is_due(tail, 60_000, 32, ingesting=True) for tail in (60_000, 60_001)] == [False, True]
    assert [rule.is_due(tail, 10**7, 32, ingesting=True) for tail in (500_000, 500_001)] == [False, True]
    assert [rule.has_lists(count, 512) for count in (4095, 4096)] == [False, True]
    assert [rule.has_lists(count, 512, ingesting=True) for count in (262_143, 262_144)] == [False, True]
    assert rule.is_due(1, 4095, 512)  # the lists
    assert [rule.is_due(1, count, 512, ingesting=True) for count in (4095, 262_143)] == [False, True]


def test_the_last_of_the_copies_that_wait_may_still_be_written(tmp_path, monkeypatch):
    first, last, may_end, write = make_space("first"), make_space("last"), threading.Event(), disk_copy.write_or_explain

    def write_slowly(folder, *arguments: object):
        assert folder != home_of(tmp_path, last) or may_end.wait(60)
        write(folder, *arguments)

    def copied():
        return [(home_of(tmp_path, space) / "CURRENT").exists() for space in (first, last)]

    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        index = EmbeddedIndex(catalog, tmp_path / "index", tail_rows=0, lists_rows=8)
        shelf = Shelf(catalog, index)
        ids = shelf.register(8)
        for space in (first, last):
            shelf.put(space, {id_: unit_vectors(1, id_) for id_ in ids})
        assert copied() == [False, False]  # they wait for the end
        monkeypatch.setattr(disk_copy, "write_or_explain", write_slowly)
        index.wait_for_copies(but_for_last=True)
        assert copied() == [True, False]
        may_end.set()
        index.wait_for_copies()
        assert copied() == [True, True]
        check_everything(shelf, last)


def test_the_tail_is_read_once_however_many_ingests_end(tmp_path, monkeypatch):
    with opened(tmp_path, tail_rows=20) as shelf:
        ids, space = shelf.register(30), make_space()
        read, ledger = [], shelf.catalog.vectors.ledger

        def watched(space_id, since):
            for entry in ledger(space_id, since=since):
                read.append(entry.episode_id)
                yield entry

        monkeypatch.setattr(shelf.catalog.vectors, "ledger", watched)
        for number in range(20):
            shelf.put(space, {ids[number]: unit_vectors(1, number)})
            shelf.index.upsert(space, [])
        assert read == [ids[0]]
        shelf.put(space, {ids[20]: unit_vectors(1, 20)})
        shelf.index.upsert(space, [])
        assert generation_of(tmp_path, space).exists()


def test_vectors_are_read_from_the_disk_copy_and_the_tail(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    with opened(tmp_path, stored=stored) as shelf:
        shelf.put(space, {ids[0]: unit_vectors(2, 50), ids[1]: unit_vectors(3, 51)})
        shelf.bury(ids[2:4], space)
        found = shelf.index.read_vectors(space, np.array([*ids[:8], ids[-1] + 1])).by_episode()
        assert sorted(found) == [*ids[:2], *ids[4:8]]
        for episode, vectors in found.items():
            assert np.array_equal(vectors, stored[space.fingerprint][episode])


def test_damaged_vectors_are_read_from_the_ledger(tmp_path):
    stored, space, ids = fill_and_compact(tmp_path)
    path = generation_of(tmp_path, space) / "vectors.f32"
    path.write_bytes(_flip(path.read_bytes(), 100))
    with opened(tmp_path, stored=stored) as shelf:
        found = shelf.index.read_vectors(space, np.array(ids)).by_episode()
        assert sorted(found) == ids
        assert all(np.array_equal(vectors, stored[space.fingerprint][id_]) for id_, vectors in found.items())


def test_an_unknown_scheme_is_refused(tmp_path):
    with opened(tmp_path) as shelf:
        assert isinstance(open_index("embedded:", shelf.catalog, tmp_path), EmbeddedIndex)
        with pytest.raises(UnknownIndexError, match="expected an index of scheme embedded"):
            open_index("carrier-pigeon://home", shelf.catalog, tmp_path)


def test_other_packages_announce_backends_by_their_schemes(tmp_path, monkeypatch):
    info = tmp_path / "site" / "pigeons-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pigeons\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[wshard.indexes]\npigeon = pigeons:open_pigeon\nembedded = pigeons:open_pigeon\nlost = a_module_nobody_has:x\n"
    )
    (tmp_path / "site" / "pigeons.py").write_text("def open_pigeon(url, catalog, folder, token): return url, token\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with opened(tmp_path) as shelf:
        assert open_index("pigeon://home", shelf.catalog, tmp_path, token="t") == ("pigeon://home", "t")  # noqa: S106
        assert isinstance(open_index("embedded:", shelf.catalog, tmp_path), EmbeddedIndex)
        with pytest.raises(UnknownIndexError, match=r"embedded, dask, ray, http, https, .*, pigeon"):
            open_index("carrier-pigeon://home", shelf.catalog, tmp_path)
        with pytest.raises(ImportError, match=r"a_module_nobody_has.*install it"):
            open_index("lost://home", shelf.catalog, tmp_path)


WRITER = """
shelf = Shelf(catalog, EmbeddedIndex(catalog, folder / "index", tail_rows=60))
ids = catalog.query.ids()
for start in range(0, len(ids), 10):
    shelf.put(space, {id_: unit_vectors(3, id_) for id_ in ids[start : start + 10]})
    print(start + 10, flush=True)
"""

READER = """
import time
index, seen = EmbeddedIndex(catalog, folder / "index"), 0
total = 3 * len(catalog.query.ids())
print("ready", flush=True)
while seen < total:
    count = index.count(space)
    assert count >= seen and count % 30 == 0, (count, seen)
    seen = count
    if not seen:
        time.sleep(0.02)  # the writer is only starting
    answer = index.search(space, unit_vectors(1, 1)[0], Request(10_000, EVERYTHING))
    assert len(answer.matches) >= seen // 3, (len(answer.matches), seen)
"""


def finish(process):
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_readers_beside_a_writer_see_what_was_committed(tmp_path):
    space = make_space()
    with opened(tmp_path) as shelf:
        ids = shelf.register(50)
        shelf.put(space, {})
        reader = start(READER, tmp_path)
        assert reader.stdout.readline() == "ready\n"
        writer = start(WRITER, tmp_path)
        for line in writer.stdout:
            assert shelf.index.count(space) >= 3 * int(line)
        for process in (writer, reader):
            finish(process)
        shelf.stored = {space.fingerprint: {id_: unit_vectors(3, id_) for id_ in ids}}
        check_everything(shelf, space)


@pytest.mark.long
def test_two_processes_that_compact_at_once_do_not_disturb_each_other(tmp_path):
    space = make_space()
    code = WRITER.replace("tail_rows=60", "tail_rows=0")
    with opened(tmp_path) as shelf:
        ids = shelf.register(60)
        shelf.put(space, {})
        for process in [start(code, tmp_path) for _ in range(2)]:
            finish(process)
        stored = {space.fingerprint: {id_: unit_vectors(3, id_) for id_ in ids}}
    with opened(tmp_path, stored=stored) as again:
        check_everything(again, space)


def test_a_process_that_is_killed_while_it_compacts_costs_nothing(tmp_path):
    space, random = make_space(), Random(1)
    code = WRITER.replace("tail_rows=60", "tail_rows=0").replace("query.ids()", "query.ids() * 1000")
    with opened(tmp_path) as shelf:
        ids = shelf.register(100)
        shelf.put(space, {id_: unit_vectors(3, id_) for id_ in ids})
    victim = start(code, tmp_path)
    victim.stdout.readline()
    time.sleep(random.random() * 0.2)
    victim.kill()
    victim.communicate()
    with opened(tmp_path, stored=shelf.stored) as again:
        check_everything(again, space, [1])


FULL_DISK = """
import resource
points = list(EmbeddedIndex(catalog, folder / "index").scan(space))
catalog.clock()
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
index = EmbeddedIndex(catalog, folder / "index", tail_rows=0)
try:
    index.upsert(space, points)
except VectorIndexError as error:
    print(error)
answer = index.search(space, unit_vectors(1, 5)[0], Request(3, EVERYTHING))
print([(match.episode, match.window) for match in answer.matches], index.count(space))
"""


def test_a_full_disk_is_reported_and_search_goes_on(tmp_path):
    with opened(tmp_path) as shelf:
        ids, space = shelf.register(60), make_space()
        shelf.put(space, {id_: unit_vectors(2, id_) for id_ in ids})
        child = start(FULL_DISK, tmp_path)
        output, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
        message, answer = output.splitlines()
        assert "cannot write the search copy of 120 vectors" in message
        assert "safe in the catalog" in message
        right = shelf.brute_force(space, unit_vectors(1, 5)[0], Request(3, EVERYTHING))
        assert answer == f"{[(match.episode, match.window) for match in right]} 120"
        assert not list((tmp_path / "index").rglob("*.*"))  # nothing half-written stays
        check_everything(shelf, space)


def test_threads_share_one_index(tmp_path):
    space, errors = make_space(), []
    with opened(tmp_path, tail_rows=50) as shelf:
        ids = shelf.register(70)
        shelf.put(space, {ids[0]: unit_vectors(2, 0)})

        def search():
            seen = 0
            try:
                while seen < 2 * len(ids):
                    answer = shelf.index.search(space, unit_vectors(1, 1)[0], top(1000, distinct=False))
                    assert len(answer.matches) >= seen
                    assert len(answer.matches) % 2 == 0
                    seen = len(answer.matches)
                    assert sum(len(point.vectors) for point in shelf.index.scan(space)) >= seen
            except BaseException as error:  # noqa: BLE001 -- shown by the assertion below
                errors.append(error)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for first in range(1, len(ids), 7):
            shelf.put(space, {id_: unit_vectors(2, id_) for id_ in ids[first : first + 7]})
        for thread in threads:
            thread.join()
        assert errors == []
        check_everything(shelf, space)
