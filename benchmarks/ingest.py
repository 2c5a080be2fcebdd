"""How fast episodes go into an archive: python benchmarks/ingest.py [--episodes 2000] [--workers 1 2].

Makes episodes of three observation lanes and ingests them into fresh archives: as whole episodes, the same without
quality checks, and with windows of several sizes beside them; each with each number of workers, the median of several
rounds (interleaved, so that a busy moment of the machine hits all alike). Then how many windows of 32 timesteps, one
every 4, are read, embedded and stored per second, and how long after the commit of one more episode another process,
which searches all the time, finds it. About two minutes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from machine import facts

from bridge.ingest.ingestor import TrajectoryIngestor
from catalog.catalog import Catalog
from embedders.windows import BOTH, WindowPlan
from wshard.core.episode.file import load_wshard, save_wshard
from wshard.core.quality.thresholds import DEFAULT_THRESHOLDS
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.quality.thresholds import Thresholds

LANES = {"joints": (7,), "pose": (6,), "gripper": ()}


def make_files(folder: Path, count: int, timesteps: int, seed: int = 0) -> None:
    """Save `count` episodes of smooth random motion."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        lanes = {
            name: Channel.of(name, rng.normal(size=(timesteps, *shape)).cumsum(axis=0).astype(np.float32))
            for name, shape in LANES.items()
        }
        ctrl = Channel.of("ctrl", rng.normal(size=(timesteps, 4)).astype(np.float32))
        episode = Episode(
            f"episode-{seed}-{number:05d}",
            f"env-{number % 10}",
            timesteps,
            observations=lanes,
            actions={"ctrl": ctrl},
            rewards=rng.normal(size=timesteps).astype(np.float32),
        )
        save_wshard(episode, folder / f"{episode.id}.wshard")


WAYS: Final[Mapping[str, tuple[Sequence[WindowPlan], Thresholds | None]]] = {
    "whole episodes": ((WindowPlan(),), DEFAULT_THRESHOLDS),
    "whole episodes, no quality checks": ((WindowPlan(),), None),
    "whole episodes and windows of several sizes": (BOTH, DEFAULT_THRESHOLDS),
}


@dataclass(frozen=True)
class Taken:
    """Seconds of a first run, CPU seconds of this process in it, and seconds of a run that finds nothing to do."""

    first: float
    busy: float
    again: float


def measure(files: Path, archive: Path, workers: int, way: str) -> Taken:
    """Ingest twice."""
    plans, limits = WAYS[way]
    with TrajectoryIngestor(archive, limits=limits) as ingestor:
        busy = time.process_time()
        first = ingestor.ingest(files, workers_count=workers, windows=plans)
        busy = time.process_time() - busy
        again = ingestor.ingest(files, workers_count=workers, windows=plans)
    if not first.ok or again.embedded:
        raise SystemExit(f"expected a clean first run and an idle second one, found {first} and {again}")
    return Taken(first.seconds, busy, again.seconds)


def windows(files: Path, archive: Path, workers: int) -> tuple[float, float]:
    """Return how many windows per second a first run reads, embeds and stores; and per second of this process's CPU."""
    with TrajectoryIngestor(archive) as ingestor:
        busy = time.process_time()
        report = ingestor.ingest(files, windows=WindowPlan(32, 4), workers_count=workers)
        busy = time.process_time() - busy
    with Catalog.open(archive / "catalog.db") as catalog:
        stored = sum(catalog.vectors.state(space.id)[1] for space in catalog.vectors.spaces())
    return stored / report.seconds, stored / busy


WATCHER = """
import sys, time
from bridge.search.retriever import TrajectoryRetriever
from wshard.core.episode.file import load_wshard
query, name = load_wshard(sys.argv[2]), sys.argv[3]
with TrajectoryRetriever(sys.argv[1]) as retriever:
    retriever.search_similar_episodes(query, 1)
    print("ready", flush=True)
    while retriever.search_similar_episodes(query, 1)[0].episode_id != name:
        pass
    print(time.time(), flush=True)
"""


def seen(files: Path, archive: Path, extra: Path) -> float:
    """Return the milliseconds from the end of an ingest of one episode until another process finds it."""
    with TrajectoryIngestor(archive) as ingestor:
        ingestor.ingest(files, windows="whole")
        (only,) = extra.glob("*.wshard")
        episode = load_wshard(only)
        command = [sys.executable, "-c", WATCHER, str(archive), str(only), episode.id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            if child.stdout is None or child.stdout.readline().strip() != "ready":
                raise SystemExit("expected a process that searches, found none")
            ingestor.ingest_episode(only)
            done = time.time()
            return (float(child.stdout.readline()) - done) * 1e3


def fresh(place: Path, workers: list[int]) -> None:
    """Measure windows, and the way to another process; print."""
    for name, count, timesteps in (("long", 200, 1000), ("few", 200, 100), ("one", 1, 150)):
        (place / name).mkdir()
        make_files(place / name, count, timesteps, seed=len(name))
    for crew in workers:
        rate, of_cpu = windows(place / "long", place / f"windows-{crew}", crew)
        print(f"\nwindows 32:4 of 200 episodes of 1000 timesteps, workers {crew}: {rate:.0f} per second, ", end="")
        print(f"{of_cpu:.0f} per second of the main process's CPU")
    (only,) = (place / "one").glob("*.wshard")
    only.rename(only.with_name("the-new-one.wshard"))
    delays = [seen(place / "few", place / f"seen-{turn}", place / "one") for turn in range(3)]
    print(
        f"\na new episode is found by another process {statistics.median(delays):.0f} ms after ingest_episode returned"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--timesteps", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    summary = facts()
    spent: dict[tuple[str, int], list[Taken]] = {(way, workers): [] for way in WAYS for workers in asked.workers}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "data").mkdir()
        make_files(place / "data", asked.episodes, asked.timesteps)
        for _ in range(asked.rounds):
            for (way, workers), taken in spent.items():
                taken.append(measure(place / "data", place / "archive", workers, way))
                shutil.rmtree(place / "archive")
    print(f"Ingest of {asked.episodes} episodes of {asked.timesteps} timesteps, {len(LANES)} observation lanes;")
    print(f"median of {asked.rounds}. {summary}\n")
    print("| | workers | seconds | episodes/s | main process, CPU ms per episode | nothing to do, seconds |")
    print("|---|---:|---:|---:|---:|---:|")
    for (way, workers), taken in spent.items():
        first, busy, again = (statistics.median(column) for column in zip(*map(astuple, taken), strict=True))
        rates = f"{first:.2f} | {asked.episodes / first:.0f} | {busy / asked.episodes * 1e3:.2f} | {again:.3f}"
        print(f"| {way} | {workers} | {rates} |")
    with tempfile.TemporaryDirectory() as name:
        fresh(Path(name), asked.workers)


if __name__ == "__main__":
    main()
