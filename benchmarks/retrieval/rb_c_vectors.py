"""Benchmark RB-C, the part that works from vectors: copies, leaks between two sets, swapped labels, shared pieces.

The episodes of RB-A are saved as files, some of them again as copies, and ingested; then the verbs of the command line
look for what was put there. Prints a Markdown table; --out writes it, JSON and a picture.

    python benchmarks/retrieval/rb_c_vectors.py --out .bench/rb_c_vectors

Thresholds were chosen on --first 0; --first 100 is the result. Needs the extra "demo".
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_outcome
from rb_a_data import load
from rb_c import area
from rb_c_copies import EXACT, NEAR, distinct, pair_of, save_all
from rb_c_pieces import measure_pieces
from rb_c_plot import Found, draw_found

from bridge.archive import open_archive
from bridge.curation.archive_vectors import read_chosen_vectors
from bridge.curation.duplicates import find_duplicates, find_leaks
from bridge.curation.signals import find_mislabeled
from bridge.ingest.ingestor import TrajectoryIngestor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rb_c_copies import Originals, Pair

    from bridge.archive import Archive

GOALS: Final = {"recall, exact": 1.0, "recall": 0.98, "precision": 0.98, "AUC": 0.97}


def measure(originals: Originals, channels: str, seed: int = 0) -> list[Found]:
    """Return what is found of the copies, leaks and swapped labels put among these episodes; channels: their name."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "data"
        folder.mkdir()
        pairs = save_all(folder, originals, seed)
        with TrajectoryIngestor(Path(scratch) / "archive") as ingestor:
            report = ingestor.ingest([folder], windows="whole")
        if report.failed:
            raise SystemExit(f"left out: {report.failed[:3]}")
        with open_archive(Path(scratch) / "archive") as archive:
            begun = time.perf_counter()
            found = {pair_of(twin) for twin in find_duplicates(archive)}
            print(f"  {channels}: duplicates in {time.perf_counter() - begun:.1f} s", flush=True)
            return [
                *_duplicates(found, pairs, channels),
                *_by_threshold(archive, pairs, channels),
                *_leaks(archive, pairs, channels, seed),
                _labels(archive, channels),
            ]


def _duplicates(found: set[Pair], pairs: dict[str, set[Pair]], channels: str) -> list[Found]:
    results = [
        Found(channels, kind, "recall, exact" if kind in EXACT else "recall", len(found & made) / len(made), len(made))
        for kind, made in pairs.items()
    ]
    near = set().union(*(made for kind, made in pairs.items() if kind not in EXACT))
    every = set().union(*pairs.values())
    results.append(Found(channels, "near duplicates", "recall", len(found & near) / len(near), len(near)))
    others = found - every
    precision = len(found & near) / max(1, len(found & near) + len(others))
    results.append(Found(channels, "near duplicates", "precision", precision, len(found & near) + len(others)))
    return results


def _by_threshold(archive: Archive, pairs: dict[str, set[Pair]], channels: str) -> list[Found]:
    """Return the precision of the best threshold of the cosine alone at a recall of 0.98: the baseline."""
    stored = read_chosen_vectors(archive, "")
    near = set().union(*(made for kind, made in pairs.items() if kind in NEAR))
    exact = set().union(*(made for kind, made in pairs.items() if kind not in NEAR))
    names = [Path(row.path).stem for row in stored.episodes]
    found: list[tuple[float, bool]] = []
    for one, row in enumerate(stored.vectors):
        apart = np.linalg.norm(stored.vectors[one + 1 :].astype(np.float64) - row, axis=1)
        for place in np.flatnonzero(apart <= 1.0).tolist():
            pair = frozenset({names[one], names[one + 1 + place]})
            if pair not in exact:
                found.append((float(apart[place]), pair in near))
    true = np.array([one for _, one in sorted(found)])
    place = int(np.searchsorted(true.cumsum(), int(np.ceil(0.98 * len(near)))))
    return [
        Found(
            channels, "near duplicates by cosine alone", "precision at recall .98", true[: place + 1].mean(), len(near)
        )
    ]


def _leaks(archive: Archive, pairs: dict[str, set[Pair]], channels: str, seed: int) -> list[Found]:
    """Return how well leaks are found between a random half of the files and the other half."""
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids())
    rng = np.random.default_rng(seed + 1)
    train = {id_ for id_ in rows if rng.random() < 0.5}
    archive.catalog.annotations.tag(sorted(train), "train")
    halves = {Path(row.path).stem: row.id in train for row in rows.values()}
    made = {pair for kind in pairs.values() for pair in kind if len({halves[name] for name in pair}) == 2}
    found = {pair_of(twin) for twin in find_leaks(archive, "tag:train", "-tag:train")}
    return [
        Found(channels, "leaks", "recall", len(found & made) / len(made), len(made)),
        Found(channels, "leaks", "precision", len(found & made) / max(1, len(found)), len(found)),
    ]


def _labels(archive: Archive, channels: str) -> Found:
    found = find_mislabeled(archive, "task", "meta.swapped:true OR meta.swapped:false")
    wrong = np.array([one.episode.metadata["swapped"] for one in found], bool)
    values = np.array([one.value for one in found])
    return Found(channels, "swapped labels", "AUC", area(values[wrong], values[~wrong]), int(wrong.sum()))


def table(results: Iterable[Found]) -> str:
    """Return a Markdown table with a column per choice of channels."""
    cells: dict[tuple[str, str], dict[str, float]] = {}
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
    parser.add_argument("--first", type=int, default=100, help="first of 20 seeds; those below 100 were tuned on")
    parser.add_argument("--channels", nargs="+", choices=("prop", "state"), default=["prop", "state"])
    parser.add_argument("--seed", type=int, default=0, help="another seed, other copies")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that record")
    rb_outcome.add_option(parser)
    options = parser.parse_args()
    recorded = load(options.cache, options.first, options.workers)
    results = []
    for channels in options.channels:
        originals = distinct(recorded, channels)
        results += measure(originals, channels, options.seed)
        results += [Found(channels, "shared pieces", *measured) for measured in measure_pieces(originals, options.seed)]
    rb_outcome.leave(options, results, table(results), partial(draw_found, results, GOALS))


if __name__ == "__main__":
    main()
