"""Reads the lanes of episodes as alignment compares them: standardised and lightly smoothed, with an LRU cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import eq
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.open import OpenLocations, open_at
from bridge.episodes.rows import read_lanes
from embedders.base import validate_windows
from embedders.image.sketches import sketches
from embedders.standardise import scales, standardise
from embedders.trajectory.resample import smooth
from wshard.core.array_fields import DType
from wshard.core.chunks.manifest import MANIFEST_SUFFIX
from wshard.core.episode.protocol import EpisodeAddress, Fingerprint
from wshard.errors import FormatError, StaleEpisodeError, WShardError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from bridge.pictures.features import FeatureFiles
    from catalog.records import EpisodeRow
    from embedders.numeric import Rows
    from embedders.space import Space, Statistics
    from wshard.core.episode.protocol import EpisodeReader

    _Key = tuple[str, str, str]
    _Scaled = tuple[str, bytes, bytes]

SMOOTHED: Final = 5  # timesteps; removes the jitter of recordings and actions, which movements do not have
_SMOOTHED_SHORT: Final = 3  # the same for short queries, of which more would leave little
SHORT: Final = 24  # timesteps of a query from which it is not short
_CACHE_BYTES: Final = 1 << 28
_BATCH_SIZE: Final = 1 << 16  # numbers standardised at once: few calls, while they fit in the CPU cache


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Standardised rows [T, D]."""

    rows: Rows

    @cached_property
    def smooth(self) -> Rows:
        """The rows averaged over SMOOTHED timesteps around each."""
        return smooth(self.rows, SMOOTHED)

    @cached_property
    def _smooth_short(self) -> Rows:
        return smooth(self.rows, _SMOOTHED_SHORT)

    def smooth_for(self, steps: int) -> Rows:
        """Return the rows as they are compared with a query of so many steps: averaged over few timesteps."""
        return self.smooth if steps >= SHORT else self._smooth_short


def prepare_rows(windows: Sequence[NDArray[Any]], scaling: Statistics) -> list[PreparedRows]:
    """Return windows [T, D], or images and their features by sketches, as alignment compares them.

    Values are rounded to float32, as they are stored. Raises EmbedderError for values that are not finite.
    """
    if not windows:
        return []
    if windows[0].ndim > 2:  # outliers in images do not outweigh the rest, so nothing is clipped
        return [PreparedRows(_round(sketches(window, "images") / scales(scaling))) for window in windows]
    batch = validate_windows(windows, scaling.mean.size)
    return [PreparedRows(_round(rows)) for rows in batch.windows(standardise(batch.rows, scaling))]


def _round(rows: Rows) -> Rows:
    return rows.astype(np.float32).astype(np.float64)


def read_window(file: EpisodeReader, row: EpisodeRow, space: Space, features: FeatureFiles | None) -> NDArray[Any]:
    """Return the lanes of an open episode, or the features [T, 1, D] of a camera, for which no frame is decoded twice.

    Raises as read_lanes.
    """
    lane = space.lanes[0].name
    if features is None or len(space.window_shape) < 2 or file.lanes()[lane].dtype is not DType.UINT8:
        return read_lanes(file, space, row.address)
    return features.describe(file, row, lane, np.arange(file.length)).rows[:, None]


class LaneRows:
    """Prepared rows of catalogued episodes, with an LRU cache that is valid while files and scaling stay the same.

    features: those of the encoder of sketches; needed for cameras.
    """

    def __init__(self, cache_bytes: int = _CACHE_BYTES, features: FeatureFiles | None = None) -> None:
        self._cache_bytes = cache_bytes
        self._features = features
        self._cache: OrderedDict[_Key, _CachedRows] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def load(
        self, rows: Iterable[EpisodeRow], space: Space, scaling: Statistics
    ) -> tuple[dict[int, PreparedRows], set[int]]:
        """Return the rows of the Space's lanes by episode, and the episodes whose files cannot be read or changed.

        Cached rows are returned without a look at their files: see drop_changed.
        """
        # A Space without statistics is scaled by the current ones of the archive, which change as it grows.
        scaled = (space.fingerprint, scaling.mean.tobytes(), scaling.std.tobytes())
        prepared, stale = dict[int, PreparedRows](), set[int]()
        opened, size = list[_Opened](), 0
        with OpenLocations() as locations:
            for row in rows:
                try:
                    loaded = self._look_up(row, space, scaled, locations)
                except (StaleEpisodeError, OSError, FormatError):
                    stale.add(row.id)
                    continue
                if isinstance(loaded, PreparedRows):
                    prepared[row.id] = loaded
                    continue
                opened.append(loaded)
                size += loaded.window.size
                if size >= _BATCH_SIZE:
                    prepared |= self._prepare(opened, scaling)
                    opened, size = [], 0
        return prepared | self._prepare(opened, scaling), stale

    def load_current(
        self, rows: Collection[EpisodeRow], space: Space, scaling: Statistics, stored: Mapping[int, PreparedRows]
    ) -> dict[int, PreparedRows]:
        """Return the rows of the episodes whose files are unchanged: the stored ones, of which no data is read.

        Each location is opened once. Of chunked episodes every file counts, so that these are opened.
        """
        found: dict[int, PreparedRows] = {}
        with OpenLocations() as locations:
            for row in rows:
                is_chunked = row.path.endswith(MANIFEST_SUFFIX)
                if row.id in stored and not is_chunked and locations.is_unchanged(row.address, row):
                    found[row.id] = stored[row.id]
        others = [row for row in rows if row.id not in found]
        self.drop_changed(others, space)
        return found | self.load(others, space, scaling)[0]

    def drop_changed(self, rows: Iterable[EpisodeRow], space: Space) -> bool:
        """Drop cached rows of episodes whose files are missing or changed; return whether there were any.

        Called for hits alone, so that a search looks at ten files, not at those of all candidates.
        """
        dropped = False
        with OpenLocations() as locations:
            for row in rows:
                key = space.fingerprint, row.uid, row.digest
                cached = self._cache.get(key)
                if cached is not None and not cached.origin.is_current(locations):
                    self._drop(key)
                    dropped = True
        return dropped

    def _look_up(
        self, row: EpisodeRow, space: Space, scaled: _Scaled, locations: OpenLocations
    ) -> PreparedRows | _Opened:
        """Return cached rows of an episode, or its lanes as read. Raises StaleEpisodeError, OSError, FormatError."""
        key = scaled[0], row.uid, row.digest
        cached = self._cache.get(key)
        if cached is not None and cached.origin.is_of(row, scaled):
            with self._lock, suppress(KeyError):  # another thread may have dropped it
                self._cache.move_to_end(key)
            return cached.rows
        address = row.address
        files: tuple[Fingerprint, ...] = (locations.fingerprint(address),)
        # Between searches, locations stay open, with as many files as are of use then; without a cache, few are.
        with open_at(address) if self._cache_bytes else locations.open(address) as file:
            chunks = tuple(EpisodeAddress(str(part.place)) for part in file.parts()[1:])
            files += tuple(map(locations.fingerprint, chunks))
            if not locations.is_as_ingested(file, row, files[0]):
                raise StaleEpisodeError.at(address, address.uri)
            window = read_window(file, row, space, self._features)
            return _Opened(row.id, key, window, _Origin(scaled, address, chunks, files))

    def _prepare(self, opened: Sequence[_Opened], scaling: Statistics) -> dict[int, PreparedRows]:
        """Return the rows of opened episodes by id, and cache them."""
        prepared: dict[int, PreparedRows] = {}
        for episode, rows in zip(opened, prepare_rows([episode.window for episode in opened], scaling), strict=True):
            prepared[episode.id] = rows
            self._store(episode.key, _CachedRows(rows, episode.origin))
        return prepared

    def _drop(self, key: _Key) -> None:
        with self._lock:
            if key in self._cache:
                self._bytes -= self._cache.pop(key).rows.rows.nbytes * 2

    def _store(self, key: _Key, cached: _CachedRows) -> None:
        self._drop(key)
        with self._lock:
            self._cache[key] = cached
            self._bytes += cached.rows.rows.nbytes * 2
            while self._bytes > self._cache_bytes and len(self._cache) > 1:
                self._bytes -= self._cache.popitem(last=False)[1].rows.rows.nbytes * 2


@dataclass(frozen=True, eq=False)
class _Origin:
    """Origin of cached rows: scaling, address and chunks (none: one file), and the fingerprints of their files."""

    scaled: _Scaled
    address: EpisodeAddress
    chunks: tuple[EpisodeAddress, ...]
    files: tuple[Fingerprint, ...]

    def is_of(self, row: EpisodeRow, scaled: _Scaled) -> bool:
        """Return whether the rows are from the present location of the episode, and scaled like that."""
        return self.scaled == scaled and self.address.uri == row.path and self.address.key == row.key

    def is_current(self, locations: OpenLocations) -> bool:
        """Return whether all files are unchanged."""
        try:
            return all(map(eq, map(locations.fingerprint, (self.address, *self.chunks)), self.files))
        except (WShardError, OSError):
            return False


@dataclass(frozen=True, eq=False)
class _CachedRows:
    rows: PreparedRows
    origin: _Origin


@dataclass(frozen=True, eq=False)
class _Opened:
    """The lanes of an episode as read_window returns them, not yet prepared."""

    id: int
    key: _Key
    window: NDArray[Any]
    origin: _Origin
