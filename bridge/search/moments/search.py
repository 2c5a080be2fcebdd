"""Searches for moments: takes windows from the index, and refines them on the lanes in the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.alignment.align import Pieces, Rule, align_all
from bridge.index.base import Matches, find_kth
from bridge.index.stored_rows import read_vectors
from bridge.results import make_ref
from bridge.search.matches import find_spans
from bridge.search.moments.found_windows import FoundWindows, select_candidates
from bridge.search.moments.frame_scale import measure_frame_scale
from bridge.search.moments.lane_rows import LaneRows, PreparedRows, prepare_rows
from bridge.search.moments.narrow import narrow
from bridge.search.moments.overlap import MomentLimits
from bridge.search.moments.refine import Moment, refine
from bridge.spaces.statistics import lane_statistics
from embedders.space import LaneSpec, Statistics

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.archive import Archive
    from bridge.index.base import Answer, Match, Request, Vectors
    from bridge.results import EpisodeRef
    from bridge.search.matches import EpisodeRows
    from bridge.search.query.options import MomentOptions
    from bridge.search.query.prepare import PreparedView
    from catalog.records import EpisodeRow
    from embedders.space import Space

_LEVELED: Final = {"arcdct", "dct"}  # the coefficient 0 of every channel comes first

WINDOWS: Final = 400
"""Windows requested at first: neighbours are alike, so that few moments make many of the best windows."""

CANDIDATES: Final = 60
"""Windows that are refined at first."""

_STEPS: Final = 1000  # of a query or a hit, at most, that are aligned where no bounds are sought
_LEVEL: Final = 1e-3  # length of what is left of a unit vector where a window is nothing but its level
_EPISODES: Final = 150  # in which copies of the query are looked for
_SHIFTED: Final = 50  # others in which they are, off by a constant


@dataclass(frozen=True, eq=False)
class FoundMoments:
    """Hits, best first; the index's answer that they are from; episodes passed over, their files gone or changed."""

    refs: list[EpisodeRef]
    answer: Answer
    missing: int


@dataclass(frozen=True, eq=False)
class WindowQuery:
    """A query in one Space: its window [T, *window_shape], its vector [E], and where it is from, if that may be a hit.

    source: the episode and the timestep with which the query begins there.
    """

    space: Space
    window: NDArray[Any]
    vector: Vectors
    source: tuple[int, int] | None = None


class MomentSearch:
    """Finds moments in one archive; the lanes that it read last stay in memory."""

    def __init__(self, archive: Archive, rows: EpisodeRows) -> None:
        self._archive = archive
        self._episode_rows = rows
        self._lanes = LaneRows()
        self._frame_scales: dict[str, Statistics] = {}  # by the Space's fingerprint

    def search(self, query: WindowQuery, request: Request, options: MomentOptions) -> FoundMoments:
        """Return the request.top_k moments most like the query, fewer only where no more pass the filter."""
        scaling = self._scaling(query.space) if options.refine else None
        limits = MomentLimits(request.top_k, options.max_overlap, options.per_episode)
        count, most = max(WINDOWS, 2 * limits.top_k), max(CANDIDATES, 3 * limits.top_k)
        while True:
            answer = self._archive.index.search(query.space, query.vector, replace(request, top_k=count))
            windows, stale = self._find_windows(answer.columns, query.space), set[int]()
            if scaling is None:
                refs = _make_refs(windows.select(limits))
            else:
                # Of so many of the best windows, the first ones are the best of the nearest episodes.
                nearest = answer.exact and len({*windows.episodes.tolist()}) >= _EPISODES
                if len(answer.matches) == count and not nearest:
                    windows = self._add_episodes(windows, query, request)
                shifted = self._find_shifted(query, replace(request, top_k=count))
                refs, stale = self._refine(query, windows, shifted, limits, scaling, most)
            everything = len(answer.matches) < count and (scaling is None or most >= len(windows.scores))
            if len(refs) >= limits.top_k or everything:
                return FoundMoments(refs, answer, len(windows.gone | stale))
            count, most = 4 * count, 4 * most  # what was found lies too close together, or is gone

    def align(
        self, view: PreparedView, hits: Sequence[tuple[EpisodeRef, Match]], stored: Collection[int]
    ) -> list[tuple[EpisodeRef, Match]]:
        """Return the hits with what of their spans meets the view's first query, at any speed.

        Hits stay as they are if they are aligned already, not of the episodes stored in the Space, or without a file.
        """
        space, scaling = view.space, self._scaling(view.space)
        rows = self._episode_rows.load({m.episode for ref, m in hits if m.episode in stored and not ref.alignment})
        self._lanes.drop_changed(rows.values(), space)
        lanes, _ = self._lanes.load(rows.values(), space, scaling)
        query = prepare_rows(view.windows[:1], scaling)[0]
        there = {rows[id_].digest: found for id_, found in lanes.items()}  # not what took an episode's place meanwhile
        return [
            (_align_span(ref, space, query, there[ref.digest]), match)
            if match.episode in lanes and ref.digest in there and not ref.alignment
            else (ref, match)
            for ref, match in hits
        ]

    def read_rows(self, view: PreparedView, episodes: Sequence[int]) -> tuple[Rows, dict[int, Rows]]:
        """Return the standardised rows of the view's first query, and by id of those episodes that have a file."""
        scaling = self._scaling(view.space)
        rows = self._episode_rows.load(set(episodes))
        self._lanes.drop_changed(rows.values(), view.space)
        lanes, _ = self._lanes.load(rows.values(), view.space, scaling)
        return prepare_rows(view.windows[:1], scaling)[0].rows, {id_: lane.rows for id_, lane in lanes.items()}

    def _add_episodes(self, windows: FoundWindows, query: WindowQuery, request: Request) -> FoundWindows:
        """Return the windows, and behind them the best one of every other episode that is near."""
        wide = replace(request, top_k=_EPISODES, distinct=True)
        near = self._archive.index.search(query.space, query.vector, wide).columns
        other = np.isin(near.episodes, windows.episodes, invert=True)
        near = Matches(near.episodes[other], near.windows[other], near.scores[other])
        more = self._find_windows(near, query.space)
        episodes = np.concatenate([windows.episodes, more.episodes])
        spans, gone = np.concatenate([windows.spans, more.spans]), windows.gone | more.gone
        scores = np.concatenate([windows.scores, more.scores])
        return FoundWindows(episodes, spans, scores, {**windows.rows, **more.rows}, gone)

    def _find_shifted(self, query: WindowQuery, request: Request) -> FoundWindows:
        """Return the windows that are most like the query but for an offset; none where vectors do not tell that."""
        levels = levels_of(query.space.embedder, query.space.channels)
        vector = query.vector.copy()
        vector[:levels] = 0.0
        length = float(np.linalg.norm(vector))
        if not levels or length < _LEVEL:
            return self._find_windows(Matches.of(()), query.space)
        vector /= np.float32(length)
        wide = replace(request, top_k=_EPISODES, distinct=True)
        episodes = self._archive.index.search(query.space, vector, wide).columns.episodes
        found = read_vectors(
            self._archive.index, query.space, catalog=self._archive.catalog, episodes=episodes.tolist()
        )
        own = found.vectors[:, :levels]
        shapes = np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->i", own, own), _LEVEL))
        cosines = found.vectors @ vector / shapes  # the index knows the product only
        near = np.flatnonzero(cosines >= find_kth(cosines, request.top_k))  # sort no more than are taken
        best = near[np.argsort(-cosines[near], kind="stable")[: request.top_k]]
        places = found.starts.searchsorted(best, side="right") - 1
        scores = cosines[best].astype(np.float64)
        return self._find_windows(Matches(found.episodes[places], best - found.starts[places], scores), query.space)

    def _refine(
        self,
        query: WindowQuery,
        windows: FoundWindows,
        shifted: FoundWindows,
        limits: MomentLimits,
        scaling: Statistics,
        most: int,
    ) -> tuple[list[EpisodeRef], set[int]]:
        """Return the moments that the best `most` windows lead to, and the episodes whose files are gone or changed."""
        own = self._episode_rows.load([] if query.source is None else [query.source[0]])
        rows = {**shifted.rows, **windows.rows, **own}
        near, more = ([*dict.fromkeys(some.episodes.tolist())] for some in (windows, shifted))
        ids = dict.fromkeys([*own, *near[: max(_EPISODES, most)], *more[: max(_SHIFTED, most // 2)]])
        prepared = prepare_rows([query.window], scaling)[0]
        while True:
            lanes, stale = self._lanes.load([rows[id_] for id_ in ids], query.space, scaling)
            candidates = select_candidates(windows, shifted, limits, most, (lanes, stale))
            candidates = narrow(prepared, candidates, lanes, most, sure=limits.top_k)
            source = None if query.source is None or query.source[0] not in lanes else query.source
            found = refine(prepared, candidates, lanes, limits, source)
            if not self._lanes.drop_changed([rows[id_] for id_ in {one.episode for one in found}], query.space):
                break
        make = partial(_make_moment_ref, query.space, prepared)
        return [make(moment, rows[moment.episode], lanes[moment.episode]) for moment in found], stale

    def _find_windows(self, matches: Matches, space: Space) -> FoundWindows:
        rows = self._episode_rows.load(matches.episodes.tolist())
        places, spans = find_spans(matches, rows, space.windows)
        gone = {*matches.episodes.tolist()} - rows.keys()
        return FoundWindows(matches.episodes[places], spans, matches.scores[places], rows, gone)

    def _scaling(self, space: Space) -> Statistics:
        """Return what to standardise by: the Space's statistics, or, where it has none, those of its lanes today."""
        if len(space.window_shape) > 1:  # once, since rows that were read are kept as they were scaled
            if space.fingerprint not in self._frame_scales:
                self._frame_scales[space.fingerprint] = measure_frame_scale(self._archive.catalog, space)
            return self._frame_scales[space.fingerprint]
        if space.scaling is not None:
            return space.scaling
        catalog = self._archive.catalog
        layouts = [
            layout.id
            for layout in catalog.query.layouts()
            if set(space.lanes) <= {LaneSpec(lane.name, tuple(lane.shape)) for lane in layout.lanes}
        ]
        return lane_statistics(catalog, layouts, space.lanes)


def levels_of(embedder: str, channels: int) -> int:
    """Return how many of the first values of a vector say where a window is, not which shape it has."""
    return channels if embedder in _LEVELED else 0


def _make_refs(windows: FoundWindows) -> list[EpisodeRef]:
    spans = windows.spans.tolist()
    return [
        make_ref(windows.rows[episode], score, (span[0], span[1]))
        for episode, span, score in zip(windows.episodes.tolist(), spans, windows.scores.tolist(), strict=True)
    ]


def _make_moment_ref(
    space: Space, query: PreparedRows, moment: Moment, row: EpisodeRow, lanes: PreparedRows
) -> EpisodeRef:
    """Return a moment as a hit, with its path and each lane's own agreement along it."""
    return _add_path(make_ref(row, moment.score, (moment.start, moment.stop)), space, moment.path, (query, lanes))


def _align_span(ref: EpisodeRef, space: Space, query: PreparedRows, lanes: PreparedRows) -> EpisodeRef:
    """Return the hit with the best alignment of the query that there is in its span.

    A row is worth what the cheapest match costs on average: for nothing, matches would shrink to that.
    """
    start, stop = ref.span
    every = 1 + max(len(query.rows), stop - start) // _STEPS
    there = Pieces.of([lanes.rows[start:stop:every]])
    thinned = query.rows[::every]
    cheapest = align_all(thinned, there, Rule()).costs
    path = align_all(thinned, there.worthy(cheapest), Rule(row_gain=1.0), traced=True).paths[0]
    return _add_path(ref, space, path * every + np.array([0, start]), (query, lanes))


def _add_path(ref: EpisodeRef, space: Space, path: Ints, both: tuple[PreparedRows, PreparedRows]) -> EpisodeRef:
    """Return the hit with the path along which the rows of query and episode meet, and each lane's agreement there."""
    query, lanes = both
    apart = ((query.rows[path[:, 0]] - lanes.rows[path[:, 1]]) ** 2).mean(axis=0)
    widths = [lane.channels for lane in space.lanes] if len(space.lanes) > 1 else [len(apart)]  # images: of sketches
    means = np.add.reduceat(apart, np.cumsum([0, *widths[:-1]])) / widths
    scores = {
        lane.name: score for lane, score in zip(space.lanes, (1.0 / (1.0 + np.sqrt(means))).tolist(), strict=True)
    }
    return replace(ref, alignment=tuple(map(tuple, path.tolist())), lane_scores=scores)
