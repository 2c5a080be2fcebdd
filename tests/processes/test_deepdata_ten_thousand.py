"""2,000 episodes, and a server that is killed twice while they come in: in the end nothing is missing or double.

The server is the fake one, as a process; with DEEPDATA_URL a real one and 10,000 episodes, killed and started by
the commands DEEPDATA_KILL and DEEPDATA_START (without them it is left alone).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter

import numpy as np
import pytest
from deepdata_live import LIVE, live, throttle
from deepdata_process import Process

from bridge import Point
from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.settings import Settings, read_settings
from bridge.index.embedded.index import EmbeddedIndex
from bridge.ingest.index_sync import IndexSync
from bridge.testing.brute_force import make_space
from bridge.testing.index_contract import top
from catalog import EVERYTHING, EmbeddingRow, build_where
from catalog.location import place_of
from catalog.testing.records import make_record
from wshard import Archive, Catalog

EPISODES, BATCH = (10_000, 500) if LIVE else (2_000, 100)
DIM = 64
SPACE = make_space("ten thousand", DIM)


class Real:
    """A real server, killed and started by commands."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.throttle = throttle()

    def kill(self) -> None:
        if "DEEPDATA_KILL" in os.environ:
            subprocess.run(os.environ["DEEPDATA_KILL"], shell=True, check=True)  # noqa: S602  (the operator's own)
            subprocess.run(os.environ["DEEPDATA_START"], shell=True, check=True)  # noqa: S602


class Faked(Process):
    """The fake server, killed with SIGKILL and started again."""

    throttle = None

    @property
    def settings(self) -> Settings:
        return read_settings(self.url)

    def kill(self) -> None:
        self.end(signal.SIGKILL)
        self.start()


@pytest.fixture
def server(tmp_path):
    if LIVE:
        with live() as settings:
            yield Real(settings)
        return
    with Faked(tmp_path / "server") as made:
        yield made


def vectors():
    """Return unit vectors in clusters, a few of them equal."""
    rng = np.random.default_rng(7)
    raw = rng.normal(size=(200, DIM))[rng.integers(200, size=EPISODES)] + 0.6 * rng.normal(size=(EPISODES, DIM))
    raw[-1_000:-900] = raw[17]
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def ingest(archive, ids, found, *, first_kill):
    """Write vectors to the ledger batch by batch and tell the index, as ingest does."""
    space_id = archive.catalog.vectors.add_space(SPACE.fingerprint, SPACE.family, SPACE.to_json()).id
    index_sync = IndexSync(archive)
    for start in range(0, EPISODES, BATCH):
        if start == EPISODES // 3 // BATCH * BATCH:
            first_kill()
        rows = archive.catalog.episodes.rows(ids[start : start + BATCH])
        entries = archive.catalog.vectors.write(
            space_id,
            [
                EmbeddingRow(id_, rows[id_].digest, 1, found[at].tobytes())
                for at, id_ in enumerate(ids[start : start + BATCH], start)
            ],
        )
        points = [Point(entry.episode_id, entry.seq, found[at : at + 1]) for at, entry in enumerate(entries, start)]
        index_sync.upsert(SPACE, points)
    index_sync.finish()


def kill_when_half_full(catalog, place, server, killed):
    """Kill the server a second time while it is filled anew."""
    deadline = time.monotonic() + (1200 if LIVE else 120)
    while time.monotonic() < deadline:
        copies = catalog.index_copies.of_place(place)
        stored = catalog.index_copies.totals(copies[0].id)[0] if copies else 0
        if stored >= EPISODES // 2:
            server.kill()
            killed.append(stored)
            return
        time.sleep(0.02)


@pytest.mark.long
@pytest.mark.timeout(1800 if LIVE else 300)
def test_thousands_of_episodes_survive_two_kills(server, tmp_path):
    found, killed = vectors(), []
    with (
        Catalog.open(tmp_path / "catalog.db", create=True) as catalog,
        DeepDataIndex(catalog, tmp_path / "index", server.settings, throttle=server.throttle, always_ask=True) as index,
    ):
        ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(EPISODES)])]
        second = threading.Thread(target=kill_when_half_full, args=(catalog, index._link().place, server, killed))

        def first_kill():
            server.kill()
            second.start()

        ingest(Archive(place_of(tmp_path), catalog, index), ids, found, first_kill=first_kill)
        second.join()
        assert killed
        assert killed[0] < EPISODES - 100, "the second kill came too late to matter"

        with DeepDataIndex(
            catalog, tmp_path / "index", server.settings, throttle=server.throttle, always_ask=True
        ) as later:
            begun = time.perf_counter()
            later.upsert(SPACE, [])  # what the next run of ingest does
            print(f"caught up in {time.perf_counter() - begun:.1f} s")
            assert later.audit(SPACE, full=True).state == "ok"
            assert later.count(SPACE) == EPISODES
            documents = later.audit(SPACE).documents
            assert documents == len({vector.tobytes() for vector in found}), "a vector is there twice, or not at all"
            compare(later, EmbeddedIndex(catalog, tmp_path / "embedded"))


def compare(index, reference):
    """Assert that hits equal those of the embedded index: recall@10 at least .99, the same scores, nothing unknown."""
    rng, hits, wanted = np.random.default_rng(11), Counter(), 0
    for where in (EVERYTHING, build_where(env_id="env-1"), build_where(min_length=300, reward_range=(10.0, None))):
        for _ in range(60):
            raw = rng.normal(size=DIM)
            query = (raw / np.linalg.norm(raw)).astype(np.float32)
            got = index.search(SPACE, query, top(10, where)).matches
            right = {match.episode: match.score for match in reference.search(SPACE, query, top(10, where)).matches}
            assert len({match.episode for match in got}) == len(got) == len(right)
            shared = [match for match in got if match.episode in right]
            assert all(abs(match.score - right[match.episode]) < 1e-6 for match in shared)
            hits[where != EVERYTHING] += len(shared)
            wanted += len(right)
    assert sum(hits.values()) >= 0.99 * wanted, f"recall@10 {sum(hits.values()) / wanted:.4f}"
    print(f"recall@10 {sum(hits.values()) / wanted:.4f}")
