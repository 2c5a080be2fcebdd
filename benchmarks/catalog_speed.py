"""How fast the catalog answers: python benchmarks/catalog_speed.py [--episodes 100000].

Registers episodes as ingest does (metadata, two lanes with moments and statistics), tags and scores some, and prints
the median of many runs of each question as a Markdown table. (A script named catalog.py would hide the package.)
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from machine import facts

from catalog import Catalog, EpisodeRecord, LaneRecord, Spread, parse_where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 10_000
ENVS, ROBOTS = 50, 12
VERBS = ("pick", "place", "push", "open", "close", "stack", "turn", "press", "slide", "lift")
THINGS = ("cube", "drawer", "button", "door", "peg", "mug", "lid", "handle", "lever", "block", "plate", "window")
FACETS = ("env_id", "success", "review", "tag", "meta.robot")
FILTER = "env:env-07 reward:20..80 length:>=150"
SPREADS = tuple(Spread(-1.0 - n, 1.0 + n, 0.1 * n, 0.5) for n in range(8))
LANES = (
    LaneRecord("action/ctrl", "f32", (4,), 200, bytes(4 * 4 * 8), SPREADS[:4]),
    LaneRecord("signal/state", "f32", (8,), 200, bytes(4 * 8 * 8), SPREADS),
)


def make_records(count: int) -> Iterator[list[EpisodeRecord]]:
    """Yield batches of episodes, equal in every run."""
    dice = random.Random(0)
    for start in range(0, count, BATCH):
        yield [make_record(number, dice) for number in range(start, min(start + BATCH, count))]


def make_record(number: int, dice: random.Random) -> EpisodeRecord:
    """Return one episode."""
    colour = dice.choice(("red", "green", "blue", "small", "large"))
    task = f"{dice.choice(VERBS)} the {colour} {dice.choice(THINGS)} {number % 997}"
    return EpisodeRecord(
        path=f"/data/set-{number % 100:02d}/episode_{number:07d}.wshard",
        key="",
        episode_id=f"episode_{number:07d}",
        env_id=f"env-{dice.randrange(ENVS):02d}",
        length=dice.randrange(20, 500),
        total_reward=None if number % 50 == 0 else dice.gauss(50, 25),
        success=dice.random() < 0.6,
        digest=f"{number:032x}",
        size=100_000 + number,
        mtime_ns=1_700_000_000_000_000_000 + number,
        metadata={"task": task, "robot": f"robot-{dice.randrange(ROBOTS)}", "seed": number},
        lanes=LANES,
    )


def fill(catalog: Catalog, count: int) -> list[tuple[float, float]]:
    """Register, tag, score, review; return (seconds, those of the processor) of registering, and of doing it again."""
    spent = [(0.0, 0.0), (0.0, 0.0)]
    for batch in make_records(count):
        for turn, (clock, processor) in enumerate(spent):
            begun = time.perf_counter(), time.process_time()
            catalog.register(batch)
            spent[turn] = (clock + time.perf_counter() - begun[0], processor + time.process_time() - begun[1])
    ids = catalog.ids()
    catalog.tag(ids[::10], "good")
    catalog.tag(ids[::35], "bad")
    catalog.set_scores("quality", {number: number * 7919 % 10_007 / 10_007 for number in ids})
    catalog.review(ids[:: max(1, count // 1000)], "accepted", who="ann")
    return spent


def deep_cursor(catalog: Catalog, order: str, pages: int = 20) -> str | None:
    """Return the cursor after some pages of the filter."""
    after = None
    for _ in range(pages):
        after = catalog.select(FILTER, order=order, limit=50, after=after).next
    return after


def questions(catalog: Catalog) -> dict[str, Callable[[], object]]:
    """Return what is measured."""
    where, far = parse_where(FILTER), deep_cursor(catalog, "total_reward", 5)
    some = parse_where("env:env-07")
    return {
        "env AND reward AND length ORDER BY reward LIMIT 50": lambda: catalog.select(
            where, order="total_reward", limit=50
        ),
        "the same, sixth page": lambda: catalog.select(where, order="total_reward", limit=50, after=far),
        "env ORDER BY score LIMIT 50": lambda: catalog.select(some, order="-score.quality", limit=50),
        "everything ORDER BY score LIMIT 50": lambda: catalog.select(order="-score.quality", limit=50),
        "count of the filter": lambda: catalog.count(where),
        "all ids of the filter": lambda: catalog.ids(where),
        "all ids of one environment": lambda: catalog.ids(some),
        f"{len(FACETS)} facets and 2 histograms of one environment": lambda: (
            catalog.facets(FACETS, some),
            catalog.histogram("length", some),
            catalog.histogram("total_reward", some),
        ),
        "facet of the environments, everything": lambda: catalog.facets(["env_id"]),
        "facets of success and tag, everything": lambda: catalog.facets(["success", "tag"]),
        "statistics of reward and length by environment, everything": lambda: catalog.statistics(
            ["total_reward", "length"], by=["env_id"]
        ),
        'words "pick the red cube" LIMIT 50': lambda: catalog.select('"pick the red cube"', limit=50, order="id"),
        "words red cube ORDER BY reward LIMIT 50": lambda: catalog.select("red cube", limit=50, order="-total_reward"),
        "a common word (all episodes), LIMIT 50": lambda: catalog.select("the", limit=50, order="id"),
        "by id": lambda: catalog.get(1),
    }


def milliseconds(ask: Callable[[], object], seconds: float = 2.0) -> tuple[float, float, int]:
    """Return the median times of a question, by the clock and of the processor, and of how many runs."""
    ask()
    spent: list[tuple[float, float]] = []
    while len(spent) < 5 or (sum(clock for clock, _ in spent) < seconds and len(spent) < 200):
        begun = time.perf_counter(), time.process_time()
        ask()
        spent.append((time.perf_counter() - begun[0], time.process_time() - begun[1]))
    clock, processor = (statistics.median(column) * 1000 for column in zip(*spent, strict=True))
    return clock, processor, len(spent)


def open_and_close(path: Path) -> None:
    """Open an archive, and ask how much it holds of nothing."""
    with Catalog.open(path) as catalog:
        catalog.clock()


def measure(path: Path, episodes: int) -> None:
    """Fill the archive unless it is there, and print what was measured."""
    fresh = not path.exists()
    with Catalog.open(path, create=True) as catalog:
        spent = fill(catalog, episodes) if fresh else []
        count = catalog.count()
        print(f"Catalog of {count:,} episodes in SQLite, {path.stat().st_size / 1e6:,.0f} MB. {facts()}\n")
        print("| what | median, ms | of the processor, ms | runs |\n|---|---:|---:|---:|")
        for what, seconds in zip(("new episodes", "the same again, nothing changed"), spent, strict=False):
            print(f"| bulk upsert of {what}: {count / seconds[0]:,.0f} episodes/s | | {1e3 * seconds[1]:,.0f} | 1 |")
        for what, ask in questions(catalog).items():
            print("| {} | {:.2f} | {:.2f} | {} |".format(what, *milliseconds(ask)), flush=True)
    print("| open an archive | {:.2f} | {:.2f} | {} |".format(*milliseconds(lambda: open_and_close(path))))


def main() -> None:
    """Measure in a new archive, or in one that is kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--archive", type=Path, help="folder to keep the archive in; one that is there is asked only")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measure((asked.archive or Path(name)) / "catalog.db", asked.episodes)


if __name__ == "__main__":
    main()
