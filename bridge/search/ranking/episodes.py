"""Searches for episodes and windows by a prepared query: ranks them, and turns the best into hits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations
from bridge.index.base import Matches
from bridge.index.metric import COSINE
from bridge.results import EpisodeRef, make_ref
from bridge.search.matches import find_lengths, find_spans
from bridge.search.ranking.compared_lanes import name_lanes
from bridge.search.ranking.far_hits import explain_far_hits
from bridge.search.ranking.first_hits import FirstHits
from bridge.search.ranking.fusion import EXPAND, Fusion, ViewFusion
from bridge.search.ranking.query_vector import combine_view
from bridge.search.ranking.rankers import (
    diversify,
    fuse_by_rank,
    limit_score,
    rank_farthest,
    read_rows,
)
from bridge.search.ranking.text import name_texts, rank_by_text
from embedders.base import block_names_of, blocks_of, shares_of
from embedders.windows import WindowPlan
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Rows
    from bridge.answered import Answered
    from bridge.archive import Archive
    from bridge.index.base import Answer, Ids, Match, Vectors
    from bridge.search.matches import EpisodeRows
    from bridge.search.query.options import SearchOptions
    from bridge.search.query.prepare import PreparedQuery, View
    from bridge.search.ranking.query_vector import QueryVector
    from bridge.search.ranking.rankers import Ranker
    from bridge.search.ranking.stored_vectors import StoredVectors
    from catalog.records import EpisodeRow
    from embedders.base import Embedder
    from embedders.space import Space
    from embedders.text.base import TextEncoder

    _PresentMatch = tuple[Match, EpisodeRow, tuple[int, int]]

WHOLE: Final = WindowPlan()
_INGEST_FIRST: Final = "ingest with these --lanes first"


@dataclass(frozen=True, eq=False)
class FoundEpisodes:
    """Hits, best first, each with its match; the answer; missing: number of matches skipped as they have no file.

    ranked_by, texts: as in Answered. notes: on hits that are all far from the query.
    """

    hits: list[tuple[EpisodeRef, Match]]
    answer: Answer
    missing: int
    ranked_by: str
    texts: str
    notes: Sequence[str] = ()

    def complete(self, answered: Answered) -> Answered:
        """Return what was answered with what the ranking says about it."""
        return replace(answered, ranked_by=self.ranked_by, coverage=self.answer.coverage, texts=self.texts)


@dataclass(frozen=True, eq=False)
class EpisodeSearch:
    """Searches one archive; embedder_for: returns the embedder of a Space.

    read_rows: returns the rows of a view's first query, and those of the episodes that have a file.
    """

    archive: Archive
    rows: EpisodeRows
    stored: StoredVectors
    encoder: TextEncoder | None
    embedder_for: Callable[[Space], Embedder]
    read_rows: Callable[[View, Sequence[int]], tuple[Rows, Mapping[int, Rows]]]

    def search(self, prepared: PreparedQuery[SearchOptions]) -> FoundEpisodes:
        """Return the best hits whose files exist, with contributions if requested. Raises SpaceMismatchError."""
        plan = prepared.views[0].space.windows if prepared.views else WHOLE
        queries = [self._combine(view, len(prepared.examples.like)) for view in prepared.views]
        like, options = len(prepared.examples.like), prepared.options
        pairs = () if options.least else zip(prepared.views, queries, strict=True)
        spaces = {view.space.fingerprint for view in prepared.views}
        fusions = [self._fuse(view, query, options, like, spaces) for view, query in pairs]
        rank = self._make_ranker(prepared, queries, fusions, plan)
        request, count = prepared.request, prepared.request.top_k
        while True:
            answer = rank(replace(request, top_k=count))
            present = self._find_present(answer.matches, plan)
            if len(present) >= request.top_k or len(answer.matches) < count:
                break
            count *= 2  # hits without a file are replaced by the next best
        missing = len(answer.matches) - len(present)
        hits = self._make_hits(present[: request.top_k], prepared)
        if prepared.options.contributions and queries:
            hits = self._add_contributions(hits, queries)
        by_graph = any(fusion.graph is not None for fusion in fusions)
        notes: list[str] = []
        if like == 1 and options.text is None:
            length = len(prepared.views[0].windows[0])
            notes = explain_far_hits(self.stored, fusions, prepared.examples.like[0], length, hits)
        texts = name_texts(options.text, self.encoder)
        return FoundEpisodes(hits, answer, missing, "graph" if by_graph else "vectors", texts, notes)

    def _make_ranker(
        self,
        prepared: PreparedQuery[SearchOptions],
        queries: Sequence[QueryVector],
        fusions: Sequence[Fusion],
        plan: WindowPlan,
    ) -> Ranker:
        """Return the ranker for the options; fusions: of the views."""
        options, index = prepared.options, self.archive.index
        rankers = [] if options.text is None else [rank_by_text(self.archive, options.text, self.encoder)]
        if options.least:
            if queries[0].scanned is not None:
                raise QueryError(f"least: expected vectors of these lanes alone: {_INGEST_FIRST}")
            return rank_farthest(index, queries[0])
        if len(fusions) > 1:
            rankers = [ViewFusion(fusions), *rankers]
        elif fusions:
            fusion = fusions[0]
            needs_fusion = fusion.windows is not None or fusion.expand or fusion.graph is not None
            rank: Ranker = fusion if needs_fusion else partial(fusion.main.search, index)
            rankers = [self._align_first(rank, fusion, prepared.views[0]), *rankers]
        rank = fuse_by_rank(rankers)
        if options.min_score is not None:
            rank = limit_score(rank, options.min_score)
        if queries and options.diversity:
            spaces = [query.space for query in queries]

            def find_present(matches: Sequence[Match]) -> set[Match]:
                return {match for match, _, _ in self._find_present(matches, plan)}

            rank = diversify(rank, self.stored, spaces, options.diversity, find_present)
        return rank

    def _align_first(self, rank: Ranker, fusion: Fusion, view: View) -> Ranker:
        """Return the ranker; for one channel and one example, ranked also by windows, let it rerank its first hits."""
        if fusion.windows is None or view.space.channels > 1 or len(view.vectors) > 1:
            return rank
        return FirstHits(rank, self.stored, fusion.main, partial(self.read_rows, view))

    def _fuse(
        self, view: View, query: QueryVector, options: SearchOptions, like: int, spaces: Collection[str]
    ) -> Fusion:
        """Return what ranks by a view; spaces: of all views, only episodes of which may be predicted."""
        windows = None if view.parts is None else self._combine(view.parts, like)
        by_default = options.expand is None and not options.plain and view.space.windows.whole
        has_graph = by_default and view.space.metric == COSINE and query.scanned is None and not len(query.against)
        found = self.stored.graph(view.space, query.weights) if has_graph else None
        graph = found if found is not None and found.has_groups else None
        expand = EXPAND if by_default and windows is not None else options.expand or 0
        are_longer = partial(self._are_longer, min(map(len, view.windows[:like])))
        completions = [one for one in found.completions if one.source.fingerprint in spaces] if found else []
        return Fusion(
            self.archive.index, self.stored, query, windows, expand, graph, are_longer, by_default, completions
        )

    def _are_longer(self, steps: int, episodes: Ids) -> NDArray[np.bool_]:
        rows = self.rows.load(ids := episodes.tolist())
        return np.array([id_ in rows and rows[id_].length > steps for id_ in ids], np.bool_)

    def _combine(self, view: View, like: int) -> QueryVector:
        embedder = self.embedder_for(view.space)
        weights = self.stored.weights(view.space, blocks_of(embedder, view.space))
        if view.lanes is None:
            return combine_view(view, like, weights)
        factors = [view.lanes.get(lane.name, 0.0) / lane.channels for lane in view.space.lanes]
        channels = np.repeat(factors, [lane.channels for lane in view.space.lanes])
        shares = shares_of(embedder, view.space.channels)
        if shares is None or _are_mixed(channels > 0, shares):
            raise QueryError(
                f"lanes: expected vectors of {', '.join(view.lanes)} alone, as those of {embedder.name!r} mix these "
                f"{view.space.channels} channels: {_INGEST_FIRST}"
            )
        return combine_view(view, like, weights.of_lanes(channels / channels.max(), shares), self.stored.load)

    def _find_present(self, matches: Sequence[Match], plan: WindowPlan) -> list[_PresentMatch]:
        """Return the matches whose window and file exist, each with its episode and timesteps."""
        columns = Matches.of(matches)
        rows = self.rows.load({*columns.episodes.tolist()})
        places, spans = find_spans(columns, find_lengths(columns.episodes, rows), plan)
        windows = zip([matches[place] for place in places.tolist()], spans.tolist(), strict=True)
        with OpenLocations() as locations:
            return [
                (match, rows[match.episode], (start, stop))
                for match, (start, stop) in windows
                if locations.exists(rows[match.episode].address)
            ]

    def _make_hits(
        self, present: Sequence[_PresentMatch], prepared: PreparedQuery[SearchOptions]
    ) -> list[tuple[EpisodeRef, Match]]:
        lanes = name_lanes([match.episode for match, _, _ in present], prepared, self.stored, self.archive.catalog)
        return [
            (make_ref(row, match.score, span, names), match)
            for (match, row, span), names in zip(present, lanes, strict=True)
        ]

    def _add_contributions(
        self, hits: Sequence[tuple[EpisodeRef, Match]], queries: Sequence[QueryVector]
    ) -> list[tuple[EpisodeRef, Match]]:
        """Add the contribution of each lane and descriptor to hits; hits found by words alone get none."""
        rows = [read_rows(self.stored, query.space, [match for _, match in hits]) for query in queries]
        shown = []
        for number, (ref, match) in enumerate(hits):
            present = [(query, own[number]) for query, own in zip(queries, rows, strict=True) if own[number].any()]
            widest = [
                (query, row)
                for query, row in present
                if not any(query.space.is_part_of(other.space) for other, _ in present)
            ]
            if widest:
                lanes, descriptors = zip(*(self._split(query, row) for query, row in widest), strict=True)
                ref = replace(ref, contributions=average_parts(lanes), descriptors=average_parts(descriptors))  # noqa: PLW2901
            shown.append((ref, match))
        return shown

    def _split(self, query: QueryVector, row: Vectors) -> tuple[dict[str, float], dict[str, float]]:
        """Return the contribution of each lane, and descriptor, to the cosine of the query and a stored vector."""
        vector, top = query.weighted
        share = 1 / top if query.scanned is None else query.cosines(row[None])[0] / (vector @ row or 1.0)
        embedder, scaled = self.embedder_for(query.space), vector * share
        edges = np.cumsum(blocks_of(embedder, query.space))[:-1]
        sums = [float(part.sum()) for part in np.split(scaled.astype(np.float64) * row, edges)]
        named = dict(zip(names, sums, strict=True)) if (names := block_names_of(embedder, query.space)) else {}
        return split_by_lane(embedder, query.space, scaled, row), named


def _are_mixed(counts: NDArray[np.bool_], shares: NDArray[np.float64]) -> bool:
    """Return whether most values of the channels that count have others in them, where more than two share one."""
    mixed = ((shares > 0).sum(axis=1) > 2) & shares[:, ~counts].any(axis=1)
    own = shares[:, counts].sum(axis=1)
    return bool(own[mixed].sum() > own.sum() / 2)


def split_by_lane(embedder: Embedder, space: Space, query: Vectors, hit: Vectors) -> dict[str, float]:
    """Return the contribution of each lane, by block name, to the cosine of two unit vectors [E], which is their sum.

    A contribution is negative if the lane lowers the similarity. Empty for an embedder whose values depend on all
    channels together (networks, functions).
    """
    shares = shares_of(embedder, space.channels)
    if shares is None:
        return {}
    channels = (query.astype(np.float64) * hit) @ shares
    edges = np.cumsum([lane.channels for lane in space.lanes])[:-1]
    return {lane.name: float(part.sum()) for lane, part in zip(space.lanes, np.split(channels, edges), strict=True)}


def average_parts(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the contributions of lanes to the mean of several cosines, from those to each; {} if one has none."""
    if not all(parts):
        return {}
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: sum(part.get(name, 0.0) for part in parts) / len(parts) for name in names}
