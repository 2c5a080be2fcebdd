"""Which of the Spaces that a query fits answer it: one for each choice of lanes, the newest; the others are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.index.metric import COSINE
from bridge.search.query.prepare import Fit, fits
from wshard.errors import EmbedderError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.search.query.prepare import Query
    from embedders.base import Embedder
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class View:
    """One Space that answers, and each of the queries as it takes them."""

    space: Space
    queries: Sequence[Fit]


@dataclass(frozen=True, eq=False)
class Views:
    """The views that answer, one at least, and the other Spaces that the queries fit."""

    chosen: Sequence[View]
    others: Sequence[Space]

    def only_newest(self) -> Views:
        """Return the newest view alone, for what cannot be asked of several."""
        return self._only([self.chosen[-1]])

    def cut_alike(self) -> Views:
        """Return the views whose episodes are cut as those of the newest one are: their windows are the same."""
        return self._only([view for view in self.chosen if view.space.windows == self.chosen[-1].space.windows])

    def _only(self, kept: Sequence[View]) -> Views:
        return Views(kept, [*self.others, *(view.space for view in self.chosen if view not in kept)])


def choose_views(
    queries: Sequence[Query],
    spaces: Sequence[Space],
    prefer: Callable[[Sequence[Space]], Sequence[Space]],
    maker: Callable[[Space], Embedder],
) -> Views:
    """Return what answers the queries, of which the first says what they fit; the Spaces come the oldest first.

    Of several Spaces of the same lanes the newest answers; together answer those that are compared by the cosine.
    maker: gives the embedder of a Space, or raises EmbedderError: such do not answer as long as others do. Raises
    QueryError, as fits does, and where no Space fits all of the queries.
    """
    found = _of_all(queries, fits(queries[0], spaces, prefer))
    able = [view for view in found if _can(maker, view.space)]
    if not able:
        maker(found[-1].space)
    cosine = [view for view in able if view.space.metric == COSINE] or able[-1:]
    newest = {frozenset(view.space.lanes): view for view in cosine}  # later ones take the places of earlier ones
    chosen = [view for view in cosine if view in newest.values()]
    return Views(chosen, [view.space for view in found if view not in chosen])


def _of_all(queries: Sequence[Query], found: Sequence[Fit]) -> list[View]:
    """Return the Spaces that fit the other queries too; raises what is wrong with these where none does."""
    views, wrong = [], None
    for one in found:
        try:
            views.append(View(one.space, [one, *(fits(query, [one.space])[0] for query in queries[1:])]))
        except QueryError as error:
            wrong = wrong or error
    if not views and wrong is not None:
        raise wrong
    return views


def _can(maker: Callable[[Space], Embedder], space: Space) -> bool:
    try:
        maker(space)
    except EmbedderError:
        return False
    return True
