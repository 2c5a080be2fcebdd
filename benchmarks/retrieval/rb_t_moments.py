"""Planted moments for benchmark RB-T: a span is written over others, as it is or changed, and is to be found.

Of each probe five copies lie in five other episodes. Its own episode is filtered out. A copy is found where one of the
first ten hits overlaps it by half.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import rb_b_scan
from rb_a_archive import ingest_rows

from bridge.search.moments.overlap import MomentLimits, suppress
from bridge.search.retriever import TrajectoryRetriever
from catalog.filters.where import Compare
from embedders.space import Statistics
from embedders.standardise import scales, standardise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from rb_a_methods import Archive

    Rows = NDArray[np.float64]
    Hits = Sequence[tuple[int, int, int]]
    Change = Callable[[Rows, Rows, np.random.Generator], Rows]
    Ask = Callable[["Probe"], Hits]

PROBES: Final = 16
COPIES: Final = 5
SIZES: Final = (30, 60)
_HITS: Final = 10
_OVERLAP: Final = 0.3
_RIGHT: Final = 0.5


@dataclass(frozen=True, eq=False)
class Probe:
    """A span [n, D] of an episode, and where its copies lie: (episode, start, stop)."""

    rows: Rows
    source: int
    copies: list[tuple[int, int, int]]


def _copy(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001  (all have one signature)
    return rows


def _noise(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    return rows + 0.3 * spread * rng.standard_normal(rows.shape)


def _warp(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:  # noqa: ARG001
    speed = np.interp(np.linspace(0, 3, len(rows)), np.arange(4), np.exp(0.4 * rng.standard_normal(4)))
    clock = np.concatenate([[0.0], np.cumsum(speed)[:-1]])
    clock *= (len(rows) - 1) / clock[-1]
    count = int(len(rows) * np.exp(rng.uniform(-0.4, 0.4)))
    places = np.interp(np.linspace(0, len(rows) - 1, count), np.arange(len(rows)), clock)
    return np.stack([np.interp(places, np.arange(len(rows)), column) for column in rows.T], axis=1)


def _all_three(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    scaled = rows.mean(axis=0) + (rows - rows.mean(axis=0)) * rng.uniform(0.8, 1.25)
    return _noise(_warp(scaled, spread, rng), spread * (2 / 3), rng)


def _offset(rows: Rows, spread: Rows, rng: np.random.Generator) -> Rows:
    return rows + 0.3 * spread * rng.standard_normal(rows.shape[1])


KINDS: Final[dict[str, Change]] = {
    "copy": _copy,
    "noise": _noise,
    "warp": _warp,
    "warp, noise, scale": _all_three,
    "offset": _offset,
}


def plant(archive: Archive, change: Change, sizes: tuple[int, int] = SIZES) -> tuple[list[Rows], list[Probe]]:
    """Return the episodes with the copies written over them, and the probes; sizes: the shortest, and one too long."""
    rng = np.random.default_rng(17)
    episodes = [rows.copy() for rows in archive.episodes]
    spread = scales(archive.statistics)
    order = [int(one) for one in rng.permutation(len(episodes)) if len(episodes[one]) >= 80]
    probes, used = [], PROBES
    for source in order[:PROBES]:
        size = int(rng.integers(*sizes))
        begin = int(rng.integers(0, len(episodes[source]) - size))
        rows, copies = archive.episodes[source][begin : begin + size], []
        for _ in range(COPIES):
            place, used = order[used], used + 1
            changed = change(rows, spread, rng)[: len(episodes[place])]
            start = int(rng.integers(0, len(episodes[place]) - len(changed) + 1))
            episodes[place][start : start + len(changed)] = changed
            copies.append((place, start, start + len(changed)))
        probes.append(Probe(rows, source, copies))
    return episodes, probes


def planted(archive: Archive) -> Iterator[tuple[str, str, float, float]]:
    """Yield (method, kind, recall among ten hits, median error of the bounds in steps)."""
    for kind, change in KINDS.items():
        episodes, probes = plant(archive, change)
        steps = np.concatenate(episodes)
        statistics = Statistics(len(steps), steps.mean(axis=0), steps.std(axis=0))
        references = [standardise(rows, statistics) for rows in episodes]
        standard = partial(standardise, statistics=statistics)
        scans = {
            "subsequence DTW, (1,1) (1,2) (scan)": rb_b_scan.dtw_scan(free=False),
            "z-normalised profile (scan)": rb_b_scan.profile_scan(rb_b_scan.shape_profile),
        }
        for method, scan in scans.items():
            yield method, kind, *judge(probes, partial(_scan, scan, references, standard))
        with (
            tempfile.TemporaryDirectory() as name,
            TrajectoryRetriever(ingest_rows(episodes, Path(name))) as retriever,
        ):
            for method, refine in (("windows (`refine=False`)", False), ("**`search_moments`**", True)):
                yield method, kind, *judge(probes, partial(search_planted, retriever, refine=refine))


def judge(probes: Sequence[Probe], ask: Ask) -> tuple[float, float]:
    """Return the recall among ten hits, and the median error of the bounds in steps."""
    found, errors = [], []
    for probe in probes:
        hits = ask(probe)
        for episode, start, stop in probe.copies:
            shares = [
                (min(stop, b) - max(start, a)) / (max(stop, b) - min(start, a))
                for where, a, b in hits
                if where == episode
            ]
            right = max(shares, default=0.0) >= _RIGHT
            found.append(right)
            if right:
                a, b = max(
                    ((a, b) for where, a, b in hits if where == episode),
                    key=lambda s: min(stop, s[1]) - max(start, s[0]),
                )
                errors.append((abs(a - start) + abs(b - stop)) / 2)
    return float(np.mean(found)), float(np.median(errors)) if errors else float("nan")


def _scan(
    scan: Callable[[Rows, Rows], rb_b_scan.Candidates],
    references: Sequence[Rows],
    standard: Callable[[Rows], Rows],
    probe: Probe,
) -> Hits:
    query = standard(probe.rows)
    others = [number for number in range(len(references)) if number != probe.source]
    found = [scan(query, references[number]) for number in others]
    episodes = np.repeat(others, [len(costs) for costs, _, _ in found])
    costs, starts, stops = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(costs, kind="stable")
    spans = np.stack([starts, stops], axis=1)[order]
    places = suppress(episodes[order], spans, MomentLimits(_HITS, _OVERLAP))
    return [(int(episodes[order[place]]), int(spans[place][0]), int(spans[place][1])) for place in places]


def search_planted(retriever: TrajectoryRetriever, probe: Probe, *, refine: bool) -> Hits:
    """Return the moments that a search finds in other episodes than the probe's own."""
    others = ~Compare("episode_id", "eq", str(probe.source))
    hits = retriever.search_moments(probe.rows, _HITS, where=others, refine=refine, max_overlap=_OVERLAP)
    return [(int(hit.episode_id), *hit.span) for hit in hits]
