"""The public search: episodes, windows and moments similar to a query, to examples or to a text, under filters."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from bridge.archive import Archive, archive_of
from bridge.hits import Hits
from bridge.index.base import Request
from bridge.search.changes import ChangeCheck
from bridge.search.matches import EpisodeRows
from bridge.search.query.notes import explain_hits, explain_moments
from bridge.search.query.options import MomentOptions, SearchOptions
from bridge.search.query.picture_question import read_question
from bridge.search.query.prepare import PreparedQuery, QueryPreparer
from bridge.search.ranking.episodes import EpisodeSearch
from bridge.search.ranking.rankers import join_coverage, join_explanations
from bridge.search.ranking.stored_vectors import StoredVectors
from bridge.spaces.lanes import named_lanes
from embedders.text.base import as_text_encoder
from wshard.core.keywords import check_options
from wshard.errors import QueryError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from bridge.results import EpisodeRef
    from bridge.search.by_picture import PictureSearch
    from bridge.search.moments.search import FoundMoments, MomentSearch
    from bridge.search.query.fit import Query
    from bridge.search.ranking.episodes import FoundEpisodes
    from catalog.filters.where import Where
    from embedders.base import Embedder
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction
    from embedders.windows import WindowPlan

    RewardRange = tuple[float | None, float | None]


class TrajectoryRetriever:
    """Finds similar episodes and moments in an archive.

    deepdata_url, archive, token: as for TrajectoryIngestor, of an archive that exists. embedder: that of ingest, where
    it is a callable or one of several; a name takes other parameters if none have the default ones. lanes: only these.
    text_encoder: that of ingest, or its folder; text= then finds similar meanings. Others may ingest meanwhile.

    Examples:
        >>> TrajectoryRetriever(".wshard").search_similar_episodes("circle-02", 1)[0].episode_id
        'circle-02'
    """

    def __init__(
        self,
        deepdata_url: str | os.PathLike[str] | Archive,
        embedder: str | Embedder | PooledFunction | None = None,
        *,
        lanes: str | Sequence[str] | Mapping[str, float] | None = None,
        archive: str | os.PathLike[str] | None = None,
        token: str | None = None,
        text_encoder: AnyTextEncoder | None = None,
    ) -> None:
        names, encoder = named_lanes(lanes), None if text_encoder is None else as_text_encoder(text_encoder)
        self._archive, self._close = archive_of(deepdata_url, archive=archive, token=token)
        self._catalog = self._archive.catalog
        self._queries = QueryPreparer(self._catalog, embedder, names)
        self._lanes = None if names is None else [*names]
        self._stored, self._changes = StoredVectors(self._archive), ChangeCheck()
        self._rows = EpisodeRows(self._catalog)
        self._episodes = EpisodeSearch(
            self._archive, self._rows, self._stored, encoder, self._queries.embedder_for,
            lambda *rows: self._moments.read_rows(*rows),  # noqa: PLW0108 -- not made before it is needed
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<TrajectoryRetriever of {self._archive.place.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @cached_property
    def pictures(self) -> PictureSearch:
        """The search by picture."""
        from bridge.search.by_picture import PictureSearch

        return PictureSearch(self._archive, self._queries, self._lanes)

    @cached_property
    def _moments(self) -> MomentSearch:
        from bridge.search.moments.search import MomentSearch

        return MomentSearch(self._archive, self._rows)

    def close(self) -> None:
        """Close the archive, unless it was passed open."""
        self._close()

    def search_similar_episodes(  # noqa: PLR0913  (each option by its name)
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        image: Any = None,
        stride: float | None = None,
        words: str | None = None,
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
        """Return the top_k episodes most similar to query_obs, best first; fewer if fewer match the filters.

        query_obs: an observation [D], a window [T, D], {lane: array}, an Episode, or a reference to one: a hit, a file,
        the episode_id or uid of a catalogued episode, or (file or id, start, stop); optional with like=, text= or
        words=. env_id: one or several. min_length: in timesteps, inclusive. reward_range: bounds of the total reward,
        inclusive, None = open; an episode without rewards is in no range. where: an additional filter, as a value or as
        text. image: a picture that a camera of the episode shows: a file, its bytes, an array [H, W, 3], a hit with a
        frame, or "EPISODE#CAMERA@FRAME", which query_obs may be, too; like and unlike are pictures then. words: the
        same in words, with an encoder of text and pictures (docs/cameras.md). stride: seconds from one compared frame
        to the next, None = 0.5. text: words of the metadata or of notes; matching episodes rank first, and with a text
        encoder those with a task of similar meaning. like, unlike: lists of examples and counter-examples, in any form
        of a query. expand: number of best hits to add to the query, in place of the graph; None = 8 if windows are
        searched, too, but there is no graph. plain: rank only by the cosine of whole episodes. least: least similar
        first. min_score: minimum score. diversity: 0 to 1, see docs/search.md. contributions: add the contribution of
        each lane to the similarity. alignment: add the timestep alignment with the (first) query, and a score per lane.
        exclude_self: exclude the episodes that query and examples name. explain: report how the index found the hits.

        Windows of several sizes and whole episodes are ranked together, by the neighbour graph or by expansion
        (docs/search.md). All Spaces with different lanes that fit are searched, of those with the same lanes the
        newest: see Hits.answered. Raises QueryError (no Space fits, NaN, conflicts), FilterError, SpaceMismatchError.
        """
        options = SearchOptions(
            env_id=env_id, min_length=min_length, reward_range=reward_range, where=where, image=image, stride=stride,
            words=words, top_k=top_k, text=text, like=like, unlike=unlike, expand=expand, plain=plain, least=least,
            min_score=min_score, diversity=diversity, contributions=contributions, alignment=alignment,
            exclude_self=exclude_self, explain=explain,
        )  # fmt: skip
        return self._search(query_obs, options)

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
        image: Any = None,
        stride: float | None = None,
        words: str | None = None,
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
        """Return the top_k windows most similar to the query; the span of a hit has its timesteps.

        Searches the windows that were ingested; window_size, or the window plan (or its notation, "32:16"), selects one
        of several plans. distinct: at most one hit per episode. Otherwise like search_similar_episodes, without text=.
        """
        options = SearchOptions(
            windows_only=True, window_size=window_size, windows=windows, distinct=distinct, env_id=env_id,
            min_length=min_length, reward_range=reward_range, where=where, image=image, stride=stride, words=words,
            top_k=top_k, text=text, like=like, unlike=unlike, expand=expand, plain=plain, least=least,
            min_score=min_score, diversity=diversity, contributions=contributions, alignment=alignment,
            exclude_self=exclude_self, explain=explain,
        )  # fmt: skip
        return self._search(query_obs, options)

    def search_moments(  # noqa: PLR0913  (each option by its name)
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        image: Any = None,
        stride: float | None = None,
        words: str | None = None,
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
        """Return the top_k moments most similar to the query; several per episode if they do not overlap.

        A query may be the beginning of a motion: hit.after(50) returns what comes next. Windows from the index are
        aligned with the query on the lanes in the files: hit.span has the refined bounds, hit.alignment the matching
        timesteps, and hit.score is 1 for an exact match (docs/search.md). query_obs to where: as for
        search_similar_episodes. like, unlike: examples and counter-examples: a moment is assigned to the most similar
        one, and removed if that is a counter-example. windows: the window plan, or its notation, if several were
        ingested; None = of several sizes. refine: align the query with the lanes in the files for exact bounds.
        max_overlap: maximum overlap of two moments of one episode, as a share of either. per_episode: maximum number of
        them. min_score: minimum score. exclude_self: exclude the episodes of query and examples. explain: how the index
        found them. Raises the same.
        """
        started = time.perf_counter()
        options = MomentOptions(
            env_id=env_id, min_length=min_length, reward_range=reward_range, where=where, image=image, stride=stride,
            words=words, top_k=top_k, like=like, unlike=unlike, windows=windows, refine=refine,
            max_overlap=max_overlap, per_episode=per_episode, min_score=min_score, exclude_self=exclude_self,
            explain=explain,
        )  # fmt: skip
        if (question := read_question(self._catalog, query_obs, options)[0]) is not None:
            return self.pictures.search(question, options, moments=True)
        request = Request(options.top_k, options.filters, distinct=False, explain=explain)
        examples = self._queries.read(query_obs, options)
        if not examples.like:
            raise QueryError("moments: expected a query or examples (like=[...]), found neither")
        given, request = request.where, self._queries.narrow(request, examples, options)
        prepare = partial(self._queries.prepare_moments, examples, request, options)
        prepared, (refs, results) = self._queries.run(prepare, self._find_moments)
        answers = [result.answer for result in results]
        missing, limits = max(result.missing for result in results), sorted({one.note for one in results} - {""})
        notes = limits + explain_moments(self._catalog, request.where, refs, missing, min_score)
        return Hits(
            [ref for ref in refs if min_score is None or ref.score >= min_score],
            proven=all(answer.exact for answer in answers),
            milliseconds=(time.perf_counter() - started) * 1e3,
            missing=missing,
            explained=join_explanations(answers),
            answered=self._queries.describe(prepared, given, notes, coverage=join_coverage(answers)),
        )

    def search(self, query: Query | None = None, top_k: int = 10, **options: Any) -> Hits:
        """Search for episodes, or for windows with windows_only=True or windows=...; options as for those searches."""
        check_options(TrajectoryRetriever.search, options, SearchOptions)
        return self._search(query, SearchOptions(top_k=top_k, **options))

    def _search(self, query: Query | None, options: SearchOptions) -> Hits:
        question, is_frame = read_question(self._catalog, query, options)
        if question is not None:
            return self.pictures.fuse(question, options, None if is_frame else query, self._search)
        started, distinct = time.perf_counter(), options.distinct or not options.of_windows
        request = Request(options.top_k, options.filters, distinct=distinct, explain=options.explain)
        examples = self._queries.read(query, options)
        given, request = request.where, self._queries.narrow(request, examples, options)
        prepare = partial(self._queries.prepare, examples, request, options)
        prepared, found = self._queries.run(prepare, self._find_episodes)
        refs = [ref for ref, _ in found.hits]
        notes = explain_hits(self._catalog, options, request.where, refs, found.missing) + self._changes.explain(refs)
        notes += found.notes
        return Hits(
            refs,
            proven=found.answer.exact,
            milliseconds=(time.perf_counter() - started) * 1e3,
            missing=found.missing,
            explained=found.answer.explained,
            answered=found.complete(self._queries.describe(prepared, given, notes)),
        )

    def _find_episodes(self, prepared: PreparedQuery[SearchOptions]) -> FoundEpisodes:
        found = self._episodes.search(prepared)
        for view in prepared.views if prepared.options.alignment else ():
            stored = self._stored.load(view.space, [match.episode for _, match in found.hits])
            found = replace(found, hits=self._moments.align(view, found.hits, {*stored.episodes.tolist()}))
        return found

    def _find_moments(self, prepared: PreparedQuery[MomentOptions]) -> tuple[list[EpisodeRef], Sequence[FoundMoments]]:
        from bridge.search.moments.nearest_example import find_moments

        return find_moments(self._moments, prepared, episodes=self._queries.query_episodes, load=self._stored.load)
