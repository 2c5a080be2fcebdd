"""How fast episodes go into an archive: python benchmarks/ingest.py [--episodes 2000] [--workers 1 2].

Makes episodes of three observation lanes, ingests them into fresh archives with each number of workers, and prints the
median of several rounds (interleaved, so that a busy moment of the machine hits all alike) as a Markdown table.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from machine import facts

from bridge.ingest import TrajectoryIngestor
from embedders.windows import WindowPlan
from wshard.episode_file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Sequence

LANES = {"joints": (7,), "pose": (6,), "gripper": ()}


def make_files(folder: Path, count: int, timesteps: int) -> None:
    """Save `count` episodes of smooth random motion."""
    rng = np.random.default_rng(0)
    for number in range(count):
        lanes = {
            name: Channel.of(name, rng.normal(size=(timesteps, *shape)).cumsum(axis=0).astype(np.float32))
            for name, shape in LANES.items()
        }
        ctrl = Channel.of("ctrl", rng.normal(size=(timesteps, 4)).astype(np.float32))
        episode = Episode(
            f"episode-{number:05d}",
            f"env-{number % 10}",
            timesteps,
            observations=lanes,
            actions={"ctrl": ctrl},
            rewards=rng.normal(size=timesteps).astype(np.float32),
        )
        save_wshard(episode, folder / f"{episode.id}.wshard")


def measure(
    files: Path, archive: Path, workers: int, windows: Sequence[WindowPlan] = (WindowPlan(),)
) -> tuple[float, float]:
    """Return the seconds of a first run and of a second one that finds nothing to do."""
    with TrajectoryIngestor(archive) as ingestor:
        first = ingestor.ingest(files, workers_count=workers, windows=windows)
        again = ingestor.ingest(files, workers_count=workers, windows=windows)
    if not first.ok or again.embedded:
        raise SystemExit(f"expected a clean first run and an idle second one, found {first} and {again}")
    return first.seconds, again.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--timesteps", type=int, default=200)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--windows", nargs="+", default=["whole"], help="whole, SIZE:STRIDE, multi; several: one pass")
    asked = parser.parse_args()
    plans = [WindowPlan.read(text) for text in asked.windows]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "data").mkdir()
        make_files(place / "data", asked.episodes, asked.timesteps)
        spent: dict[int, list[tuple[float, float]]] = {workers: [] for workers in asked.workers}
        for turn in range(asked.rounds):
            for workers in asked.workers:
                archive = place / f"archive-{workers}-{turn}"
                spent[workers].append(measure(place / "data", archive, workers, plans))
    cut = " and ".join(asked.windows)
    print(f"Ingest of {asked.episodes} episodes of {asked.timesteps} timesteps, {len(LANES)} observation lanes, {cut};")
    print(f"median of {asked.rounds}. {facts()}\n")
    print("| workers | seconds | episodes/s | nothing to do, seconds |\n|---:|---:|---:|---:|")
    for workers, rounds in spent.items():
        first, again = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"| {workers} | {first:.2f} | {asked.episodes / first:.0f} | {again:.3f} |")


if __name__ == "__main__":
    main()
