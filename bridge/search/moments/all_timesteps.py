"""All timesteps of a Space's episodes, read from their files once and stored beside the search copy.

What is stored follows the vectors: new episodes are added at its end, those that are gone or have changed do not count.
"""

from __future__ import annotations

from array import array
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.index.array_files import ArrayFiles, StoredArrays
from bridge.index.derived_numbers import TIMESTEPS
from bridge.search.moments.lane_rows import LaneRows
from bridge.search.moments.scan import Timesteps, describe
from bridge.search.moments.stored_cells import StoredCells, follow
from bridge.support.batches import batches
from bridge.support.workers import THIS_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.archive import Archive
    from bridge.index.array_files import Part
    from bridge.search.moments.cells import Cells
    from bridge.search.moments.lane_rows import PreparedRows
    from bridge.support.workers import Workers
    from catalog.catalog import Catalog
    from catalog.records import EpisodeRow
    from catalog.session import Instant
    from embedders.space import Space, Statistics

STORED: Final = 1 << 29
"""Numbers (timesteps times channels) of a Space up to which its episodes are stored: 456,000 of 84 x 14, in 6 GB."""

UNSTORED: Final = 1 << 22
"""The same for an index that stores nothing, so that they are in memory."""

_VERSION: Final = 4
_SAMPLE: Final = 64  # episodes whose length is taken for that of all
_GONE: Final = 0.25  # share of stored timesteps that do not count, from which all is written anew


@dataclass(frozen=True, eq=False)
class AllTimesteps:
    """The timesteps of a Space's episodes, None without any; absent: those without an unchanged file."""

    timesteps: Timesteps | None
    absent: frozenset[int]
    stored: StoredArrays
    cells: StoredCells

    @property
    def has_cells(self) -> bool:
        """Whether places are found in cells, since there are many."""
        return self.timesteps is not None and bool(self.timesteps.cells)


class TimestepStore:
    """Provides all timesteps of each Space of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._catalog, self._index = archive.catalog, archive.index
        self._known: dict[str, tuple[Instant, AllTimesteps | None]] = {}  # by the Space's fingerprint

    def load(
        self, space: Space, scaling: Statistics, pool: Workers = THIS_PROCESS, described: Iterable[Part] = ()
    ) -> AllTimesteps | None:
        """Return those of all episodes of the Space, or None if it has too many numbers, or images.

        pool: reads those that are not stored. described: digests of some episodes and what is scanned of these, scaled
        alike: of those with these digests, no file need be opened.
        """
        now, name = self._catalog.instant(), self._name(scaling)
        instant, known = self._known.get(space.fingerprint, (None, None))
        if instant == now and (known is None or (known.stored.name == name and not known.absent)):
            return known
        nothing = AllTimesteps(None, frozenset(), StoredArrays(name, 0), StoredCells())
        before = nothing if known is None or known.stored.name != name else known
        made = self._follow(_Sources(_Reading(space, scaling), pool, described), before)
        self._known[space.fingerprint] = now, made
        return made

    def find_loaded(self, spaces: Sequence[Space], scaling: Statistics) -> Mapping[int, PreparedRows]:
        """Return by episode the rows of the first of these Spaces, of itself or one of the same rows; reads nothing."""
        now, name, rows = self._catalog.instant(), self._name(scaling), attrgetter("lanes", "rotations", "units")
        for space in spaces:
            instant, known = self._known.get(space.fingerprint, (None, None))
            loaded = known.timesteps if instant == now and known is not None and known.stored.name == name else None
            if loaded is not None and rows(space) == rows(spaces[0]):
                return loaded
        return {}

    def _name(self, scaling: Statistics) -> str:
        """Return what timesteps with this scale are stored as."""
        numbers = b"".join(part.tobytes() for part in (scaling.mean, scaling.std, scaling.factors) if part is not None)
        return f"timesteps {_VERSION} {self._catalog.edition} {xxhash.xxh3_64_hexdigest(numbers)}"

    def takes(self, space: Space, count: int, some: Iterable[int]) -> bool:
        """Return whether the timesteps of so many episodes are few enough, by the lengths of some; none of images."""
        lengths = [row.length for row in self._catalog.episodes.rows([*islice(some, _SAMPLE)]).values()]
        most = UNSTORED if self._index.open_derived(space) is None else STORED
        is_image = len(space.window_shape) > 1
        return not is_image and count * float(np.mean(lengths or [0])) * space.channels <= most

    def _follow(self, sources: _Sources, before: AllTimesteps) -> AllTimesteps | None:
        """Return the timesteps of the present episodes: those known or stored, and those of files."""
        space, vectors = sources.reading.space, self._catalog.vectors
        id_ = next((row.id for row in vectors.spaces() if row.fingerprint == space.fingerprint), None)
        if id_ is None or not self.takes(space, vectors.revision(id_).rows, vectors.sample(id_, _SAMPLE)):
            return None
        derived = self._index.open_derived(space)
        change = _Change(self._catalog, id_, sources)
        files = None if derived is None else ArrayFiles(derived.folder, TIMESTEPS)
        found = before.stored if files is None else files.read(before.stored)
        stored = found if found.arrays else before.stored
        if len(change.compare(stored)[1]):
            stored = _write(change, files, stored)
        cells = StoredCells() if derived is None else follow(derived.folder, stored, before.cells)
        timesteps = choose(stored, change.compare(stored)[0], cells.read())
        return AllTimesteps(timesteps, frozenset(change.absent), stored, cells)


@dataclass(frozen=True, eq=False)
class _Reading:
    """Which lanes to read, and how they are scaled; sent to worker processes."""

    space: Space
    scaling: Statistics

    def read(self, rows: Sequence[EpisodeRow]) -> tuple[Part | None, set[int]]:
        """Return what is scanned of episodes, None of none, and the ids of those without an unchanged file."""
        lanes, stale = LaneRows(cache_bytes=0).load(rows, self.space, self.scaling)
        return describe({episode: one.rows for episode, one in lanes.items()}) if lanes else None, stale


@dataclass(frozen=True, eq=False)
class _Sources:
    """Where timesteps come from: files, by these workers, but for what is described already."""

    reading: _Reading
    pool: Workers
    described: Iterable[Part]


def _write(change: _Change, files: ArrayFiles | None, stored: StoredArrays) -> StoredArrays:
    """Store a change, and return all, mapped: from temporary files if it cannot be stored."""
    if files is not None:
        with suppress(OSError), files.locked():
            return change.write(files, files.read(stored))
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # mapped files stay until they are not used
        return change.write(ArrayFiles(Path(folder), TIMESTEPS), stored, anew=True)


class _Change:
    """What has to be written of one Space's episodes; absent: those without an unchanged file, once it is."""

    def __init__(self, catalog: Catalog, space_id: int, sources: _Sources) -> None:
        self._catalog, self._space_id, self._sources = catalog, space_id, sources
        self._present = np.array(catalog.vectors.embedded(space_id), np.int64)
        self._last = catalog.vectors.revision(space_id).last
        self.absent = set[int]()

    def write(self, files: ArrayFiles, stored: StoredArrays, *, anew: bool = False) -> StoredArrays:
        """Add the episodes that are not in what is stored, or have changed; all anew where much of it is gone."""
        current, missing = self.compare(stored)
        heads = stored.arrays[0] if stored.arrays else np.zeros((0, 2), np.int64)
        parts = self._read(missing, heads[_find_last(heads[:, 0]) & (heads[:, 1] > 0), 0])
        first = next(parts, None)
        if first is None:
            return stored
        new = chain([first], parts)
        if not anew and len(heads) and heads[~current, 1].sum() <= _GONE * heads[:, 1].sum():
            return files.append(stored, new, self._last)
        return files.replace(stored.name, chain(_take(stored, current), new), self._last)

    def compare(self, stored: StoredArrays) -> tuple[NDArray[np.bool_], Ints]:
        """Return which of the stored rows of episodes count, and the episodes that have none."""
        if not stored.arrays:
            return np.zeros(0, np.bool_), self._present
        ids, lengths = stored.arrays[0].T
        is_older = stored.state < self._last
        entries = self._catalog.vectors.ledger(self._space_id, since=stored.state) if is_older else ()
        current = _find_last(ids) & (lengths > 0) & np.isin(ids, self._present)
        current &= ~np.isin(ids, [entry.episode_id for entry in entries])
        return current, np.setdiff1d(self._present, ids[current])

    def _read(self, ids: Ints, stored: Ints) -> Iterator[Part]:
        """Yield what is scanned of episodes; those that are stored but have no file any more come without timesteps."""
        waiting, reading = np.ones(len(ids), np.bool_), self._sources.reading
        for digests, *part in self._sources.described if len(ids) else ():
            own = part[0][:, 0]
            places = np.minimum(np.searchsorted(ids, own), len(ids) - 1)
            if (ids[places] == own).all() and waiting[places].all() and self._are_current(own, digests):
                waiting[places] = False
                yield part
        new = batches(array("q", ids[waiting]), self._sources.pool.sharing)
        rows = ([*self._catalog.episodes.rows(batch).values()] for batch in new)
        for read, stale in self._sources.pool.each(reading.read, rows, lambda row: (None, {row.id})):
            self.absent |= stale
            if read is not None:
                yield read
        if gone := self.absent & {*stored.tolist()}:
            yield describe({episode: np.zeros((0, reading.space.channels), np.float32) for episode in gone})

    def _are_current(self, ids: Ints, digests: NDArray[np.str_]) -> bool:
        """Return whether the catalog has these digests of episodes."""
        rows = self._catalog.episodes.rows(ids.tolist())
        known = ((rows.get(id_), digest) for id_, digest in zip(ids.tolist(), digests.tolist(), strict=True))
        return all(row is not None and row.digest == digest for row, digest in known)


def choose(stored: StoredArrays, current: NDArray[np.bool_], cells: Sequence[Cells] = ()) -> Timesteps | None:
    """Return what is stored of the episodes that count, None without any."""
    if not current.any():
        return None
    heads, *parts = stored.arrays
    return Timesteps(np.where(current, heads[:, 0], -1), heads[:, 1], *parts, cells=cells)


def _find_last(ids: Ints) -> NDArray[np.bool_]:
    """Return of each number whether it does not come again."""
    is_last = np.zeros(len(ids), np.bool_)
    is_last[len(ids) - 1 - np.unique(ids[::-1], return_index=True)[1]] = True
    return is_last


def _take(stored: StoredArrays, current: NDArray[np.bool_]) -> Iterator[Part]:
    """Yield what is stored of the episodes that count, some at a time."""
    before: Mapping[int, PreparedRows] = choose(stored, current) or {}
    for batch in batches([*before]):
        yield describe({episode: before[episode].rows for episode in batch})
