"""All timesteps of a Space's episodes, read from their files once and stored beside the search copy.

What is stored follows the vectors: of an archive that grew only new episodes are read. It may be dropped at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash

from bridge.index.derived_numbers import TIMESTEPS_FILE
from bridge.search.moments.lane_rows import LaneRows
from bridge.search.moments.scan import Timesteps
from bridge.support.batches import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bridge.alignment.arrays import Rows
    from bridge.archive import Archive
    from bridge.index.derived_numbers import DerivedNumbers
    from catalog.session import Instant
    from embedders.space import Space, Statistics

STORED: Final = 1 << 27
"""Numbers (timesteps times channels) of a Space up to which its episodes are stored: 114,000 of 84 x 14, in 0.9 GB."""

UNSTORED: Final = 1 << 22
"""The same for an index that stores nothing, so that they are in memory."""

_VERSION: Final = 2
_SAMPLE: Final = 64  # episodes whose length is taken for that of all


@dataclass(frozen=True, eq=False)
class AllTimesteps:
    """The timesteps of a Space's episodes, None without any; absent: those without an unchanged file.

    state: the catalog's edition, and the last change of the ledger that is in them.
    """

    timesteps: Timesteps | None
    absent: frozenset[int]
    name: str
    state: tuple[str, int]


class TimestepStore:
    """Provides all timesteps of each Space of an archive."""

    def __init__(self, archive: Archive) -> None:
        self._catalog, self._index = archive.catalog, archive.index
        self._known: dict[str, tuple[Instant, AllTimesteps | None]] = {}  # by the Space's fingerprint

    def load(self, space: Space, scaling: Statistics) -> AllTimesteps | None:
        """Return those of all episodes of the Space, or None if it has too many numbers, or images."""
        now = self._catalog.instant()
        numbers = b"".join(part.tobytes() for part in (scaling.mean, scaling.std, scaling.factors) if part is not None)
        name = f"timesteps {_VERSION} {self._catalog.edition} {xxhash.xxh3_64_hexdigest(numbers)}"
        instant, known = self._known.get(space.fingerprint, (None, None))
        if instant == now and (known is None or (known.name == name and not known.absent)):
            return known
        self._known[space.fingerprint] = now, (made := self._follow(space, scaling, name, known))
        return made

    def _follow(self, space: Space, scaling: Statistics, name: str, known: AllTimesteps | None) -> AllTimesteps | None:
        """Return the timesteps of the present episodes: those known or stored, and those of files."""
        vectors = self._catalog.vectors
        space_id = next((row.id for row in vectors.spaces() if row.fingerprint == space.fingerprint), None)
        if space_id is None or len(space.window_shape) > 1:
            return None
        derived = self._index.open_derived(space)
        if self._estimate(space_id) * space.channels > (UNSTORED if derived is None else STORED):
            return None
        state = (self._catalog.edition, vectors.revision(space_id).last)
        if known is None or known.name != name or known.state[0] != state[0]:
            known = _read(derived, name, state[0])
        present = np.array(vectors.embedded(space_id), np.int64)
        stored, since = known.timesteps, known.state[1]
        replaced = [entry.episode_id for entry in vectors.ledger(space_id, since=since)] if 0 < since < state[1] else []
        ids = np.zeros(0, np.int64) if stored is None else stored.episodes
        current = np.isin(ids, present) & ~np.isin(ids, replaced)
        absent = set[int]()
        loaded = chain.from_iterable(self._load(np.setdiff1d(present, ids[current]).tolist(), space, scaling, absent))
        first = next(loaded, None)
        if first is None and current.all():
            return replace(known, absent=frozenset(absent), state=state)
        old = [] if stored is None else stored.cut(current)
        made = Timesteps.gather(chain(old, [] if first is None else [first], loaded), space.channels)
        return _write(derived, AllTimesteps(made, frozenset(absent), name, state))

    def _estimate(self, space_id: int) -> float:
        """Return about how many timesteps the episodes of a Space have."""
        vectors = self._catalog.vectors
        lengths = [row.length for row in self._catalog.episodes.rows(vectors.sample(space_id, _SAMPLE)).values()]
        return vectors.revision(space_id).rows * float(np.mean(lengths)) if lengths else 0.0

    def _load(
        self, ids: Sequence[int], space: Space, scaling: Statistics, absent: set[int]
    ) -> Iterator[Iterable[tuple[int, Rows]]]:
        """Yield episodes with their rows, a batch at a time; those without an unchanged file are added to absent."""
        reader = LaneRows(cache_bytes=0)
        for batch in batches(ids):
            lanes, stale = reader.load(self._catalog.episodes.rows(batch).values(), space, scaling)
            absent |= stale
            yield [(episode, one.rows) for episode, one in lanes.items()]


def _read(derived: DerivedNumbers | None, name: str, edition: str) -> AllTimesteps:
    """Return what is stored, however old; without any timesteps if nothing is."""
    arrays = None if derived is None else derived.read_arrays(name, TIMESTEPS_FILE, mapped=True)
    if arrays is None:
        return AllTimesteps(None, frozenset(), name, (edition, 0))
    last, *parts = map(np.asarray, arrays)  # without what each slice of a mapped array would cost
    return AllTimesteps(Timesteps(*parts), frozenset(), name, (edition, int(last[0])))


def _write(derived: DerivedNumbers | None, made: AllTimesteps) -> AllTimesteps:
    """Store the timesteps, and return them mapped; as they are if they cannot be stored."""
    one = made.timesteps
    if derived is None or one is None:
        return made
    arrays = [np.array([made.state[1]]), one.episodes, one.edges, one.rows, one.blocks, one.balls, one.changes]
    derived.write_arrays(made.name, arrays, TIMESTEPS_FILE)
    stored = _read(derived, made.name, made.state[0])
    return made if stored.timesteps is None or stored.state != made.state else replace(made, timesteps=stored.timesteps)
