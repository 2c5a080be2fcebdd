"""What a vector index is: five verbs over points of one Space, and four more that a backend may have.

The ledger in the catalog is the truth. An index is a derived copy: `upsert` and `delete` say what the ledger has
already committed, so an index may be dropped and refilled from the ledger at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from wshard.errors import EmbedderError, SpaceMismatchError, VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.space import Space

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
"""Of episodes, or numbers of rows."""


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
class Explanation:
    """How an answer was found.

    route: "direct", "scan", "lists", or what was tried and then taken; passing: vectors of the episodes that pass;
    lists: how many of `all_lists` were scanned; tail: vectors younger than the search copy; milliseconds: by step;
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
    explained: Explanation | None = None


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


@dataclass(frozen=True)
class IndexFinding:
    """What an audit found. state: ok, new (never filled), lost (all or some of it), more, damaged, foreign.

    more: than it was given; foreign: made by another archive. documents: what the index counts; expected: what it was
    given; missing: ids that are not, or no longer, ours; reason: what is wrong, in words.
    """

    state: str
    documents: int
    expected: int
    missing: tuple[int, ...] = ()
    reason: str = ""


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


@runtime_checkable
class Auditable(Protocol):
    """An index that may differ from what it was given, because it lies elsewhere."""

    def audit(self, space: Space, *, full: bool = False) -> IndexFinding:
        """Compare with the ledger, changing nothing; full: every vector, not a sample."""


@runtime_checkable
class Rebuildable(Protocol):
    """An index whose part of a Space can be made anew, or taken away."""

    def rebuild(self, space: Space) -> None:
        """Make the Space's part anew from the ledger."""

    def drop(self, space: Space) -> None:
        """Remove the Space's part, whether the archive still holds the Space or not."""


@runtime_checkable
class Repairable(Protocol):
    """An index that can be brought in line with the ledger without being made anew."""

    def repair(self, space: Space) -> None:
        """Bring the Space's part in line with the ledger, whatever it lacks or has too much."""


@runtime_checkable
class VectorReader(Protocol):
    """An index that has the vectors of single episodes at hand, faster than the ledger."""

    def read_vectors(self, space: Space, episodes: Collection[int]) -> dict[int, Vectors]:
        """Return the vectors [n, E], read-only, of those of the episodes that have any in the Space, by id.

        Raises SpaceMismatchError for a Space that the archive does not hold (any more).
        """


def read_vectors(
    index: VectorIndex, space: Space, *, catalog: Catalog, episodes: Collection[int]
) -> dict[int, Vectors]:
    """Return the vectors [n, E], read-only, of those of the episodes that have any in the Space, by id.

    They come from the index, where it is a VectorReader, else from the ledger. Raises SpaceMismatchError for a Space
    that the archive does not hold (any more).
    """
    if isinstance(index, VectorReader):
        return index.read_vectors(space, episodes)
    space_id = find_space(load_spaces(catalog), space)
    found = catalog.vectors.load(space_id, episodes) if episodes else {}
    return {id_: decode_vectors(id_, data, (count, space.dim)) for id_, (count, data) in found.items()}


def load_spaces(catalog: Catalog) -> dict[str, int]:
    """Return the ids of the archive's Spaces by fingerprint, without retired ones."""
    return {row.fingerprint: row.id for row in catalog.vectors.spaces() if row.state != "retired"}


def find_space(spaces: Mapping[str, int], space: Space) -> int:
    """Return the Space's id among the archive's; raises SpaceMismatchError if it is not, or no longer, one of them."""
    if space.fingerprint not in spaces:
        known = ", ".join(fingerprint[:12] for fingerprint in spaces) or "none"
        raise SpaceMismatchError(f"expected a Space of this archive ({known}), found {space.fingerprint[:12]}")
    return spaces[space.fingerprint]


def decode_vectors(episode: int, data: bytes, shape: tuple[int, int]) -> Vectors:
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
