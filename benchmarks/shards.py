"""What shards on a cluster cost beside one index: python benchmarks/shards.py [--archive DIR] [--shards 1 2 4].

Searches the largest Space of an archive (or one of --episodes that it makes) for vectors of its episodes, in one index
of this process, and in so many shards, which are actors of a local Dask cluster of one process a shard. The shard's own
time is that of the slowest of the same shards in this process, one after the other; what an answer takes beyond it are
messages, checks and the merge. Medians by the clock and of the caller's processor time. Every answer is compared with
that of one index. About a minute for 20,000 episodes, once the archive is there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from distributed import LocalCluster
from lerobot_set import make_set
from machine import facts
from scale import STEPS, make_source

from bridge.index.base import Request, read_vectors
from bridge.index.embedded.index import EmbeddedIndex
from bridge.index.shards.index import open_shards
from bridge.ingest.ingestor import TrajectoryIngestor
from catalog import EVERYTHING, Catalog, parse_where
from embedders.space import Space

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.index.base import Answer, VectorIndex, Vectors
    from catalog.vectors.records import SpaceRow

QUERIES, HITS = 40, 12
FILTERS = {"all": EVERYTHING, "by length": parse_where("length:1..")}


def make_archive(folder: Path, count: int) -> Path:
    """Ingest a LeRobot location of so many episodes."""
    make_set(make_source(folder), folder / "set", count, STEPS)
    with TrajectoryIngestor(folder / "lab") as ingestor:
        ingestor.ingest(folder / "set")
    return folder / "lab"


def find_largest(catalog: Catalog) -> SpaceRow:
    """Return the Space of most vectors."""
    return max(catalog.vectors.spaces("active"), key=lambda row: catalog.vectors.state(row.id)[1])


def read_queries(index: VectorIndex, space: Space, catalog: Catalog, episodes: Sequence[int]) -> Vectors:
    """Return the first vectors of episodes that are spread over the archive."""
    some = episodes[:: max(1, len(episodes) // QUERIES)][:QUERIES]
    found = read_vectors(index, space, catalog=catalog, episodes=some)
    return found.vectors[found.starts[:-1]]


def search_all(
    index: VectorIndex, space: Space, queries: Vectors, request: Request
) -> tuple[list[Answer], list[float], list[float]]:
    """Return answers, and their milliseconds by the clock and by this process's processor, of a second pass."""
    answers, clock, busy = [], [], []
    for _ in range(2):
        answers, clock, busy = [], [], []
        for query in queries:
            started, used = time.perf_counter(), time.process_time()
            answers.append(index.search(space, query, request))
            clock.append(1e3 * (time.perf_counter() - started))
            busy.append(1e3 * (time.process_time() - used))
    return answers, clock, busy


def measure(archive: Path, shards: int, address: str) -> None:
    """Print what each kind of request takes."""
    with ExitStack() as opened, tempfile.TemporaryDirectory() as scratch:
        catalog = opened.enter_context(Catalog.open(archive / "catalog.db"))
        row = find_largest(catalog)
        space = Space.from_json(row.definition)
        one = opened.enter_context(EmbeddedIndex(catalog, Path(scratch, "one")))
        index = opened.enter_context(open_shards(f"{address}/lab?shards={shards}&timeout=600", catalog, archive))
        own = []
        for number in range(shards):
            share = opened.enter_context(Catalog.open(archive / "catalog.db", share=(number, shards)))
            own.append(opened.enter_context(EmbeddedIndex(share, Path(scratch, str(number)))))
        for each in (one, index, *own):  # fill them
            each.rebuild(space)
        queries = read_queries(one, space, catalog, catalog.vectors.embedded(row.id))
        for name, where in FILTERS.items():
            request = Request(HITS, where)
            expected, alone, _ = search_all(one, space, queries, request)
            slowest = max(statistics.median(search_all(each, space, queries, request)[1]) for each in own)
            found, clock, busy = search_all(index, space, queries, request)
            if any([*a.matches] != [*b.matches] or not b.exact for a, b in zip(expected, found, strict=True)):
                raise SystemExit(f"{shards} shards: expected the answers of one index, found others")
            middle = statistics.median(clock)
            times = f"one index {statistics.median(alone):6.1f} ms, slowest shard {slowest:6.1f}, all {middle:6.1f}"
            extra = f"(+ {middle - slowest:.1f}), CPU of the caller {statistics.median(busy):.1f}"
            print(f"{shards} shards, {name:<9}: {times} {extra}", flush=True)


def main() -> None:
    """Measure each number of shards."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=Path, default=None)
    parser.add_argument("--episodes", type=int, default=20_000)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4])
    asked = parser.parse_args()
    print(facts())
    with tempfile.TemporaryDirectory() as scratch:
        archive = asked.archive or make_archive(Path(scratch), asked.episodes)
        with Catalog.open(archive / "catalog.db") as catalog:
            vectors = catalog.vectors.state(find_largest(catalog).id)[1]
            print(f"{len(catalog.query.ids()):,} episodes, {vectors:,} vectors, {QUERIES} queries twice")
        for shards in asked.shards:
            with LocalCluster(n_workers=shards, threads_per_worker=1, dashboard_address=":0") as cluster:
                measure(archive.resolve(), shards, cluster.scheduler_address.replace("tcp://", "dask://"))


if __name__ == "__main__":
    main()
