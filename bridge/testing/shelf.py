"""The harness of the index contract: an archive of episodes, every answer compared with brute force."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bridge.index.base import Match, Request, VectorIndex, Vectors
from bridge.testing.brute_force import Shelf, make_space, unit_vectors
from catalog.catalog import Catalog
from catalog.filters.where import EVERYTHING, Where

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embedders.space import Space

TOLERANCE: Final = 1e-5
"""What float32 arithmetic may change in a score."""


def top(count: int, where: Where = EVERYTHING, *, distinct: bool = True) -> Request:
    """Return a request for `count` matches."""
    return Request(count, where, distinct)


def check(shelf: Shelf, space: Space, query: Vectors, request: Request) -> tuple[Match, ...]:
    """Search, compare with the brute force, and return the matches."""
    answer = shelf.index.search(space, query, request)
    expected = shelf.brute_force(space, query, request)
    found = [(match.episode, match.window) for match in answer.matches]
    wanted = [(match.episode, match.window) for match in expected]
    assert found == wanted, f"{request}: expected {wanted}, found {found}"
    for match, right in zip(answer.matches, expected, strict=True):
        assert abs(match.score - right.score) <= TOLERANCE, f"{request}: expected {right}, found {match}"
        assert space.metric != "cosine" or -1.0 <= match.score <= 1.0, f"{request}: expected a cosine, found {match}"
    assert answer.exact or not shelf.exact, f"{request}: expected an answer that is known to be exact"
    return tuple(answer.matches)


class Promises:
    """Archives for the tests of an index; a subclass has open_index, and tests."""

    filters = 50
    """Random filters that are compared with the brute force."""

    repeatable = False
    """Whether they are the same ones in every run."""

    exact = True
    """Whether every answer must be proven to be right; a backend that cannot prove it must be right all the same."""

    metric = "cosine"
    """Of the Spaces: cosine, dot or l2."""

    @property
    def own(self) -> float:
        """The score that a unit vector has with itself."""
        return 0.0 if self.metric == "l2" else 1.0

    def space(self, name: str = "contract") -> Space:
        """Return a Space of the metric; another name is another Space."""
        return make_space(name, metric=self.metric)

    def open_index(self, catalog: Catalog, folder: Path) -> VectorIndex:
        """Return an index over the catalog with the folder for its files; may be called repeatedly."""
        raise NotImplementedError

    @contextmanager
    def shelf(self, folder: Path) -> Iterator[Shelf]:
        """Open the archive in this folder, made when missing."""
        with Catalog.open(folder / "catalog.db", create=True) as catalog:
            yield Shelf(catalog, self.open_index(catalog, folder / "index"), exact=self.exact)

    @contextmanager
    def filled(self, folder: Path, episodes: int = 40) -> Iterator[tuple[Shelf, Space, list[int]]]:
        """Open an archive of episodes with 1 to 4 windows each."""
        with self.shelf(folder) as shelf:
            ids, space = shelf.register(episodes), self.space()
            shelf.put(space, {id_: unit_vectors(1 + number % 4, number) for number, id_ in enumerate(ids)})
            yield shelf, space, ids
