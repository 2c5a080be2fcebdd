"""The lanes of episodes as alignment compares them: read from their files, standardised, lightly smoothed, kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import fingerprint_of, open_at
from bridge.episodes.read import read_lanes
from embedders.base import validate_windows
from embedders.image.frames import sketches
from embedders.standardise import scales, standardise
from wshard.episode.protocol import EpisodeAddress
from wshard.errors import StaleEpisodeError

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.numeric import Rows
    from embedders.space import Space, Statistics

SMOOTHED: Final = 5  # timesteps: recordings and actions jitter from one to the next, movements do not
_KEPT_BYTES: Final = 1 << 28


@dataclass(frozen=True, eq=False)
class Prepared:
    """Standardised rows [T, D], and the same averaged over SMOOTHED timesteps around each."""

    rows: Rows
    smooth: Rows


def prepare(window: NDArray[Any], scaling: Statistics) -> Prepared:
    """Return a window [T, D], or images [T, height, width, ...] by their sketches, as alignment compares it.

    Raises EmbedderError for values that are not finite.
    """
    if window.ndim > 2:  # no outlier among pictures outweighs the rest, so that nothing is clipped
        rows = sketches(window, "images") / scales(scaling.std)
    else:
        rows = standardise(validate_windows([window], scaling.mean.size).rows, scaling)
    return Prepared(rows, _smooth(rows))


def _smooth(rows: Rows) -> Rows:
    """Average over SMOOTHED rows; at the ends over those that are there."""
    half = SMOOTHED // 2
    total, count = rows.copy(), np.ones((len(rows), 1))
    for apart in range(1, min(half, len(rows) - 1) + 1):  # in one order for every row: equal rows stay equal
        total[apart:] += rows[:-apart]
        total[:-apart] += rows[apart:]
        count[apart:] += 1
        count[:-apart] += 1
    total /= count
    return total


class LaneRows:
    """Prepared rows of catalogued episodes; the last used stay in memory while files and scaling stay the same."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._held: OrderedDict[tuple[str, str], _Held] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def of(self, row: EpisodeRow, space: Space, scaling: Statistics) -> Prepared:
        """Return the episode's rows of the Space's lanes. Raises StaleEpisodeError, OSError, FormatError."""
        key, first = (space.fingerprint, f"{row.address}{row.digest}"), fingerprint_of(row.address)
        # A Space without statistics is scaled by those of today, which move as the archive grows.
        scaled = (scaling.mean.tobytes(), scaling.std.tobytes())
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.stamp == (scaled, first, *map(fingerprint_of, held.chunks)):
                self._held.move_to_end(key)
                return held.rows
        with open_at(row.address) as file:
            chunks = tuple(EpisodeAddress(str(part.path)) for part in file.parts()[1:])
            stamp = (scaled, first, *map(fingerprint_of, chunks))
            if file.digest() != row.digest:
                raise StaleEpisodeError(f"{row.address}: changed since it was ingested: ingest it again")
            rows = prepare(read_lanes(file, space), scaling)
        self._keep(key, _Held(rows, chunks, stamp))
        return rows

    def _keep(self, key: tuple[str, str], held: _Held) -> None:
        with self._lock:
            if key in self._held:
                self._bytes -= self._held.pop(key).rows.rows.nbytes * 2
            self._held[key] = held
            self._bytes += held.rows.rows.nbytes * 2
            while self._bytes > self._kept_bytes and len(self._held) > 1:
                self._bytes -= self._held.popitem(last=False)[1].rows.rows.nbytes * 2


@dataclass(frozen=True, eq=False)
class _Held:
    """Rows, the chunks they are from (none of an episode in one file), and how files and scaling were."""

    rows: Prepared
    chunks: tuple[EpisodeAddress, ...]
    stamp: tuple[object, ...]
