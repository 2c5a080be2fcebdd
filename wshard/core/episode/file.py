"""Episode files: load, save, and lazy opening."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.arguments import span
from wshard.core.container.block import codec_name
from wshard.core.container.codec import CompressionLevel, CompressionType
from wshard.core.container.codec_plan import CodecPlan, Compression
from wshard.core.container.layout import ROLE_WSHARD
from wshard.core.container.name_hashes import check_names
from wshard.core.container.reader import ShardReader
from wshard.core.episode.decode import decode_episode
from wshard.core.episode.encode import describe
from wshard.core.episode.encode_cameras import Encode, encode_cameras
from wshard.core.episode.encoded_lane import EncodedLane, frames_of
from wshard.core.episode.lane_view import LaneView
from wshard.core.episode.lanes import EXACT_REWARD, REWARD, declaration_of, known_blocks, lane_array, lane_shape
from wshard.core.episode.meta_reader import META_BLOCKS, Declaration, Description, read_description
from wshard.core.episode.protocol import EpisodeReader, StoredLane
from wshard.core.episode.store import store
from wshard.core.messages import shown
from wshard.core.types import Episode
from wshard.errors import EntryNotFoundError, EpisodeError, HeaderError, IndexCorruptError, LaneError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.container.codec_plan import FrameSteps
    from wshard.core.container.layout import Buffer
    from wshard.core.files.byte_source import MemorySource
    from wshard.core.files.schemes import Location, PathOrFile
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, TimebaseSpec

_STEPS_PER_BYTE = 8  # no lane is thinner than one bit per timestep


class EpisodeFile(EpisodeReader):
    """A lazily opened episode file: metadata is read immediately, lanes on demand.

    Lanes stored uncompressed are read-only views of the file (no copy); each is checked against its CRC32C once. Use it
    as a context manager; arrays returned earlier stay valid after close().

    Args:
        source: A path, bytes, a memory map, a binary file object, or an open ShardReader.

    Examples:
        >>> with EpisodeFile("reach.wshard") as file:  # doctest: +SKIP
        ...     file["state"][10:20]
    """

    def __init__(self, source: Location | Buffer | MemorySource | ShardReader) -> None:
        self._shard = source if isinstance(source, ShardReader) else ShardReader(source)
        self.where = self._shard.where
        role = self._shard.header.role
        if role != ROLE_WSHARD:
            raise HeaderError(f"{self.where}: Invalid W-SHARD role: expected {ROLE_WSHARD} at offset 5, found {role}")
        self._index_by_name = {entry.name: index for index, entry in enumerate(self._shard.entries)}
        if len(self._index_by_name) != len(self._shard.entries):
            names = self._shard.names()
            duplicate = next(name for name in names if names.count(name) > 1)
            raise IndexCorruptError(f"{self.where}: block {duplicate!r} is there twice: which one is meant is unknown")
        meta: dict[str, Buffer] = {
            name: self._shard.block(self._index_by_name[name]) for name in META_BLOCKS if name in self._index_by_name
        }
        self.description: Description = read_description(meta, self.where)
        check_names(self._shard, known_blocks(self.description))
        self._check_length()
        self._views: dict[tuple[str, bool], LaneView | EncodedLane] = {}
        self._frames: dict[str, EncodedFrames] = {}

    def _check_length(self) -> None:
        length = self.description.length or 0
        if not any(entry.orig_size * _STEPS_PER_BYTE >= length for entry in self._shard.entries):
            longest = max(entry.orig_size for entry in self._shard.entries)
            raise LaneError(
                f"{self.where}: meta/episode: length_T says {length} timesteps, "
                f"but no block has more than {longest} bytes"
            )

    def close(self) -> None:
        """Close the file: metadata stays available, reading lanes raises ClosedError."""
        self._views, self._frames = {}, {}
        self._shard.close()

    @property
    def id(self) -> str:
        """The episode id; need not be unique."""
        return self.description.episode_id

    @property
    def env_id(self) -> str:
        """The environment id, "" if unknown."""
        return self.description.env_id

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Free metadata, as written by the recorder."""
        return self.description.metadata

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""
        return self.description.timebase

    @property
    def length(self) -> int:
        """T; if the file does not state it, that of its first lane."""
        if self.description.length is None:
            first = next((lane for lane in self._lanes().values() if lane.step_size and not lane.encoding), None)
            size = 0 if first is None else self._shard.entry(first.block).orig_size
            length = 0 if first is None else lane_shape(first, size, None, self.where)[0]
            self.description = replace(self.description, length=length)
        return self.description.length or 0

    @property
    def shard(self) -> ShardReader:
        """The underlying container, for tools that access blocks."""
        return self._shard

    def digest(self) -> str:
        """Return the content digest: equal for equal data, whatever the path. Reads no data block."""
        return self._shard.digest()

    def verify(self) -> None:
        """Compare every block with its checksum, which reads the whole file; raises the first error.

        Raises MetadataError for an unreadable JSON section.
        """
        for _, error in self._shard.verify():
            if error is not None:
                raise error
        self._shard.read_metadata()

    @property
    def is_chunk(self) -> bool:
        """True if this is one chunk of a longer episode."""
        return self.description.chunk_index is not None

    def stored(self, block: str) -> StoredLane:
        """Return how a lane is stored in the file; raises EntryNotFoundError."""
        entry = self._shard.entry(block)
        lane = self.description.declared.get(block)
        if lane is not None and lane.encoding:
            return StoredLane(lane.encoding, lane.step_size * self.length, entry.disk_size)
        return StoredLane(codec_name(entry, self._shard.header), entry.orig_size, entry.disk_size)

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane in the file by block name, declared order first."""
        _ = self.length  # which determines the width of some
        return self._lanes()

    def _lanes(self) -> dict[str, Declaration]:
        sizes = {entry.name: entry.orig_size for entry in self._shard.entries}
        ordered = [name for name in self.description.declared if name in sizes]
        ordered += [name for name in sizes if name not in self.description.declared and name not in META_BLOCKS]
        declarations = {name: declaration_of(name, sizes[name], self.description) for name in ordered}
        return {name: lane for name, lane in declarations.items() if lane is not None}

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded (a filled-in reward or done does not count)."""
        return block in self._index_by_name and block not in self.description.synthesized

    def lane(self, name: str) -> Array:
        """Return a lane as a read-only array [T, *shape]; name is a block name or an observation's id.

        Raises EntryNotFoundError (a KeyError), LaneError, ChecksumError, CodecError.
        """
        declaration = self._declaration(name)
        data = self._shard.block(self._index_by_name[declaration.block])
        if declaration.encoding:
            return frames_of(declaration, data, self.length, self.where).pixels
        return lane_array(declaration, data, self.description.length, self.where)

    def encoded(self, name: str) -> EncodedFrames | None:
        """Return a lane's camera frames as stored, read on demand; None for a numeric lane."""
        view = self.lane_view(name)
        return view.frames if isinstance(view, EncodedLane) else None

    def frames(self, block: str) -> EncodedFrames:
        """Return the frames of an encoded lane with all of its bytes, read and verified once."""
        if block not in self._frames:
            data = self._shard.block(block)
            self._frames[block] = frames_of(self._declaration(block), data, self.length, self.where)
        return self._frames[block]

    def lane_view(self, name: str, *, verify: bool = False) -> LaneView | EncodedLane:
        """Return a lane that reads only the requested timesteps: `file.lane_view("state")[100:116]`.

        verify: verify the checksum of an uncompressed lane before its first slice is returned, which reads all of it.
        Raises EntryNotFoundError (a KeyError), LaneError.
        """
        if (name, verify) not in self._views:
            lane = self._declaration(name)
            view_class, length = (EncodedLane, self.length) if lane.encoding else (LaneView, self.description.length)
            self._views[name, verify] = view_class(self._shard, lane, length, verify=verify)
        return self._views[name, verify]

    def _declaration(self, name: str) -> Declaration:
        block = name if name in self._index_by_name else f"signal/{name}"
        index = self._index_by_name.get(block)
        if index is None:
            raise EntryNotFoundError(f"{self.where}: no lane {name!r}; it has {', '.join(self.lanes()) or 'none'}")
        declaration = declaration_of(block, self._shard.entries[index].orig_size, self.description)
        if declaration is None:
            raise LaneError(f"{self.where}: block {block!r} is not a lane: its dtype and shape are not declared")
        return declaration

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded."""
        exact = EXACT_REWARD if EXACT_REWARD in self._index_by_name else REWARD
        if not self.has(REWARD):
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # the sum says so itself: inf, NaN
            return float(self.lane(exact).sum(dtype=np.float64))

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the Episode with all lanes, or with the named channels (see load_wshard)."""
        return decode_episode(self, channels)

    def slice(self, start: int, stop: int, channels: Sequence[str] | None = None) -> Episode:
        """Return the timesteps [start, stop) as an Episode: all lanes, or the named channels (see load_wshard).

        Its timestep_range is [first, last] in the whole episode. Residuals, other programs' blocks and the chunk fields
        belong to the whole episode and are omitted. Reads the same data as lane_view. Raises StepError (an IndexError)
        unless 0 <= start < stop <= T, and the errors of load.
        """
        return decode_episode(self, channels, span(start, stop, self.length, self.where))


def open_wshard(source: Location | Buffer) -> EpisodeFile:
    """Open an episode file lazily. Cost: header, index and meta blocks.

    Raises FormatError and its subclasses, FileNotFoundError.

    Examples:
        >>> with open_wshard("episodes/circle-02.wshard") as file:
        ...     file.lane("state")[10:20].shape
        (10, 6)
    """
    return EpisodeFile(source)


def load_wshard(path_or_file: Location | Buffer, channels: Sequence[str] | None = None) -> Episode:
    """Load an episode from a path or binary file object.

    channels: ids ("state") or block names ("action/ctrl"); loads these observations and actions, their predictions, and
    always rewards, terminations and time. Arrays are read-only views [T, *shape]. Raises FormatError and its subclasses
    (ValueErrors), EntryNotFoundError for an unknown channel, FileNotFoundError.

    Examples:
        >>> load_wshard("episodes/circle-02.wshard", ["state"]).observations["state"].data.shape
        (118, 6)
    """
    with open_wshard(path_or_file) as file:
        return file.load(channels)


def save_wshard(
    ep: Episode,
    path_or_file: PathOrFile,
    compression: Compression = CompressionType.NONE,
    compression_level: int = CompressionLevel.DEFAULT,
    *,
    frame_steps: FrameSteps | None = None,
    encode: Encode | None = None,
) -> None:
    """Save an episode atomically; equal episodes give equal bytes.

    compression: "none", "zstd", "lz4", "zstd:19", or per block: {"signal/rgb": "zstd:19", "*": "none"}. frame_steps:
    timesteps per zstd frame, so that slices decode only the frames that they touch; for all channels that zstd
    compresses, or per block: {"signal/rgb": 16}. Some other readers cannot read such lanes (FORMAT.md, 1.5). encode:
    store camera lanes as "jpeg:90", "png" or "mp4:23" (quality, rate factor), all or by name: {"signal/rgb":
    "jpeg:95"}. Lanes that are already encoded are stored as they are, uncompressed. Raises EpisodeError (a ValueError)
    for an inconsistent episode, CodecError (likewise) for an unknown codec or block name, OSError for the disk; an
    earlier file stays intact.

    Examples:
        >>> save_wshard(Episode("new", observations={"state": np.zeros((20, 3))}), "new.wshard", "zstd")
    """
    if not isinstance(ep, Episode):
        raise EpisodeError(f"expected an episode, then where to save it, found {shown(ep)}")
    ep.validate()
    description, payloads = describe(encode_cameras(ep, encode))
    plan = CodecPlan.of(compression, compression_level, frame_steps)
    plan.check(payloads)
    store(path_or_file, description, payloads, plan)
