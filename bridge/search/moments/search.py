"""Searches for moments: takes windows from the index, and refines them on the lanes in the files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.alignment.spans import align_spans
from bridge.episodes.open import OpenLocations
from bridge.index.base import Matches
from bridge.index.stored_rows import find_allowed
from bridge.pictures.features import FeatureFiles
from bridge.results import make_ref
from bridge.search.matches import find_lengths, find_spans
from bridge.search.moments.all_timesteps import AllTimesteps, TimestepStore
from bridge.search.moments.best import Depth, find_best
from bridge.search.moments.found_windows import FoundWindows
from bridge.search.moments.frame_scale import measure_frame_scale
from bridge.search.moments.lane_rows import LaneRows, PreparedRows, prepare_rows
from bridge.search.moments.overlap import MomentLimits
from bridge.search.moments.scan import Timesteps
from bridge.spaces.lane_statistics import lane_statistics
from bridge.spaces.lanes import layouts_with
from catalog.filters.where import EVERYTHING
from embedders.image.sketches import ENCODER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints, Rows
    from bridge.archive import Archive
    from bridge.index.array_files import Part
    from bridge.index.base import Answer, Match, Request, Vectors
    from bridge.results import EpisodeRef
    from bridge.search.matches import EpisodeRows
    from bridge.search.moments.refine import Moment
    from bridge.search.query.options import MomentOptions
    from bridge.search.query.prepare import View
    from bridge.support.workers import Workers
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from embedders.space import Space, Statistics

WINDOWS: Final = 400
"""Windows requested at first: adjacent windows are similar, so the best windows belong to few moments."""

CANDIDATES: Final = 40
"""Windows that are refined at first."""

_EPISODES: Final = 150  # scanned where not all are
_COMPARED: Final = 1 << 16  # windows, after which the nearest of them do where spans are found in cells
NOT_ALL: Final = (
    f"the {_EPISODES} episodes nearest by windows were compared timestep by timestep, no others: short moments and "
    "copies elsewhere may be missing"
)
"""Of archives too large for a scan of all timesteps, and of images."""

_SOME: Final = "the spans most likely to be near were compared, not all: some as near as the last hits may be missing"


@dataclass(frozen=True, eq=False)
class FoundMoments:
    """Hits, best first; the index's answer, exact only if all episodes were compared as hits were.

    missing: number of episodes without an unchanged file; note: what was not compared, "" if everything was.
    """

    refs: list[EpisodeRef]
    answer: Answer
    missing: int
    note: str = ""


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
        self._features = FeatureFiles(archive.folder, ENCODER)
        self._lanes = LaneRows(features=self._features)
        self._store = TimestepStore(archive)
        self._frame_scales: dict[str, Statistics] = {}  # by the Space's fingerprint

    def store(self, space: Space, pool: Workers, known: Iterable[Part]) -> None:
        """Store the timesteps of a Space's episodes, so that the first search need not read their files.

        known: digests of episodes and what is scanned of these, whose files need not be opened.
        """
        if len(space.window_shape) < 2:
            self._store.load(space, self._scaling(space), pool, known)

    def search(self, query: WindowQuery, request: Request, options: MomentOptions) -> FoundMoments:
        """Return the request.top_k moments most similar to the query; fewer only if no more pass the filter."""
        scaling = self._scaling(query.space) if options.refine else None
        limits = MomentLimits(request.top_k, options.max_overlap, options.per_episode)
        stored = None if scaling is None else self._store.load(query.space, scaling)
        window_count, max_refined = max(WINDOWS, 2 * limits.top_k), max(CANDIDATES, 3 * limits.top_k)
        has_cells = stored is not None and stored.has_cells
        bounded = replace(request, budget=_COMPARED if has_cells and request.where == EVERYTHING else None)
        while True:
            answer = self._archive.index.search(query.space, query.vector, replace(bounded, top_k=window_count))
            known = None if stored is None else stored.timesteps
            windows, gone, is_complete = self._find_windows(answer.columns, query.space, known), set[int](), True
            if scaling is None:
                refs = windows.select(limits).make_refs(query.space)
            else:
                # With that many episodes among the best windows, the best window of each nearest episode is included.
                has_nearest = answer.exact and len({*windows.episodes.tolist()}) >= _EPISODES
                if len(answer.matches) == window_count and not (has_nearest or stored):
                    windows = self._add_episodes(windows, query, request)
                depth = Depth(limits, max_refined)
                refs, gone, is_complete = self._refine(query, windows, stored, request.where, depth)
            is_exhausted = len(answer.matches) < window_count and (
                scaling is None or max_refined >= len(windows.scores)
            )
            if len(refs) >= limits.top_k or is_exhausted:
                few = len(answer.matches) < window_count and len({*windows.episodes.tolist()}) <= _EPISODES
                note = "" if scaling is None or stored or few else NOT_ALL
                if has_cells and not (is_complete and answer.exact):
                    note = _SOME
                answer = replace(answer, exact=answer.exact and not note)
                return FoundMoments(refs, answer, len(windows.missing | gone), note)
            window_count, max_refined = 4 * window_count, 4 * max_refined  # too many overlap or have no file

    def align(
        self, view: View, hits: Sequence[tuple[EpisodeRef, Match]], stored: Collection[int]
    ) -> list[tuple[EpisodeRef, Match]]:
        """Return the hits with the alignment of their spans with the view's first query, at any speed.

        Hits are unchanged if they are already aligned, their episode is not stored in the Space, or has no file.
        """
        space, scaling = view.space, self._scaling(view.space)
        rows = self._episode_rows.load({m.episode for ref, m in hits if m.episode in stored and not ref.alignment})
        known = self._store.find_loaded(view.spaces, scaling)
        lanes = self._lanes.load_current(rows.values(), space, scaling, known)
        query = prepare_rows(view.windows[:1], scaling)[0]
        found = {  # skips episodes that were replaced meanwhile
            place: lanes[match.episode]
            for place, (ref, match) in enumerate(hits)
            if match.episode in lanes and rows[match.episode].digest == ref.digest and not ref.alignment
        }
        paths = align_spans(query.rows, [one.rows[slice(*hits[place][0].span)] for place, one in found.items()])
        aligned = [*hits]
        for (place, one), path in zip(found.items(), paths, strict=True):
            ref, match = hits[place]
            aligned[place] = _add_path(ref, space, path + np.array([0, ref.span[0]]), (query, one)), match
        return aligned

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

    def _refine(
        self,
        query: WindowQuery,
        windows: FoundWindows,
        stored: AllTimesteps | None,
        where: Where,
        depth: Depth,
    ) -> tuple[list[EpisodeRef], set[int], bool]:
        """Return moments refined from windows and spans, episodes without an unchanged file, and whether all were met.

        stored: all timesteps, None = take those of the windows' episodes. Of what is stored the files of hits alone are
        looked at.
        """
        space, scaling = query.space, self._scaling(query.space)
        prepared = prepare_rows([query.window], scaling)[0]
        if stored is None:
            timesteps, gone = self._load_near(query, windows, scaling, depth)
            allowed = None
        else:
            timesteps, gone = stored.timesteps, {*stored.absent}
            allowed = find_allowed(self._archive.catalog, where)
        if timesteps is None:
            return [], gone, True
        while True:
            passing = allowed if not gone else np.setdiff1d(timesteps.episodes if allowed is None else allowed, [*gone])
            depth = replace(depth, allowed=passing)
            moments, is_complete = find_best(prepared, query.source, windows, timesteps, depth)
            rows = self._episode_rows.load(ids := {moment.episode for moment in moments})
            lanes = self._lanes.load_current(rows.values(), space, scaling, {} if stored is None else timesteps)
            if not (missing := ids - lanes.keys()):
                break
            if gone:  # not the first: look at all
                missing |= self._find_missing(timesteps.episodes)
            gone |= missing
        make = partial(_make_moment_ref, space, prepared)
        return [make(moment, rows[moment.episode], lanes[moment.episode]) for moment in moments], gone, is_complete

    def _find_missing(self, episodes: Ints) -> set[int]:
        """Return the episodes without a file."""
        rows = self._episode_rows.load(episodes.tolist())
        with OpenLocations() as locations:
            return {*episodes.tolist()} - {id_ for id_, row in rows.items() if locations.exists(row.address)}

    def _load_near(
        self, query: WindowQuery, windows: FoundWindows, scaling: Statistics, depth: Depth
    ) -> tuple[Timesteps | None, set[int]]:
        """Load the query's own episode and those of the best windows, where the Space has too many to load them all."""
        own = [] if query.source is None else [query.source[0]]
        ids = [*own, *[*dict.fromkeys(windows.episodes.tolist())][: max(_EPISODES, depth.refined)]]
        rows = self._episode_rows.load(dict.fromkeys(ids))
        lanes, stale = self._lanes.load(rows.values(), query.space, scaling)
        return (Timesteps.of(lanes) if lanes else None), stale

    def _find_windows(self, matches: Matches, space: Space, timesteps: Timesteps | None = None) -> FoundWindows:
        """Return the windows; rows of the catalog are those of episodes whose timesteps are not known."""
        episodes = matches.episodes
        lengths = np.zeros(len(episodes), np.int64) if timesteps is None else timesteps.locate(episodes)[1]
        others = episodes[lengths == 0]
        rows = self._episode_rows.load(others.tolist())
        lengths[lengths == 0] = find_lengths(others, rows)
        places, spans = find_spans(matches, lengths, space.windows)
        missing = {*others.tolist()} - rows.keys()
        return FoundWindows(matches.episodes[places], spans, matches.scores[places], rows, missing)

    def _scaling(self, space: Space) -> Statistics:
        """Return the statistics to standardise with: those of the Space, else the current ones of its lanes."""
        if len(space.window_shape) > 1:  # measured once, as cached rows are scaled with it
            if space.fingerprint not in self._frame_scales:
                self._frame_scales[space.fingerprint] = measure_frame_scale(
                    self._archive.catalog, space, self._features
                )
            return self._frame_scales[space.fingerprint]
        if space.scaling is not None:
            return space.scaling
        catalog = self._archive.catalog
        return lane_statistics(catalog, layouts_with(catalog, space.lanes), space.lanes)


def _make_moment_ref(
    space: Space, query: PreparedRows, moment: Moment, row: EpisodeRow, lanes: PreparedRows
) -> EpisodeRef:
    """Return a moment as a hit, with its path and the score of each lane along it."""
    ref = make_ref(row, moment.score, (moment.start, moment.stop), (lane.name for lane in space.lanes))
    return _add_path(ref, space, moment.path, (query, lanes))


def _add_path(
    ref: EpisodeRef, space: Space, path: Ints, query_and_lanes: tuple[PreparedRows, PreparedRows]
) -> EpisodeRef:
    """Return the hit with the path of pairs (query step, episode step), and the score of each lane along it."""
    query, lanes = query_and_lanes
    squares = ((query.rows.take(path[:, 0], axis=0) - lanes.rows.take(path[:, 1], axis=0)) ** 2).mean(axis=0)
    widths = [lane.channels for lane in space.lanes] if len(space.lanes) > 1 else [len(squares)]  # images: of sketches
    means = np.add.reduceat(squares, np.cumsum([0, *widths[:-1]])) / widths
    scores = {
        lane.name: score for lane, score in zip(space.lanes, (1.0 / (1.0 + np.sqrt(means))).tolist(), strict=True)
    }
    return replace(ref, alignment=tuple(zip(*path.T.tolist(), strict=True)), lane_scores=scores)
