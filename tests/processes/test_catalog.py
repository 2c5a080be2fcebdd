"""Several processes and threads on one catalog, and processes that are killed."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random

import pytest

from catalog import Among
from catalog.testing.records import make_record
from wshard import Catalog
from wshard.errors import CatalogError

BATCH = 5

WRITER = """
import sys
sys.path[:0] = sys.argv[4:]
from catalog import Catalog, EmbeddingRow
from catalog.testing.records import make_record
path, name, batches = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Catalog.open(path) as catalog:
    for batch in range(batches):
        numbers = range(batch * 5, batch * 5 + 5)
        changes = {"folder": f"/data/{name}", "env_id": f"{name} {batch}"}
        records = [make_record(n, digest=f"{name} {n}", **changes) for n in numbers]
        done = catalog.episodes.register(records)
        space = catalog.vectors.add_space("fingerprint", "family", "{}")
        rows = [EmbeddingRow(d.id, r.digest, 1, name.encode() * 100) for d, r in zip(done, records)]
        entries = catalog.vectors.write(space.id, rows)
        assert len(entries) == 5
        print(batch, flush=True)
"""


def start(path: Path | str, name: str, batches: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(batches), *sys.path]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_write_at_once_and_nothing_is_lost(location: Path | str) -> None:
    batches = 6
    with Catalog.open(location, create=True) as catalog:
        space = catalog.vectors.add_space("fingerprint", "family", "{}").id
        writers = [start(location, name, batches) for name in ("one", "two")]
        seen, clock = [], 0
        while any(writer.poll() is None for writer in writers):
            entries = list(catalog.vectors.ledger(space, since=seen[-1] if seen else 0))
            seen += [entry.seq for entry in entries]
            assert catalog.clock() >= clock
            clock = catalog.clock()
            time.sleep(0.02)
        for writer in writers:
            _, errors = writer.communicate()
            assert writer.returncode == 0, errors
        seen += [entry.seq for entry in catalog.vectors.ledger(space, since=seen[-1])]
        # A reader that follows by number misses nothing: numbers become visible in their order.
        assert len(seen) == 2 * batches * BATCH
        assert seen == sorted(set(seen))
        assert catalog.query.count() == 2 * batches * BATCH
        assert catalog.vectors.state(space)[0] == 2 * batches * BATCH


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_killing_a_writer_leaves_whole_batches_and_loses_no_acknowledged_one(location: Path | str, seed: int) -> None:
    Catalog.open(location, create=True).close()
    writer = start(location, "victim", 10_000)
    assert writer.stdout is not None
    assert writer.stderr is not None
    acknowledged = int(writer.stdout.readline())
    time.sleep(Random(seed).random() * 0.3)
    writer.kill()
    for line in writer.stdout:
        acknowledged = int(line) if line.endswith("\n") else acknowledged
    writer.stdout.close()
    writer.stderr.close()
    writer.wait()
    with Catalog.open(location) as catalog:
        batches = dict(catalog.query.facets(["env_id"])["env_id"])
        assert set(batches.values()) == {BATCH}
        assert {f"victim {batch}" for batch in range(acknowledged + 1)} <= batches.keys()
        assert len(batches) <= acknowledged + 2
        space = catalog.vectors.spaces()[0].id
        embedded = [entry for entry in catalog.vectors.ledger(space) if entry.vectors == b"victim" * 100]
        assert len(embedded) % BATCH == 0
        assert (acknowledged + 1) * BATCH <= len(embedded) <= catalog.query.count()
        everything = Among(tuple(layout.id for layout in catalog.query.layouts()))
        assert len(embedded) + len(catalog.vectors.pending_ids(space, everything)) == catalog.query.count()
        assert len(catalog.episodes.register([make_record(1)])) == 1
    if isinstance(location, Path):
        raw = sqlite3.connect(location)
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        raw.close()


def test_threads_share_one_catalog(location: Path | str) -> None:
    errors: list[BaseException] = []
    with Catalog.open(location, create=True) as catalog:

        def work(name: str) -> None:
            try:
                for number in range(10):
                    catalog.episodes.register([make_record(number, folder=f"/data/{name}", digest=f"{name} {number}")])
                    assert catalog.query.select(order="-length", limit=5).rows
            except BaseException as error:  # noqa: BLE001 -- shown by the assertion below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert catalog.query.count() == 80


def test_a_forked_process_must_open_its_own(tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                catalog.query.count()
                os.write(writer, b"no error")
            except CatalogError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            assert "of another process; open it after the fork" in answer.read()
        assert catalog.query.count() == 0
