"""How long one waits for an answer: python benchmarks/search.py [--episodes 1000 10000] [--demo demo-archive].

Makes archives of small episodes, 23 windows of several sizes and one vector of the whole each, in which the ten tasks
of an archive are ten ways through the space. Then searches them with the default ranking, with `plain=True` and for
moments: the first search of a process, and medians and 95th percentiles of later ones, by the clock and by the
processor, once the compiled alignment is loaded. Also prints how much memory a process of its own took to ingest each
archive. About a minute per 10,000.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from machine import facts

from bridge.alignment.align import get_kernel
from bridge.search.retriever import TrajectoryRetriever
from wshard.core.episode.file import load_wshard, save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.hits import Hits

TIMESTEPS, CHANNELS, TASKS, QUERIES = 84, 14, 10, 50
WARMING = 15  # searches

INGEST = """
import resource, sys
from bridge.ingest.ingestor import TrajectoryIngestor
with TrajectoryIngestor(sys.argv[2]) as ingestor:
    report = ingestor.ingest(sys.argv[1], windows="both")
    print(report.new / report.seconds, end=" ")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""


def make_files(folder: Path, count: int) -> None:
    """Save episodes of tasks: smooth ways through the space, each at its own pace and with noise of its own."""
    rng = np.random.default_rng(0)
    ways = rng.normal(size=(TASKS, 2 * TIMESTEPS, CHANNELS)).cumsum(axis=1)
    for number in range(count):
        way, pace = ways[number % TASKS], rng.uniform(1.5, 2.0)
        rows = way[(np.arange(TIMESTEPS) * pace).astype(int)] + 0.3 * rng.normal(size=(TIMESTEPS, CHANNELS)).cumsum(0)
        lanes = {"state": Channel.of("state", rows.astype(np.float32))}
        episode = Episode(f"e{number:06d}", f"task-{number % TASKS}", TIMESTEPS, observations=lanes)
        save_wshard(episode, folder / f"{episode.id}.wshard")


def first(archive: Path, query: Path, compiled: str) -> float:
    """Return the milliseconds of the first search of a process, files in memory, modules imported.

    compiled: a folder for Python's bytecode, as installed packages have it.
    """
    code = """
import sys, time
from bridge.search.retriever import TrajectoryRetriever
from wshard.core.episode.file import load_wshard
query = load_wshard(sys.argv[2])
begun = time.perf_counter()
TrajectoryRetriever(sys.argv[1]).search_similar_episodes(query)
print((time.perf_counter() - begun) * 1e3)
"""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command, environment = [sys.executable, "-c", code, archive, query], kept | {"PYTHONPYCACHEPREFIX": compiled}
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(found.stdout)


def measure(search: Callable[[Path], Hits], queries: Sequence[Path]) -> str:
    """Return median and 95th percentile by the clock, and the median by the processor, of searches after the first."""
    for query in queries[:WARMING]:
        search(query)
    get_kernel().use(60)  # seconds, so that it is loaded
    get_kernel().wait()
    clock, busy = [], []
    for query in [*queries, *queries]:
        begun, spent = time.perf_counter(), time.process_time()
        search(query)
        busy.append((time.process_time() - spent) * 1e3)
        clock.append((time.perf_counter() - begun) * 1e3)
    return f"{np.median(clock):.1f} | {np.percentile(clock, 95):.1f} | {np.median(busy):.1f}"


def report(name: str, archive: Path, files: Sequence[Path]) -> None:
    """Print the rows of one archive."""
    queries = [files[place] for place in np.random.default_rng(1).choice(len(files), QUERIES)]
    episodes = {query: load_wshard(query) for query in queries}
    span = {
        query: (query, one.length // 4, one.length // 4 + min(40, one.length // 2)) for query, one in episodes.items()
    }
    with tempfile.TemporaryDirectory() as compiled:
        begun = [first(archive, query, compiled) for query in queries[:6]][1:]
    with TrajectoryRetriever(archive) as retriever:
        ways: dict[str, Callable[[Path], Hits]] = {
            "default": lambda query: retriever.search_similar_episodes(episodes[query]),
            "plain": lambda query: retriever.search_similar_episodes(episodes[query], plain=True),
            "moments": lambda query: retriever.search_moments(span[query]),
        }
        for what, search in ways.items():
            shown = f"{np.median(begun):.0f}" if what == "default" else ""
            print(f"| {name} | {what} | {shown} | {measure(search, queries)} |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, nargs="*", default=[1000])
    parser.add_argument("--demo", type=Path, help="the archive that `make demo` makes")
    arguments = parser.parse_args()
    print(
        f"{facts()}\n\n| archive | search | first | median | p95 | median, processor |\n|---|---|---:|---:|---:|---:|"
    )
    if arguments.demo is not None:
        report("demo", arguments.demo, sorted((arguments.demo / "episodes").rglob("*.wshard")))
    for count in arguments.episodes:
        with tempfile.TemporaryDirectory() as name:
            data, archive = Path(name, "data"), Path(name, "archive")
            data.mkdir()
            make_files(data, count)
            done = subprocess.run(
                [sys.executable, "-c", INGEST, data, archive], check=True, capture_output=True, text=True
            )
            report(f"{count}", archive, sorted(data.iterdir()))
            rate, memory = map(float, done.stdout.split())
            print(f"| {count} | ingested at {rate:.0f} episodes/s, at most {memory:.0f} MB | | | | |")


if __name__ == "__main__":
    main()
