"""Benchmark RB-B: find moments of a robot at play that are like one of them, with their bounds.

Segments with exact labels ask, as they are and replayed at another speed, for their like in the 29 other episodes. Our
rows go through a real archive: files, ingest, index, retriever. Prints Markdown tables; --out writes them, JSON and a
picture of one query, its hits and an alignment.

    python benchmarks/retrieval/rb_b.py --ogbench .bench/venv-ogbench/bin/python --out .bench/rb_b

The episodes are recorded once into --cache (a minute or two on two cores), by an interpreter that has ogbench. Another
one has stumpy, to compare with; without it those rows are left out. Needs matplotlib (extra "demo") and the extra
"align".
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_b_scan
import rb_outcome
from rb_b_data import choose, load, warped
from rb_b_peer import Peer, stumpy
from rb_b_plot import draw

from bridge.ingest.ingestor import TrajectoryIngestor
from bridge.search.moments.overlap import MomentLimits, overlap, suppress
from bridge.search.retriever import TrajectoryRetriever
from catalog.filters.where import Compare
from embedders.registry import default_embedder
from embedders.space import Statistics
from embedders.standardise import standardise
from embedders.trajectory.pooled import Mean
from embedders.windows import WindowPlan
from wshard.core.episode.file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray
    from rb_b_data import Play, Query

    Rows = NDArray[np.float64]
    Span = tuple[int, int, int]  # number of the episode, start, stop
    Ask = Callable[[Rows, int], list[Span]]  # a query and the number of its own episode

HITS: Final = 10
OVERLAP: Final = 0.3  # of two hits of one episode, at most
RIGHT: Final = 0.5  # overlap with a segment from which a hit is it
PLAN: Final = WindowPlan(scales=(24, 36, 54, 80, 120, 180))
POOLED: Final = WindowPlan(32, 16)
LANES: Final = ("arm", "action/ctrl")
BY_STUMPY: Final = "the same, by stumpy (scan)"
_DRAWN: Final = 52  # number of the query in the picture


@dataclass(frozen=True)
class Result:
    """One row of the tables; milliseconds per query by the clock, and of this process alone."""

    speed: str
    method: str
    kind: str
    precision_at_1: float
    precision_at_10: float
    boundary_error: float
    ms: float
    cpu_ms: float


def judged(play: Play, label: str, start: int, stop: int) -> tuple[bool, float | None]:
    """Return whether a hit is right, and by how many steps its bounds are off where the label is."""
    shares = overlap(play.spans, (start, stop))
    best = int(shares.argmax())
    if play.labels[best] != label:
        return False, None
    return bool(shares[best] >= RIGHT), float(np.abs(play.spans[best] - (start, stop)).mean())


def measure(
    plays: Sequence[Play],
    asking: Sequence[Query],
    ask: Ask,
    about: tuple[str, str, str],
    clock: Callable[[], float] = time.process_time,
) -> Result:
    """Return how well one method answers all queries of one kind; clock: the processor time of whoever answers."""
    firsts, rights, errors = [], [], []
    cut = [plays[query.episode].rows[query.start : query.stop] for query in asking]
    queries = cut if about[2] == "clean" else [warped(rows, number) for number, rows in enumerate(cut)]
    ask(queries[0], asking[0].episode)  # compile, read, warm up
    begun, used = time.perf_counter(), clock()
    answers = [ask(rows, query.episode) for query, rows in zip(asking, queries, strict=True)]
    spent, busy = time.perf_counter() - begun, clock() - used
    for query, hits in zip(asking, answers, strict=True):
        verdicts = [judged(plays[episode], query.label, start, stop) for episode, start, stop in hits]
        firsts.append(verdicts[0][0])
        rights.append(sum(right for right, _ in verdicts) / HITS)
        errors += [apart for _, apart in verdicts if apart is not None]
    scores = (float(np.mean(firsts)), float(np.mean(rights)), float(np.median(errors)))
    return Result(*about, *scores, 1e3 * spent / len(asking), 1e3 * busy / len(asking))


def standardised(plays: Sequence[Play]) -> Callable[[Rows], Rows]:
    """Return what standardises rows by all episodes, as an archive does."""
    steps = np.concatenate([play.rows for play in plays])
    statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    return partial(standardise, statistics=statistics)


def scanned(plays: Sequence[Play], scan: Callable[[Rows, Rows], rb_b_scan.Candidates]) -> Ask:
    """Return a method that goes through all episodes."""
    standard = standardised(plays)
    references = [standard(play.rows) for play in plays]

    def ask(query: Rows, own: int) -> list[Span]:
        asked = standard(query)
        others = [number for number in range(len(references)) if number != own]
        found = [scan(asked, references[number]) for number in others]
        episodes = np.repeat(others, [len(costs) for costs, _, _ in found])
        costs, starts, stops = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.argsort(costs, kind="stable")
        spans = np.stack([starts, stops], axis=1)[order]
        chosen = suppress(episodes[order], spans, MomentLimits(HITS, OVERLAP))
        return [(int(episodes[order[place]]), *map(int, spans[place])) for place in chosen]

    return ask


def stored(plays: Sequence[Play], folder: Path) -> None:
    """Save the episodes and ingest them: windows of several sizes as by default, and pooled ones by the mean."""
    for play in plays:
        channels = {
            "observations": {"arm": Channel.of("arm", play.arm)},
            "actions": {"ctrl": Channel.of("ctrl", play.action)},
        }
        save_wshard(Episode(f"play-{play.seed}", "scene-v0", len(play.arm), **channels), folder / f"{play.seed}.wshard")
    for embedder, plan in ((None, PLAN), (Mean(), POOLED)):
        with TrajectoryIngestor(folder / "archive", embedder, lanes=LANES) as ingestor:
            report = ingestor.ingest(folder, windows=plan)
            if not report.ok:
                raise SystemExit(f"expected to ingest every episode, left out {report.failed}")


def searched(plays: Sequence[Play], retriever: TrajectoryRetriever, *, plan: WindowPlan, refine: bool) -> Ask:
    """Return a search for moments through the archive."""
    numbers = {f"play-{play.seed}": number for number, play in enumerate(plays)}
    arm = plays[0].arm.shape[1]

    def ask(query: Rows, own: int) -> list[Span]:
        lanes = {"arm": query[:, :arm], "action/ctrl": query[:, arm:]}
        others = ~Compare("episode_id", "eq", f"play-{plays[own].seed}")
        hits = retriever.search_moments(lanes, HITS, where=others, windows=plan, refine=refine, max_overlap=OVERLAP)
        return [(numbers[hit.episode_id], *hit.span) for hit in hits]

    return ask


def table(results: Sequence[Result], speed: str) -> str:
    """Return a Markdown table, one row per method."""
    kinds = ("clean", "warped")
    lines = [
        f"| {speed} speed | {' | '.join(f'{kind}: P@1 / P@10 / bounds' for kind in kinds)} | ms | CPU ms |",
        "|---" * 5 + "|",
    ]
    mine = [result for result in results if result.speed == speed]
    for method in dict.fromkeys(result.method for result in mine):
        rows = {result.kind: result for result in mine if result.method == method}
        cells = [
            f"{rows[k].precision_at_1:.3f} / {rows[k].precision_at_10:.3f} / {rows[k].boundary_error:.1f}".replace(
                "0.", "."
            )
            for k in kinds
        ]
        times = [np.mean([getattr(rows[k], name) for k in kinds]) for name in ("ms", "cpu_ms")]
        lines.append(f"| {method} | {' | '.join(cells)} | {times[0]:.1f} | {times[1]:.1f} |")
    return "\n".join(lines)


def scans(plays: Sequence[Play], asking: Sequence[Query], peer: Peer | None) -> dict[str, Ask]:
    """Return the methods that go through all episodes, by name; the last one asks the peer, if there is one."""
    found = {
        "subsequence DTW, steps (1,1) (1,2) (scan)": scanned(plays, rb_b_scan.dtw_scan(free=False)),
        "subsequence DTW, free steps (scan)": scanned(plays, rb_b_scan.dtw_scan(free=True)),
        "Euclidean profile (scan)": scanned(plays, rb_b_scan.profile_scan(rb_b_scan.plain_profile)),
        "Euclidean profile, z-normalised (scan)": scanned(plays, rb_b_scan.profile_scan(rb_b_scan.shape_profile)),
    }
    if peer is None:
        return found
    standard = standardised(plays)
    for number, query in enumerate(asking):
        rows = standard(plays[number % len(plays)].rows)
        peer.compare(standard(plays[query.episode].rows[query.start : query.stop]), rows)
    return found | {BY_STUMPY: scanned(plays, rb_b_scan.profile_scan(peer.profile))}


def run(plays: Sequence[Play], speed: str, peer: Peer | None, *, scan: bool) -> list[Result]:
    """Return the results of all methods on one set of episodes."""
    asking = choose(plays)
    segments = sum(len(play.labels) for play in plays)
    print(f"{speed}: {len(plays)} episodes, {segments} segments, {len(asking)} queries", flush=True)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        stored(plays, Path(folder))
        with (
            TrajectoryRetriever(Path(folder) / "archive", Mean()) as pooled,
            TrajectoryRetriever(Path(folder) / "archive", default_embedder(PLAN)) as ours,
        ):
            methods: dict[str, Ask] = {"mean-pooled windows of 32": searched(plays, pooled, plan=POOLED, refine=False)}
            methods |= scans(plays, asking, peer) if scan else {}
            methods |= {
                "windows of several sizes (`refine=False`)": searched(plays, ours, plan=PLAN, refine=False),
                "**`search_moments`**": searched(plays, ours, plan=PLAN, refine=True),
            }
            for name, ask in methods.items():
                clock = (lambda: peer.busy) if name == BY_STUMPY else time.process_time
                results += [measure(plays, asking, ask, (speed, name, kind), clock) for kind in ("clean", "warped")]
                print(f"  {name}: {results[-1].ms:.1f} ms per query", flush=True)
    return results


def draw_one(plays: Sequence[Play], target: Path) -> None:
    """Draw one query, its best hits and how the first aligns."""
    query = choose(plays)[_DRAWN]
    with tempfile.TemporaryDirectory() as folder:
        stored(plays, Path(folder))
        with TrajectoryRetriever(Path(folder) / "archive", default_embedder(PLAN)) as retriever:
            path = Path(folder) / f"{plays[query.episode].seed}.wshard"
            draw(plays, query, retriever.search_moments((path, query.start, query.stop), 3, exclude_self=True), target)


def main() -> None:
    """Record what is missing, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-B: moments of the same kind, with their bounds")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder for recorded episodes")
    parser.add_argument(
        "--ogbench", type=Path, default=Path(".bench/venv-ogbench/bin/python"), help="python with ogbench"
    )
    parser.add_argument("--stumpy", type=Path, default=Path(".bench/venv-stumpy/bin/python"), help="python with stumpy")
    parser.add_argument("--first", type=int, default=100, help="first of 30 seeds; those below 100 were tuned on")
    parser.add_argument("--speed", nargs="+", choices=("variable", "fixed"), default=["variable"])
    parser.add_argument("--no-scans", action="store_true", help="leave out the methods that scan")
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    ask = partial(load, options.cache, first=options.first, python=options.ogbench)
    results = []
    with nullcontext("scans are left out") if options.no_scans else stumpy(options.stumpy) as tool:
        peer = tool if isinstance(tool, Peer) else None
        for speed in options.speed:
            results += run(ask(speed=speed), speed, peer, scan=not options.no_scans)
    tables = [table(results, speed) for speed in options.speed]
    text = "\n\n".join([*tables, f"{tool}."])
    rb_outcome.leave(options, results, text, partial(draw_one, ask(speed=options.speed[0])), also={"peer": str(tool)})


if __name__ == "__main__":
    main()
