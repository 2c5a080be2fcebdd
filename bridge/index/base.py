"""What a vector index is: five verbs over points of one Space.

Knows: the verbs, and the values that go in and come out. Does not know: any backend, the catalog's tables, embedders.

The ledger in the catalog is the truth. An index is a derived copy: `upsert` and `delete` tell it what the ledger has
already committed, so it may be dropped and refilled from the ledger at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from wshard.errors import SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from catalog.filters import Where
    from embedders.space import Space

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Point:
    """All vectors of one episode in one Space: float32 [n, E] of unit length, n >= 1; seq is the ledger's number."""

    episode: int
    seq: int
    vectors: Vectors


@dataclass(frozen=True)
class Match:
    """One hit: the episode's id, which of its windows, and the cosine similarity (-1 to 1, higher is better)."""

    episode: int
    window: int
    score: float


@dataclass(frozen=True)
class Answer:
    """Matches, best first; ties by episode id, then window. exact: proven to be what a full scan would give."""

    matches: tuple[Match, ...]
    exact: bool
    scored: int  # vectors compared with the query


@dataclass(frozen=True)
class Request:
    """How many matches, of which episodes: all that pass `where`; distinct = at most one match per episode."""

    top_k: int
    where: Where
    distinct: bool = True


class VectorIndex(Protocol):
    """Five verbs. Every call names the Space; an index holds many, and never mixes two.

    Each raises SpaceMismatchError for vectors of another size or type and for a Space that the archive does not hold
    (any more), VectorIndexError where the backend fails. bridge/testing.py has the tests that every backend passes.
    """

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Make the points searchable; a point replaces all vectors that its episode had in this Space."""

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a unit vector [E]; min(top_k, as many as exist) of them."""

    def delete(self, space: Space, episodes: Sequence[int]) -> None:
        """Forget these episodes; unknown ones are fine."""

    def count(self, space: Space) -> int:
        """Return the number of vectors held."""

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every point held, in no particular order."""


def check_points(space: Space, points: Sequence[Point]) -> None:
    """Raise SpaceMismatchError unless every point holds float32 vectors [n, E] of the Space's size."""
    for point in points:
        _check(space, point.vectors, f"episode {point.episode}: float32 [n, {space.dim}]", 2)


def check_query(space: Space, query: NDArray[np.generic]) -> None:
    """Raise SpaceMismatchError unless the query is one float32 vector [E] of the Space's size."""
    _check(space, query, f"query: float32 [{space.dim}]", 1)


def _check(space: Space, vectors: NDArray[np.generic], expected: str, axes: int) -> None:
    if vectors.ndim != axes or vectors.shape[-1] != space.dim or vectors.dtype != np.float32:
        raise SpaceMismatchError(
            f"vectors of Space {space.embedder} {space.fingerprint[:12]}: expected {expected}, "
            f"found {vectors.dtype} {list(vectors.shape)}"
        )
