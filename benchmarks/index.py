"""How fast the embedded index answers: python benchmarks/index.py [--rows 1000000] [--dims 256 64] [--queries 100].

At 4 million: --rows 4000000 --dims 256 --only "no filter" --peers 0. Vectors of any length: --metric l2, or dot.

Makes synthetic windows of trajectories, puts them into an archive, and prints Markdown tables: searches asked for the
first time (the catalog is asked for each filter, checksums are compared), the same one after another, and the same
again, each after a plain numpy scan of all vectors, which leaves nothing else in the processor's caches; then what
building and opening cost. Other libraries (index_peers.py) join in where they are installed, in .bench/venv-index if
`make bench-index` has made it. Needs about 5 bytes of disk and 3 of memory per byte of vectors.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from index_data import TOP, Ask, Data, asks, fill, gaussian, trajectories
from machine import facts

from bridge.index.base import Answer, Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.metric import COSINE, METRICS
from bridge.support.blas_threads import one_blas_thread
from bridge.testing.brute_force import make_space
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, Where

if TYPE_CHECKING:
    from collections.abc import Callable


def plain(data: Data, catalog: Catalog, where_rows: dict[Where, np.ndarray], metric: str) -> Callable[..., np.ndarray]:
    """Return the plain scan: score everything, take the best of the rows that pass, which are known beforehand."""
    owners, firsts = data.owners, np.cumsum(data.sizes) - data.sizes
    halves = np.einsum("ij,ij->i", data.vectors, data.vectors) / 2 if metric == "l2" else None

    def scan(query: np.ndarray, request: Request) -> np.ndarray:
        scores = data.vectors @ query
        if halves is not None:
            scores -= halves
        if request.where != EVERYTHING:
            scores = scores[where_rows[request.where]]
        if request.distinct:
            scores = np.maximum.reduceat(scores, firsts)
        best = min(TOP, len(scores))
        found = scores[np.argpartition(scores, -best)[-best:]] if best else scores
        return found if halves is None else -np.sqrt(np.maximum(query @ query - 2 * found, 0))

    def prepare(request: Request) -> None:
        if request.where not in where_rows:
            allowed = np.zeros(len(data.sizes), np.bool_)
            allowed[np.array(catalog.query.ids(request.where), np.int64) - 1] = True
            where_rows[request.where] = np.flatnonzero(allowed[owners])

    scan.prepare = prepare  # type: ignore[attr-defined]
    return scan


def measure(folder: Path, data: Data, metric: str, queries: int, *, only: set[str] | None) -> None:
    """Print the table of searches: asked for the first time, one after another, and each after a plain scan."""
    space, asked = make_space("benchmark", data.vectors.shape[1], metric), asks(data, queries, only)
    with Catalog.open(folder / "catalog.db") as catalog, EmbeddedIndex(catalog, folder / "index") as index:
        scan = plain(data, catalog, {}, metric)
        index.search(space, data.vectors[0], Request(TOP, EVERYTHING))

        def timed(ask: Ask) -> tuple[float, float, Answer]:
            begun, busy = time.perf_counter(), time.thread_time()
            answer = index.search(space, ask.query, ask.request)
            return time.perf_counter() - begun, time.thread_time() - busy, answer

        first = [timed(ask)[0] for ask in asked]
        warm = [timed(ask)[:2] for ask in asked]
        beside = []
        for ask in asked:
            scan.prepare(ask.request)  # type: ignore[attr-defined]
            begun = time.perf_counter()
            right = scan(ask.query, ask.request)
            theirs = time.perf_counter() - begun
            cold, _, answer = timed(ask)
            beside.append((cold, theirs, recall(answer, right), answer.exact, answer.scored))
    print_table([ask.name for ask in asked], np.column_stack([first, warm, np.array(beside, float)]), len(data.vectors))


def recall(answer: Answer, right: np.ndarray) -> float:
    """Return which share of the best scores was found; a missing match ends the program."""
    found = np.array([match.score for match in answer.matches])
    if len(found) < len(right):
        raise SystemExit(f"expected {len(right)} matches, found {len(found)}")
    off = 1e-5 if not len(right) else 1e-5 * max(1.0, float(np.abs(right).max()))  # the plain scan's rounding
    return float(np.mean(np.sort(found)[::-1] >= np.sort(right)[::-1] - off)) if len(right) else 1.0


def print_table(names: list[str], figures: np.ndarray, count: int) -> None:
    """Print the figures of each case as a Markdown table."""
    print("| search, top 10 | p50 ms | p50 ms of CPU | p99 ms | p50 ms, first time | p50 ms, caches cold ", end="")
    print(
        "| plain scan p50 ms | recall | proven | vectors scored |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    for name in dict.fromkeys(names):
        mine = figures[[each == name for each in names]]
        first, warm, cpu, cold, theirs, right, exact, scored = mine.T
        p50, busy, new, after, base = (np.median(times) * 1e3 for times in (warm, cpu, first, cold, theirs))
        print(f"| {name} | {p50:.2f} | {busy:.2f} | {np.quantile(warm, 0.99) * 1e3:.2f} | {new:.2f} ", end="")
        print(f"| {after:.2f} | {base:.1f} | {right.mean():.4f} | {exact.mean():.1%} ", end="")
        print(f"| {np.median(scored) / count:.2%} |")


COSTS = """
import json, os, sys, threading, time
from pathlib import Path
import numpy as np
from bridge.testing.brute_force import make_space
from bridge.index.base import Answer, Request
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.embedded import copy_folders
from bridge.index.embedded.kmeans import cluster
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING

def private():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))

folder, dim, metric = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
space, query = make_space("benchmark", dim, metric), np.full(dim, dim**-0.5, np.float32)
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
    home = copy_folders.find_folder(folder / "index", catalog.archive_id, space.fingerprint)
    base = disk_copy.read(home, catalog.edition, space.fingerprint, catalog.clock())
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
    disk_copy.write(folder / "again", base.header, base.segment.points(alive), cluster)
    built, busy = time.perf_counter() - begun, time.process_time() - busy
    over.set()
    watcher.join()
print(json.dumps({"open s": opened, "first search s": first, "private MB": serving,
                  "build s": built, "of CPU": busy,
                  "private MB while building": peak[0] - start}))
"""


def costs(folder: Path, dim: int, metric: str) -> None:
    """Print what building and opening cost, measured in a process of their own."""
    command = [sys.executable, "-c", COSTS, str(folder), str(dim), metric]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    print("\n" + ", ".join(f"{name} {value:.2f}" for name, value in json.loads(done.stdout).items()))


def peers(data: Data, queries: int, rows: int) -> None:
    """Print what other libraries take for the first case with so many vectors, in an environment of their own."""
    own = Path(".bench/venv-index/bin/python")
    with tempfile.TemporaryDirectory() as name:
        some = replace(data, vectors=data.vectors[:rows], sizes=clipped(data.sizes, rows))
        np.save(Path(name, "vectors.npy"), some.vectors)
        np.save(Path(name, "queries.npy"), [ask.query for ask in asks(some, queries, {"no filter"})])
        print(f"\nThe first {len(some.vectors)} vectors, no filter:\n", flush=True)
        python = own if own.exists() else sys.executable
        subprocess.run([python, Path(__file__).with_name("index_peers.py"), name], check=True)


def clipped(sizes: np.ndarray, rows: int) -> np.ndarray:
    """Return the sizes of the episodes that the first rows belong to."""
    ends = np.minimum(np.cumsum(sizes), rows)
    found = np.diff(ends, prepend=0)
    return found[found > 0]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[256, 64])
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--only", nargs="+", help='searches to measure, e.g. "no filter", at 4000000 rows, say')
    parser.add_argument(
        "--peers", type=int, default=200_000, help="vectors that other libraries get, 0 = leave them out"
    )
    parser.add_argument("--folder", type=Path, help="where the archives are made (default: the temporary folder)")
    parser.add_argument("--metric", choices=METRICS, default=COSINE, help="others: of vectors that differ in length")
    asked = parser.parse_args()
    print(f"One BLAS thread. {facts()}")
    for dim in asked.dims:
        for make in (trajectories, gaussian):
            if make is gaussian and (asked.only or dim != max(asked.dims)):
                continue
            with tempfile.TemporaryDirectory(dir=asked.folder) as name:
                data = make(asked.rows, dim, asked.metric)
                fill(Path(name, "archive"), data, asked.metric)
                some, same = data.vectors[: 1 << 16], np.diff(data.owners[: 1 << 16]) == 0
                some = some / np.linalg.norm(some, axis=1, keepdims=True)
                near = (some[:-1] * some[1:]).sum(axis=1)[same].mean()
                print(
                    f"\n{make.__name__}, {asked.metric}: {asked.rows} vectors of {dim}, {len(data.sizes)} episodes, ",
                    end="",
                )
                print(f"cosine of neighbours {near:.3f}\n")
                only = {"no filter"} if make is gaussian else set(asked.only) if asked.only else None
                measure(Path(name, "archive"), data, asked.metric, asked.queries, only=only)
                if asked.rows > 50_000:  # below there are no lists, and no copy to open
                    costs(Path(name, "archive"), dim, asked.metric)
                if make is trajectories and asked.peers and asked.metric == COSINE:
                    peers(data, asked.queries, asked.peers)


if __name__ == "__main__":
    with one_blas_thread():  # the plain scan's too
        main()
