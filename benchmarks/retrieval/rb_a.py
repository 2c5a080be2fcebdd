"""Benchmark RB-A: find episodes of the same task among 1,000 scripted MetaWorld episodes of 50 tasks.

Every few episodes one asks, disturbed in six ways, for the 19 others of its task among all others; mean average
precision over all queries. Prints Markdown tables; --out writes them, JSON and a picture.

    python benchmarks/retrieval/rb_a.py --channels prop state --dtw --out .bench/rb_a

Rows of vectors compare each query with all there are (brute force), rows that scan align it with all episodes, and
"archive" goes through files, index and retriever. The episodes are recorded once (some minutes on two cores) into
--cache. Needs the extras "demo" and "align".
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_outcome
from rb_a_archive import searched
from rb_a_data import choose_channels, load
from rb_a_disturb import DISTURBANCES
from rb_a_methods import Archive, methods
from rb_a_plot import Hit, Result, draw, draw_hits
from rb_ranking import average_precisions

from embedders.space import Statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from rb_a_data import Recorded

    Rows = NDArray[np.float64]
    Similarities = NDArray[np.float64]
    Ask = Callable[[list[Rows]], Similarities]

_DRAWN: Final = ("warp", "prefix60", "stall40", "offset")
_DRAWN_HITS: Final = 3
THROUGH_ARCHIVE: Final = "archive, `--windows both`: whole, windows, expanded"


def make_archive(recorded: Sequence[Recorded], channels: str, every: int) -> Archive:
    """Return the episodes on these channels; every so many of them asks."""
    episodes = [choose_channels(episode, channels) for episode in recorded]
    steps = np.concatenate(episodes)
    _, tasks = np.unique([episode.task for episode in recorded], return_inverse=True)
    statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    return Archive(episodes, statistics, tasks, np.arange(0, len(episodes), every))


def scored(similarities: Similarities, archive: Archive) -> tuple[float, float, float]:
    """Return mean average precision, precision at 1 and at 10; none finds itself or what scores minus infinity."""
    own = similarities.copy()
    own[np.arange(len(archive.asking)), archive.asking] = -np.inf
    ranking = np.argsort(-own, axis=1, kind="stable")[:, :-1]
    relevant = archive.tasks[ranking] == archive.tasks[archive.asking][:, None]
    found = relevant & np.isfinite(np.take_along_axis(own, ranking, 1))
    average = average_precisions(similarities, archive.tasks, archive.asking)
    return float(average.mean()), float(found[:, 0].mean()), float(found[:, :10].mean())


def measure(archive: Archive, channels: str, first: int, *, alignment: bool) -> list[Result]:
    """Return the results of all methods under all disturbances."""
    queries = {name: archive.queries(name, first) for name in DISTURBANCES}
    results = []
    for method, make in methods(archive, alignment=alignment).items():
        ask, dim = make()
        results += answered(ask, queries, archive, (channels, method, dim))
    with searched(archive.episodes, archive.asking.tolist()) as ask:
        results += answered(ask, queries, archive, (channels, THROUGH_ARCHIVE, None))
    return results


def answered(
    ask: Ask, queries: dict[str, list[Rows]], archive: Archive, about: tuple[str, str, int | None]
) -> list[Result]:
    """Return the results of one method: its channels, name and size of its vectors, under all disturbances."""
    results = []
    for name, asked in queries.items():
        begun = time.perf_counter()
        similarities = ask(asked)
        spent = (time.perf_counter() - begun) * 1e3 / len(asked)
        results.append(Result(*about, name, *scored(similarities, archive), spent))
    print(f"  {about[0]} {about[1]}: {results[-1].ms_per_query:.2f} ms per query", flush=True)
    return results


def table(results: Sequence[Result], channels: str, cell: Callable[[Result], str]) -> str:
    """Return a Markdown table, one row per method, one column per disturbance."""
    lines = [f"| {channels} | dim | {' | '.join(DISTURBANCES)} |", "|---" * (len(DISTURBANCES) + 2) + "|"]
    mine = [result for result in results if result.channels == channels]
    for method in dict.fromkeys(result.method for result in mine):
        row = {result.disturbance: result for result in mine if result.method == method}
        dim = next(iter(row.values())).dim or "-"
        lines.append(f"| {method} | {dim} | {' | '.join(cell(row[name]) for name in DISTURBANCES)} |")
    return "\n".join(lines)


def report(results: Sequence[Result], queries: int) -> str:
    """Return all tables as Markdown."""
    parts = []
    for channels in dict.fromkeys(result.channels for result in results):
        average = table(results, channels, lambda one: f"{one.mean_average_precision:.3f}".removeprefix("0"))
        first = table(results, channels, lambda r: f"{r.precision_at_1:.3f}/{r.precision_at_10:.3f}".replace("0.", "."))
        spent = table(results, channels, lambda one: f"{one.ms_per_query:.2f}")
        parts += [f"mAP, {queries} queries", average, "P@1 / P@10", first, "Milliseconds per query", spent]
    return "\n\n".join(parts)


def draw_all(results: Sequence[Result], archive: Archive, first: int, names: Sequence[str], target: Path) -> None:
    """Draw the results and, beside them, what one episode finds, disturbed in several ways; names: of all tasks."""
    draw(results, target)
    own = int(archive.asking[0])
    alone = replace(archive, asking=np.array([own]))
    asked = [alone.queries(name, first)[0] for name in _DRAWN]
    rows = []
    with searched(archive.episodes, [own] * len(asked)) as ask:
        for name, query, scores in zip(_DRAWN, asked, ask(asked), strict=True):
            best = np.argsort(-scores, kind="stable")[:_DRAWN_HITS]
            hits = [Hit(f"{names[archive.tasks[n]]}, {scores[n]:.2f}", archive.episodes[n]) for n in best]
            rows.append([Hit(f"query: {names[archive.tasks[own]]}, {name}", query), *hits])
    draw_hits(rows, target.with_name(f"{target.stem}_hits.png"))


def main() -> None:
    """Record what is missing, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-A: episodes of the same task")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder for recorded episodes")
    parser.add_argument(
        "--first",
        type=int,
        default=1020,
        help="first seed of the 20 of every task; goals repeat modulo 50, and those of seeds 0 to 19 were tuned on",
    )
    parser.add_argument("--channels", nargs="+", choices=("prop", "state"), default=["prop"])
    parser.add_argument("--every", type=int, default=5, help="every so many episodes one asks: 5 = 200 queries")
    parser.add_argument("--dtw", action="store_true", help="scan with dynamic time warping too (ten minutes)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that record")
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    recorded = load(options.cache, options.first, options.workers)
    steps = [len(episode.actions) for episode in recorded]
    success = np.mean([episode.success for episode in recorded])
    summary = (
        f"{len(recorded)} episodes, {sum(steps)} steps, length {min(steps)} / {np.median(steps):.0f} / {max(steps)}"
    )
    print(f"{summary}, success {success:.1%}")
    results = []
    for channels in options.channels:
        archive = make_archive(recorded, channels, options.every)
        results += measure(archive, channels, options.first, alignment=options.dtw)
    names = sorted({episode.task for episode in recorded})
    drawn = partial(draw_all, results, make_archive(recorded, "prop", options.every), options.first, names)
    rb_outcome.leave(options, results, report(results, len(archive.asking)), drawn)


if __name__ == "__main__":
    main()
