"""Moments in an archive: windows from the index, refined on the lanes in the files, as hits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.alignment.align import Pieces, Rule, align_all
from bridge.episodes.open import OpenLocations
from bridge.results import make_ref
from bridge.search.moments.frame_scale import frame_scale
from bridge.search.moments.lane_rows import LaneRows, Prepared, prepare
from bridge.search.moments.overlap import suppress
from bridge.search.moments.refine import Moment, Wanted, refine
from bridge.spaces.statistics import lane_statistics
from embedders.space import LaneSpec, Statistics
from wshard.errors import FormatError, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bridge.alignment.arrays import Ints
    from bridge.archive import Archive
    from bridge.index.base import Answer, Match, Request, Vectors
    from bridge.results import EpisodeRef
    from bridge.search.query.options import MomentWishes
    from bridge.search.query.prepare import Fit
    from catalog.records import EpisodeRow
    from catalog.session import Instant
    from embedders.space import Space

WINDOWS: Final = 400
"""Windows asked for at first: neighbours are alike, so that few moments make many of the best windows."""

CANDIDATES: Final = 60
"""Windows that are refined at first."""

_STEPS: Final = 1000  # of a query or a hit, at most, that are aligned where no bounds are sought
_KNOWN: Final = 10_000  # rows of the catalog kept in memory
_CROWDED: Final = 0.5  # overlap above which the better of two windows stands for both


@dataclass(frozen=True, eq=False)
class Found:
    """Hits, best first; the index's answer that they are from; episodes passed over, their files gone or changed."""

    refs: list[EpisodeRef]
    answer: Answer
    missing: int


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows of episodes whose files are there, best first: ids [n], spans [n, 2], scores [n]; rows by id."""

    episodes: np.ndarray[tuple[int], np.dtype[np.int64]]
    spans: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    scores: list[float]
    rows: Mapping[int, EpisodeRow]

    def kept(self, wanted: Wanted) -> _Windows:
        """Return the best that do not overlap."""
        limits = (wanted.max_overlap, wanted.top_k)
        places = suppress(self.episodes, self.spans, *limits, per_episode=wanted.per_episode)
        scores = [self.scores[place] for place in places]
        return _Windows(self.episodes[places], self.spans[places], scores, self.rows)


class MomentSearch:
    """Finds moments in one archive; keeps the lanes that it read last."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._lanes = LaneRows()
        self._frame_scales: dict[str, Statistics] = {}  # by the Space's fingerprint
        self._known: tuple[Instant | None, dict[int, EpisodeRow]] = (None, {})  # rows, true until something changes

    def search(
        self, asked: Fit, vector: Vectors, request: Request, wishes: MomentWishes, source: tuple[int, int] | None = None
    ) -> Found:
        """Return the request.top_k moments most like the query, fewer only where no more pass the filter.

        vector: the query's, in the Space asked.space; source: the episode that it is from, if that passes the filter,
        and the timestep with which it begins there.
        """
        scaling = self._scaling(asked.space) if wishes.refine else None
        wanted = Wanted(request.top_k, wishes.max_overlap, wishes.per_episode)
        count, most = max(WINDOWS, 2 * wanted.top_k), max(CANDIDATES, 3 * wanted.top_k)
        while True:
            answer = self._archive.index.search(asked.space, vector, replace(request, top_k=count))
            windows, missing = self._windows(answer.matches, asked.space)
            if scaling is None:
                refs, stale = _as_they_are(windows.kept(wanted)), 0
            else:
                refs, stale = self._refined(asked, windows, wanted, (scaling, most), source)
            everything = len(answer.matches) < count and (scaling is None or most >= len(windows.scores))
            if len(refs) >= wanted.top_k or everything:
                return Found(refs, answer, missing + stale)
            count, most = 4 * count, 4 * most  # what was found lies too close together, or is gone

    def aligned(self, asked: Fit, refs: Sequence[tuple[EpisodeRef, Match]]) -> list[tuple[EpisodeRef, Match]]:
        """Return the hits with what of their spans meets the query, at any speed; as they are, where files are not."""
        scaling, known = self._scaling(asked.space), self._rows({match.episode for _, match in refs})
        lanes, _ = self._read([*known], known, asked.space, scaling)
        query = prepare(asked.window, scaling)
        there = {known[id_].digest: rows for id_, rows in lanes.items()}  # not what took an episode's place meanwhile
        return [
            (_anywhere(ref, asked.space, query, there[ref.digest]) if ref.digest in there else ref, match)
            for ref, match in refs
        ]

    def _refined(
        self,
        asked: Fit,
        windows: _Windows,
        wanted: Wanted,
        limits: tuple[Statistics, int],
        source: tuple[int, int] | None,
    ) -> tuple[list[EpisodeRef], int]:
        scaling, most = limits
        some = None if wanted.per_episode is None else 2 * wanted.per_episode
        tried = windows.kept(Wanted(most, max(_CROWDED, wanted.max_overlap), some))
        its = self._rows(set() if source is None else {source[0]})
        rows = {**tried.rows, **its}
        lanes, stale = self._read([*tried.episodes.tolist(), *its], rows, asked.space, scaling)
        query = prepare(asked.window, scaling)
        there = np.array([episode in lanes for episode in tried.episodes.tolist()], np.bool_)
        source = None if source is None or source[0] not in lanes else source
        found = refine(query, (tried.episodes[there], tried.spans[there]), lanes.__getitem__, wanted, source)
        told = partial(_told, asked.space, query)
        return [told(moment, rows[moment.episode], lanes[moment.episode]) for moment in found], stale

    def _read(
        self, episodes: Sequence[int], rows: Mapping[int, EpisodeRow], space: Space, scaling: Statistics
    ) -> tuple[dict[int, Prepared], int]:
        """Return the lanes of every episode by id, without those whose files are gone or changed, and their number."""
        lanes, stale = {}, 0
        for episode in dict.fromkeys(episodes):
            try:
                lanes[episode] = self._lanes.of(rows[episode], space, scaling)
            except (StaleEpisodeError, FileNotFoundError, FormatError):
                stale += 1
        return lanes, stale

    def _windows(self, matches: Sequence[Match], space: Space) -> tuple[_Windows, int]:
        rows = self._rows({match.episode for match in matches})
        with OpenLocations() as locations:
            there = {id_: row for id_, row in rows.items() if locations.exists(row.address)}
        spans = {length: space.windows.spans(length) for length in {row.length for row in there.values()}}
        held = np.array([(match.episode, match.window) for match in matches], np.int64).reshape(-1, 2)
        cut = np.full((len(matches), 2), -1, np.int64)
        for id_, row in there.items():
            mine = np.flatnonzero(held[:, 0] == id_)
            # An episode may have been ingested anew, and shorter, since the index answered.
            mine = mine[held[mine, 1] < len(spans[row.length])]
            cut[mine] = spans[row.length][held[mine, 1]]
        good = np.flatnonzero(cut[:, 0] >= 0)
        scores = [matches[place].score for place in good.tolist()]
        return _Windows(held[good, 0], cut[good], scores, there), len(np.unique(held[:, 0])) - len(there)

    def _rows(self, ids: set[int]) -> dict[int, EpisodeRow]:
        catalog, now = self._archive.catalog, self._archive.catalog.instant()
        if self._known[0] != now or len(self._known[1]) > _KNOWN:
            self._known = (now, {})
        held = self._known[1]
        held |= catalog.episodes.rows(ids - held.keys())
        return {id_: held[id_] for id_ in ids & held.keys()}

    def _scaling(self, space: Space) -> Statistics:
        """Return what to standardise by: the Space's statistics, or, where it has none, those of its lanes today."""
        if len(space.window_shape) > 1:  # once, since rows that were read are kept as they were scaled
            if space.fingerprint not in self._frame_scales:
                self._frame_scales[space.fingerprint] = frame_scale(self._archive.catalog, space)
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


def of_several_sizes(spaces: Sequence[Space]) -> Sequence[Space]:
    """Return the Spaces to search for moments: those of windows of several sizes if there are."""
    return [space for space in spaces if space.windows.scales is not None] or spaces


def _as_they_are(windows: _Windows) -> list[EpisodeRef]:
    spans = windows.spans.tolist()
    return [
        make_ref(windows.rows[episode], score, (span[0], span[1]))
        for episode, span, score in zip(windows.episodes.tolist(), spans, windows.scores, strict=True)
    ]


def _told(space: Space, query: Prepared, moment: Moment, row: EpisodeRow, lanes: Prepared) -> EpisodeRef:
    """Return a moment as a hit, with its path and each lane's own agreement along it."""
    return _along(make_ref(row, moment.score, (moment.start, moment.stop)), space, moment.path, (query, lanes))


def _anywhere(ref: EpisodeRef, space: Space, query: Prepared, lanes: Prepared) -> EpisodeRef:
    """Return the hit with the best alignment of the query that there is in its span.

    A row is worth what the cheapest match costs on average: for nothing, matches would shrink to that.
    """
    start, stop = ref.span
    every = 1 + max(len(query.rows), stop - start) // _STEPS
    there = Pieces.of([lanes.rows[start:stop:every]])
    asked = query.rows[::every]
    cheapest = align_all(asked, there, Rule()).costs
    path = align_all(asked, there.worthy(cheapest), Rule(row_gain=1.0), traced=True).paths[0]
    return _along(ref, space, path * every + np.array([0, start]), (query, lanes))


def _along(ref: EpisodeRef, space: Space, path: Ints, both: tuple[Prepared, Prepared]) -> EpisodeRef:
    """Return the hit with the path along which the rows of query and episode meet, and each lane's agreement there."""
    query, lanes = both
    apart = ((query.rows[path[:, 0]] - lanes.rows[path[:, 1]]) ** 2).mean(axis=0)
    widths = [lane.channels for lane in space.lanes] if len(space.lanes) > 1 else [len(apart)]  # images: of sketches
    means = np.add.reduceat(apart, np.cumsum([0, *widths[:-1]])) / widths
    scores = {
        lane.name: score for lane, score in zip(space.lanes, (1.0 / (1.0 + np.sqrt(means))).tolist(), strict=True)
    }
    return replace(ref, alignment=tuple(map(tuple, path.tolist())), lane_scores=scores)
