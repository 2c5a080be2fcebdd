"""Prepares a query once per search: its examples, the Spaces that answer it, and its vectors in them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bridge.answered import Answered, join_left_out
from bridge.index.metric import COSINE
from bridge.search.query.chosen_spaces import choose_spaces
from bridge.search.query.coverage import NO_VECTORS, CoverageReader
from bridge.search.query.examples import ExampleReader, Examples
from bridge.search.query.notes import explain_gaps
from bridge.search.query.options import MomentOptions, SearchOptions
from bridge.search.query.query_episodes import QueryEpisodes
from bridge.spaces.identity import identity, maker_of
from bridge.spaces.space_choice import SpaceChoice
from bridge.support.blas_threads import one_blas_thread
from catalog.filters.where import EVERYTHING
from embedders.base import embed_by
from embedders.registry import DEFAULT_EMBEDDER, EMBEDDERS, as_embedder, default_embedder, embedder_of
from embedders.windows import cut_padding
from wshard.errors import EmbedderError, QueryError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.index.base import Request
    from bridge.search.query.chosen_spaces import ChosenSpaces
    from bridge.search.query.fit import Query
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from embedders.base import Embedder, Vectors
    from embedders.space import Space
    from embedders.trajectory.pooled import PooledFunction
    from embedders.windows import WindowPlan

Options = TypeVar("Options", SearchOptions, MomentOptions)
Found = TypeVar("Found")


@dataclass(frozen=True, eq=False)
class View:
    """One Space that answers, with a window and a vector [n, E] per example, then per counter-example.

    lanes: weights of the lanes that count, if not all do as in the Space. parts: the same for the Space of windows of
    several sizes that is ranked together with this Space of whole episodes.
    """

    space: Space
    windows: Sequence[NDArray[Any]]
    vectors: Vectors
    lanes: Mapping[str, float] | None = None
    parts: View | None = None

    @property
    def spaces(self) -> list[Space]:
        """The Space, and that of the parts if any."""
        return [self.space] if self.parts is None else [self.space, self.parts.space]


@dataclass(frozen=True, eq=False)
class PreparedQuery(Generic[Options]):
    """A prepared query: examples, counter-examples, filter, options, and the views that answer.

    request: number of hits and filter. views: empty for text alone. others: further Spaces that the query fits.
    """

    examples: Examples
    request: Request
    options: Options
    views: Sequence[View]
    others: Sequence[Space]


Prepared = TypeVar("Prepared", PreparedQuery[SearchOptions], PreparedQuery[MomentOptions])


class QueryPreparer:
    """Prepares queries for the Spaces of an archive, restricted by the options of the retriever."""

    def __init__(
        self,
        catalog: Catalog,
        embedder: str | Embedder | PooledFunction | None,
        lanes: Sequence[str] | Mapping[str, float] | None,
    ) -> None:
        self._catalog = catalog
        self.embedder = None if embedder is None else as_embedder(embedder)
        self._takes_any_lane = not lanes
        by_name = isinstance(embedder, str) and embedder in EMBEDDERS
        self.spaces = SpaceChoice(catalog, self.embedder, lanes, named=by_name)
        self.query_episodes = QueryEpisodes(catalog)
        self._coverage = CoverageReader(catalog)
        self._embedders: dict[str, Embedder] = {}  # by the Space's fingerprint

    def read(self, query: Query | None, options: SearchOptions | MomentOptions) -> Examples:
        """Return the query and the options' examples, read from their files. Raises as ExampleReader.read."""
        reader = ExampleReader(self._catalog, self.query_episodes.read_as, self.spaces.embedded)
        like = [*([] if query is None else [query]), *options.like]
        return Examples([reader.read(one) for one in like], [reader.read(one) for one in options.unlike])

    def narrow(self, request: Request, examples: Examples, options: SearchOptions | MomentOptions) -> Request:
        """Return the request; with exclude_self, its filter excludes the episodes that examples name."""
        if not options.exclude_self:
            return request
        return replace(request, where=request.where & self.query_episodes.exclude(examples.all))

    def prepare(self, examples: Examples, request: Request, options: SearchOptions) -> PreparedQuery[SearchOptions]:
        """Return the query for episodes or windows in the Spaces that the options choose.

        Raises QueryError without a query, if no Space fits, or if the metric of the Space does not allow the options.
        """
        if not examples.like:
            if options.text is None:
                raise QueryError("expected a query, examples (like=[...]) or words (text=...), found none of them")
            if examples.unlike or options.diversity:
                raise QueryError("unlike and diversity: expected a query or examples with them, found text only")
            return PreparedQuery(examples, request, options, [], [])
        chosen = self._choose(examples, request.where, self._searchable(options.includes)).with_same_windows()
        chosen = chosen.without_repeats(self.spaces.adds)
        if options.least:
            chosen = chosen.only_newest()
        metric = next(iter(chosen.windows)).metric
        if metric != COSINE and (len(examples.like) > 1 or options.need_cosine):
            raise QueryError(
                f"like, unlike, expand, least, diversity and contributions: expected a Space with metric cosine, "
                f"found {metric}"
            )
        views = [self._embed(space, windows, examples) for space, windows in chosen.windows.items()]
        if not (options.plain or options.least):
            views = [
                replace(view, parts=self._prepare_parts(view.space, chosen.windows[view.space], examples))
                for view in views
            ]
        return PreparedQuery(examples, request, options, views, chosen.others)

    def prepare_moments(
        self, examples: Examples, request: Request, options: MomentOptions
    ) -> PreparedQuery[MomentOptions]:
        """Return the query for moments, in the Spaces of windows of several sizes if there are. Raises as prepare."""
        spaces = self._searchable(lambda plan: not plan.whole and options.windows in (None, plan))
        spaces = [space for space in spaces if self.spaces.weights_of(space) is None]
        if not spaces:
            raise QueryError("moments: expected windows of these lanes alone: ingest with these --lanes first")
        chosen = self._choose(examples, request.where, spaces, _prefer_several_sizes)
        chosen = chosen.without_repeats(self.spaces.adds)
        chosen = chosen if options.refine else chosen.only_newest()  # cosines of different Spaces cannot be compared
        views = [self._embed(space, windows, examples) for space, windows in chosen.windows.items()]
        return PreparedQuery(examples, request, options, views, chosen.others)

    def describe(
        self,
        prepared: PreparedQuery[SearchOptions] | PreparedQuery[MomentOptions],
        where: Where,
        notes: Sequence[str],
        coverage: str = "",
    ) -> Answered:
        """Return the Spaces that answered, the others that the query fits, the notes, and what was not compared."""
        spaces = [space for view in prepared.views for space in view.spaces]
        if spaces and self._takes_any_lane:
            lanes = {lane.name for space in (*spaces, *prepared.others) for lane in space.lanes}
            notes = [*notes, *explain_gaps(prepared.examples.like[0].query, lanes, self.spaces.embedded())]
        compared, left_out = (
            self._coverage.read([view.space for view in prepared.views], where) if spaces else (None, ())
        )
        others, notes = tuple(prepared.others), tuple(notes)
        return Answered(tuple(spaces), others, notes, compared, left_out, coverage=coverage)

    def is_outdated(self, prepared: PreparedQuery[SearchOptions] | PreparedQuery[MomentOptions]) -> bool:
        """Return whether an ingest has replaced one of the Spaces since; the query must then be prepared again."""
        active = self.spaces.active()
        return not all(space in active for view in prepared.views for space in view.spaces)

    @one_blas_thread()  # products are small: threads of BLAS would spin between them
    def run(self, prepare: Callable[[], Prepared], find: Callable[[Prepared], Found]) -> tuple[Prepared, Found]:
        """Return the prepared query and its result; retry if an ingest replaces one of its Spaces meanwhile."""
        while True:
            with self._catalog.pin_instant():
                prepared = prepare()
                try:
                    return prepared, find(prepared)
                except SpaceMismatchError:
                    with self._catalog.pin_instant():  # as it is by now
                        if not self.is_outdated(prepared):
                            raise

    def embedder_for(self, space: Space) -> Embedder:
        """Return the embedder of a Space: the one that was passed, if it made the Space. Raises EmbedderError."""
        if self.embedder is not None and identity(self.embedder) == maker_of(space):
            return self.embedder
        if space.fingerprint not in self._embedders:
            self._embedders[space.fingerprint] = embedder_of(space)
        return self._embedders[space.fingerprint]

    def _searchable(self, is_chosen: Callable[[WindowPlan], bool]) -> list[Space]:
        """Return the Spaces of these window plans; QueryError without any, which says why episodes have no vectors."""
        try:
            return self.spaces.spaces(is_chosen)
        except QueryError:
            left_out = () if self.spaces.active() else self._coverage.read([], EVERYTHING)[1]
            if all(one.reason == NO_VECTORS for one in left_out):
                raise
            raise QueryError(f"no episode has vectors: {join_left_out(left_out)}") from None

    def _choose(
        self,
        examples: Examples,
        where: Where,
        spaces: Sequence[Space],
        prefer: Callable[[Sequence[Space]], Sequence[Space]] = lambda spaces: spaces,
    ) -> ChosenSpaces:
        queries = [example.query for example in examples.all]
        return choose_spaces(
            queries, spaces, lambda fitting: prefer(self.spaces.select_by_env(fitting, where)), self.embedder_for
        )

    def _embed(self, space: Space, windows: Sequence[NDArray[Any]], examples: Examples) -> View:
        canonical = [*map(space.canonical, windows, (example.labels for example in examples.all))]
        vectors = embed_by(self.embedder_for(space), space, [*map(cut_padding, canonical)])
        return View(space, canonical, vectors, self.spaces.weights_of(space))

    def _prepare_parts(self, space: Space, windows: Sequence[NDArray[Any]], examples: Examples) -> View | None:
        """Return the view of a Space with windows of several sizes from the same lanes, if there is one.

        Spaces of the same embedder, or for the default that of its windows, are preferred, then the newest.
        """
        if not space.windows.whole or space.metric != COSINE:
            return None
        candidates = [
            candidate
            for candidate in reversed(self.spaces.active())
            if candidate.windows.scales
            and all(getattr(candidate, name) == getattr(space, name) for name in ("lanes", "weights", "metric"))
        ]
        if len(candidates) > 1:
            default = space.embedder == DEFAULT_EMBEDDER
            names = {
                default_embedder(candidate.windows).name if default else space.embedder for candidate in candidates
            }
            candidates.sort(key=lambda candidate: candidate.embedder not in names)
        for candidate in candidates:
            with suppress(EmbedderError):  # made by a custom embedder that was not passed
                return self._embed(candidate, windows, examples)
        return None


def _prefer_several_sizes(spaces: Sequence[Space]) -> Sequence[Space]:
    return [space for space in spaces if space.windows.scales is not None] or spaces
