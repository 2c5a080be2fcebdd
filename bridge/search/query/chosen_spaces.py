"""Chooses the Spaces that answer a query: for each set of lanes the newest Space that the query fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bridge.index.metric import COSINE
from bridge.search.query.fit import fit_query
from wshard.errors import EmbedderError, MissingFileError, QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.search.query.fit import Query
    from embedders.base import Embedder
    from embedders.space import Space


@dataclass(frozen=True, eq=False)
class ChosenSpaces:
    """The Spaces that answer, with the queries as windows of each, and the other Spaces that the queries fit."""

    windows: Mapping[Space, Sequence[NDArray[Any]]]
    others: Sequence[Space]

    def only_newest(self) -> ChosenSpaces:
        """Return the newest Space alone, for searches of a single one."""
        return self._only([[*self.windows][-1]])

    def with_same_windows(self) -> ChosenSpaces:
        """Return the Spaces with the same window plan as the newest one."""
        newest = [*self.windows][-1]
        return self._only([space for space in self.windows if space.windows == newest.windows])

    def without_repeats(self, adds: Callable[[Space, Sequence[Space]], bool]) -> ChosenSpaces:
        """Leave out Spaces whose episodes are all in those of more of the same lanes.

        adds: returns whether a Space has vectors of episodes that the others lack.
        """
        needed: list[Space] = []
        for space in sorted(self.windows, key=lambda space: -space.channels):
            wider = [other for other in needed if space.is_part_of(other)]
            if not wider or adds(space, wider):
                needed.append(space)
        return self._only([space for space in self.windows if space in needed])

    def _only(self, spaces: Sequence[Space]) -> ChosenSpaces:
        others = [*self.others, *(space for space in self.windows if space not in spaces)]
        return ChosenSpaces({space: self.windows[space] for space in spaces}, others)


def choose_spaces(
    queries: Sequence[Query],
    spaces: Sequence[Space],
    prefer: Callable[[Sequence[Space]], Sequence[Space]],
    embedder_for: Callable[[Space], Embedder],
) -> ChosenSpaces:
    """Return the Spaces that answer the queries; the first query selects the Spaces, which come oldest first.

    Of several Spaces of the same lanes the newest answers; several together must have the cosine as metric.
    embedder_for: returns the embedder of a Space, or raises EmbedderError; such Spaces are skipped if there are others.
    Raises QueryError, as fit_query does, and if no Space fits all queries.
    """
    fitting = _fit_all(queries, fit_query(queries[0], spaces, prefer))
    usable = [space for space in fitting if _has_embedder(embedder_for, space)]
    if not usable:
        embedder_for([*fitting][-1])
    cosine = [space for space in usable if space.metric == COSINE] or usable[-1:]
    newest = {frozenset(space.lanes): space for space in cosine}  # later ones overwrite earlier ones
    chosen = {space: fitting[space] for space in cosine if space in newest.values()}
    return ChosenSpaces(chosen, [space for space in fitting if space not in chosen])


def _fit_all(queries: Sequence[Query], fits: Mapping[Space, NDArray[Any]]) -> dict[Space, list[NDArray[Any]]]:
    """Return the queries as windows of each Space that all of them fit; raises the first error if there are none."""
    windows: dict[Space, list[NDArray[Any]]] = {}
    first_error: QueryError | MissingFileError | None = None
    for space, first in fits.items():
        try:
            windows[space] = [first, *(fit_query(query, [space])[space] for query in queries[1:])]
        except (QueryError, MissingFileError) as error:
            first_error = first_error or error
    if not windows and first_error is not None:
        raise first_error
    return windows


def _has_embedder(embedder_for: Callable[[Space], Embedder], space: Space) -> bool:
    try:
        embedder_for(space)
    except EmbedderError:
        return False
    return True
