"""The public search: episodes, windows and moments similar to a query, to examples or to a text, under filters."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

from bridge.archive import Archive, open_archive
from bridge.index.base import Request
from bridge.results import Hits
from bridge.search.matches import EpisodeRows
from bridge.search.moments.nearest_example import find_moments
from bridge.search.moments.search import MomentSearch
from bridge.search.query.examples import find_own_episodes
from bridge.search.query.notes import explain_empty_result, explain_unmatched_text
from bridge.search.query.options import MomentOptions, SearchOptions
from bridge.search.query.prepare import PreparedQuery, QueryPreparer, describe_views, is_chosen
from bridge.search.ranking.episodes import EpisodeSearch
from bridge.search.ranking.rankers import join_explanations
from bridge.search.ranking.stored_vectors import StoredVectors
from bridge.spaces.lanes import named_lanes
from bridge.support.blas_threads import one_blas_thread
from catalog.filters.parse import as_where
from catalog.filters.where import build_where
from embedders.text.base import as_text_encoder
from embedders.windows import WindowPlan, as_plan
from wshard.arguments import whole_number
from wshard.errors import QueryError, SpaceMismatchError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from bridge.results import EpisodeRef
    from bridge.search.moments.search import FoundMoments
    from bridge.search.query.examples import Example
    from bridge.search.query.fit import Query
    from bridge.search.ranking.episodes import FoundEpisodes
    from catalog.filters.where import Where
    from embedders.base import Embedder
    from embedders.space import Space
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction

    PathLike = str | os.PathLike[str]
    RewardRange = tuple[float | None, float | None]

Prepared = TypeVar("Prepared", PreparedQuery[SearchOptions], PreparedQuery[MomentOptions])
FoundHits = TypeVar("FoundHits")

_check_count: Final = partial(whole_number, what="top_k", error=QueryError, least=1)


class TrajectoryRetriever:
    """Finds similar episodes and moments in an archive.

    deepdata_url, archive, token: as for TrajectoryIngestor; the archive must exist. embedder: needed only to choose
    where the archive was embedded in several ways, or for a callable; it must be the one that the archive was ingested
    with; a name of this library's takes other parameters of it too, where nothing is embedded by the usual ones. lanes:
    search only what was embedded from exactly these lanes, without weights if it was; a mapping asks for just these
    weights. sentences: the text encoder, or its folder, that the archive was ingested with: text= then finds what means
    the same too.

    Other processes may ingest meanwhile: each search sees all that was committed before it.
    """

    def __init__(
        self,
        deepdata_url: PathLike,
        embedder: str | Embedder | PooledFunction | None = None,
        *,
        lanes: str | Sequence[str] | Mapping[str, float] | None = None,
        archive: PathLike | None = None,
        token: str | None = None,
        sentences: AnyTextEncoder | None = None,
    ) -> None:
        names = named_lanes(lanes)
        encoder = None if sentences is None else as_text_encoder(sentences)
        self._archive: Archive = open_archive(deepdata_url, archive=archive, token=token)
        self._catalog = self._archive.catalog
        self._queries = QueryPreparer(self._catalog, embedder, names)
        self._stored = StoredVectors(self._archive)
        rows = EpisodeRows(self._catalog)
        self._moments = MomentSearch(self._archive, rows)
        made, read = self._queries.embedder_for, self._moments.read_rows
        self._episodes = EpisodeSearch(self._archive, rows, self._stored, encoder, made, read)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def search_similar_episodes(  # noqa: PLR0913  (each option by its name)
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        text: str | None = None,
        like: Sequence[Query] = (),
        unlike: Sequence[Query] = (),
        expand: int | None = None,
        plain: bool = False,
        least: bool = False,
        min_score: float | None = None,
        diversity: float = 0.0,
        contributions: bool = False,
        alignment: bool = False,
        exclude_self: bool = False,
        explain: bool = False,
    ) -> Hits:
        """Return the top_k episodes most like query_obs, best first; all of them if fewer pass the filters.

        query_obs: an observation [D], a window [T, D], {lane: array}, an Episode, or what names one: a hit, a file, the
        episode_id or uid of a catalogued episode, or (file or id, start, stop); none where like= or text= says what to
        look for. env_id: one or several. min_length: in timesteps, inclusive. reward_range: bounds of the summed
        reward, inclusive, None = open; an episode without rewards is in no range. where: any further filter, as a value
        or as text.

        text: words of the task or of notes; episodes that have them come first, and with a text encoder those whose
        task means the same. like, unlike: lists of further examples, and counter-examples, in any form of a query.
        expand: query expansion: number of best hits to add to the query; None = 8 where whole episodes and windows are
        searched together, else none. plain: rank by the one cosine of whole episodes, also where there are windows.
        least: the least similar first. min_score: no hits below it. diversity: 0 to 1, see docs/search.md.
        contributions: add to every hit how much each lane contributes to its similarity. alignment: add to every hit
        which of its timesteps meet which of the (first) query's, and how well each lane agrees there. exclude_self:
        leave out the episodes that query and examples name. explain: add to the hits how the index found them.

        Where windows of several sizes were ingested beside whole episodes, both rank together, and the query is
        expanded by its best hits (docs/search.md). Several Spaces of different lanes that the query fits answer
        together, of those of the same lanes the newest; the hits say which (Hits.answered). Raises QueryError where the
        query fits no Space or options do not go together, EmbedderError for NaN, FilterError, SpaceMismatchError.
        """
        options = SearchOptions(
            where, text, like, unlike, expand, plain, least, min_score, diversity, contributions, alignment,
            exclude_self, explain,
        )  # fmt: skip
        known = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range)
        request = Request(_check_count(top_k), known & as_where(where), explain=explain)
        return self._search(query_obs, request, options, lambda plan: plan.whole)

    def search_similar_timesteps(  # noqa: PLR0913  (each option by its name)
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        window_size: int | None = None,
        windows: WindowPlan | str | None = None,
        distinct: bool = False,
        where: Where | str | None = None,
        like: Sequence[Query] = (),
        unlike: Sequence[Query] = (),
        expand: int | None = None,
        plain: bool = False,
        least: bool = False,
        min_score: float | None = None,
        diversity: float = 0.0,
        contributions: bool = False,
        alignment: bool = False,
        exclude_self: bool = False,
        explain: bool = False,
        text: str | None = None,
    ) -> Hits:
        """Return the top_k windows most like the query; each hit's span tells its timesteps.

        Searches what was ingested as windows; window_size, or the plan that they were cut by (or its notation,
        "32:16"), chooses among several. distinct: at most one hit per episode. Otherwise as search_similar_episodes;
        timesteps have no text: text= raises QueryError.
        """
        size = None if window_size is None else whole_number(window_size, "window_size", QueryError, least=1)
        only = None if windows is None else as_plan(windows)
        options = SearchOptions(
            where, text, like, unlike, expand, plain, least, min_score, diversity, contributions, alignment,
            exclude_self, explain,
        )  # fmt: skip
        if text is not None:
            raise QueryError("text: expected a search for episodes, found one for timesteps, which have no words")
        known = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range)
        request = Request(_check_count(top_k), known & as_where(where), distinct=distinct, explain=explain)
        return self._search(query_obs, request, options, lambda plan: is_chosen(plan, size, only))

    def search_moments(  # noqa: PLR0913  (each option by its name)
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        like: Sequence[Query] = (),
        unlike: Sequence[Query] = (),
        windows: WindowPlan | str | None = None,
        refine: bool = True,
        max_overlap: float = 0.3,
        per_episode: int | None = None,
        min_score: float | None = None,
        exclude_self: bool = False,
        explain: bool = False,
    ) -> Hits:
        """Return the top_k moments most like the query, several of one episode where they do not overlap.

        A beginning finds its like too: hit.after(50) is what comes next there. Windows from the index are aligned with
        the query on the lanes in the files: hit.span are the bounds found, hit.alignment says which steps meet, and
        hit.score is 1 for an exact match (docs/search.md). query_obs to where: as for search_similar_episodes.

        like, unlike: lists of further examples and counter-examples: a moment counts for the one that it is most like,
        and is no hit if that is a counter-example. windows: the plan that they were cut by, or its notation ("32:16"),
        where several were ingested; None = those of several sizes. refine: align the query with the lanes in the files,
        for exact bounds. max_overlap: of two moments of one episode, as the share of the timesteps that either of them
        covers. per_episode: maximum number of moments of one episode. min_score: no hits below it. exclude_self: leave
        out the episodes that the query and examples name. explain: add to the hits how the index found their windows.
        Raises as search_similar_timesteps.
        """
        begun = time.perf_counter()
        options = MomentOptions(
            where, like, unlike, windows, refine, max_overlap, per_episode, min_score, exclude_self, explain
        )
        known = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range)
        examples = self._queries.read(query_obs, options)
        if not examples.like:
            raise QueryError("moments: expected a query or examples (like=[...]), found neither")
        request = Request(_check_count(top_k), known & as_where(where), distinct=False, explain=explain)
        request = self._queries.narrow(request, examples, options)
        prepare = partial(self._queries.prepare_moments, examples, request, options)
        prepared, (refs, found) = self._run(prepare, self._find_moments)
        limited = any(one.missing for one in found)
        notes = [] if refs else explain_empty_result(self._catalog, request.where, limited=limited)
        return Hits(
            [ref for ref in refs if min_score is None or ref.score >= min_score],
            exact=all(one.answer.exact for one in found),
            milliseconds=(time.perf_counter() - begun) * 1e3,
            missing=max(one.missing for one in found),
            explained=join_explanations([one.answer for one in found]),
            answered=describe_views(prepared, notes),
        )

    def _search(
        self, query: Query | None, request: Request, options: SearchOptions, is_searched: Callable[[WindowPlan], bool]
    ) -> Hits:
        begun = time.perf_counter()
        examples = self._queries.read(query, options)
        request = self._queries.narrow(request, examples, options)
        prepare = partial(self._queries.prepare, examples, request, options, is_searched)
        prepared, found = self._run(prepare, self._find_episodes)
        spent = (time.perf_counter() - begun) * 1e3
        notes = explain_unmatched_text(self._catalog, options.text, request.where)
        if not found.hits:
            limited = bool(found.missing or notes) or options.min_score is not None
            notes += explain_empty_result(self._catalog, request.where, limited=limited)
        return Hits(
            [ref for ref, _ in found.hits],
            exact=found.answer.exact,
            milliseconds=spent,
            missing=found.missing,
            explained=found.answer.explained,
            answered=describe_views(prepared, notes),
        )

    @one_blas_thread()  # products are small: threads of BLAS would spin between them
    def _run(
        self, prepare: Callable[[], Prepared], find: Callable[[Prepared], FoundHits]
    ) -> tuple[Prepared, FoundHits]:
        """Return the prepared query and what it finds; again if an ingest replaces one of its Spaces meanwhile."""
        while True:
            prepared = prepare()
            try:
                return prepared, find(prepared)
            except SpaceMismatchError:
                if not self._queries.is_outdated(prepared):
                    raise

    def _find_episodes(self, prepared: PreparedQuery[SearchOptions]) -> FoundEpisodes:
        found = self._episodes.search(prepared)
        if prepared.options.alignment:
            for view in prepared.views:
                stored = self._stored.load(view.space, {match.episode for _, match in found.hits})
                found = replace(found, hits=self._moments.align(view, found.hits, stored))
        return found

    def _find_moments(self, prepared: PreparedQuery[MomentOptions]) -> tuple[list[EpisodeRef], Sequence[FoundMoments]]:
        def find_source(example: Example, space: Space) -> tuple[int, int] | None:
            own = find_own_episodes(example, self._catalog, prepared.request.where)
            stored = self._stored.load(space, own)
            return (min(stored), example.start) if stored else None

        return find_moments(self._moments, prepared, find_source)
