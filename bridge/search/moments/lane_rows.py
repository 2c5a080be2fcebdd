"""Reads the lanes of episodes as alignment compares them: standardised and lightly smoothed, the last ones cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bridge.episodes.open import OpenLocations, open_at
from bridge.episodes.read import read_lanes
from embedders.base import validate_windows
from embedders.image.frames import sketches
from embedders.standardise import scales, standardise
from embedders.trajectory.resample import smooth
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import FormatError, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.numeric import Rows
    from embedders.space import Space, Statistics

    _Key = tuple[str, str, str]
    _Scaled = tuple[str, bytes, bytes]

SMOOTHED: Final = 5  # timesteps: recordings and actions jitter from one to the next, movements do not
_CACHE_BYTES: Final = 1 << 28


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Standardised rows [T, D], and the same averaged over SMOOTHED timesteps around each."""

    rows: Rows
    smooth: Rows


def prepare_rows(window: NDArray[Any], scaling: Statistics) -> PreparedRows:
    """Return a window [T, D], or images [T, height, width, ...] by their sketches, as alignment compares it.

    Raises EmbedderError for values that are not finite.
    """
    if window.ndim > 2:  # no outlier among pictures outweighs the rest, so that nothing is clipped
        rows = sketches(window, "images") / scales(scaling.std)
    else:
        rows = standardise(validate_windows([window], scaling.mean.size).rows, scaling)
    return PreparedRows(rows, smooth(rows, SMOOTHED))


class LaneRows:
    """Prepared rows of catalogued episodes; the last used stay in memory while files and scaling stay the same."""

    def __init__(self, cache_bytes: int = _CACHE_BYTES) -> None:
        self._cache_bytes = cache_bytes
        self._cache: OrderedDict[_Key, _CachedRows] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def load(
        self, rows: Iterable[EpisodeRow], space: Space, scaling: Statistics
    ) -> tuple[dict[int, PreparedRows], set[int]]:
        """Return the rows of the Space's lanes by episode, without those whose files are gone or changed, and these."""
        # A Space without statistics is scaled by those of today, which move as the archive grows.
        scaled = (space.fingerprint, scaling.mean.tobytes(), scaling.std.tobytes())
        found, stale = {}, set()
        with OpenLocations() as locations:
            for row in rows:
                try:
                    found[row.id] = self._load(row, space, scaling, (scaled, locations))
                except (StaleEpisodeError, FileNotFoundError, FormatError):
                    stale.add(row.id)
        return found, stale

    def _load(
        self, row: EpisodeRow, space: Space, scaling: Statistics, known: tuple[_Scaled, OpenLocations]
    ) -> PreparedRows:
        """Return the rows of one episode. Raises StaleEpisodeError, OSError, FormatError."""
        scaled, locations = known
        key = scaled[0], row.uid, row.digest
        cached = self._cache.get(key)
        address = row.address if cached is None or cached.address.uri != row.path else cached.address
        first = locations.fingerprint(address)
        if cached is not None and cached.stamp == (scaled, first, *map(locations.fingerprint, cached.chunks)):
            with self._lock, suppress(KeyError):  # another thread may have dropped it
                self._cache.move_to_end(key)
            return cached.rows
        with open_at(address) as file:
            chunks = tuple(EpisodeAddress(str(part.path)) for part in file.parts()[1:])
            stamp = (scaled, first, *map(locations.fingerprint, chunks))
            if file.digest() != row.digest:
                raise StaleEpisodeError(f"{address}: changed since it was ingested: ingest it again")
            rows = prepare_rows(read_lanes(file, space), scaling)
        self._store(key, _CachedRows(rows, address, chunks, stamp))
        return rows

    def _store(self, key: _Key, cached: _CachedRows) -> None:
        with self._lock:
            if key in self._cache:
                self._bytes -= self._cache.pop(key).rows.rows.nbytes * 2
            self._cache[key] = cached
            self._bytes += cached.rows.rows.nbytes * 2
            while self._bytes > self._cache_bytes and len(self._cache) > 1:
                self._bytes -= self._cache.popitem(last=False)[1].rows.rows.nbytes * 2


@dataclass(frozen=True, eq=False)
class _CachedRows:
    """Rows, the address and chunks they are from (none of an episode in one file), and how files and scaling were."""

    rows: PreparedRows
    address: EpisodeAddress
    chunks: tuple[EpisodeAddress, ...]
    stamp: tuple[object, ...]
