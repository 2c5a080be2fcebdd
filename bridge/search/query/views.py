"""Chooses the Spaces that answer a query: for each set of lanes the newest Space that the query fits."""

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
    """One Space that answers, and the queries in its form."""

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

    def with_same_windows(self) -> Views:
        """Return the views with the same window plan as the newest one."""
        return self._only([view for view in self.chosen if view.space.windows == self.chosen[-1].space.windows])

    def _only(self, views: Sequence[View]) -> Views:
        return Views(views, [*self.others, *(view.space for view in self.chosen if view not in views)])


def choose_views(
    queries: Sequence[Query],
    spaces: Sequence[Space],
    prefer: Callable[[Sequence[Space]], Sequence[Space]],
    embedder_for: Callable[[Space], Embedder],
) -> Views:
    """Return the views that answer the queries; the first query selects the Spaces, which come oldest first.

    Of several Spaces of the same lanes the newest answers; all views together must have the cosine as metric.
    embedder_for: returns the embedder of a Space, or raises EmbedderError; such Spaces are skipped if there are others.
    Raises QueryError, as fit_query does, and if no Space fits all queries.
    """
    fitting = _fit_all(queries, fit_query(queries[0], spaces, prefer))
    usable = [view for view in fitting if _has_embedder(embedder_for, view.space)]
    if not usable:
        embedder_for(fitting[-1].space)
    cosine = [view for view in usable if view.space.metric == COSINE] or usable[-1:]
    newest = {frozenset(view.space.lanes): view for view in cosine}  # later ones overwrite earlier ones
    chosen = [view for view in cosine if view in newest.values()]
    return Views(chosen, [view.space for view in fitting if view not in chosen])


def _fit_all(queries: Sequence[Query], fits: Sequence[Fit]) -> list[View]:
    """Return views of the Spaces that fit all queries; raises the first error if there are none."""
    views: list[View] = []
    first_error: QueryError | MissingFileError | None = None
    for fit in fits:
        try:
            views.append(View(fit.space, [fit, *(fit_query(query, [fit.space])[0] for query in queries[1:])]))
        except (QueryError, MissingFileError) as error:
            first_error = first_error or error
    if not views and first_error is not None:
        raise first_error
    return views


def _has_embedder(embedder_for: Callable[[Space], Embedder], space: Space) -> bool:
    try:
        embedder_for(space)
    except EmbedderError:
        return False
    return True
