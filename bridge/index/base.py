"""What a vector index is: five verbs over points of one Space.

Knows: the verbs, and the values that go in and come out. Does not know: any backend, the catalog's tables, embedders.

The ledger in the catalog is the truth. An index is a derived copy: `upsert` and `delete` tell it what the ledger has
already committed, so it may be dropped and refilled from the ledger at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wshard.errors import EmbedderError, SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from catalog.filters.where import Where
    from embedders.space import Space

Vectors = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Point:
    """All vectors of one episode in one Space: float32 [n, E], n >= 1; seq is the ledger's number.

    Of unit length where the Space's metric is the cosine.
    """

    episode: int
    seq: int
    vectors: Vectors


class Match(NamedTuple):
    """One hit: the episode's id, which of its windows, and the score, higher is better.

    That is the cosine (-1 to 1), the inner product (dot), or the negative Euclidean distance (l2), as the Space's
    metric says.
    """

    episode: int
    window: int
    score: float


@dataclass(frozen=True)
class Explained:
    """How an answer was found.

    route: "direct", "scan", "lists", or what was tried and then taken; passing: vectors of the episodes that pass;
    lists: how many of `all_lists` were visited; tail: vectors younger than the search copy; milliseconds: by step;
    kernel: what compared them, "numpy" or "numba".
    """

    route: str
    passing: int
    scored: int
    lists: int
    all_lists: int
    tail: int
    milliseconds: Mapping[str, float]
    kernel: str = "numpy"


@dataclass(frozen=True)
class Answer:
    """Matches, best first; ties by episode id, then window. exact: proven to be what a full scan would give."""

    matches: tuple[Match, ...]
    exact: bool
    scored: int  # vectors compared with the query
    explained: Explained | None = None


@dataclass(frozen=True)
class Request:
    """How many matches, of which episodes: all that pass `where`; distinct = at most one match per episode.

    budget: after so many vectors were compared, what was found until then may be the answer, with exact = False; there
    are top_k matches all the same. explain: say how the answer was found. A backend may not know either.
    """

    top_k: int
    where: Where
    distinct: bool = True
    budget: int | None = None
    explain: bool = False


class VectorIndex(Protocol):
    """Five verbs. Every call names the Space; an index holds many, and never mixes two.

    Each raises SpaceMismatchError for vectors of another size or type and for a Space that the archive does not hold
    (any more), EmbedderError for a query that is not finite, VectorIndexError where the backend fails.
    bridge/testing/index_contract.py has the tests that every backend passes.
    """

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Make the points searchable; a point replaces all vectors that its episode had in this Space."""

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a vector [E]; min(top_k, as many as exist) of them."""

    def delete(self, space: Space, episodes: Sequence[int]) -> None:
        """Let go of those of these episodes that the ledger has buried.

        One that the ledger holds, because it was embedded again meanwhile, say, stays; unknown ones are fine.
        """

    def count(self, space: Space) -> int:
        """Return the number of vectors held."""

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every point held, in no particular order."""


def stored_vectors(episode: int, data: bytes, shape: tuple[int, int]) -> Vectors:
    """Return the vectors of an episode from what the ledger holds of them; VectorIndexError where that is not so."""
    if len(data) != 4 * shape[0] * shape[1]:
        raise VectorIndexError(
            f"the vectors of episode {episode}: expected float32 {list(shape)} in the ledger, found {len(data)} bytes; "
            f"`wshard fsck --repair` embeds it anew"
        )
    return np.frombuffer(data, "<f4").reshape(shape)


def check_points(space: Space, points: Sequence[Point]) -> None:
    """Raise SpaceMismatchError unless every point holds float32 vectors [n, E] of the Space's size."""
    for point in points:
        _check(space, point.vectors, f"episode {point.episode}: float32 [n, {space.dim}]", 2)


def check_query(space: Space, query: NDArray[np.generic]) -> None:
    """Raise SpaceMismatchError unless the query is float32 [E] of the Space's size, EmbedderError for NaN."""
    _check(space, query, f"query: float32 [{space.dim}]", 1)
    finite = np.isfinite(query)
    if not finite.all():
        raise EmbedderError(f"query: expected finite numbers, found {query[~finite][0]} at {finite.argmin()}")


def _check(space: Space, vectors: NDArray[np.generic], expected: str, axes: int) -> None:
    if vectors.ndim != axes or vectors.shape[-1] != space.dim or vectors.dtype != np.float32:
        raise SpaceMismatchError(
            f"vectors of Space {space.embedder} {space.fingerprint[:12]}: expected {expected}, "
            f"found {vectors.dtype} {list(vectors.shape)}"
        )
