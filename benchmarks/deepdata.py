"""What the bridge adds to a DeepData server's own time per search.

Compares, turn by turn, a bare request (http.client, body encoded before) with the same search through DeepDataIndex:
ledger look-up, verification, float64 scores. Against the server at DEEPDATA_URL, else against the fake one of the
tests, whose own time says nothing of the real one. "cpu" is what the client's thread itself worked: on a loaded machine
the difference of the two is the steadier figure.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from bridge.index.base import Point, Request
from bridge.index.deepdata.collection import collection_name
from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.settings import read_settings
from bridge.testing.brute_force import make_space
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, Where, build_where
from catalog.testing.contract import make_record
from catalog.vectors.records import EmbeddingRow

EPISODES, DIM, QUERIES = 1_000, 256, 300


def vectors(count: int, seed: int) -> np.ndarray:
    """Return random unit vectors float32 [count, DIM]."""
    raw = np.random.default_rng(seed).normal(size=(count, DIM))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def fill(catalog: Catalog, index: DeepDataIndex) -> float:
    """Put EPISODES vectors into ledger and index; returns vectors per second of the push."""
    space = make_space("benchmark", DIM)
    ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(EPISODES)])]
    space_id = catalog.vectors.add_space(space.fingerprint, space.family, space.to_json()).id
    rows, found = catalog.episodes.rows(ids), vectors(EPISODES, 1)
    entries = catalog.vectors.write(
        space_id,
        [EmbeddingRow(id_, rows[id_].digest, 1, found[at].tobytes()) for at, id_ in enumerate(ids)],
    )
    points = [Point(entry.episode_id, entry.seq, found[at : at + 1]) for at, entry in enumerate(entries)]
    begun = time.perf_counter()
    index.upsert(space, points)
    return EPISODES / (time.perf_counter() - begun)


Times = list[tuple[float, float]]
"""(wall, cpu) milliseconds per search."""


def measure(index: DeepDataIndex, url: str, body: dict[str, object], where: Where) -> tuple[Times, Times]:
    """Return the times of bare requests and of searches through the index, turn by turn."""
    space = make_space("benchmark", DIM)
    bare: Times = []
    bridged: Times = []
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port or 80)
    for query in vectors(QUERIES, 2):
        content = json.dumps({**body, "queries": {"embedding": query.tolist()}}).encode()
        begun = time.perf_counter(), time.thread_time()
        connection.request("POST", "/v2/search", content, {"Content-Type": "application/json"})
        connection.getresponse().read()
        bare.append(since(begun))
        begun = time.perf_counter(), time.thread_time()
        index.search(space, query, Request(10, where))
        bridged.append(since(begun))
    connection.close()
    return bare, bridged


def since(begun: tuple[float, float]) -> tuple[float, float]:
    """Return (wall, cpu) milliseconds since then."""
    return (time.perf_counter() - begun[0]) * 1e3, (time.thread_time() - begun[1]) * 1e3


def run(url: str, folder: Path) -> None:
    """Fill, search, print."""
    settings = read_settings(url)
    with (
        Catalog.open(folder / "catalog.db", create=True) as catalog,
        DeepDataIndex(catalog, folder / "index", settings, always_ask=True) as index,
    ):
        print(f"{EPISODES} vectors of {DIM}: pushed at {fill(catalog, index):.0f}/s")
        name = collection_name(index._link(), make_space("benchmark", DIM).fingerprint)  # noqa: SLF001  (a look inside)
        body = {"collection": name, "top_k": 10, "ef_search": 200}
        for label, where, filters in (
            ("no filter", EVERYTHING, {}),
            ("env_id", build_where(env_id="env-1"), {"filters": {"env_id": "env-1"}}),
        ):
            bare, bridged = measure(index, url, body | filters, where)
            print(f"{label}, {QUERIES} searches: {told_of(bare)} bare, {told_of(bridged)} through the bridge")


def told_of(times: Times) -> str:
    """Return the middle and the tenth of the times; the tenth is less disturbed by a busy machine."""
    (wall, _), (cpu, _) = (statistics.quantiles(column, n=10)[4::-4][:2] for column in zip(*times, strict=True))
    tenth = statistics.quantiles([wall for wall, _ in times], n=10)[0]
    return f"p50 {wall:.2f} ms (cpu {cpu:.2f}), p10 {tenth:.2f} ms"


def main() -> None:
    """Measure."""
    with tempfile.TemporaryDirectory() as folder:
        if "DEEPDATA_URL" in os.environ:
            run(os.environ["DEEPDATA_URL"], Path(folder))
            return
        fake = Path(__file__).resolve().parent.parent / "tests" / "support" / "deepdata_fake.py"
        command = [sys.executable, str(fake), "0", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            print("the fake server of the tests")
            run((child.stdout.readline().strip() if child.stdout else "") + "?rpm=0", Path(folder))
            child.kill()


if __name__ == "__main__":
    main()
