"""One search: what to query, when the server's results are sufficient, and what the ledger must add."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from bridge.index.deepdata import local_scores
from bridge.index.deepdata.collection import Target
from bridge.index.deepdata.filters import LIVE, compile_where
from bridge.index.deepdata.messages import Ask
from bridge.index.deepdata.settings import CAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.deepdata.collection import Link
    from bridge.index.deepdata.messages import Found
    from catalog.vectors.records import LedgerEntry
    from embedders.space import Space

_GROWTH: Final = 4
_SLACK: Final = 1e-6  # what float32 may change in a distance
_STEP: Final = 256  # ledger rows at once


@dataclass(frozen=True, eq=False)
class ServerView:
    """One Space as of one clock: its copy on the server, if any; the vectors that the copy does not serve; how many."""

    link: Link
    space: Space
    space_id: int
    target: Target | None
    clock: int
    rest: local_scores.Block
    vectors: int

    @property
    def all_here(self) -> bool:
        """Whether the server has nothing to add."""
        return len(self.rest) >= self.vectors or self.target is None or self.target.copy.damaged

    def count(self, passing: Ids | None) -> int:
        """Return how many vectors pass."""
        if passing is None:
            return self.vectors
        return self.link.catalog.index_copies.sizes(self.space_id, passing.tolist())[1]


def look(link: Link, space: Space, space_id: int) -> ServerView:
    """Return the Space as of now."""
    catalog = link.catalog
    copy = catalog.index_copies.find(link.place, space_id)
    clock = catalog.clock() if copy is None else copy.clock
    if copy is None:
        target = None
        blocks = [local_scores.of_entries(some, space.dim) for some in _steps(catalog.vectors.ledger(space_id))]
    else:
        target = Target(link, space, copy)
        blocks = [local_scores.of_copies(catalog.index_copies.find_unserved(copy.id, target.size), space.dim)]
        after = 0
        while entries := catalog.index_copies.pending(copy, after=after):
            blocks.append(local_scores.of_entries(entries, space.dim))
            after = entries[-1].seq
    _, vectors = catalog.index_copies.sizes(space_id)
    return ServerView(link, space, space_id, target, clock, local_scores.join(blocks, space.dim), vectors)


def ask(
    view: ServerView, best: local_scores.Best, query: Vectors, request: Request, passing: Ids | None
) -> tuple[int, bool]:
    """Offer the server's hits, requesting more until nothing nearer can remain there.

    Returns how many vectors it compared, and whether that was achieved; if not, only the ledger has them all. The
    number of matches is not a criterion: vectors searched locally may fill all places, however far they are.
    """
    target = view.target
    if target is None:
        return 0, False
    link = view.link
    width = link.settings.ef_search
    asked = Ask(query.tolist(), min(CAP, request.top_k), compile_where(request.where))
    examined = 0
    while True:
        found = link.dialect.search(target.name, replace(asked, ef_search=min(CAP, max(width, asked.top_k))))
        examined = max(examined, found.examined)
        _offer(target, best, found)
        short = found.returned < asked.top_k
        if short and asked.filters is not None:  # all that pass, it says
            return examined, best.covers(view.count(passing))
        if best.worst() >= 1.0 - found.reach - _SLACK:
            return examined, True
        if short:
            if best.covers(view.count(passing)):
                return examined, True
            asked = replace(asked, filters=LIVE)  # deleted documents took places
        elif asked.top_k == CAP:
            return examined, False
        else:
            asked = replace(asked, top_k=min(CAP, asked.top_k * _GROWTH))


def complete(view: ServerView, best: local_scores.Best, passing: Ids | None) -> None:
    """Offer every vector of the ledger that passes."""
    catalog = view.link.catalog
    if passing is None:
        entries = catalog.vectors.ledger(view.space_id)
    else:
        entries = catalog.index_copies.entries(view.space_id, passing.tolist())
    for some in _steps(entries):
        best.offer(local_scores.of_entries(some, view.space.dim))


def _offer(target: Target, best: local_scores.Best, found: Found) -> None:
    """Offer the hits that the ledger has under this number and name; others are ghosts, strays or foreign."""
    refs = {one.id: one.ref for one in found.documents}
    stored = target.link.catalog.index_copies.lookup(target.copy.id, [*refs], target.size)
    best.offer(
        local_scores.of_copies([one for one in stored if refs.get(one.document or 0) == one.ref], target.space.dim)
    )


def _steps(entries: Iterator[LedgerEntry]) -> Iterator[list[LedgerEntry]]:
    while some := list(islice(entries, _STEP)):
        yield some
