"""Search: episodes and moments like the one in hand, under exact filters.

Knows: how a query becomes a vector of the right Space, and how matches become episodes that load themselves.
Does not know: how an index searches.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from bridge.archive import Archive, open_archive
from bridge.belonging import belonging
from bridge.by_text import by_text
from bridge.choosing import SpaceChoice, identity, maker_of
from bridge.contributions import contributions
from bridge.examples import its_episodes, read_example, without_their_episodes
from bridge.expansion import combined
from bridge.fusion import EXPAND, Fusion
from bridge.hits import Hits
from bridge.holdings import Holdings
from bridge.index.base import Request
from bridge.index.blas import one_blas_thread
from bridge.index.metric import COSINE
from bridge.moment_search import MomentSearch, of_several_sizes
from bridge.query import Query, fit
from bridge.rankers import Aim, at_least, differing, farthest, fused_by_rank, nearest, vectors_of
from bridge.refs import EpisodeRef, make_ref
from bridge.selection import named_lanes
from bridge.wishes import MomentWishes, Wishes, wishes_of
from catalog.filters import Where, build_where
from catalog.form_text import as_where
from embedders.base import embed_by
from embedders.registry import EMBEDDERS, as_embedder, embedder_of
from embedders.text import as_text_encoder
from embedders.windows import WindowPlan, as_plan
from wshard.arguments import whole_number
from wshard.errors import EmbedderError, QueryError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Unpack

    from numpy.typing import NDArray

    from bridge.examples import Example
    from bridge.index.base import Answer, Match
    from bridge.moment_search import Found
    from bridge.rankers import Ranker
    from bridge.wishes import Asked, AskedMoments
    from embedders.base import Embedder, Vectors
    from embedders.pooled import PooledFunction
    from embedders.space import Space
    from embedders.text import AnyTextEncoder

    PathLike = str | os.PathLike[str]
    RewardRange = tuple[float | None, float | None]


WHOLE: Final = WindowPlan()

_count = partial(whole_number, what="top_k", error=QueryError, least=1)


class TrajectoryRetriever:
    """Finds similar episodes and moments in an archive.

    deepdata_url, archive, token: as for TrajectoryIngestor; the archive must exist. embedder: needed only where the
    archive was embedded in several ways, or by a callable; it must be the one that the archive was ingested with; a
    name of this library's takes other parameters of it too, where nothing is embedded by the usual ones. lanes: search
    only what was embedded from exactly these lanes, without weights if it was; a mapping asks for just these weights.
    sentences: the text encoder, or its folder, that the archive was ingested with: text= then finds what means the same
    too.

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
        self._embedder = None if embedder is None else as_embedder(embedder)
        self._sentences = None if sentences is None else as_text_encoder(sentences)
        self._archive: Archive = open_archive(deepdata_url, archive=archive, token=token)
        self._holdings = Holdings(self._archive.catalog)
        self._choice = SpaceChoice(
            self._archive.catalog, self._embedder, listed, named=isinstance(embedder, str) and embedder in EMBEDDERS
        )
        self._moments = MomentSearch(self._archive)
        self._made: dict[str, Embedder] = {}  # by the Space's fingerprint

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
        expanded by its best hits (docs/search.md); `plain=True` ranks by the cosine of whole episodes alone. Raises
        QueryError where the query fits no Space or several, EmbedderError for NaN, FilterError, SpaceMismatchError.
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
        examples, request = [*like, *unlike], Request(_count(top_k), wanted, distinct=False, explain=wishes.explain)
        if len(examples) == 1:
            found: Sequence[Found] = [self._found(examples, 0, request, wishes)]
            refs = found[0].refs
        else:
            each = replace(wishes, per_episode=None)  # of one example: which episodes' hits count is told among all

            def find(number: int, count: int) -> Found:
                return self._found(examples, number, replace(request, top_k=count), each)

            refs, found = belonging(find, like=len(like), unlike=len(unlike), top_k=request.top_k, wishes=wishes)
        return Hits(
            [ref for ref in refs if wishes.min_score is None or ref.score >= wishes.min_score],
            exact=all(one.answer.exact for one in found),
            milliseconds=(time.perf_counter() - begun) * 1e3,
            missing=max(one.missing for one in found),
            explained=found[0].answer.explained,
        )

    def _read(self, queries: Iterable[Query]) -> list[Example]:
        return [read_example(one, self._choice.embedded) for one in queries]

    def _found(self, examples: Sequence[Example], number: int, request: Request, wishes: MomentWishes) -> Found:
        """Return what is found for one of the examples, in the Space that the first of them fits."""
        while True:
            spaces = self._choice.spaces(lambda plan: not plan.whole and wishes.windows in (None, plan))
            asked = fit(
                examples[0].query, spaces, lambda some: of_several_sizes(self._choice.holding(some, request.where))
            )
            if number:
                asked = fit(examples[number].query, [asked.space])
            vector = self._embed(asked.space, [asked.window])[0]
            try:
                own = self._own(examples[number], asked.space, request.where)
                return self._moments.search(asked, vector, request, wishes, own)
            except SpaceMismatchError:
                if asked.space in self._choice.active():
                    raise
                # An ingest replaced the Space a moment ago: its successor answers.

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
        examples = [one.query for one in like], [one.query for one in unlike]
        while True:
            aim = self._aim(examples, wishes, request.where, cut)
            try:
                refs, answer, missing = self._ask(self._ranker(aim, wishes), request, aim)
            except SpaceMismatchError:
                if aim is None or aim.space in self._choice.active():
                    raise
                continue  # an ingest replaced the Space a moment ago: its successor answers
            if wishes.contributions and aim is not None:
                refs = self._explained(refs, aim)
            if wishes.alignment and aim is not None:
                refs = self._moments.aligned(fit(aim.examples[0][0], [aim.space]), refs)
            spent = (time.perf_counter() - begun) * 1e3
            hits = [ref for ref, _ in refs]
            return Hits(hits, exact=answer.exact, milliseconds=spent, missing=missing, explained=answer.explained)

    def _aim(
        self,
        examples: tuple[Sequence[Query], Sequence[Query]],
        wishes: Wishes,
        where: Where,
        cut: Callable[[WindowPlan], bool],
    ) -> Aim | None:
        """Return the Space that the examples fit and the vector to search it for; None for words alone."""
        like, unlike = examples
        if not like:
            if wishes.text is None:
                raise QueryError("expected a query, examples (like=[...]) or words (text=...), found none of them")
            if unlike or wishes.diversity:
                raise QueryError("unlike and diversity: expected a query or examples beside them, found words alone")
            return None
        space = fit(like[0], self._choice.spaces(cut), lambda some: self._choice.holding(some, where)).space
        if space.metric != COSINE and (len(like) > 1 or wishes.turn_vectors):
            raise QueryError(
                f"like, unlike, expand, least, diversity and contributions: expected a Space compared by the cosine, "
                f"found one compared by {space.metric}"
            )
        return self._towards(space, like, unlike)

    def _towards(self, space: Space, like: Sequence[Query], unlike: Sequence[Query]) -> Aim:
        windows = [fit(example, [space]).window for example in (*like, *unlike)]
        vectors = self._embed(space, windows)
        wanted, against = vectors[: len(like)], vectors[len(like) :]
        return Aim(space, combined(wanted, against), against, (tuple(like), tuple(unlike)))

    def _ranker(self, aim: Aim | None, wishes: Wishes) -> Ranker:
        """Return the way to rank that was wished for."""
        index = self._archive.index
        told = [] if wishes.text is None else by_text(self._archive, wishes.text, self._sentences)
        if aim is None:
            rank = fused_by_rank(told)
        elif wishes.least:
            return farthest(index, aim)
        else:
            windows = None if wishes.plain else self._windows_of(aim)
            expand = wishes.expand if wishes.expand is not None else EXPAND if windows is not None else 0
            rank = nearest(index, aim)
            if windows is not None or expand:
                rank = Fusion(index, self._holdings, aim, windows, expand)
            rank = fused_by_rank([rank, *told])
        if wishes.min_score is not None:
            rank = at_least(rank, wishes.min_score)
        if aim is not None and wishes.diversity:
            windows_of = aim.space.windows
            rank = differing(
                rank,
                self._holdings,
                aim.space,
                wishes.diversity,
                lambda matches: {match for _, match in self._refs(matches, windows_of)},
            )
        return rank

    def _windows_of(self, aim: Aim) -> Aim | None:
        """Return what to search the windows of several sizes for that were cut from the lanes of whole episodes."""
        if not aim.space.windows.whole or aim.space.metric != COSINE:
            return None
        for space in self._choice.active():
            alike = all(getattr(space, name) == getattr(aim.space, name) for name in ("lanes", "weights", "metric"))
            if space.windows.scales and alike:
                with suppress(EmbedderError):  # another one's embedder, which nobody passed
                    return self._towards(space, *aim.examples)
        return None

    @one_blas_thread()
    def _embed(self, space: Space, windows: Sequence[NDArray[Any]]) -> Vectors:
        return embed_by(self._maker(space), space, windows)

    def _maker(self, space: Space) -> Embedder:
        """Return the embedder of a Space: the one that was passed, if it is the one."""
        given = self._embedder
        if given is not None and identity(given) == maker_of(space):
            return given
        if space.fingerprint not in self._made:
            self._made[space.fingerprint] = embedder_of(space)
        return self._made[space.fingerprint]

    def _ask(
        self, rank: Ranker, request: Request, aim: Aim | None
    ) -> tuple[list[tuple[EpisodeRef, Match]], Answer, int]:
        """Return the best hits whose files are there, the answer they are from, and how many were passed over."""
        asked = request.top_k
        while True:
            answer = rank(replace(request, top_k=asked))
            refs = self._refs(answer.matches, WHOLE if aim is None else aim.space.windows)
            if len(refs) >= request.top_k or len(answer.matches) < asked:
                return refs[: request.top_k], answer, len(answer.matches) - len(refs)
            asked *= 2  # some hits are files that are gone: their places go to the next best

    def _explained(self, refs: Sequence[tuple[EpisodeRef, Match]], aim: Aim) -> list[tuple[EpisodeRef, Match]]:
        """Let hits say what each lane adds; those that were found by words alone have nothing to say."""
        maker, held = self._maker(aim.space), self._holdings.vectors(aim.space, {match.episode for _, match in refs})
        return [
            (replace(ref, contributions=contributions(maker, aim.space, aim.vector, vectors_of(vectors, match))), match)
            if (vectors := held.get(match.episode)) is not None
            else (ref, match)
            for ref, match in refs
        ]

    def _refs(self, matches: Sequence[Match], windows: WindowPlan) -> list[tuple[EpisodeRef, Match]]:
        rows = self._archive.catalog.rows({match.episode for match in matches})
        refs = []
        for match in matches:
            row = rows.get(match.episode)
            if row is None or not os.path.exists(row.path):  # noqa: PTH110  (Path.exists can raise)
                continue
            spans = windows.spans(row.length)
            if match.window < len(spans):  # else the episode was ingested anew, and shorter, since the index answered
                start, stop = spans[match.window].tolist()
                refs.append((make_ref(row, match.score, (start, stop)), match))
        return refs
