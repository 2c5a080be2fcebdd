"""Chooses the Spaces that answer a query: of each choice of lanes the newest one that it fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.index.metric import COSINE
from bridge.search.query.fit import Fit, fit_query
from wshard.errors import EmbedderError, MissingFileError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bridge.search.query.fit import Query
    from embedders.base import Embedder
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class View:
    """One Space that answers, and each of the queries as it takes them."""

    space: Space
    queries: Sequence[Fit]


@dataclass(frozen=True, eq=False)
class Views:
    """The views that answer, and the other Spaces that the queries fit."""

    chosen: Sequence[View]
    others: Sequence[Space]

    def only_newest(self) -> Views:
        """Return the newest view alone, for searches of a single view."""
        return self._only([self.chosen[-1]])

    def cut_alike(self) -> Views:
        """Return the views whose episodes are cut as those of the newest one are: their windows are the same."""
        return self._only([view for view in self.chosen if view.space.windows == self.chosen[-1].space.windows])

    def _only(self, some: Sequence[View]) -> Views:
        return Views(some, [*self.others, *(view.space for view in self.chosen if view not in some)])


def choose_views(
    queries: Sequence[Query],
    spaces: Sequence[Space],
    prefer: Callable[[Sequence[Space]], Sequence[Space]],
    embedder_for: Callable[[Space], Embedder],
) -> Views:
    """Return what answers the queries, of which the first says what they fit; the Spaces come the oldest first.

    Of several Spaces of the same lanes the newest answers; together answer those that are compared by the cosine.
    embedder_for: gives the embedder of a Space, or raises EmbedderError: such Spaces do not answer as long as others
    do. Raises QueryError, as fit_query does, and where no Space fits all of the queries.
    """
    found = _fit_all(queries, fit_query(queries[0], spaces, prefer))
    able = [view for view in found if _has_embedder(embedder_for, view.space)]
    if not able:
        embedder_for(found[-1].space)
    cosine = [view for view in able if view.space.metric == COSINE] or able[-1:]
    newest = {frozenset(view.space.lanes): view for view in cosine}  # later ones take the places of earlier ones
    chosen = [view for view in cosine if view in newest.values()]
    return Views(chosen, [view.space for view in found if view not in chosen])


def _fit_all(queries: Sequence[Query], found: Sequence[Fit]) -> list[View]:
    """Return the Spaces that fit the other queries too; raises what is wrong with these where none does."""
    views: list[View] = []
    wrong: QueryError | MissingFileError | None = None
    for one in found:
        try:
            views.append(View(one.space, [one, *(fit_query(query, [one.space])[0] for query in queries[1:])]))
        except (QueryError, MissingFileError) as error:
            wrong = wrong or error
    if not views and wrong is not None:
        raise wrong
    return views


def _has_embedder(embedder_for: Callable[[Space], Embedder], space: Space) -> bool:
    try:
        embedder_for(space)
    except EmbedderError:
        return False
    return True
