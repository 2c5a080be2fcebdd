"""The chunks of one episode, read lazily as if they were one file.

Knows: which chunk holds which timesteps. Does not know: how chunks are found and checked (chunked.py), nor their bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wshard.errors import ManifestError
from wshard.lanes import TICKS
from wshard.manifest import validate_chunk_continuity
from wshard.splitting import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wshard.episode_file import EpisodeFile
    from wshard.manifest import Chunk, ChunkManifest
    from wshard.meta import Declaration
    from wshard.types import Array, Episode, TimebaseSpec


class ChunkedEpisodeFile:
    """A lazily opened chunked episode; a chunk is opened, and checked, when a timestep of it is needed.

    open_chunk and load do the reading. Use as a context manager; arrays already handed out stay valid after close().
    Raises ManifestError where chunks are missing or there are none.
    """

    def __init__(
        self, manifest: ChunkManifest, open_chunk: Callable[[Chunk], EpisodeFile], load: Callable[[], Episode]
    ) -> None:
        validate_chunk_continuity(manifest)
        self._manifest = manifest
        self._rows = manifest.rows()
        self._open_chunk = open_chunk
        self._load = load
        self._current: tuple[Chunk, EpisodeFile] | None = None
        if not self._rows:
            raise ManifestError(f"manifest of {manifest.episode_id!r}: expected at least one chunk, found none")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the chunk that was read last."""
        if self._current is not None:
            self._current[1].close()
            self._current = None

    @property
    def id(self) -> str:
        """The episode id; need not be unique."""
        return self._manifest.episode_id

    @property
    def env_id(self) -> str:
        """The environment id, "" if unknown."""
        return self._manifest.env_id or self._chunk(self._rows[0]).env_id

    @property
    def length(self) -> int:
        """T, the timesteps of all chunks."""
        return self._manifest.total_timesteps

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""
        return self._chunk(self._rows[0]).timebase

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Free metadata of all chunks, of which the later ones win; opens every chunk."""
        return {key: value for row in self._rows for key, value in self._chunk(row).metadata.items()}

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane by block name, as the first chunk declares them."""
        return self._chunk(self._rows[0]).lanes()

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded in the first chunk."""
        return self._chunk(self._rows[0]).has(block)

    def lane(self, name: str, *, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane as an array [n, *shape]; bounds count as in a Python slice.

        Only the chunks that hold these timesteps are read; of a single chunk the array is a read-only view.
        Raises what EpisodeFile.lane raises, LaneError where chunks differ in dtype or shape, and what is wrong with a
        chunk: ChecksumError, ManifestError, FileNotFoundError.
        """
        first, end, _ = slice(start, stop).indices(self.length)
        base = self._rows[0].start
        pieces = []
        for row in self._rows:
            begin = row.start - base
            low, high = max(first - begin, 0), min(end - begin, row.length)
            if low < high:
                pieces.append(self._piece(row, name, begin)[low:high])
        return joined(pieces, widen=name == TICKS) if pieces else self._chunk(self._rows[0]).lane(name)[:0]

    def _piece(self, row: Chunk, name: str, begin: int) -> Array:
        file = self._chunk(row)
        lane = file.lane(name)
        # Ticks that nobody recorded were filled in by each chunk from 0 on.
        return lane + np.int64(begin) if name == TICKS and not file.has(TICKS) else lane

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded; reads every chunk."""
        totals = [self._chunk(row).total_reward() for row in self._rows]
        known = [total for total in totals if total is not None]
        return sum(known) if known else None

    def load(self) -> Episode:
        """Return the whole Episode with all lanes."""
        return self._load()

    def _chunk(self, row: Chunk) -> EpisodeFile:
        if self._current is None or self._current[0] != row:
            self.close()
            self._current = (row, self._open_chunk(row))
        return self._current[1]
