"""Measures the health of the vectors of an archive: stale and duplicate vectors, hubness, and search cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.episodes.open import OpenLocations
from bridge.index.base import Request
from bridge.index.metric import COSINE, L2
from catalog.filters.where import EVERYTHING
from embedders.space import Space

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.index.base import Point, Vectors

_NEIGHBOURS: Final = 10
_SAMPLE: Final = 2000  # vectors compared with each other for hubness
_BATCH_ROWS: Final = 256  # rows of catalog and of comparisons at a time


@dataclass(frozen=True)
class Health:
    """Health of one Space.

    stale: share of vectors whose file has changed or is missing. duplicates: share of vectors that equal an earlier
    one. hubness: skewness of how often a vector of a sample is among the ten nearest of the others; above about 3 a few
    vectors are hits of almost every query. certified, scored, milliseconds: share of sampled queries with a proven
    result, share of vectors compared (median), and time (median).
    """

    space: Space
    episodes: int
    vectors: int
    stale: float
    duplicates: float
    hubness: float
    certified: float
    scored: float
    milliseconds: float


def examine(archive: Archive, *, queries: int = 50) -> list[Health]:
    """Return the health of every active Space; `queries` vectors of each are searched for."""
    spaces = [Space.from_json(row.definition) for row in archive.catalog.vectors.spaces("active")]
    return [_examine(archive, space, queries) for space in spaces]


def _examine(archive: Archive, space: Space, queries: int) -> Health:
    """Read the points once, and collect hashes and a sample."""
    rng = np.random.default_rng(0)
    total = archive.index.count(space)
    sampled_numbers = np.sort(rng.choice(total, min(total, _SAMPLE), replace=False)) if total else np.zeros(0, np.int64)
    hashes, sizes, sample, count = [], {}, [], 0
    for point in archive.index.scan(space):
        sizes[point.episode] = len(point.vectors)
        hashes += [xxhash.xxh3_64_intdigest(vector.tobytes()) for vector in point.vectors]
        sample.append(_select_sampled(point, sampled_numbers, count))
        count += len(point.vectors)
    vectors = np.concatenate([np.zeros((0, space.dim), np.float32), *sample])
    sampled = vectors[rng.permutation(len(vectors))[:queries]]
    answers = [_time_query(archive, space, query) for query in sampled]
    certified, scored, milliseconds = np.array(answers or [(1.0, 0.0, 0.0)]).T
    return Health(
        space=space,
        episodes=len(sizes),
        vectors=count,
        stale=_stale(archive, sizes) / max(count, 1),
        duplicates=(count - len(set(hashes))) / max(count, 1),
        hubness=hubness(vectors, space.metric),
        certified=float(certified.mean()),
        scored=float(np.median(scored)) / max(count, 1),
        milliseconds=float(np.median(milliseconds)),
    )


def _select_sampled(point: Point, sampled_numbers: NDArray[np.int64], count_before: int) -> Vectors:
    """Return the vectors of the point whose number, counted over all points, was sampled."""
    first, last = np.searchsorted(sampled_numbers, [count_before, count_before + len(point.vectors)])
    return np.array(point.vectors[sampled_numbers[first:last] - count_before])


def _time_query(archive: Archive, space: Space, query: Vectors) -> tuple[float, float, float]:
    started = time.perf_counter()
    answer = archive.index.search(space, query, Request(_NEIGHBOURS, EVERYTHING))
    return float(answer.exact), float(answer.scored), (time.perf_counter() - started) * 1e3


def _stale(archive: Archive, sizes: dict[int, int]) -> int:
    """Return the number of vectors whose files are missing or have changed since they were ingested."""
    ids, stale = list(sizes), 0
    with OpenLocations() as locations:
        for start in range(0, len(ids), _BATCH_ROWS):
            for id_, files in archive.catalog.episodes.assets(ids[start : start + _BATCH_ROWS]).items():
                stale += 0 if locations.are_unchanged(files) else sizes[id_]
    return stale


def hubness(vectors: Vectors, metric: str = COSINE) -> float:
    """Return the skewness of how often each of the vectors [N, E] is among the ten nearest of the others.

    They have unit length if the metric is the cosine. 0 for fewer than three vectors, and if all counts are equal.
    """
    count = len(vectors)
    neighbours = min(_NEIGHBOURS, count - 1)
    if count < 3:
        return 0.0
    counts = np.zeros(count)
    halves = np.square(vectors).sum(axis=1) / 2 if metric == L2 else 0
    for start in range(0, count, _BATCH_ROWS):
        scores = vectors[start : start + _BATCH_ROWS] @ vectors.T - halves
        scores[np.arange(len(scores)), start + np.arange(len(scores))] = -np.inf
        nearest = np.argpartition(scores, count - neighbours, axis=1)[:, count - neighbours :]
        counts += np.bincount(nearest.ravel(), minlength=count)
    spread = counts.std()
    return float((((counts - counts.mean()) / spread) ** 3).mean()) if spread else 0.0
