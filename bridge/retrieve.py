"""Search: episodes and moments like the one in hand, under exact filters.

Knows: how a query becomes a vector of the right Space, and how matches become episodes that load themselves.
Does not know: how an index searches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from bridge.archive import Archive, open_archive
from bridge.index.base import Request
from bridge.query import Query, describe, fit
from bridge.refs import EpisodeRef, make_ref
from bridge.selection import block_name
from bridge.spaces import weights_in
from catalog.filters import EVERYTHING, Where, all_of, build_where, comparisons, parts_of
from catalog.form_text import as_where
from embedders.base import embed_by
from embedders.registry import as_embedder, embedder_of
from embedders.space import LaneSpec, Space
from wshard.errors import QueryError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bridge.index.base import Answer, Explained, Match, Vectors
    from catalog.records import SpaceRow
    from embedders.base import Embedder
    from embedders.pooled import PooledFunction
    from embedders.windows import WindowPlan

    PathLike = str | os.PathLike[str]
    RewardRange = tuple[float | None, float | None]


class Hits(list[EpisodeRef]):
    """Hits, best first. exact: proven to be the best there are. milliseconds: embedding, search and catalog look-up.

    missing: matches that were passed over because their files are gone. explained: how the index found them, where that
    was asked for.
    """

    def __init__(
        self,
        refs: Iterable[EpisodeRef] = (),
        *,
        exact: bool = True,
        milliseconds: float = 0.0,
        missing: int = 0,
        explained: Explained | None = None,
    ) -> None:
        super().__init__(refs)
        self.exact = exact
        self.milliseconds = milliseconds
        self.missing = missing
        self.explained = explained


class TrajectoryRetriever:
    """Finds similar episodes and moments in an archive.

    target, archive, token: as for TrajectoryIngestor; the archive must exist. embedder: needed only where the archive
    was embedded in several ways, or by a callable; it must be the one that the archive was ingested with. lanes: search
    only what was embedded from exactly these lanes, without weights if it was; a mapping asks for just these weights.

    Other processes may ingest meanwhile: each search sees all that was committed before it.
    """

    def __init__(
        self,
        target: PathLike,
        embedder: str | Embedder | PooledFunction | None = None,
        *,
        lanes: str | Sequence[str] | Mapping[str, float] | None = None,
        archive: PathLike | None = None,
        token: str | None = None,
    ) -> None:
        self._embedder = None if embedder is None else as_embedder(embedder)
        self._lanes = (lanes,) if isinstance(lanes, str) else lanes
        self._archive: Archive = open_archive(target, archive=archive, token=token)
        self._read: dict[str, Space] = {}  # Spaces by fingerprint: they never change, and reading one takes time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the archive."""
        self._archive.close()

    def search_similar_episodes(  # noqa: PLR0913  (as the format's documents name it)
        self,
        query: Query,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        explain: bool = False,
    ) -> Hits:
        """Return the top_k episodes most like the query, best first; all of them if fewer pass the filters.

        query: an observation [D], a window [T, D], {lane: array} or an Episode. env_id: one or several. min_length: in
        timesteps, inclusive. reward_range: bounds of the summed reward, inclusive, None = open; an episode without
        rewards is in no range. where: any further filter, as a value or as text. explain: let the hits say how they
        were found. Raises QueryError where the query fits no Space or several, EmbedderError for NaN, FilterError,
        SpaceMismatchError.
        """
        wanted = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range) & as_where(where)
        return self._search(query, Request(top_k, wanted, explain=explain), lambda plan: plan.whole)

    def search_similar_timesteps(  # noqa: PLR0913  (as above)
        self,
        query: Query,
        top_k: int = 10,
        env_id: str | Sequence[str] | None = None,
        min_length: int | None = None,
        reward_range: RewardRange | None = None,
        *,
        where: Where | str | None = None,
        window_size: int | None = None,
        windows: WindowPlan | None = None,
        explain: bool = False,
    ) -> Hits:
        """Return the top_k windows most like the query; each hit's span tells its timesteps.

        Searches what was ingested as windows; window_size, or the plan that they were cut by, chooses among several.
        Otherwise as search_similar_episodes.
        """

        def cut(plan: WindowPlan) -> bool:
            return not plan.whole and window_size in (None, plan.size) and windows in (None, plan)

        wanted = build_where(env_id=env_id, min_length=min_length, reward_range=reward_range) & as_where(where)
        return self._search(query, Request(top_k, wanted, distinct=False, explain=explain), cut)

    def _search(self, query: Query, request: Request, cut: Callable[[WindowPlan], bool]) -> Hits:
        begun = time.perf_counter()
        if request.top_k < 1:
            raise QueryError(f"top_k: expected at least 1, found {request.top_k}")
        while True:
            fitting = fit(query, self._spaces(request.where, cut))
            embedder = self._embedder or embedder_of(fitting.space)
            vector = embed_by(embedder, [fitting.window], fitting.space.scaling)[0]
            try:
                refs, answer, missing = self._ask(fitting.space, vector, request)
            except SpaceMismatchError:
                if fitting.space in self._active():
                    raise
                continue  # an ingest replaced the Space a moment ago: its successor answers
            spent = (time.perf_counter() - begun) * 1e3
            return Hits(refs, exact=answer.exact, milliseconds=spent, missing=missing, explained=answer.explained)

    def _ask(self, space: Space, vector: Vectors, request: Request) -> tuple[list[EpisodeRef], Answer, int]:
        """Return the best hits whose files are there, the answer they are from, and how many were passed over."""
        asked = request.top_k
        while True:
            answer = self._archive.index.search(space, vector, replace(request, top_k=asked))
            refs = self._refs(answer.matches, space)
            if len(refs) >= request.top_k or len(answer.matches) < asked:
                return refs[: request.top_k], answer, len(answer.matches) - len(refs)
            asked *= 2  # some hits are files that are gone: their places go to the next best

    def _refs(self, matches: Sequence[Match], space: Space) -> list[EpisodeRef]:
        rows = self._archive.catalog.rows({match.episode for match in matches})
        refs = []
        for match in matches:
            row = rows.get(match.episode)
            if row is None or not os.path.exists(row.path):  # noqa: PTH110  (Path.exists can raise)
                continue
            spans = space.windows.spans(row.length)
            if match.window < len(spans):  # else the episode was ingested anew, and shorter, since the index answered
                start, stop = spans[match.window].tolist()
                refs.append(make_ref(row, match.score, (start, stop)))
        return refs

    def _spaces(self, where: Where, cut: Callable[[WindowPlan], bool]) -> list[Space]:
        """Return the Spaces of a wanted window plan that can answer."""
        spaces = [space for space in self._active() if cut(space.windows)]
        if self._lanes is not None:
            spaces = _of_lanes(self._lanes, spaces)
        if self._embedder is not None:
            spaces = self._of_embedder(self._embedder, spaces)
        return (self._holding(spaces, where) or spaces) if len(spaces) > 1 else spaces

    def _active(self) -> list[Space]:
        return [self._space(row) for row in self._archive.catalog.spaces("active")]

    def _space(self, row: SpaceRow) -> Space:
        if row.fingerprint not in self._read:
            self._read[row.fingerprint] = Space.from_json(row.definition)
        return self._read[row.fingerprint]

    def _of_embedder(self, embedder: Embedder, spaces: Sequence[Space]) -> list[Space]:
        asked = (embedder.name, embedder.version, dict(embedder.parameters()))
        same = [space for space in spaces if (space.embedder, space.version, dict(space.parameters)) == asked]
        if spaces and not same:
            listed = "\n".join(f"  {describe(space)}" for space in spaces)
            raise SpaceMismatchError(
                f"the archive was not embedded by {embedder.name} version {embedder.version} {dict(asked[2])}: ingest "
                f"it with that embedder, or search without embedder=. It holds:\n{listed}"
            )
        return same

    def _holding(self, spaces: list[Space], where: Where) -> list[Space]:
        """Keep the Spaces that hold episodes of the environments asked for, so that env_id tells like lanes apart."""
        about = [part for part in parts_of(where) if {clause.field for clause in comparisons(part)} == {"env_id"}]
        asked = all_of(*about)
        if asked == EVERYTHING:
            return spaces
        layouts = [
            {LaneSpec(lane.name, tuple(lane.shape)) for lane in layout.lanes}
            for layout in self._archive.catalog.layouts(asked)
        ]
        return [space for space in spaces if any(set(space.lanes) <= held for held in layouts)]


def _of_lanes(lanes: Sequence[str] | Mapping[str, float], spaces: Sequence[Space]) -> list[Space]:
    found = []
    for space in spaces:
        held = {lane.name for lane in space.lanes}
        if {block_name(name, held) for name in lanes} == held:
            found.append(space)
    if isinstance(lanes, Mapping):
        return [space for space in found if space.weights == weights_in(lanes, space.lanes)]
    return [space for space in found if space.weights is None] or found
