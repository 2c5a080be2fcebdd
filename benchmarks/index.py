"""How fast the embedded index answers: python benchmarks/index.py [--rows 1000000] [--dims 256 64] [--queries 100].

At 4 million: --rows 4000000 --dims 256 --only "no filter" --no-peers.

Makes synthetic windows of trajectories, puts them into an archive, and prints Markdown tables: searches beside a plain
numpy scan of the same vectors, query by query in turn (so that a busy moment of the machine hits both alike); then what
building and opening cost. faiss and usearch join in where they are installed. Needs about 7 bytes of disk and 3 of
memory per byte of vectors.

The windows: 20 environments, each a smooth closed-form curve through the space; an episode of 60 to 160 windows runs
along its environment's curve at its own pace, shifted smoothly within 8 directions, plus noise. So neighbouring windows
are alike (cosine about 0.99), and so are windows of one task in different episodes. A query is a window of the
archive with noise added.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from index_peers import PEERS
from machine import facts

from bridge.bruteforce import make_space
from bridge.index.base import Request
from bridge.index.embedded import EmbeddedIndex
from bridge.index.ranking import blas_threads
from catalog.catalog import Catalog
from catalog.filters import EVERYTHING, Where, build_where
from catalog.records import EmbeddingRow
from catalog.testing import make_record

if TYPE_CHECKING:
    from collections.abc import Callable

ENVIRONMENTS, NOISE, TOP = 20, 0.09, 10


@dataclass
class Data:
    """vectors [N, E]; episode i has sizes[i] of them, from environment environments[i]."""

    vectors: np.ndarray
    sizes: np.ndarray
    environments: np.ndarray

    @property
    def owners(self) -> np.ndarray:
        """Return the episode of each row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of length 1."""
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def trajectories(count: int, dim: int) -> Data:
    """Return windows as the head of this file describes them."""
    rng, waves, ways = np.random.default_rng(0), np.arange(1, 7), 8
    anchors = unit(rng.normal(size=(ENVIRONMENTS, dim)))
    curves = unit(rng.normal(size=(ENVIRONMENTS, 6, dim))) * (0.9 / waves)[None, :, None]
    phases = rng.uniform(0, 2 * np.pi, (ENVIRONMENTS, 6))
    directions = unit(rng.normal(size=(ENVIRONMENTS, ways, dim))) * 0.18
    vectors, sizes, environments, done = np.empty((count, dim), np.float32), [], [], 0
    while done < count:
        size, env = min(int(rng.integers(60, 161)), count - done), int(rng.integers(ENVIRONMENTS))
        clock = np.linspace(0, 1, size) ** rng.uniform(0.7, 1.4)
        shifts = np.stack([np.interp(clock, np.linspace(0, 1, 4), rng.normal(size=4)) for _ in range(ways)], axis=1)
        path = anchors[env] + np.sin(np.pi * waves * clock[:, None] + phases[env]) @ curves[env]
        noise = rng.normal(size=(size, dim)) * (NOISE / np.sqrt(dim))
        vectors[done : done + size] = unit(path + shifts @ directions[env] + noise)
        sizes.append(size)
        environments.append(env)
        done += size
    return Data(vectors, np.array(sizes), np.array(environments))


def gaussian(count: int, dim: int) -> Data:
    """Return independent directions: data without any structure."""
    data = trajectories(count, 2)
    rng = np.random.default_rng(1)
    vectors = np.empty((count, dim), np.float32)
    for start in range(0, count, 10_000):
        vectors[start : start + 10_000] = unit(rng.normal(size=(min(10_000, count - start), dim)))
    return replace(data, vectors=vectors)


def fill(folder: Path, data: Data) -> None:
    """Commit the vectors to the ledger of a new archive, and have the search copy written."""
    folder.mkdir()
    space = make_space("benchmark", data.vectors.shape[1])
    starts = np.cumsum(data.sizes) - data.sizes
    rng = np.random.default_rng(2)
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        records = [
            make_record(i, env_id=f"env-{env}-{i % 5}", length=int(size), total_reward=float(rng.uniform(0, 100)))
            for i, (env, size) in enumerate(zip(data.environments.tolist(), data.sizes.tolist(), strict=True))
        ]
        ids = [done.id for done in catalog.register(records)]
        space_id = catalog.add_space(space.fingerprint, space.family, space.to_json()).id
        for first in range(0, len(ids), 256):
            rows = []
            for i in range(first, min(first + 256, len(ids))):
                vectors = data.vectors[starts[i] : starts[i] + data.sizes[i]].tobytes()
                rows.append(EmbeddingRow(ids[i], records[i].digest, int(data.sizes[i]), vectors))
            catalog.write_embeddings(space_id, rows)
        with EmbeddedIndex(catalog, folder / "index") as index:
            index.count(space)
            index.upsert(space, [])


def cases(env: str, elsewhere: str, which: str) -> dict[str, Request]:
    """Return the requests of one query from environment `env`; `which` is one of its five variants."""
    several = [f"{env}-{number}" for number in range(5)]
    three = build_where(env_id=several, min_length=110, reward_range=(10, 30))
    return {
        "no filter": Request(TOP, EVERYTHING, distinct=False),
        "1 %, one environment": Request(TOP, build_where(env_id=f"{env}-{which}"), distinct=False),
        "1 %, query from elsewhere": Request(TOP, build_where(env_id=f"{elsewhere}-{which}"), distinct=False),
        "10 %, by reward": Request(TOP, build_where(reward_range=(40, 50)), distinct=False),
        "0.5 %, three fields": Request(TOP, three, distinct=False),
        "ten distinct episodes": Request(TOP, EVERYTHING, distinct=True),
    }


def plain(data: Data, catalog: Catalog, where_rows: dict[Where, np.ndarray]) -> Callable[..., np.ndarray]:
    """Return the plain scan: score everything, take the best of the rows that pass, which are known beforehand."""
    owners, firsts = data.owners, np.cumsum(data.sizes) - data.sizes

    def scan(query: np.ndarray, request: Request) -> np.ndarray:
        scores = data.vectors @ query
        if request.where != EVERYTHING:
            scores = scores[where_rows[request.where]]
        if request.distinct:
            scores = np.maximum.reduceat(scores, firsts)
        best = min(TOP, len(scores))
        return scores[np.argpartition(scores, -best)[-best:]] if best else scores

    def prepare(request: Request) -> None:
        if request.where not in where_rows:
            passing = np.zeros(len(data.sizes), np.bool_)
            passing[np.array(catalog.ids(request.where), np.int64) - 1] = True
            where_rows[request.where] = np.flatnonzero(passing[owners])

    scan.prepare = prepare  # type: ignore[attr-defined]
    return scan


def measure(folder: Path, data: Data, queries: int, only: set[str] | None = None) -> None:
    """Print the table of searches."""
    rng, dim = np.random.default_rng(3), data.vectors.shape[1]
    owners, spent = data.owners, {}
    space = make_space("benchmark", dim)
    with Catalog.open(folder / "catalog.db") as catalog, EmbeddedIndex(catalog, folder / "index") as index:
        scan = plain(data, catalog, {})
        index.search(space, data.vectors[0], Request(TOP, EVERYTHING))
        for turn in range(queries + 20):
            row = int(rng.integers(len(data.vectors)))
            env = data.environments[owners[row]]
            query = unit(data.vectors[row] + rng.normal(size=dim) * (NOISE / np.sqrt(dim))).astype(np.float32)
            elsewhere = (env + 1 + int(rng.integers(ENVIRONMENTS - 1))) % ENVIRONMENTS
            for name, request in cases(f"env-{env}", f"env-{elsewhere}", str(turn % 5)).items():
                if only is not None and name not in only:
                    continue
                scan.prepare(request)  # type: ignore[attr-defined]
                begun, busy = time.perf_counter(), time.thread_time()
                answer = index.search(space, query, request)
                halfway, busy = time.perf_counter(), time.thread_time() - busy
                right = scan(query, request)
                ended = time.perf_counter()
                found = np.array([match.score for match in answer.matches])
                alike = np.sort(found)[::-1][: len(right)] >= np.sort(right)[::-1] - 1e-5
                recall = float(np.mean(alike)) if len(right) else 1.0
                if len(found) < len(right):
                    raise SystemExit(f"expected {len(right)} matches, found {len(found)}")
                if turn >= 20:  # the first ones read the files, check their sums and ask the catalog for each filter
                    figures = (halfway - begun, busy, ended - halfway, recall, answer.exact, answer.scored)
                    spent.setdefault(name, []).append(figures)
    tell(spent, len(data.vectors))


def tell(spent: dict[str, list[tuple[float, ...]]], count: int) -> None:
    """Print the figures of each case as a Markdown table."""
    print("| search, top 10 | p50 ms | p50 ms of CPU | p99 ms | plain scan p50 ms ", end="")
    print("| times faster | recall | proven | vectors scored |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, rows in spent.items():
        ours, busy, theirs, recall, exact, scored = np.array(rows, float).T
        p50, cpu, base = (np.median(times) * 1e3 for times in (ours, busy, theirs))
        print(f"| {name} | {p50:.2f} | {cpu:.2f} | {np.quantile(ours, 0.99) * 1e3:.2f} | {base:.1f} ", end="")
        print(f"| {np.median(theirs / ours):.1f} | {recall.mean():.4f} | {exact.mean():.1%} ", end="")
        print(f"| {np.median(scored) / count:.2%} |")


COSTS = """
import json, os, sys, threading, time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
import numpy as np
from bridge.bruteforce import make_space
from bridge.index import generation
from bridge.index.base import Request
from bridge.index.embedded import EmbeddedIndex
from bridge.index.grouping import group
from catalog.catalog import Catalog
from catalog.filters import EVERYTHING

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

folder, dim = Path(sys.argv[1]), int(sys.argv[2])
space, query = make_space("benchmark", dim), np.full(dim, dim**-0.5, np.float32)
with Catalog.open(folder / "catalog.db") as catalog:
    before = private()
    for path in (folder / "index").rglob("*.*"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    begun = time.perf_counter()
    index = EmbeddedIndex(catalog, folder / "index")
    index.count(space)
    opened = time.perf_counter() - begun
    index.search(space, query, Request(10, EVERYTHING))
    first = time.perf_counter() - begun - opened
    rng = np.random.default_rng(4)
    base = generation.read(folder / "index" / space.fingerprint, catalog.archive_id, space.fingerprint, catalog.clock())
    for row in rng.integers(len(base.segment.vectors), size=100):
        index.search(space, np.array(base.segment.vectors[row]), Request(10, EVERYTHING, distinct=False))
    serving = private() - before
    peak, over = [0.0], threading.Event()
    def watch():
        while not over.wait(0.01):
            peak[0] = max(peak[0], private())
    watcher = threading.Thread(target=watch)
    watcher.start()
    start, begun, busy = private(), time.perf_counter(), time.process_time()
    alive = base.segment.alive
    generation.write(folder / "again", base.about, base.segment.points(alive), group)
    built, busy = time.perf_counter() - begun, time.process_time() - busy
    over.set()
    watcher.join()
print(json.dumps({"open s": opened, "first search s": first, "private MB": serving,
                  "build s": built, "of CPU": busy,
                  "private MB while building": peak[0] - start}))
"""


def costs(folder: Path, dim: int) -> None:
    """Print what building and opening cost, measured in a process of their own."""
    command = [sys.executable, "-c", COSTS, str(folder), str(dim)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ})
    print("\n" + ", ".join(f"{name} {value:.2f}" for name, value in json.loads(done.stdout).items()))


def peers(data: Data, queries: int) -> None:
    """Print what other libraries take for the first case, or why they do not."""
    rng, dim = np.random.default_rng(3), data.vectors.shape[1]
    rows = rng.integers(len(data.vectors), size=queries)
    asked = unit(data.vectors[rows] + rng.normal(size=(queries, dim)) * (NOISE / np.sqrt(dim))).astype(np.float32)
    print("\n| peer, no filter | build s | p50 ms | p99 ms | recall |\n|---|---:|---:|---:|---:|")
    for name, build in PEERS.items():
        begun = time.perf_counter()
        try:
            searches = build(data.vectors)
        except (ImportError, AttributeError) as error:  # sqlite3 without extensions has no such attribute
            print(f"| {name} | skipped: {error} | | | |")
            continue
        built = time.perf_counter() - begun
        for what, search in searches.items():
            spent, recall = [], []
            for query in asked:
                begun = time.perf_counter()
                found = search(query)
                spent.append(time.perf_counter() - begun)
                scores = data.vectors @ query
                best = np.sort(np.partition(scores, -TOP)[-TOP:])[::-1]
                ours = np.sort(scores[np.asarray(found).ravel().astype(np.int64)])[::-1]
                recall.append(float(np.mean(ours >= best[: len(ours)] - 1e-5)) * len(ours) / TOP)
            p50, p99 = (np.quantile(spent, share) * 1e3 for share in (0.5, 0.99))
            print(f"| {what} | {built:.1f} | {p50:.2f} | {p99:.2f} | {np.mean(recall):.4f} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--only", nargs="+", help='searches to measure, e.g. "no filter", at 4000000 rows, say')
    parser.add_argument("--no-peers", action="store_true", help="leave other libraries out")
    parser.add_argument("--folder", type=Path, help="where the archives are made (default: the temporary folder)")
    asked = parser.parse_args()
    print(f"One BLAS thread. {facts()}")
    for dim in asked.dims:
        for make in (trajectories, gaussian):
            if make is gaussian and (asked.only or dim != max(asked.dims)):
                continue
            with tempfile.TemporaryDirectory(dir=asked.folder) as name:
                data = make(asked.rows, dim)
                fill(Path(name, "archive"), data)
                some, same = data.vectors[: 1 << 16], np.diff(data.owners[: 1 << 16]) == 0
                near = (some[:-1] * some[1:]).sum(axis=1)[same].mean()
                print(f"\n{make.__name__}: {asked.rows} vectors of {dim}, {len(data.sizes)} episodes, ", end="")
                print(f"cosine of neighbours {near:.3f}\n")
                only = {"no filter"} if make is gaussian else set(asked.only) if asked.only else None
                measure(Path(name, "archive"), data, asked.queries, only)
                if asked.rows > 50_000:  # below there are no lists, and no copy to open
                    costs(Path(name, "archive"), dim)
                if make is trajectories and not asked.no_peers:
                    peers(data, asked.queries)


if __name__ == "__main__":
    with blas_threads().limit(limits=1, user_api="blas"):  # the plain scan's too
        main()
