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

_GROWTH_FACTOR: Final = 4
_SLACK: Final = 1e-6  # rounding error of a float32 distance
_BATCH_ROWS: Final = 256  # ledger rows at once

# Where comparing here takes as long as a server does (7 ms, 30 with a filter), measured with 256 numbers.
_LOADED_NUMBERS: Final = 6_000_000  # of a Space that is loaded once and compared whole
_READ_NUMBERS: Final = 1_000_000  # of vectors that are read from the ledger for one search


@dataclass(frozen=True, eq=False)
class ServerView:
    """One Space as of one clock: its copy on the server, if any.

    rest: the vectors that are compared here: those that the copy does not serve, or all of a small Space; episodes,
    vectors: number of all.
    """

    link: Link
    space: Space
    space_id: int
    target: Target | None
    clock: int
    rest: local_scores.Block
    episodes: int
    vectors: int

    @property
    def is_local(self) -> bool:
        """Whether all vectors are local, so that the server has nothing to add."""
        return len(self.rest) >= self.vectors or self.target is None or self.target.copy.damaged

    def is_faster_here(self, allowed: Ids | None) -> bool:
        """Whether reading the vectors of the allowed episodes (None = all) from the ledger takes less than to ask."""
        return allowed is not None and len(allowed) * self.vectors * self.space.dim <= _READ_NUMBERS * self.episodes

    def count(self, allowed: Ids | None) -> int:
        """Return the number of vectors of the allowed episodes (None = all)."""
        if allowed is None:
            return self.vectors
        return self.link.catalog.index_copies.sizes(self.space_id, allowed.tolist())[1]


def look(link: Link, space: Space, space_id: int, *, always_ask: bool = False) -> ServerView:
    """Return the present view of the Space; always_ask: never load what the copy serves, however little it is."""
    catalog = link.catalog
    copy = catalog.index_copies.find(link.place, space_id)
    clock = catalog.clock() if copy is None else copy.clock
    target = None if copy is None else Target(link, space, copy)
    episodes, vectors = catalog.index_copies.sizes(space_id)
    if copy is None or target is None or (vectors * space.dim <= _LOADED_NUMBERS and not always_ask):
        blocks = [local_scores.of_entries(batch, space.dim) for batch in _batches(catalog.vectors.ledger(space_id))]
    else:
        blocks = [local_scores.of_copies(catalog.index_copies.find_unserved(copy.id, target.size), space.dim)]
        after = 0
        while entries := catalog.index_copies.pending(copy, after=after):
            blocks.append(local_scores.of_entries(entries, space.dim))
            after = entries[-1].seq
    return ServerView(link, space, space_id, target, clock, local_scores.join(blocks, space.dim), episodes, vectors)


def ask(
    view: ServerView, best: local_scores.Best, query: Vectors, request: Request, allowed: Ids | None
) -> tuple[int, bool]:
    """Offer the server's hits, requesting more until no nearer one can be left.

    Returns the number of vectors that it compared, and whether that was achieved; if not, the ledger must be searched.
    The number of matches is not a criterion, as local vectors may fill all places, however far away they are.
    """
    target = view.target
    if target is None:
        return 0, False
    link = view.link
    width = link.settings.ef_search
    search_request = Ask(query.tolist(), min(CAP, request.top_k), compile_where(request.where))
    examined = 0
    while True:
        result = link.dialect.search(
            target.name, replace(search_request, ef_search=min(CAP, max(width, search_request.top_k)))
        )
        examined = max(examined, result.examined)
        _offer(target, best, result)
        is_exhausted = result.returned < search_request.top_k
        if is_exhausted and search_request.filters is not None:  # the server claims that these are all that pass
            return examined, best.covers(view.count(allowed))
        if best.worst() >= 1.0 - result.reach - _SLACK:
            return examined, True
        if is_exhausted:
            if best.covers(view.count(allowed)):
                return examined, True
            search_request = replace(search_request, filters=LIVE)  # deleted documents took places
        elif search_request.top_k == CAP:
            return examined, False
        else:
            search_request = replace(search_request, top_k=min(CAP, search_request.top_k * _GROWTH_FACTOR))


def complete(view: ServerView, best: local_scores.Best, allowed: Ids | None) -> None:
    """Offer every vector of the ledger that passes."""
    catalog = view.link.catalog
    if allowed is None:
        entries = catalog.vectors.ledger(view.space_id)
    else:
        entries = catalog.index_copies.entries(view.space_id, allowed.tolist())
    for batch in _batches(entries):
        best.offer(local_scores.of_entries(batch, view.space.dim))


def _offer(target: Target, best: local_scores.Best, found: Found) -> None:
    """Offer the hits that the ledger has under this id and ref; others are ghosts, strays or foreign."""
    refs = {one.id: one.ref for one in found.documents}
    stored = target.link.catalog.index_copies.lookup(target.copy.id, [*refs], target.size)
    best.offer(
        local_scores.of_copies([one for one in stored if refs.get(one.document or 0) == one.ref], target.space.dim)
    )


def _batches(entries: Iterator[LedgerEntry]) -> Iterator[list[LedgerEntry]]:
    while batch := list(islice(entries, _BATCH_ROWS)):
        yield batch
