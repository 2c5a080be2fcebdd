"""The brute-force index that other indexes are compared with, and a harness that feeds both."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import fsum, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import Match, Point, Request, VectorIndex, Vectors
from catalog.filters.evaluate import matches
from catalog.filters.where import EVERYTHING
from catalog.testing.records import make_record
from catalog.vectors.records import EmbeddingRow
from embedders.lanes import LaneSpec
from embedders.space import Space
from embedders.windows import WindowPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.records import EpisodeRow, Facts

    Said: TypeAlias = tuple[Mapping[int, EpisodeRow], Mapping[int, Facts]]

DIM: Final = 6


def make_space(name: str = "contract", dim: int = DIM, metric: str = "cosine") -> Space:
    """Return a Space of windows; another name is another Space."""
    return Space(
        embedder=name,
        version=1,
        parameters={},
        lanes=(LaneSpec("signal/state", (dim,)),),
        windows=WindowPlan(4, 2),
        dim=dim,
        metric=metric,
        statistics=None,
    )


def unit_vectors(count: int, seed: int = 0, dim: int = DIM) -> Vectors:
    """Return random unit vectors float32 [count, dim]; equal arguments give equal vectors."""
    raw = np.random.default_rng(seed).normal(size=(count, dim))
    vectors: Vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
    return vectors


@dataclass
class Shelf:
    """A catalog, the index over it, and what the test has committed: episode -> vectors, by Space.

    exact: whether the index must prove its answers.
    """

    catalog: Catalog
    index: VectorIndex
    stored: dict[str, dict[int, Vectors]] = field(default_factory=dict)
    exact: bool = True
    _said: dict[str, Said] | None = None

    def register(
        self, count: int, *, change: Callable[[EpisodeRecord], EpisodeRecord] = lambda record: record
    ) -> list[int]:
        """Catalogue episodes 0 to count - 1 and return their ids."""
        return [
            done.id for done in self.catalog.episodes.register([change(make_record(number)) for number in range(count)])
        ]

    def put(self, space: Space, vectors: Mapping[int, Vectors]) -> list[Point]:
        """Commit the episodes' vectors to the ledger, update the index, and return the points."""
        space_id = self.catalog.vectors.add_space(space.fingerprint, space.family, space.to_json()).id
        rows = self.catalog.episodes.rows(vectors)
        entries = self.catalog.vectors.write(
            space_id,
            [EmbeddingRow(id_, rows[id_].digest, len(found), found.tobytes()) for id_, found in vectors.items()],
        )
        points = [Point(entry.episode_id, entry.seq, vectors[entry.episode_id]) for entry in entries]
        self.index.upsert(space, points)
        self.stored.setdefault(space.fingerprint, {}).update(vectors)
        return points

    def bury(self, episodes: Sequence[int], *spaces: Space) -> None:
        """Delete the episodes' vectors in every Space, and update the index."""
        self.catalog.episodes.withdraw(episodes)
        for stored in self.stored.values():
            for episode in episodes:
                stored.pop(episode, None)
        for space in spaces:
            self.index.delete(space, episodes)

    @contextmanager
    def still(self) -> Iterator[None]:
        """Cache what the catalog knows about the episodes while nothing changes."""
        self._said = {}
        try:
            yield
        finally:
            self._said = None

    def _says(self, space: Space) -> Said:
        cached = {} if self._said is None else self._said
        if space.fingerprint not in cached:
            stored = self.stored.get(space.fingerprint, {})
            cached[space.fingerprint] = (self.catalog.episodes.rows(stored), self.catalog.query.facts(stored))
        return cached[space.fingerprint]

    def brute_force(self, space: Space, query: Vectors, request: Request) -> list[Match]:
        """Return the right answer."""
        stored = self.stored.get(space.fingerprint, {})
        allowed = set(stored)
        if request.where != EVERYTHING:  # without a filter nobody needs to read what the catalog says
            rows, facts = self._says(space)
            allowed = {episode for episode in stored if matches(request.where, rows[episode], facts[episode])}
        wanted = query.tobytes()
        found = [
            Match(episode, window, score(space.metric, vector.tobytes(), wanted))
            for episode in allowed
            for window, vector in enumerate(stored[episode])
        ]
        found.sort(key=lambda match: (-match.score, match.episode, match.window))
        if request.distinct:
            firsts: dict[int, Match] = {}
            for match in found:
                firsts.setdefault(match.episode, match)
            found = [*firsts.values()]
        return found[: request.top_k]


@lru_cache(maxsize=10_000)
def score(metric: str, left: bytes, right: bytes) -> float:
    """Return the score of two float32 vectors: products of float32 are exact in float64, and fsum rounds once."""
    one, two = np.frombuffer(left, np.float32).tolist(), np.frombuffer(right, np.float32).tolist()
    if metric == "l2":
        return -sqrt(fsum((x - y) ** 2 for x, y in zip(one, two, strict=True)))
    product = fsum(x * y for x, y in zip(one, two, strict=True))
    if metric == "dot":
        return product
    return product / (sqrt(fsum(x * x for x in one)) * sqrt(fsum(x * x for x in two)))
