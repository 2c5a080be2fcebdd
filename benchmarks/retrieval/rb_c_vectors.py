"""Benchmark RB-C, the part that works from vectors: copies, leaks between two sets, swapped labels.

The episodes of RB-A are saved as files, some of them again as copies, and ingested; then the verbs of the command line
look for what was put there. Prints a Markdown table, writes JSON.

    python benchmarks/retrieval/rb_c_vectors.py --first 100 --json .bench/rb_c_vectors.json

Thresholds were chosen on --first 0; --first 100 is the result. Needs the extra "demo" where episodes are not recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from rb_a import choose_channels
from rb_a_data import Recorded, load

from bridge.archive import open_archive
from bridge.curation.duplicates import find_duplicates, find_leaks
from bridge.curation.held import hold_one
from bridge.curation.line import close_pairs
from bridge.curation.pieces import find_pieces
from bridge.curation.signals import find_mislabeled
from bridge.ingest import TrajectoryIngestor
from embedders.windows import SCALES, WindowPlan
from wshard.episode_file import save_wshard
from wshard.types import Channel, Episode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.curation.duplicates import Twin

    Rows = NDArray[np.float64]
    Pair = frozenset[str]

CUT: Final = 0.05
MISLABELED: Final = 0.05
LARGEST_NOISE: Final = 1e-2
COPIES: Final = 40  # of each kind
LEAST: Final = 60  # timesteps of an episode that pieces are taken from
GOALS: Final = {"recall, exact": 1.0, "recall": 0.98, "precision": 0.98, "AUC": 0.97}


@dataclass(frozen=True)
class Result:
    """One line of the table: what was looked for, how it is measured, and how many there were to be found."""

    channels: str
    sought: str
    measure: str
    value: float
    count: int


def _noisy(size: float) -> Callable[[Rows, Rows, np.random.Generator], Rows]:
    return lambda rows, spread, rng: rows + size * spread * rng.standard_normal(rows.shape)


def _trimmed(front: float) -> Callable[[Rows, Rows, np.random.Generator], Rows]:
    """Return what takes 5 % away, so much of it in front."""

    def trim(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (all have one signature)
        gone = max(1, int(CUT * len(rows)))
        first = int(front * gone)
        return rows[first : len(rows) - (gone - first)]

    return trim


def _halved(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (as above)
    return rows.astype(np.float16).astype(np.float64)


def _rounded(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (as above)
    """Return the rows as 12-bit integers over the range of each channel would give them back."""
    low, step = rows.min(axis=0), np.maximum(np.ptp(rows, axis=0), 1e-9) / 4095
    rounded: Rows = np.round((rows - low) / step) * step + low
    return rounded


NEAR: Final = {
    "noise 0.001": _noisy(1e-3),
    "noise 0.003": _noisy(3e-3),
    "noise 0.01": _noisy(LARGEST_NOISE),
    "5 % cut in front": _trimmed(1.0),
    "5 % cut at the end": _trimmed(0.0),
    "5 % cut on both sides": _trimmed(0.5),
    "encoded in 16-bit floats": _halved,
    "encoded in 12-bit integers": _rounded,
}


def _episode(name: str, task: str, rows: Rows) -> Episode:
    lane = Channel.of("state", rows.astype(np.float32))
    return Episode(name, task, len(rows), observations={"state": lane}, metadata={"task": task})


def distinct(recorded: Sequence[Recorded], channels: str) -> tuple[list[Rows], NDArray[np.str_], Rows]:
    """Return rows, tasks and spread of the episodes that are not recorded twice already.

    Some goals differ in nothing that the channels show: a later episode of a task that is within the largest noise
    of an earlier one, on whatever both have at some offset of up to 15 %, would be a copy that nobody made.
    """
    every = [choose_channels(episode, channels) for episode in recorded]
    spread = np.concatenate(every).std(axis=0)
    units = np.where(spread < 1e-6, 1.0, spread)
    kept: list[int] = []
    for number, rows in enumerate(every):
        same_task = (other for other in kept if recorded[other].task == recorded[number].task)
        if not any(_doubled(every[other] / units, rows / units) for other in same_task):
            kept.append(number)
    print(f"  {channels}: {len(every) - len(kept)} of {len(every)} episodes are recorded twice already", flush=True)
    return [every[number] for number in kept], np.array([recorded[number].task for number in kept]), spread


def _doubled(left: Rows, right: Rows) -> bool:
    most = int(0.15 * max(len(left), len(right)))
    for one, other in ((left, right), (right, left)):
        for shift in range(most + 1):
            both = min(len(one) - shift, len(other))
            if both > 0 and np.sqrt(((one[shift : shift + both] - other[:both]) ** 2).mean()) <= LARGEST_NOISE:
                return True
    return False


def save_all(folder: Path, recorded: Sequence[Recorded], channels: str, seed: int) -> dict[str, set[Pair]]:
    """Save the episodes and copies of some of them, each original at most once; return the pairs by kind."""
    episodes, tasks, spread = distinct(recorded, channels)
    rng = np.random.default_rng(seed)
    labels = tasks.copy()
    swapped = rng.permutation(len(episodes))[: int(MISLABELED * len(episodes))]
    for number in swapped:
        labels[number] = rng.choice(np.unique(tasks[tasks != tasks[number]]))
    for number, rows in enumerate(episodes):
        one = _episode(f"e{number}", str(labels[number]), rows)
        one.metadata["swapped"] = bool(number in set(swapped.tolist()))
        save_wshard(one, folder / f"e{number}.wshard")
    unused = iter(rng.permutation(len(episodes)).tolist())
    pairs: dict[str, set[Pair]] = {}
    for kind in ("the same file", "saved again", *NEAR):
        for _ in range(min(COPIES, len(episodes) // (len(NEAR) + 2))):
            number = next(unused)
            name = f"e{number}" if kind == "the same file" else f"c{number}"
            target = folder / f"copy-{number}.wshard"
            if kind == "the same file":
                shutil.copy(folder / f"e{number}.wshard", target)
            else:
                rows = episodes[number] if kind not in NEAR else NEAR[kind](episodes[number], spread, rng)
                save_wshard(_episode(name, str(tasks[number]), rows), target, compression="zstd")
            pairs.setdefault(kind, set()).add(frozenset({f"e{number}", f"copy-{number}"}))
    return pairs


def measure(recorded: Sequence[Recorded], channels: str, seed: int = 0) -> list[Result]:
    """Return all results on these channels ("prop" or "state")."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        folder.mkdir()
        pairs = save_all(folder, recorded, channels, seed)
        with TrajectoryIngestor(Path(scratch) / "archive") as ingestor:
            report = ingestor.ingest([folder])
        if report.failed:
            raise SystemExit(f"left out: {report.failed[:3]}")
        with open_archive(Path(scratch) / "archive") as archive:
            begun = time.perf_counter()
            found = {_pair(twin) for twin in find_duplicates(archive)}
            print(f"  {channels}: duplicates in {time.perf_counter() - begun:.1f} s", flush=True)
            return [
                *_duplicates(found, pairs, channels),
                *_by_threshold(archive, pairs, channels),
                *_leaks(archive, pairs, channels, seed),
                _labels(archive, channels),
            ]


def measure_pieces(recorded: Sequence[Recorded], channels: str, seed: int = 0) -> list[Result]:
    """Return how well shared pieces are found: copies made of the ends of one episode and the beginnings of another."""
    episodes, tasks, _ = distinct(recorded, channels)
    rng = np.random.default_rng(seed + 2)
    chosen = rng.permutation(np.flatnonzero([len(rows) >= LEAST for rows in episodes]))[: 2 * COPIES]
    expected: dict[Pair, tuple[int, int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        folder.mkdir()
        for number, rows in enumerate(episodes):
            save_wshard(_episode(f"e{number}", str(tasks[number]), rows), folder / f"e{number}.wshard")
        for first, second in zip(chosen[::2].tolist(), chosen[1::2].tolist(), strict=True):
            end, begin = int(0.4 * len(episodes[first])), int(0.6 * len(episodes[second]))
            rows = np.concatenate([episodes[first][end:], episodes[second][:begin]])
            name = f"copy-{first}-{second}"
            save_wshard(_episode(name, str(tasks[first]), rows), folder / f"{name}.wshard")
            expected[frozenset({f"e{first}", name})] = (end, len(episodes[first]))
            expected[frozenset({f"e{second}", name})] = (0, begin)
        with TrajectoryIngestor(Path(scratch) / "archive") as ingestor:
            ingestor.ingest([folder], windows=WindowPlan(scales=SCALES))
        with open_archive(Path(scratch) / "archive") as archive:
            begun = time.perf_counter()
            twins = {_pair(twin): twin for twin in find_pieces(archive)}
            print(f"  {channels}: pieces in {time.perf_counter() - begun:.1f} s", flush=True)
    found = expected.keys() & twins.keys()
    errors = [np.abs(np.subtract(_original(twins[pair]), expected[pair])).mean() for pair in found]
    return [
        Result(channels, "shared pieces", "recall of pairs", len(found) / len(expected), len(expected)),
        Result(channels, "shared pieces", "median error of bounds, timesteps", float(np.median(errors)), len(found)),
    ]


def _original(twin: Twin) -> tuple[int, int]:
    """Return the timesteps of the piece in the episode that is no copy."""
    start, stop = twin.span or (0, 0)
    back = twin.shift if "copy" in Path(twin.left.path).stem else 0
    return start - back, stop - back


def _pair(twin: Twin) -> Pair:
    return frozenset({Path(twin.left.path).stem, Path(twin.right.path).stem})


def _duplicates(found: set[Pair], pairs: dict[str, set[Pair]], channels: str) -> list[Result]:
    exact = {"the same file", "saved again"}
    results = [
        Result(channels, kind, "recall, exact" if kind in exact else "recall", len(found & made) / len(made), len(made))
        for kind, made in pairs.items()
    ]
    near = set().union(*(made for kind, made in pairs.items() if kind not in exact))
    every = set().union(*pairs.values())
    results.append(Result(channels, "near duplicates", "recall", len(found & near) / len(near), len(near)))
    others = found - every
    precision = len(found & near) / max(1, len(found & near) + len(others))
    results.append(Result(channels, "near duplicates", "precision", precision, len(found & near) + len(others)))
    return results


def _by_threshold(archive: Archive, pairs: dict[str, set[Pair]], channels: str) -> list[Result]:
    """Return the precision of the best threshold of the cosine alone at a recall of 0.98: the baseline."""
    held = hold_one(archive, "")
    near = set().union(*(made for kind, made in pairs.items() if kind in NEAR))
    exact = set().union(*(made for kind, made in pairs.items() if kind not in NEAR))
    names = [Path(row.path).stem for row in held.episodes]
    found: list[tuple[float, bool]] = []
    for left, right, apart in close_pairs(held.vectors, None, 1.0):
        for one, other, distance in zip(left.tolist(), right.tolist(), apart.tolist(), strict=True):
            pair = frozenset({names[one], names[other]})
            if pair not in exact:
                found.append((distance, pair in near))
    true = np.array([one for _, one in sorted(found)])
    place = int(np.searchsorted(true.cumsum(), int(np.ceil(0.98 * len(near)))))
    return [
        Result(
            channels, "near duplicates by cosine alone", "precision at recall .98", true[: place + 1].mean(), len(near)
        )
    ]


def _leaks(archive: Archive, pairs: dict[str, set[Pair]], channels: str, seed: int) -> list[Result]:
    """Return how well leaks are found between a random half of the files and the other half."""
    rows = archive.catalog.rows(archive.catalog.ids())
    rng = np.random.default_rng(seed + 1)
    train = {id_ for id_ in rows if rng.random() < 0.5}
    archive.catalog.tag(sorted(train), "train")
    halves = {Path(row.path).stem: row.id in train for row in rows.values()}
    made = {pair for kind in pairs.values() for pair in kind if len({halves[name] for name in pair}) == 2}
    found = {_pair(twin) for twin in find_leaks(archive, "tag:train", "-tag:train")}
    return [
        Result(channels, "leaks", "recall", len(found & made) / len(made), len(made)),
        Result(channels, "leaks", "precision", len(found & made) / max(1, len(found)), len(found)),
    ]


def _labels(archive: Archive, channels: str) -> Result:
    found = find_mislabeled(archive, "task", "meta.swapped:true OR meta.swapped:false")
    wrong = np.array([one.episode.metadata["swapped"] for one in found], bool)
    values = np.array([one.value for one in found])
    return Result(channels, "swapped labels", "AUC", area(values[wrong], values[~wrong]), int(wrong.sum()))


def area(positive: Rows, negative: Rows) -> float:
    """Return the share of (positive, negative) pairs in which the positive has the larger value; ties count half."""
    larger = (positive[:, None] > negative).mean()
    return float(larger + (positive[:, None] == negative).mean() / 2)


def table(results: Iterable[Result]) -> str:
    """Return a Markdown table with a column per choice of channels."""
    cells: dict[tuple[str, str, int], dict[str, float]] = {}
    listed = list(results)
    columns = list(dict.fromkeys(result.channels for result in listed))
    for result in listed:
        cells.setdefault((result.sought, result.measure), {})[result.channels] = result.value
    lines = [f"| sought | measure | {' | '.join(columns)} | goal |", "|---" * (len(columns) + 3) + "|"]
    for (sought, name), values in cells.items():
        shown = " | ".join(f"{values[column]:.3f}" if column in values else "" for column in columns)
        lines.append(f"| {sought} | {name} | {shown} | {GOALS.get(name, '')} |")
    return "\n".join(lines)


def main() -> None:
    """Record what is missing, measure, print, write."""
    parser = argparse.ArgumentParser(description="RB-C from vectors: copies, leaks, swapped labels")
    parser.add_argument("--cache", type=Path, default=Path(".bench"), help="folder for recorded episodes")
    parser.add_argument("--first", type=int, default=100, help="first seed of the 20 episodes of every task")
    parser.add_argument("--channels", nargs="+", choices=("prop", "state"), default=["prop", "state"])
    parser.add_argument("--pieces", action="store_true", help="look for shared pieces too (a minute)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other copies")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that record")
    parser.add_argument("--json", type=Path, help="file for all results")
    options = parser.parse_args()
    recorded = load(options.cache, options.first, options.workers)
    results = []
    for channels in options.channels:
        results += measure(recorded, channels, options.seed)
        results += measure_pieces(recorded, channels, options.seed) if options.pieces else []
    print(table(results))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(result) for result in results], indent=2))


if __name__ == "__main__":
    main()
