"""From queries to vectors: which Spaces answer them, and what each of these is searched for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from bridge.index.metric import COSINE
from bridge.search.query.prepare import fits
from bridge.search.query.views import View, Views, choose_views
from bridge.search.ranking.rankers import Aim
from bridge.search.ranking.scores import combined
from bridge.spaces.identity import identity, maker_of
from bridge.spaces.space_choice import SpaceChoice
from bridge.support.blas_threads import one_blas_thread
from embedders.base import embed_by
from embedders.registry import EMBEDDERS, as_embedder, embedder_of
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.search.query.prepare import Query
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.base import Embedder, Vectors
    from embedders.space import Space
    from embedders.trajectory.pooled import PooledFunction
    from embedders.windows import WindowPlan


class Aims:
    """Makes vectors of queries in the Spaces of an archive, narrowed by what a retriever was opened with."""

    def __init__(
        self,
        catalog: Catalog,
        embedder: str | Embedder | PooledFunction | None,
        lanes: Sequence[str] | Mapping[str, float] | None,
    ) -> None:
        self._embedder = None if embedder is None else as_embedder(embedder)
        named = isinstance(embedder, str) and embedder in EMBEDDERS
        self.choice = SpaceChoice(catalog, self._embedder, lanes, named=named)
        self._made: dict[str, Embedder] = {}  # by the Space's fingerprint

    def views(
        self,
        queries: Sequence[Query],
        where: Where,
        cut: Callable[[WindowPlan], bool],
        among: Callable[[Sequence[Space]], Sequence[Space]] = lambda spaces: spaces,
    ) -> Views:
        """Return what answers the queries: Spaces of these windows, as far as `among` keeps them; see choose_views."""
        spaces = self.choice.spaces(cut)
        return choose_views(queries, spaces, lambda some: among(self.choice.holding(some, where)), self.maker)

    def towards(self, view: View, like: int) -> Aim:
        """Return what the view is searched for: the first `like` of its queries are examples, the others against."""
        vectors = self.embed(view.space, [one.window for one in view.queries])
        wanted, against = vectors[:like], vectors[like:]
        return Aim(view.space, combined(wanted, against), against)

    @one_blas_thread()
    def embed(self, space: Space, windows: Sequence[NDArray[Any]]) -> Vectors:
        """Return the vectors of windows in a Space, by its embedder. Raises EmbedderError."""
        return embed_by(self.maker(space), space, windows)

    def windows_of(self, space: Space, queries: Sequence[Query], like: int) -> Aim | None:
        """Return what to search the windows of several sizes for that were cut from the lanes of whole episodes.

        Those by the embedder of the same name come first, then the newest.
        """
        if not space.windows.whole or space.metric != COSINE:
            return None
        alike = [
            other
            for other in reversed(self.choice.active())
            if other.windows.scales
            and all(getattr(other, name) == getattr(space, name) for name in ("lanes", "weights", "metric"))
        ]
        for other in sorted(alike, key=lambda other: other.embedder != space.embedder):
            with suppress(EmbedderError):  # another one's embedder, which nobody passed
                return self.towards(View(other, [fits(query, [other])[0] for query in queries]), like)
        return None

    def maker(self, space: Space) -> Embedder:
        """Return the embedder of a Space: the one that was passed, if it is the one. Raises EmbedderError."""
        given = self._embedder
        if given is not None and identity(given) == maker_of(space):
            return given
        if space.fingerprint not in self._made:
            self._made[space.fingerprint] = embedder_of(space)
        return self._made[space.fingerprint]
