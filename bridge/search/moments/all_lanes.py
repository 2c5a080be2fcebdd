"""Loads what a search for moments compares with its query: the rows of all episodes that pass, where they are few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.scan import Timesteps
from catalog.filters.where import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.alignment.arrays import Ints
    from bridge.search.matches import EpisodeRows
    from bridge.search.moments.lane_rows import LaneRows, PreparedRows
    from catalog.catalog import Catalog
    from catalog.filters.where import Where
    from catalog.records import EpisodeRow
    from catalog.session import Instant
    from embedders.space import Space, Statistics

    _Key = tuple[Instant, bytes, bytes]

SCANNED: Final = 1 << 21
"""Numbers (timesteps times channels) of a Space up to which all its episodes are scanned: 1,700 of 84 x 14."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """Episodes by id: rows of the catalog, prepared rows, and those without an unchanged file (stale).

    timesteps: all their timesteps, None without any; allowed: the only ones to scan, None = all.
    """

    rows: Mapping[int, EpisodeRow]
    lanes: Mapping[int, PreparedRows]
    stale: set[int]
    timesteps: Timesteps | None
    allowed: Ints | None = None

    def only(self, allowed: Ints) -> Loaded:
        """Return the same of these episodes alone."""
        passing = {*allowed.tolist()}
        lanes = {episode: lane for episode, lane in self.lanes.items() if episode in passing}
        return replace(self, lanes=lanes, stale=self.stale & passing, allowed=allowed)


class AllLanes:
    """The lanes of whole Spaces, in memory until the catalog or a file of a hit changes."""

    def __init__(self, catalog: Catalog, episode_rows: EpisodeRows, lanes: LaneRows) -> None:
        self._catalog = catalog
        self._episode_rows = episode_rows
        self._lanes = lanes
        self._loaded: dict[str, tuple[_Key, Loaded | None]] = {}  # by the Space's fingerprint

    def load(self, space: Space, scaling: Statistics, where: Where) -> Loaded | None:
        """Return the episodes of the Space that pass the filter, or None if it has too many numbers, or images."""
        key = (self._catalog.instant(), scaling.mean.tobytes(), scaling.std.tobytes())
        known, loaded = self._loaded.get(space.fingerprint, (None, None))
        if known != key or (loaded and loaded.stale):  # a file that was gone may be there again
            loaded = self._read(space, scaling)
            self._loaded[space.fingerprint] = key, loaded
        if loaded is None or where == EVERYTHING:
            return loaded
        return loaded.only(np.array(self._catalog.query.ids(where), np.int64))

    def forget(self, space: Space) -> None:
        """Read the Space's episodes again next time: a file has changed."""
        self._loaded.pop(space.fingerprint, None)

    def _read(self, space: Space, scaling: Statistics) -> Loaded | None:
        vectors = self._catalog.vectors
        space_id = next((row.id for row in vectors.spaces() if row.fingerprint == space.fingerprint), None)
        if space_id is None or len(space.window_shape) > 1:
            return None
        most = SCANNED // space.channels  # timesteps, and thus episodes
        if vectors.revision(space_id).rows > most:
            return None
        rows = self._episode_rows.load(vectors.embedded(space_id))
        if sum(row.length for row in rows.values()) > most:
            return None
        lanes, stale = self._lanes.load(rows.values(), space, scaling)
        return Loaded(rows, lanes, stale, Timesteps.of(lanes) if lanes else None)
