"""Interface of a vector index: five required methods, and optional ones with defaults.

The ledger in the catalog is the source of truth, and an index is a derived copy: `upsert` and `delete` repeat what the
ledger has already committed, so an index may be dropped and refilled at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bridge.index.stored_rows import StoredRows, decode_vectors, find_space, load_spaces, sort_distinct
from wshard.errors import EmbedderError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from bridge.index.derived_numbers import DerivedNumbers
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.space import Space

Vectors = NDArray[np.float32]
Ids = NDArray[np.int64]
"""Ids of episodes, or numbers of rows."""


@dataclass(frozen=True, eq=False, slots=True)
class Point:
    """All vectors of one episode in one Space: float32 [n, E], n >= 1; seq is the ledger's sequence number.

    Vectors have unit length if the Space's metric is the cosine.
    """

    episode: int
    seq: int
    vectors: Vectors


class Match(NamedTuple):
    """One hit: the episode's id, the number of the window, and the score (higher is better).

    The score is the cosine (-1 to 1), the inner product (dot) or the negative Euclidean distance (l2), depending on the
    metric of the Space.
    """

    episode: int
    window: int
    score: float


@dataclass(frozen=True)
class Explanation:
    """How an answer was found.

    route: "scan", "lists", or what was tried and then taken; allowed: vectors of the episodes that pass; scored:
    vectors compared, which may be others too where one pass over all is quicker; lists: how many of `all_lists` were
    scanned; tail: vectors younger than the search copy; milliseconds: by step.
    """

    route: str
    allowed: int
    scored: int
    lists: int
    all_lists: int
    tail: int
    milliseconds: Mapping[str, float]


class Matches(Sequence[Match]):
    """Hits as columns: episodes and windows int64 [n], scores float64 [n]."""

    def __init__(self, episodes: Ids, windows: Ids, scores: NDArray[np.float64]) -> None:
        self.episodes = episodes
        self.windows = windows
        self.scores = scores

    @staticmethod
    def of(matches: Sequence[Match]) -> Matches:
        """Return matches as columns."""
        if isinstance(matches, Matches):
            return matches
        episodes, windows, scores = zip(*matches, strict=True) if matches else ((), (), ())
        return Matches(np.array(episodes, np.int64), np.array(windows, np.int64), np.array(scores, np.float64))

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, place: int) -> Match: ...

    @overload
    def __getitem__(self, place: slice) -> Matches: ...

    def __getitem__(self, place: int | slice) -> Match | Matches:
        columns = self.episodes[place], self.windows[place], self.scores[place]
        if isinstance(place, slice):
            return Matches(*columns)
        return Match(int(columns[0]), int(columns[1]), float(columns[2]))

    def __iter__(self) -> Iterator[Match]:
        return map(Match, self.episodes.tolist(), self.windows.tolist(), self.scores.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # arrays can change

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True)
class Answer:
    """Matches, best first; ties by episode id, then window. exact: proven to equal the result of a full scan.

    coverage: which shards answered, of an index that has several.
    """

    matches: Sequence[Match]
    exact: bool
    scored: int  # vectors compared with the query
    explained: Explanation | None = None
    coverage: str = ""

    @property
    def columns(self) -> Matches:
        """The matches as columns."""
        return Matches.of(self.matches)


@dataclass(frozen=True)
class Request:
    """Number of matches, and the filter `where` on episodes; distinct = at most one match per episode.

    budget: number of compared vectors after which the search may stop with top_k approximate matches and exact = False.
    explain: report how the index found them. Backends may ignore both.
    """

    top_k: int
    where: Where
    distinct: bool = True
    budget: int | None = None
    explain: bool = False


@dataclass(frozen=True)
class IndexFinding:
    """Result of an audit. state: ok, new (never filled), lost (all or some of it), more, damaged, foreign.

    more: more documents than were sent; foreign: made by another archive. documents: the index's count; expected: the
    number sent; missing: ids that are missing or reused; reason: the problem, as text.
    """

    state: str
    documents: int
    expected: int
    missing: tuple[int, ...] = ()
    reason: str = ""


class VectorIndex(Protocol):
    """Base of vector indexes: five required methods, then optional ones. An index never mixes two Spaces.

    Methods raise SpaceMismatchError for vectors of another size or dtype and for a Space that the archive does not
    have, EmbedderError for a query with NaN or infinities, and VectorIndexError if the backend fails.
    bridge/testing/index_contract.py has the contract tests for backends.
    """

    def upsert(self, space: Space, points: Sequence[Point]) -> None:
        """Add points; a point replaces all vectors of its episode in this Space."""

    def search(self, space: Space, query: Vectors, request: Request) -> Answer:
        """Return the best matches of a vector [E]; min(top_k, as many as exist) of them."""

    def delete(self, space: Space, episodes: Sequence[int]) -> None:
        """Delete those of these episodes that are deleted in the ledger.

        Episodes that the ledger has, for example because they were embedded again, are kept; unknown ids are ignored.
        """

    def count(self, space: Space) -> int:
        """Return the number of vectors in the index."""

    def scan(self, space: Space) -> Iterator[Point]:
        """Yield every point, in no particular order."""

    def read_vectors(self, space: Space, episodes: Ids) -> StoredRows | None:  # noqa: ARG002
        """Return the vectors of those of the episodes, ascending ids, that have any; None = read the ledger instead."""
        return None

    def open_derived(self, space: Space) -> DerivedNumbers | None:  # noqa: ARG002
        """Return what is stored of numbers derived from all vectors, now or before; None = nothing can be stored."""
        return None

    def wait_for_copies(self, *, but_for_last: bool = False) -> None:  # noqa: ARG002
        """Wait for copies on this disk that are being written, and for those that are due; VectorIndexError.

        but_for_last: the last one may still be written then.
        """
        return

    def check_copy(self, space: Space, *, data: bool = False) -> str:  # noqa: ARG002
        """Return the problem of a copy on this disk, "" if there is none or no copy; data: compare every byte."""
        return ""

    def leftovers(self, living: Iterable[str]) -> list[Path]:  # noqa: ARG002
        """Return files of interrupted processes and of Spaces other than the living ones, given by fingerprint."""
        return []


@runtime_checkable
class Auditable(Protocol):
    """An index that can differ from what was sent to it, for example on a server."""

    def audit(self, space: Space, *, full: bool = False) -> IndexFinding:
        """Compare with the ledger without changing anything; full: every vector, not a sample."""


@runtime_checkable
class Rebuildable(Protocol):
    """An index that can rebuild or drop a Space."""

    def rebuild(self, space: Space) -> None:
        """Rebuild the Space from the ledger."""

    def drop(self, space: Space) -> None:
        """Remove the Space's part, whether the archive still holds the Space or not."""


@runtime_checkable
class Repairable(Protocol):
    """An index that can be repaired from the ledger without a rebuild."""

    def repair(self, space: Space) -> None:
        """Bring the Space's part in line with the ledger, whatever it lacks or has too much."""


def find_firsts(ids: Ids) -> Ids:
    """Return the places where each id comes first, ascending; np.unique would import numpy.ma for this."""
    order = ids.argsort(kind="stable")
    ranked = ids[order]
    new = np.ones(len(ids), np.bool_)
    np.not_equal(ranked[1:], ranked[:-1], out=new[1:])
    return np.sort(order[new])


def find_kth(scores: NDArray[np.floating], count: int) -> float:
    """Return the count-th greatest of the scores; -inf if there are at most `count`."""
    if len(scores) <= count:
        return float("-inf")
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


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


def read_vectors(index: VectorIndex, space: Space, *, catalog: Catalog, episodes: Iterable[int] | Ids) -> StoredRows:
    """Return the vectors of the episodes that have any in the Space.

    They come from the index if it has them available, else from the ledger. Raises SpaceMismatchError for a Space that
    the archive does not have (any more).
    """
    ids = sort_distinct(np.asarray(episodes if isinstance(episodes, np.ndarray) else [*episodes], np.int64))
    found = index.read_vectors(space, ids)
    if found is not None:
        return found
    space_id = find_space(load_spaces(catalog), space)
    stored = catalog.vectors.load(space_id, ids.tolist()) if len(ids) else {}
    dim = space.dim
    return StoredRows.of(
        {episode: decode_vectors(episode, data, (count, dim)) for episode, (count, data) in stored.items()}, dim
    )
