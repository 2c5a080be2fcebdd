"""Searches for moments: takes windows from the index, and refines them on the lanes in the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.alignment.align import Pieces, Rule, align_all
from bridge.index.base import Matches, find_kth, read_vectors
from bridge.results import make_ref
from bridge.search.matches import find_spans
from bridge.search.moments.all_lanes import AllLanes, Loaded
from bridge.search.moments.best import Depth, find_best
from bridge.search.moments.found_windows import FoundWindows
from bridge.search.moments.frame_scale import measure_frame_scale
from bridge.search.moments.lane_rows import LaneRows, PreparedRows, prepare_rows
from bridge.search.moments.overlap import MomentLimits
from bridge.search.moments.scan import Timesteps
from bridge.spaces.lane_statistics import lane_statistics
from bridge.spaces.lanes import layouts_with

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.archive import Archive
    from bridge.index.base import Answer, Match, Request, Vectors
    from bridge.results import EpisodeRef
    from bridge.search.matches import EpisodeRows
    from bridge.search.moments.refine import Moment
    from bridge.search.query.options import MomentOptions
    from bridge.search.query.prepare import View
    from catalog.records import EpisodeRow
    from embedders.space import Space, Statistics

_LEVEL_EMBEDDERS: Final = {"arcdct", "dct"}  # their vectors begin with coefficient 0, the mean, of every channel

WINDOWS: Final = 400
"""Windows requested at first: adjacent windows are similar, so the best windows belong to few moments."""

CANDIDATES: Final = 40
"""Windows that are refined at first."""

_STEPS: Final = 1000  # of a query or a hit, at most, that are aligned if no bounds are sought
_MIN_LENGTH: Final = 1e-3  # of a unit vector without its levels; below it a window is constant
_EPISODES: Final = 150  # searched for copies of the query
_SHIFTED: Final = 50  # further ones, searched for copies with a constant offset


@dataclass(frozen=True, eq=False)
class FoundMoments:
    """Hits, best first; the index's answer; missing: number of episodes without an unchanged file."""

    refs: list[EpisodeRef]
    answer: Answer
    missing: int


@dataclass(frozen=True, eq=False)
class WindowQuery:
    """A query in one Space: its window [T, *window_shape], its vector [E], and its source, if that may be a hit.

    source: the episode that the query is from, and its first timestep there.
    """

    space: Space
    window: NDArray[Any]
    vector: Vectors
    source: tuple[int, int] | None = None


class MomentSearch:
    """Finds moments in one archive; keeps the lanes read last in memory."""

    def __init__(self, archive: Archive, rows: EpisodeRows) -> None:
        self._archive = archive
        self._episode_rows = rows
        self._lanes = LaneRows()
        self._all = AllLanes(archive.catalog, rows, self._lanes)
        self._frame_scales: dict[str, Statistics] = {}  # by the Space's fingerprint

    def search(self, query: WindowQuery, request: Request, options: MomentOptions) -> FoundMoments:
        """Return the request.top_k moments most similar to the query; fewer only if no more pass the filter."""
        scaling = self._scaling(query.space) if options.refine else None
        limits = MomentLimits(request.top_k, options.max_overlap, options.per_episode)
        window_count, max_refined = max(WINDOWS, 2 * limits.top_k), max(CANDIDATES, 3 * limits.top_k)
        while True:
            answer = self._archive.index.search(query.space, query.vector, replace(request, top_k=window_count))
            windows, stale = self._find_windows(answer.columns, query.space), set[int]()
            if scaling is None:
                refs = _make_refs(query.space, windows.select(limits))
            else:
                # With that many episodes among the best windows, the best window of each nearest episode is included.
                has_nearest = answer.exact and len({*windows.episodes.tolist()}) >= _EPISODES
                has_all = has_nearest or self._all.load(query.space, scaling, request.where) is not None
                if len(answer.matches) == window_count and not has_all:
                    windows = self._add_episodes(windows, query, request)
                shifted = self._find_shifted(query, replace(request, top_k=window_count))
                depth = Depth(limits, scaling, max_refined)
                refs, stale = self._refine(query, (windows, shifted), request, depth)
            is_exhausted = len(answer.matches) < window_count and (
                scaling is None or max_refined >= len(windows.scores)
            )
            if len(refs) >= limits.top_k or is_exhausted:
                return FoundMoments(refs, answer, len(windows.missing | stale))
            window_count, max_refined = 4 * window_count, 4 * max_refined  # too many overlap or have no file

    def align(
        self, view: View, hits: Sequence[tuple[EpisodeRef, Match]], stored: Collection[int]
    ) -> list[tuple[EpisodeRef, Match]]:
        """Return the hits with the alignment of their spans with the view's first query, at any speed.

        Hits are unchanged if they are already aligned, their episode is not stored in the Space, or has no file.
        """
        space, scaling = view.space, self._scaling(view.space)
        rows = self._episode_rows.load({m.episode for ref, m in hits if m.episode in stored and not ref.alignment})
        self._lanes.drop_changed(rows.values(), space)
        lanes, _ = self._lanes.load(rows.values(), space, scaling)
        query = prepare_rows(view.windows[:1], scaling)[0]
        rows_by_digest = {
            rows[id_].digest: prepared for id_, prepared in lanes.items()
        }  # skips episodes that were replaced meanwhile
        return [
            (_align_span(ref, space, query, rows_by_digest[ref.digest]), match)
            if match.episode in lanes and ref.digest in rows_by_digest and not ref.alignment
            else (ref, match)
            for ref, match in hits
        ]

    def read_rows(self, view: View, episodes: Sequence[int]) -> tuple[Rows, dict[int, Rows]]:
        """Return the standardised rows of the view's first query, and by id those of the episodes that have a file."""
        scaling = self._scaling(view.space)
        rows = self._episode_rows.load(set(episodes))
        self._lanes.drop_changed(rows.values(), view.space)
        lanes, _ = self._lanes.load(rows.values(), view.space, scaling)
        return prepare_rows(view.windows[:1], scaling)[0].rows, {id_: lane.rows for id_, lane in lanes.items()}

    def _add_episodes(self, windows: FoundWindows, query: WindowQuery, request: Request) -> FoundWindows:
        """Return the windows, followed by the best one of each other episode near the query."""
        wide = replace(request, top_k=_EPISODES, distinct=True)
        near = self._archive.index.search(query.space, query.vector, wide).columns
        is_other = np.isin(near.episodes, windows.episodes, invert=True)
        near = Matches(near.episodes[is_other], near.windows[is_other], near.scores[is_other])
        added = self._find_windows(near, query.space)
        episodes = np.concatenate([windows.episodes, added.episodes])
        spans, missing = np.concatenate([windows.spans, added.spans]), windows.missing | added.missing
        scores = np.concatenate([windows.scores, added.scores])
        return FoundWindows(episodes, spans, scores, {**windows.rows, **added.rows}, missing)

    def _find_shifted(self, query: WindowQuery, request: Request) -> FoundWindows:
        """Return the windows most similar to the query except for an offset; none if vectors have no separate level."""
        level_count = levels_of(query.space.embedder, query.space.channels)
        vector = query.vector.copy()
        vector[:level_count] = 0.0
        length = float(np.linalg.norm(vector))
        if not level_count or length < _MIN_LENGTH:
            return self._find_windows(Matches.of(()), query.space)
        vector /= np.float32(length)
        wide = replace(request, top_k=_EPISODES, distinct=True)
        episodes = self._archive.index.search(query.space, vector, wide).columns.episodes
        stored = read_vectors(
            self._archive.index, query.space, catalog=self._archive.catalog, episodes=episodes.tolist()
        )
        level_parts = stored.vectors[:, :level_count]
        shapes = np.sqrt(np.maximum(1.0 - np.einsum("ij,ij->i", level_parts, level_parts), _MIN_LENGTH))
        cosines = stored.vectors @ vector / shapes  # the index only returns inner products
        candidates = np.flatnonzero(cosines >= find_kth(cosines, request.top_k))  # sort only those that can be returned
        best = candidates[np.argsort(-cosines[candidates], kind="stable")[: request.top_k]]
        places = stored.starts.searchsorted(best, side="right") - 1
        scores = cosines[best].astype(np.float64)
        return self._find_windows(Matches(stored.episodes[places], best - stored.starts[places], scores), query.space)

    def _refine(
        self, query: WindowQuery, found: tuple[FoundWindows, FoundWindows], request: Request, depth: Depth
    ) -> tuple[list[EpisodeRef], set[int]]:
        """Return the moments refined from the best windows and spans, and the episodes without an unchanged file.

        found: the windows near the query, and those near it but for an offset.
        """
        space, scaling = query.space, depth.scaling
        prepared = prepare_rows([query.window], scaling)[0]
        own_rows = self._episode_rows.load([] if query.source is None else [query.source[0]])
        while True:
            loaded = self._all.load(space, scaling, request.where) or self._load_near(space, found, own_rows, depth)
            moments = find_best(prepared, query.source, found, loaded, depth)
            hits = [loaded.rows[id_] for id_ in {moment.episode for moment in moments}]
            # Rows that were dropped to save memory are read again: their files may have changed.
            _, gone = self._lanes.load(hits, space, scaling)
            if not (self._lanes.drop_changed(hits, space) or gone):
                break
            self._all.forget(space)
        make = partial(_make_moment_ref, space, prepared)
        refs = [make(moment, loaded.rows[moment.episode], loaded.lanes[moment.episode]) for moment in moments]
        return refs, loaded.stale

    def _load_near(
        self,
        space: Space,
        found: tuple[FoundWindows, FoundWindows],
        own_rows: Mapping[int, EpisodeRow],
        depth: Depth,
    ) -> Loaded:
        """Load the query's own episode and those of the best windows, where the Space has too many to load them all."""
        windows, shifted = found
        rows = {**shifted.rows, **windows.rows, **own_rows}
        near_ids, shifted_ids = ([*dict.fromkeys(some.episodes.tolist())] for some in found)
        refined = depth.refined
        ids = [*own_rows, *near_ids[: max(_EPISODES, refined)], *shifted_ids[: max(_SHIFTED, refined // 2)]]
        lanes, stale = self._lanes.load([rows[id_] for id_ in dict.fromkeys(ids)], space, depth.scaling)
        return Loaded(rows, lanes, stale, Timesteps.of(lanes) if lanes else None)

    def _find_windows(self, matches: Matches, space: Space) -> FoundWindows:
        rows = self._episode_rows.load(matches.episodes.tolist())
        places, spans = find_spans(matches, rows, space.windows)
        missing = {*matches.episodes.tolist()} - rows.keys()
        return FoundWindows(matches.episodes[places], spans, matches.scores[places], rows, missing)

    def _scaling(self, space: Space) -> Statistics:
        """Return the statistics to standardise with: those of the Space, else the current ones of its lanes."""
        if len(space.window_shape) > 1:  # measured once, as cached rows are scaled with it
            if space.fingerprint not in self._frame_scales:
                self._frame_scales[space.fingerprint] = measure_frame_scale(self._archive.catalog, space)
            return self._frame_scales[space.fingerprint]
        if space.scaling is not None:
            return space.scaling
        catalog = self._archive.catalog
        return lane_statistics(catalog, layouts_with(catalog, space.lanes), space.lanes)


def levels_of(embedder: str, channels: int) -> int:
    """Return how many of the first values of a vector describe the level (mean) of a window, not its shape."""
    return channels if embedder in _LEVEL_EMBEDDERS else 0


def _make_refs(space: Space, windows: FoundWindows) -> list[EpisodeRef]:
    spans = windows.spans.tolist()
    return [
        make_ref(windows.rows[episode], score, (span[0], span[1]), space.lanes)
        for episode, span, score in zip(windows.episodes.tolist(), spans, windows.scores.tolist(), strict=True)
    ]


def _make_moment_ref(
    space: Space, query: PreparedRows, moment: Moment, row: EpisodeRow, lanes: PreparedRows
) -> EpisodeRef:
    """Return a moment as a hit, with its path and the score of each lane along it."""
    return _add_path(
        make_ref(row, moment.score, (moment.start, moment.stop), space.lanes), space, moment.path, (query, lanes)
    )


def _align_span(ref: EpisodeRef, space: Space, query: PreparedRows, lanes: PreparedRows) -> EpisodeRef:
    """Return the hit with the best alignment of the query within its span.

    The gain per row is the mean cost of the cheapest match; without a gain, matches would shrink to that.
    """
    start, stop = ref.span
    stride = 1 + max(len(query.rows), stop - start) // _STEPS
    piece = Pieces.of([lanes.rows[start:stop:stride]])
    thinned = query.rows[::stride]
    cheapest = align_all(thinned, piece, Rule()).costs
    path = align_all(thinned, piece.worthy(cheapest), Rule(row_gain=1.0), traced=True).paths[0]
    return _add_path(ref, space, path * stride + np.array([0, start]), (query, lanes))


def _add_path(
    ref: EpisodeRef, space: Space, path: Ints, query_and_lanes: tuple[PreparedRows, PreparedRows]
) -> EpisodeRef:
    """Return the hit with the path of pairs (query step, episode step), and the score of each lane along it."""
    query, lanes = query_and_lanes
    squares = ((query.rows[path[:, 0]] - lanes.rows[path[:, 1]]) ** 2).mean(axis=0)
    widths = [lane.channels for lane in space.lanes] if len(space.lanes) > 1 else [len(squares)]  # images: of sketches
    means = np.add.reduceat(squares, np.cumsum([0, *widths[:-1]])) / widths
    scores = {
        lane.name: score for lane, score in zip(space.lanes, (1.0 / (1.0 + np.sqrt(means))).tolist(), strict=True)
    }
    return replace(ref, alignment=tuple(map(tuple, path.tolist())), lane_scores=scores)
