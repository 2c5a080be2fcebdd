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
    """All vectors of one episode in one Space: float32 [n, E] of unit length; seq is the ledger's."""

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

    Raises SpaceMismatchError for vectors of another size or a Space that it does not hold, VectorIndexError where the
    backend fails.
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


def check_vectors(space: Space, vectors: NDArray[np.generic]) -> None:
    """Raise SpaceMismatchError unless the last axis has the Space's size and the type is float32."""
    if vectors.shape[-1:] != (space.dim,) or vectors.dtype != np.float32:
        raise SpaceMismatchError(
            f"expected float32 vectors of {space.dim} numbers (Space {space.embedder} {space.fingerprint[:12]}), "
            f"found {vectors.dtype} {list(vectors.shape)}"
        )
