"""The chunks of one episode, read lazily as if they were one file."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from wshard.core.arguments import span
from wshard.core.array_fields import DType
from wshard.core.chunks.manifest import validate_chunk_continuity
from wshard.core.chunks.split import join, join_pieces
from wshard.core.episode.lane_view import LazyLane
from wshard.core.episode.lanes import TICKS, TRUNCATIONS
from wshard.core.episode.protocol import CHUNK, MANIFEST, EpisodeReader, Part, StoredLane
from wshard.core.files.byte_source import OfOneProcess
from wshard.core.media.chained_frames import chain_frames
from wshard.errors import ClosedError, EntryNotFoundError, LaneError, ManifestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wshard.core.chunks.manifest import Chunk
    from wshard.core.chunks.opener import ChunkOpener
    from wshard.core.episode.file import EpisodeFile
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, Episode, TimebaseSpec


_MAX_OPEN: Final = 2  # chunks that stay open: a span of timesteps may cross a boundary


@dataclass(frozen=True)
class _ChunkSummary:
    """What the header, index and meta blocks of one chunk state."""

    digest: str
    env_id: str
    timebase: TimebaseSpec
    metadata: Mapping[str, Any]
    lanes: Mapping[str, Declaration]
    recorded: frozenset[str]
    stored: Mapping[str, StoredLane]


class _JoinedLane(LazyLane):
    """A lane of all chunks; `read` returns the timesteps [start, stop)."""

    def __init__(
        self, declaration: Declaration, shape: tuple[int, ...], where: str, read: Callable[[int, int], Array]
    ) -> None:
        super().__init__(declaration, shape, where)
        self._read = read

    def _rows(self, start: int, stop: int) -> Array:
        return self._read(start, stop)


class ChunkedEpisodeFile(OfOneProcess, EpisodeReader):
    """A lazily opened chunked episode; a chunk is opened and checked when one of its timesteps is needed.

    Has the interface of EpisodeFile, as far as it applies to several files; `where` is the manifest. Properties of the
    whole episode (lanes, has, stored, metadata, timebase, digest) open every chunk once. Use it as a context manager;
    arrays returned earlier stay valid after close(). Raises ManifestError if chunks are missing or there are none.
    """

    def __init__(self, opener: ChunkOpener) -> None:
        self._opener = opener
        self._closed = False
        self._manifest = opener.load_manifest() if opener.manifest is None else opener.manifest
        self.where = str(opener.place)
        validate_chunk_continuity(self._manifest)
        self._rows = self._manifest.rows()
        self._open: dict[int, EpisodeFile] = {}
        if not self._rows:
            raise ManifestError(f"{self.where}: expected at least one chunk, found none")

    def close(self) -> None:
        """Close the chunks that are open; further reads raise ClosedError."""
        self._closed = True
        while self._open:
            self._open.popitem()[1].close()

    @property
    def _reader(self) -> ChunkOpener:
        if self._closed:
            raise ClosedError(f"{self.where}: expected an open episode, found it closed")
        return self._opener

    @property
    def id(self) -> str:
        """The episode id; need not be unique."""
        return self._manifest.episode_id

    @property
    def env_id(self) -> str:
        """The environment id, "" if unknown."""
        return self._manifest.env_id or self._summaries[0].env_id

    @property
    def length(self) -> int:
        """T, the timesteps of all chunks."""
        return self._manifest.total_timesteps

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""
        return self._summaries[0].timebase

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Free metadata of all chunks; later ones take precedence."""
        return {key: value for summary in self._summaries for key, value in summary.metadata.items()}

    def digest(self) -> str:
        """Return the content digest: of ids, timesteps and the digests of the chunks. Reads no data block.

        Equal whatever the path of the files; it differs from that of the same episode in one file.
        """
        chunks = [
            (row.start, row.stop, summary.digest) for row, summary in zip(self._rows, self._summaries, strict=True)
        ]
        return xxhash.xxh3_128_hexdigest(json.dumps([self.id, self.env_id, chunks]).encode())

    def parts(self) -> tuple[Part, ...]:
        """Return the files that the episode consists of: the manifest, then the chunks in order. Opens none."""
        chunks = (Part(CHUNK, self._opener.folder / row.uri) for row in self._rows)
        return Part(MANIFEST, self._opener.place), *chunks

    def part_digests(self) -> tuple[str, ...]:
        """Return the content digest of each part."""
        return self._reader.manifest_digest(), *(summary.digest for summary in self._summaries)

    def verify(self) -> None:
        """Compare every chunk with its SHA-256 or, without one, its checksums; raises the first error."""
        for row in self._rows:
            self._reader.verify_chunk(row)

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane by block name, in the order of the first chunk.

        Raises LaneError where chunks differ in them, except that ticks get the widest dtype, and truncations may be
        missing in some chunks.
        """
        lanes = dict(self._summaries[0].lanes)
        for index, summary in enumerate(self._summaries):
            for name in sorted((lanes.keys() ^ summary.lanes.keys()) - {TRUNCATIONS}):
                raise LaneError(f"{self.where}: lane {name!r} is in one of chunks 0 and {index}, not in both")
            for name, lane in summary.lanes.items():
                first = lanes.setdefault(name, lane)
                if name == TICKS and lane.dtype is DType.INT64:
                    lanes[name] = lane
                elif name != TICKS and (first.dtype, first.shape) != (lane.dtype, lane.shape):
                    found = f"{lane.dtype.value} {list(lane.shape)} in chunk {index}"
                    raise LaneError(f"{self.where}: lane {name!r}: {first.dtype.value} {list(first.shape)}, {found}")
        return lanes

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded, in any chunk (a filled-in reward or done does not count)."""
        return any(block in summary.recorded for summary in self._summaries)

    def stored(self, block: str) -> StoredLane:
        """Return how a lane is stored in the chunks, in total; raises EntryNotFoundError."""
        stored = [summary.stored[block] for summary in self._summaries if block in summary.stored]
        if not stored:
            raise EntryNotFoundError(f"{self.where}: no lane {block!r}")
        codecs = {lane.codec for lane in stored}
        codec = codecs.pop() if len(codecs) == 1 else "mixed"
        return StoredLane(codec, sum(lane.bytes for lane in stored), sum(lane.stored or 0 for lane in stored))

    def lane(self, name: str, *, start: int = 0, stop: int | None = None) -> Array:
        """Return timesteps [start, stop) of a lane as an array [n, *shape]; bounds count as in a Python slice.

        Only the chunks that hold these timesteps are read; of a single chunk the array is a read-only view.
        Raises what EpisodeFile.lane raises, LaneError where chunks differ in dtype or shape, and what is wrong with a
        chunk: ChecksumError, ManifestError, MissingFileError.
        """
        begin, end, _ = slice(start, stop).indices(self.length)
        return self._read(name, begin, end, lambda file: file.lane(name))

    def lane_view(self, name: str, *, verify: bool = False) -> LazyLane:
        """Return a lane that reads only the requested timesteps, like EpisodeFile.lane_view.

        First checks that all chunks have the same lane (see lanes).
        """
        lanes = self.lanes()
        block = name if name in lanes else f"signal/{name}"
        if block not in lanes:
            raise EntryNotFoundError(f"{self.where}: no lane {name!r}; it has {', '.join(lanes) or 'none'}")
        lane = lanes[block]

        def read(start: int, stop: int) -> Array:
            return self._read(block, start, stop, lambda file: file.lane_view(block, verify=verify))

        return _JoinedLane(lane, (self.length, *lane.shape), self.where, read)

    def encoded(self, name: str) -> EncodedFrames | None:
        """Return the frames of a lane with the same encoding in all chunks, reading all its bytes; else None."""
        block = self.lane_view(name).declaration.block
        encodings = {summary.lanes[block].encoding for summary in self._summaries}
        if len(encodings) > 1 or "" in encodings:
            return None
        return chain_frames([self._chunk(row).frames(block) for row in self._rows])

    def _read(self, name: str, begin: int, end: int, select: Callable[[EpisodeFile], Array | LazyLane]) -> Array:
        pieces = [self._lane_of_chunk(row, name, select)[low:high] for row, low, high in self._spans(begin, end)]
        return (
            join_pieces(pieces, widen=name == TICKS) if pieces else self._lane_of_chunk(self._rows[0], name, select)[:0]
        )

    def _spans(self, begin: int, end: int) -> list[tuple[Chunk, int, int]]:
        """Return the chunks with timesteps [first, end) of the episode, and the ranges within them."""
        base = self._rows[0].start
        spans = [(row, max(begin - row.start + base, 0), min(end - row.start + base, row.length)) for row in self._rows]
        return [(row, low, high) for row, low, high in spans if low < high]

    def _lane_of_chunk(
        self, row: Chunk, name: str, select: Callable[[EpisodeFile], Array | LazyLane]
    ) -> Array | LazyLane:
        file = self._chunk(row)
        if name == TRUNCATIONS and not file.has(name) and self.has(name):  # left out where nothing was truncated
            return np.zeros(row.length, np.bool_)
        if name == TICKS and not file.has(TICKS):  # filled in by each chunk from 0 on
            return np.arange(row.length) + (row.start - self._rows[0].start)
        return select(file)

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded; reads every chunk."""
        totals = [self._chunk(row).total_reward() for row in self._rows]
        recorded = [total for total in totals if total is not None]
        return sum(recorded) if recorded else None

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the whole Episode with all lanes, or with the named channels (see load_wshard)."""
        return self._reader.load(channels)

    def slice(self, start: int, stop: int, channels: Sequence[str] | None = None) -> Episode:
        """Return the timesteps [start, stop) as an Episode, as EpisodeFile.slice does; reads only their chunks."""
        steps = span(start, stop, self.length, self.where)
        spans = self._spans(steps.start, steps.stop)
        pieces = [self._chunk(row).slice(low, high, channels) for row, low, high in spans]
        base = self._rows[0].start
        return replace(
            join(pieces),
            id=self.id,
            env_id=self.env_id,
            metadata=dict(self.metadata),
            timestep_range=[base + steps.start, base + steps.stop - 1],
        )

    @cached_property
    def _summaries(self) -> list[_ChunkSummary]:
        return [self._summarize(row) for row in self._rows]

    def _summarize(self, row: Chunk) -> _ChunkSummary:
        with self._reader.open_chunk(row, hashed=False) as file:
            lanes = file.lanes()
            return _ChunkSummary(
                digest=file.digest(),
                env_id=file.env_id,
                timebase=file.timebase,
                metadata=file.metadata,
                lanes=lanes,
                recorded=frozenset(name for name in lanes if file.has(name)),
                stored={name: file.stored(name) for name in lanes},
            )

    def _chunk(self, row: Chunk) -> EpisodeFile:
        if row.index not in self._open:
            while len(self._open) >= _MAX_OPEN:
                self._open.pop(next(iter(self._open))).close()
            self._open[row.index] = self._reader.open_chunk(row)
        return self._open[row.index]
