"""Search: episodes and moments like the one in hand, under exact filters."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from bridge.archive import Archive, open_archive
from bridge.episodes.open import OpenLocations
from bridge.index.base import Request
from bridge.index.metric import COSINE
from bridge.results import Answered, EpisodeRef, Hits, make_ref
from bridge.search.moments.nearest_example import belonging
from bridge.search.moments.search import MomentSearch, of_several_sizes
from bridge.search.query.examples import its_episodes, read_example, without_their_episodes
from bridge.search.query.notes import about_nothing, about_text
from bridge.search.query.options import MomentWishes, Wishes, wishes_of
from bridge.search.query.views import View, Views
from bridge.search.ranking.aims import Aims
from bridge.search.ranking.contributions import averaged, contributions
from bridge.search.ranking.fusion import EXPAND, Fusion, Together
from bridge.search.ranking.rankers import at_least, differing, explained, farthest, fused_by_rank, nearest, vectors_of
from bridge.search.ranking.stored_vectors import Holdings
from bridge.search.ranking.text import by_text
from bridge.spaces.lanes import named_lanes
from catalog.filters.parse import as_where
from catalog.filters.where import Where, build_where
from embedders.text.base import as_text_encoder
from embedders.windows import WindowPlan, as_plan
from wshard.arguments import whole_number
from wshard.errors import QueryError, SpaceMismatchError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Unpack

    from bridge.index.base import Answer, Match
    from bridge.search.moments.search import Found
    from bridge.search.query.examples import Example
    from bridge.search.query.options import Asked, AskedMoments
    from bridge.search.query.prepare import Query
    from bridge.search.ranking.rankers import Aim, Ranker
    from embedders.base import Embedder
    from embedders.space import Space
    from embedders.text.base import AnyTextEncoder
    from embedders.trajectory.pooled import PooledFunction

    PathLike = str | os.PathLike[str]
    RewardRange = tuple[float | None, float | None]
    _Hit = tuple[EpisodeRef, Match]


WHOLE: Final = WindowPlan()

_count = partial(whole_number, what="top_k", error=QueryError, least=1)


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
        listed = named_lanes(lanes)
        self._sentences = None if sentences is None else as_text_encoder(sentences)
        self._archive: Archive = open_archive(deepdata_url, archive=archive, token=token)
        self._holdings = Holdings(self._archive.catalog)
        self._aims = Aims(self._archive.catalog, embedder, listed)
        self._moments = MomentSearch(self._archive)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def search_similar_episodes(
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        **asked: Unpack[Asked],
    ) -> Hits:
        """Return the top_k episodes most like query_obs, best first; all of them if fewer pass the filters.

        query_obs: an observation [D], a window [T, D], {lane: array}, an Episode, or what names one: a hit, a file, or
        (file, start, stop); none where like= or text= says what to look for. env_id: one or several. min_length: in
        timesteps, inclusive. reward_range: bounds of the summed reward, inclusive, None = open; an episode without
        rewards is in no range. asked: see Wishes.

        Where windows of several sizes were ingested beside whole episodes, both rank together, and the query is
        expanded by its best hits (docs/search.md); `plain=True` ranks by the cosine of whole episodes alone. Several
        Spaces of different lanes that the query fits answer together, of those of the same lanes the newest; the hits
        say which (Hits.answered). Raises QueryError where the query fits no Space, EmbedderError for NaN, FilterError,
        SpaceMismatchError.
        """
        wishes = wishes_of(Wishes, asked)
        wanted = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range) & as_where(wishes.where)
        return self._search(
            query_obs, Request(_count(top_k), wanted, explain=wishes.explain), wishes, lambda plan: plan.whole
        )

    def search_similar_timesteps(  # noqa: PLR0913  (as the format's documents name it)
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
        **asked: Unpack[Asked],
    ) -> Hits:
        """Return the top_k windows most like the query; each hit's span tells its timesteps.

        Searches what was ingested as windows; window_size, or the plan that they were cut by (or its notation,
        "32:16"), chooses among several. distinct: at most one hit per episode. Otherwise as search_similar_episodes,
        without text=.
        """
        size = None if window_size is None else whole_number(window_size, "window_size", QueryError, least=1)
        only = None if windows is None else as_plan(windows)
        wishes = wishes_of(Wishes, asked)
        if wishes.text is not None:
            raise QueryError("text: expected a search for episodes, found one for timesteps, which have no words")
        wanted = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range) & as_where(wishes.where)
        request = Request(_count(top_k), wanted, distinct=distinct, explain=wishes.explain)
        return self._search(
            query_obs,
            request,
            wishes,
            lambda plan: not plan.whole and size in (None, plan.size) and only in (None, plan),
        )

    def search_moments(
        self,
        query_obs: Query | None = None,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        **asked: Unpack[AskedMoments],
    ) -> Hits:
        """Return the top_k moments most like the query, several of one episode where they do not overlap.

        A beginning finds its like too: hit.after(50) is what comes next there. Windows from the index are aligned with
        the query on the lanes in the files: hit.span are the bounds found, hit.alignment says which steps meet, and
        hit.score is 1 for an exact match (docs/search.md). asked: see MomentWishes. Raises as search_similar_timesteps.
        """
        begun = time.perf_counter()
        wishes = wishes_of(MomentWishes, asked)
        wanted = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range) & as_where(wishes.where)
        like = self._read([*([] if query_obs is None else [query_obs]), *wishes.like])
        unlike = self._read(wishes.unlike)
        if not like:
            raise QueryError("moments: expected a query or examples (like=[...]), found neither")
        if wishes.exclude_self:
            wanted &= without_their_episodes([*like, *unlike], self._archive.catalog)
        request = Request(_count(top_k), wanted, distinct=False, explain=wishes.explain)
        while True:
            views = self._views(
                [*like, *unlike],
                wanted,
                lambda plan: not plan.whole and wishes.windows in (None, plan),
                of_several_sizes,
            )
            views = views if wishes.refine else views.only_newest()  # cosines of several cannot be compared
            try:
                refs, found = self._found(views, [*like, *unlike], len(like), request, wishes)
                break
            except SpaceMismatchError:
                if not self._replaced(views):
                    raise
        notes = [] if refs else about_nothing(self._archive.catalog, wanted, limited=any(one.missing for one in found))
        return Hits(
            [ref for ref in refs if wishes.min_score is None or ref.score >= wishes.min_score],
            exact=all(one.answer.exact for one in found),
            milliseconds=(time.perf_counter() - begun) * 1e3,
            missing=max(one.missing for one in found),
            explained=explained([one.answer for one in found]),
            answered=Answered(tuple(view.space for view in views.chosen), tuple(views.others), tuple(notes)),
        )

    def _read(self, queries: Iterable[Query]) -> list[Example]:
        return [read_example(one, self._aims.choice.embedded) for one in queries]

    def _views(
        self,
        examples: Sequence[Example],
        where: Where,
        cut: Callable[[WindowPlan], bool],
        among: Callable[[Sequence[Space]], Sequence[Space]] = lambda spaces: spaces,
    ) -> Views:
        return self._aims.views([one.query for one in examples], where, cut, among)

    def _replaced(self, views: Views) -> bool:
        """Say whether an ingest replaced one of the Spaces a moment ago: its successor answers."""
        return not all(view.space in self._aims.choice.active() for view in views.chosen)

    def _found(
        self, views: Views, examples: Sequence[Example], like: int, request: Request, wishes: MomentWishes
    ) -> tuple[list[EpisodeRef], Sequence[Found]]:
        """Return the moments like the first `like` examples and unlike the others, and what each view found of each."""
        pairs = [(view, number) for number in range(len(examples)) for view in views.chosen]

        def find(pair: int, count: int) -> Found:
            view, number = pairs[pair]
            asked = view.queries[number]
            vector = self._aims.embed(view.space, [asked.window])[0]
            own = self._own(examples[number], view.space, request.where)
            return self._moments.search(asked, vector, replace(request, top_k=count), each, own)

        if len(pairs) == 1:
            each = wishes
            found = find(0, request.top_k)
            return found.refs, [found]
        each = replace(wishes, per_episode=None)  # of one alone: which episodes' hits count is told among all
        count = len(views.chosen)
        return belonging(
            find, like=like * count, unlike=(len(examples) - like) * count, top_k=request.top_k, wishes=wishes
        )

    def _own(self, example: Example, space: Space, where: Where) -> tuple[int, int] | None:
        """Return the episode that the example names, if that may be a hit, and the timestep with which it begins."""
        held = self._holdings.vectors(space, its_episodes(example, self._archive.catalog, where))
        return (min(held), example.start) if held else None

    def _search(self, query: Query | None, request: Request, wishes: Wishes, cut: Callable[[WindowPlan], bool]) -> Hits:
        begun = time.perf_counter()
        like = self._read([*([] if query is None else [query]), *wishes.like])
        unlike = self._read(wishes.unlike)
        if wishes.exclude_self:
            left = without_their_episodes([*like, *unlike], self._archive.catalog)
            request = replace(request, where=request.where & left)
        while True:
            views = self._chosen(like, unlike, wishes, request.where, cut)
            aims = [self._aims.towards(view, len(like)) for view in views.chosen]
            examples = [one.query for one in (*like, *unlike)]
            parts = [
                None if wishes.plain or wishes.least else self._aims.windows_of(a.space, examples, len(like))
                for a in aims
            ]
            both = [*zip(aims, parts, strict=True)]
            try:
                refs, answer, missing = self._ask(self._ranker(both, wishes), request, aims)
            except SpaceMismatchError:
                if not self._replaced(views):
                    raise
                continue
            if wishes.contributions and aims:
                refs = self._explained(refs, aims)
            if wishes.alignment:
                for view in views.chosen:
                    refs = self._aligned(refs, view)
            spent = (time.perf_counter() - begun) * 1e3
            notes = about_text(self._archive.catalog, wishes.text, request.where)
            if not refs:
                limited = bool(missing or notes) or wishes.min_score is not None
                notes += about_nothing(self._archive.catalog, request.where, limited=limited)
            spaces = tuple(aim.space for pair in both for aim in pair if aim is not None)
            answered = Answered(spaces, tuple(views.others), tuple(notes))
            return Hits(
                [ref for ref, _ in refs],
                exact=answer.exact,
                milliseconds=spent,
                missing=missing,
                explained=answer.explained,
                answered=answered,
            )

    def _chosen(
        self,
        like: Sequence[Example],
        unlike: Sequence[Example],
        wishes: Wishes,
        where: Where,
        cut: Callable[[WindowPlan], bool],
    ) -> Views:
        """Return what answers the examples; nothing for words alone."""
        if not like:
            if wishes.text is None:
                raise QueryError("expected a query, examples (like=[...]) or words (text=...), found none of them")
            if unlike or wishes.diversity:
                raise QueryError("unlike and diversity: expected a query or examples beside them, found words alone")
            return Views([], [])
        views = self._views([*like, *unlike], where, cut).cut_alike()
        if wishes.least:
            views = views.only_newest()
        metric = views.chosen[0].space.metric
        if metric != COSINE and (len(like) > 1 or wishes.turn_vectors):
            raise QueryError(
                f"like, unlike, expand, least, diversity and contributions: expected a Space compared by the cosine, "
                f"found one compared by {metric}"
            )
        return views

    def _ranker(self, views: Sequence[tuple[Aim, Aim | None]], wishes: Wishes) -> Ranker:
        """Return the way to rank that was wished for, by views and the windows of each."""
        index = self._archive.index
        told = [] if wishes.text is None else by_text(self._archive, wishes.text, self._sentences)
        if wishes.least:
            return farthest(index, views[0][0])
        fusions = []
        for aim, windows in views:
            expand = wishes.expand if wishes.expand is not None else EXPAND if windows is not None else 0
            fusions.append(Fusion(index, self._holdings, aim, windows, expand))
        if len(fusions) > 1:
            told = [Together(fusions), *told]
        elif fusions:
            alone = fusions[0]
            told = [alone if alone.windows is not None or alone.expand else nearest(index, alone.main), *told]
        rank = fused_by_rank(told)
        if wishes.min_score is not None:
            rank = at_least(rank, wishes.min_score)
        if views and wishes.diversity:
            spaces = [aim.space for aim, _ in views]
            plan = spaces[0].windows
            rank = differing(
                rank,
                self._holdings,
                spaces,
                wishes.diversity,
                lambda matches: {match for _, match in self._refs(matches, plan)},
            )
        return rank

    def _ask(self, rank: Ranker, request: Request, aims: Sequence[Aim]) -> tuple[list[_Hit], Answer, int]:
        """Return the best hits whose files are there, the answer they are from, and how many were passed over."""
        asked = request.top_k
        while True:
            answer = rank(replace(request, top_k=asked))
            refs = self._refs(answer.matches, aims[0].space.windows if aims else WHOLE)
            if len(refs) >= request.top_k or len(answer.matches) < asked:
                return refs[: request.top_k], answer, len(answer.matches) - len(refs)
            asked *= 2  # some hits are files that are gone: their places go to the next best

    def _explained(self, refs: Sequence[_Hit], aims: Sequence[Aim]) -> list[_Hit]:
        """Let hits say what each lane adds; those that were found by words alone have nothing to say."""
        parts: dict[int, list[dict[str, float]]] = {}
        for aim in aims:
            maker, held = self._aims.maker(aim.space), self._holdings.vectors(aim.space, {m.episode for _, m in refs})
            for number, (_, match) in enumerate(refs):
                if (vectors := held.get(match.episode)) is not None:
                    own = contributions(maker, aim.space, aim.vector, vectors_of(vectors, match))
                    parts.setdefault(number, []).append(own)
        return [
            (replace(ref, contributions=averaged(parts[number])), match) if number in parts else (ref, match)
            for number, (ref, match) in enumerate(refs)
        ]

    def _aligned(self, refs: Sequence[_Hit], view: View) -> list[_Hit]:
        """Let hits that are not aligned yet say which of their timesteps meet which of the query, in this view."""
        held = self._holdings.vectors(view.space, {match.episode for ref, match in refs if not ref.alignment})
        mine = [(ref, match) for ref, match in refs if match.episode in held]
        found = {match: ref for ref, match in self._moments.aligned(view.queries[0], mine)}
        return [(found.get(match, ref), match) for ref, match in refs]

    def _refs(self, matches: Sequence[Match], windows: WindowPlan) -> list[_Hit]:
        rows = self._archive.catalog.episodes.rows({match.episode for match in matches})
        with OpenLocations() as locations:
            rows = {id_: row for id_, row in rows.items() if locations.exists(row.address)}
        refs = []
        for match in matches:
            row = rows.get(match.episode)
            if row is None:
                continue
            spans = windows.spans(row.length)
            if match.window < len(spans):  # else the episode was ingested anew, and shorter, since the index answered
                start, stop = spans[match.window].tolist()
                refs.append((make_ref(row, match.score, (start, stop)), match))
        return refs
