"""Whole searches of a set of benchmark RB-T: by its own episodes, and by the half of it that is not in the archive."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from rb_a_archive import ingest_rows

from bridge.search.retriever import TrajectoryRetriever
from catalog.filters.where import Compare

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from rb_a_methods import Archive

    Numbers = NDArray[np.int64]

HALVES: Final = 3
"""Random halves of a set, of which the means are taken."""
QUERIES: Final = 120
"""Episodes of each half that ask."""


def measure_whole(archive: Archive) -> Iterator[tuple[str, str, float, float]]:
    """Yield where the queries are from, the method, the mean average precision, and the precision at 1."""
    count = len(archive.episodes)
    halves = [np.sort(np.random.default_rng(seed).permutation(count)[: count // 2]) for seed in range(HALVES)]
    outside = [_thin(np.setdiff1d(np.arange(count), half)) for half in halves]
    asked = {"inside": [(np.arange(count), archive.asking)], "outside": [*zip(halves, outside, strict=True)]}
    for place, pairs in asked.items():
        found = np.array([[*_search(archive, *pair)] for pair in pairs]).mean(axis=0)
        for (precision, first), method in zip(found, ("default", "plain=True"), strict=True):
            yield place, method, float(precision), float(first)


def _thin(numbers: Numbers) -> Numbers:
    return numbers[np.unique(np.linspace(0, len(numbers) - 1, QUERIES).astype(np.int64))]


def _search(archive: Archive, inside: Numbers, asking: Numbers) -> Iterator[tuple[float, float]]:
    """Yield the mean average precision and the precision at 1 among those inside, by default and by one vector."""
    chosen = {*inside.tolist()}
    with tempfile.TemporaryDirectory() as folder:
        episodes = [rows if number in chosen else None for number, rows in enumerate(archive.episodes)]
        with TrajectoryRetriever(ingest_rows(episodes, Path(folder))) as retriever:
            for plain in (False, True):
                rows = []
                for own in asking.tolist():
                    others = ~Compare("episode_id", "eq", str(own))
                    hits = retriever.search_similar_episodes(
                        archive.episodes[own], len(inside), where=others, plain=plain
                    )
                    right = archive.tasks[[int(hit.episode_id) for hit in hits]] == archive.tasks[own]
                    relevant = np.count_nonzero(archive.tasks[inside] == archive.tasks[own]) - (own in chosen)
                    if relevant:
                        precisions = right.cumsum() / np.arange(1, len(right) + 1)
                        rows.append((precisions[right].sum() / relevant, right[0]))
                precision, first = np.mean(rows, axis=0).tolist()
                yield precision, first
