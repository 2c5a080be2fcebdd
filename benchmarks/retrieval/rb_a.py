"""Benchmark RB-A: find episodes of the same task among 1,000 scripted MetaWorld episodes of 50 tasks.

Every few episodes one asks, disturbed in six ways, for the 19 others of its task among all others; mean average
precision over all queries. Prints Markdown tables, writes JSON.

    python benchmarks/retrieval/rb_a.py --channels prop state --json .bench/rb_a.json

The episodes are recorded once (some minutes on two cores) into --cache. Needs the extra "demo".
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from dtw import full_dtw, pad, subsequence_dtw
from rb_a_archive import searched
from rb_a_data import load
from rb_a_disturb import DISTURBANCES

from embedders.arc import ArcDct
from embedders.combine import Combo, Combo2
from embedders.encoder import Shape, save_encoder
from embedders.learned import Learned
from embedders.pooled import Mean
from embedders.space import Statistics
from embedders.spectral import Dct
from embedders.standardise import scales, standardise
from embedders.stats import Stats
from embedders.training import Training, train
from embedders.windows import SCALES, WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from rb_a_data import Recorded

    from embedders.base import Embedder

    Rows = NDArray[np.float64]
    Similarities = NDArray[np.float64]
    Ask = Callable[[list[Rows]], Similarities]

AT_ONCE: Final = 100  # episodes in one call of an alignment: bounds its memory
THROUGH_ARCHIVE: Final = "archive, `--windows both`: whole, windows, expanded"
EXPANSIONS: Final = ("arcdct undamped", "arcdct", "combo2", "learned")
WHOLE: Final[dict[str, Embedder]] = {
    "mean (baseline)": Mean(),
    "stats": Stats(),
    "resample 32": Dct(32, 32),  # the whole orthonormal spectrum: the same cosines as the rows themselves
    "dct": Dct(),
    "arcdct undamped": ArcDct(damping=0.0),
    "arcdct": ArcDct(),
    "arcdct 5 coefficients": ArcDct(coefficients=5, damping=0.0),
    "arcdct along all channels": ArcDct(position=None),
    "sig2": Combo(arcdct=0, dct=0, stats=0),
    "combo": Combo(),
    "combo damped": Combo(damping=0.15),
    "combo2": Combo2(),
}
WINDOWED: Final[dict[str, Embedder]] = {
    "windows, arcdct undamped": ArcDct(damping=0.0),
    "windows, arcdct": ArcDct(),
    "windows, arcdct undamped, level .6": ArcDct(damping=0.0, level=0.6),
    "windows, combo2": Combo2(),
}


@dataclass(frozen=True, eq=False)
class Archive:
    """All episodes on some channels: raw rows, statistics, task numbers, and who asks."""

    episodes: list[Rows]
    statistics: Statistics
    tasks: NDArray[np.int64]
    asking: NDArray[np.int64]

    def queries(self, name: str, first: int) -> list[Rows]:
        """Return what asks, disturbed; a query's number seeds its disturbance."""
        spread = scales(self.statistics.std)
        change = DISTURBANCES[name]
        return [change(self.episodes[n], spread, np.random.default_rng(int(n) + first)) for n in self.asking]


@dataclass(frozen=True)
class Result:
    """One cell of the tables."""

    channels: str
    method: str
    dim: int | None
    disturbance: str
    mean_average_precision: float
    precision_at_1: float
    precision_at_10: float
    ms_per_query: float


def choose_channels(episode: Recorded, channels: str) -> Rows:
    """Return "prop" [T, 8]: hand, gripper and action; or "state" [T, 25]: objects and goal too."""
    seen = episode.observations
    parts = [seen[:, :4]] if channels == "prop" else [seen[:, :18], seen[:, 36:39]]
    return np.concatenate([*parts, episode.actions], axis=1).astype(np.float64)


def make_archive(recorded: Sequence[Recorded], channels: str, every: int) -> Archive:
    """Return the episodes on these channels; every so many of them asks."""
    episodes = [choose_channels(episode, channels) for episode in recorded]
    steps = np.concatenate(episodes)
    _, tasks = np.unique([episode.task for episode in recorded], return_inverse=True)
    statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
    return Archive(episodes, statistics, tasks, np.arange(0, len(episodes), every))


def scored(similarities: Similarities, archive: Archive) -> tuple[float, float, float]:
    """Return mean average precision, precision at 1 and at 10; no query finds itself."""
    own = similarities.copy()
    own[np.arange(len(archive.asking)), archive.asking] = -np.inf
    ranking = np.argsort(-own, axis=1, kind="stable")[:, :-1]
    relevant = archive.tasks[ranking] == archive.tasks[archive.asking][:, None]
    precision = relevant.cumsum(axis=1) / np.arange(1, relevant.shape[1] + 1)
    average = (precision * relevant).sum(axis=1) / relevant.sum(axis=1)
    return float(average.mean()), float(relevant[:, 0].mean()), float(relevant[:, :10].mean())


def expand(vectors: Rows, index: Rows, asking: NDArray[np.int64], count: int = 5, power: float = 3.0) -> Rows:
    """Return unit queries [Q, E], each with its `count` nearest of `index` added, weighted by similarity ** power."""
    similarities = vectors @ index.T
    similarities[np.arange(len(asking)), asking] = -np.inf
    nearest = np.argsort(-similarities, axis=1, kind="stable")[:, :count]
    weights = np.maximum(np.take_along_axis(similarities, nearest, 1), 0.0) ** power
    grown = vectors + (weights[:, :, None] * index[nearest]).sum(axis=1)
    grown /= np.linalg.norm(grown, axis=1, keepdims=True)
    return grown


def whole(embedder: Embedder, archive: Archive, *, expanded: bool = False) -> Ask:
    """Return similarities of whole episodes."""
    index = embedder.embed(archive.episodes, archive.statistics).astype(np.float64)

    def ask(queries: list[Rows]) -> Similarities:
        vectors = embedder.embed(queries, archive.statistics).astype(np.float64)
        return (expand(vectors, index, archive.asking) if expanded else vectors) @ index.T

    return ask


def windowed(embedder: Embedder, archive: Archive) -> Ask:
    """Return similarities to the best window of every episode."""
    spans = [WindowPlan(scales=SCALES).spans(len(rows)).tolist() for rows in archive.episodes]
    cuts = [rows[a:b] for rows, windows in zip(archive.episodes, spans, strict=True) for a, b in windows]
    index = embedder.embed(cuts, archive.statistics).astype(np.float64)
    firsts = np.cumsum([0, *map(len, spans[:-1])])

    def ask(queries: list[Rows]) -> Similarities:
        vectors = embedder.embed(queries, archive.statistics).astype(np.float64)
        return np.stack([np.maximum.reduceat(index @ vector, firsts) for vector in vectors])

    return ask


def scan(align: Callable[..., Similarities], archive: Archive) -> Ask:
    """Return minus the costs of aligning every query with every episode."""
    scored_rows = [standardise(rows, archive.statistics) for rows in archive.episodes]
    parts = [pad(scored_rows[start : start + AT_ONCE]) for start in range(0, len(scored_rows), AT_ONCE)]

    def ask(queries: list[Rows]) -> Similarities:
        asked = [standardise(rows, archive.statistics) for rows in queries]
        return np.stack([np.concatenate([align(rows, part) for part in parts]) for rows in asked])

    return ask


def methods(
    archive: Archive, *, alignment: bool, learned: Embedder | None = None
) -> dict[str, Callable[[], tuple[Ask, int | None]]]:
    """Return what makes each method's index, by name, and the size of its vectors."""
    trained = {} if learned is None else {"learned": learned}
    channels = archive.statistics.mean.size
    made: dict[str, Callable[[], tuple[Ask, int | None]]] = {}
    for name, embedder in (WHOLE | trained).items():
        made[name] = lambda embedder=embedder: (whole(embedder, archive), embedder.dim(channels))
        if name in EXPANSIONS:
            made[f"{name} + QE(5,3)"] = lambda embedder=embedder: (
                whole(embedder, archive, expanded=True),
                embedder.dim(channels),
            )
    of_windows = WINDOWED | {f"windows, {name}": embedder for name, embedder in trained.items()}
    for name, embedder in of_windows.items():
        made[name] = lambda embedder=embedder: (windowed(embedder, archive), embedder.dim(channels))
    if alignment:
        made["full DTW (scan)"] = lambda: (scan(full_dtw, archive), None)
        made["subsequence DTW, steps (1,1) (1,2) (scan)"] = lambda: (scan(subsequence_dtw, archive), None)
    return made


@contextmanager
def trained_on(archive: Archive) -> Iterator[Learned]:
    """Train an encoder on the episodes, without their tasks, and provide its embedder."""
    begun = time.process_time()
    rows = [standardise(episode, archive.statistics) for episode in archive.episodes]
    encoder = train(rows, Shape(archive.statistics.mean.size), Training())
    print(f"  training: {time.process_time() - begun:.0f} s of processor time", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        save_encoder(encoder, Path(folder) / "encoder.shard")
        yield Learned(Path(folder) / "encoder.shard")


def measure(
    archive: Archive, channels: str, first: int, *, alignment: bool, learned: Embedder | None = None
) -> list[Result]:
    """Return the results of all methods under all disturbances."""
    queries = {name: archive.queries(name, first) for name in DISTURBANCES}
    results = []
    for method, make in methods(archive, alignment=alignment, learned=learned).items():
        ask, dim = make()
        results += answered(ask, queries, archive, (channels, method, dim))
    with searched(archive.episodes, archive.asking.tolist()) as ask:
        results += answered(ask, queries, archive, (channels, THROUGH_ARCHIVE, None))
    if learned is not None:
        with searched(archive.episodes, archive.asking.tolist(), learned) as ask:
            results += answered(ask, queries, archive, (channels, f"{THROUGH_ARCHIVE}, learned", None))
    return results


def answered(
    ask: Ask, queries: dict[str, list[Rows]], archive: Archive, about: tuple[str, str, int | None]
) -> list[Result]:
    """Return the results of one method, told by channels, name and size of its vectors, under all disturbances."""
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


def main() -> None:
    """Record what is missing, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-A: episodes of the same task")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder for recorded episodes")
    parser.add_argument("--first", type=int, default=0, help="first seed and goal of the 20 of every task")
    parser.add_argument("--channels", nargs="+", choices=("prop", "state"), default=["prop"])
    parser.add_argument("--every", type=int, default=5, help="every so many episodes one asks: 5 = 200 queries")
    parser.add_argument("--dtw", action="store_true", help="scan with dynamic time warping too (minutes)")
    parser.add_argument("--learned", action="store_true", help="train an encoder too (a minute; needs torch)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that record")
    parser.add_argument("--json", type=Path, help="file for all results")
    options = parser.parse_args()
    recorded = load(options.cache, options.first, options.workers)
    steps = [len(episode.actions) for episode in recorded]
    success = np.mean([episode.success for episode in recorded])
    told = f"{len(recorded)} episodes, {sum(steps)} steps, length {min(steps)} / {np.median(steps):.0f} / {max(steps)}"
    print(f"{told}, success {success:.1%}")
    results = []
    for channels in options.channels:
        archive = make_archive(recorded, channels, options.every)
        with trained_on(archive) if options.learned else nullcontext() as learned:
            results += measure(archive, channels, options.first, alignment=options.dtw, learned=learned)
        print(f"\nmAP, {len(archive.asking)} queries\n")
        print(table(results, channels, lambda result: f"{result.mean_average_precision:.3f}".removeprefix("0")))
        print("\nP@1 / P@10\n")
        print(table(results, channels, lambda r: f"{r.precision_at_1:.3f}/{r.precision_at_10:.3f}".replace("0.", ".")))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        given = {name: str(value) for name, value in vars(options).items()}
        options.json.write_text(json.dumps({"options": given, "results": [asdict(r) for r in results]}, indent=1))


if __name__ == "__main__":
    main()
