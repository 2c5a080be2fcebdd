"""Episode files: load, save, and lazy opening.

Knows: how the container and the episode profile come together in one file.
Does not know: recording step by step (streaming.py), other formats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from wshard.compress import Codec, CodecPlan, Compression, CompressionLevel, CompressionType
from wshard.container import PathOrFile, ShardReader
from wshard.encoding import describe
from wshard.errors import EntryNotFoundError, HeaderError, IndexCorruptError, LaneError
from wshard.lanes import (
    DONE,
    EXACT_REWARD,
    REWARD,
    TICKS,
    TIMESTAMPS,
    TRUNCATIONS,
    declaration_of,
    is_omen,
    is_residual,
    lane_array,
)
from wshard.layout import CONTENT_JSON, DEFAULT_ALIGNMENT, ROLE_WSHARD
from wshard.meta import META_BLOCKS, Declaration, Description, read_description, write_description
from wshard.types import Array, Channel, Episode, Format, Residual, TimebaseSpec
from wshard.writer import ShardWriter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.layout import Buffer

_STEPS_PER_BYTE = 8  # no lane is thinner than one bit per timestep
_CHANNEL_PREFIXES = ("signal/", "action/", "omen/", "uncert/", "residual/")
_STEP_FIELDS = {
    REWARD: "rewards",
    DONE: "terminations",
    TRUNCATIONS: "truncations",
    TICKS: "ticks",
    TIMESTAMPS: "timestamps_ns",
}


class EpisodeFile:
    """A lazily opened episode file: meta is read at once, lanes on demand.

    Lanes stored uncompressed are read-only views of the file (no copy); each is checked against its CRC32C once.
    Use as a context manager; arrays already handed out stay valid after close().
    """

    def __init__(self, source: PathOrFile | Buffer) -> None:
        self._shard = ShardReader(source)
        self.where = self._shard.where
        role = self._shard.header.role
        if role != ROLE_WSHARD:
            raise HeaderError(f"{self.where}: Invalid W-SHARD role: expected {ROLE_WSHARD} at offset 5, found {role}")
        names = self._shard.names()
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise IndexCorruptError(f"{self.where}: block {twice!r} is there twice: which one is meant is unknown")
        meta = {name: self._shard.block(name) for name in META_BLOCKS if name in self._shard}
        self.description: Description = read_description(meta, self.where)
        self._check_length()

    def _check_length(self) -> None:
        longest = max(entry.orig_size for entry in self._shard.entries)
        if (self.description.length or 0) > longest * _STEPS_PER_BYTE:
            raise LaneError(
                f"{self.where}: meta/episode: length_T says {self.description.length} timesteps, "
                f"but no block has more than {longest} bytes"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
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
        """Free metadata as the recorder wrote it."""
        return self.description.metadata

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""
        return self.description.timebase

    @property
    def length(self) -> int:
        """T; where the file does not state it, that of its first lane."""
        if self.description.length is None:
            first = next((name for name, lane in self.lanes().items() if lane.step_size), None)
            length = 0 if first is None else int(self.lane(first).shape[0])
            self.description = replace(self.description, length=length)
        return self.description.length or 0

    @property
    def shard(self) -> ShardReader:
        """The container below, for tools that look at blocks."""
        return self._shard

    def digest(self) -> str:
        """Return the content digest: equal for equal data, wherever the file lies. Reads no data block."""
        return self._shard.digest()

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane in the file by block name, declared order first."""
        sizes = {entry.name: entry.orig_size for entry in self._shard.entries}
        ordered = [name for name in self.description.declared if name in sizes]
        ordered += [name for name in sizes if name not in self.description.declared and name not in META_BLOCKS]
        found = {name: declaration_of(name, sizes[name], self.description) for name in ordered}
        return {name: lane for name, lane in found.items() if lane is not None}

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded (a filled-in reward or done does not count)."""
        return block in self._shard and block not in self.description.synthesized

    def lane(self, name: str) -> Array:
        """Return a lane as a read-only array [T, *shape]; name is a block name or an observation's id.

        Raises EntryNotFoundError (a KeyError), LaneError, ChecksumError, CodecError.
        """
        block = name if name in self._shard else f"signal/{name}"
        if block not in self._shard:
            raise EntryNotFoundError(f"{self.where}: no lane {name!r}; it has {', '.join(self.lanes()) or 'none'}")
        data = self._shard.block(block)
        declaration = declaration_of(block, len(data), self.description)
        if declaration is None:
            raise LaneError(f"{self.where}: block {block!r} is no lane: nothing tells its dtype and shape")
        return lane_array(declaration, data, self.description.length, self.where)

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded."""
        exact = EXACT_REWARD if EXACT_REWARD in self._shard else REWARD
        return float(self.lane(exact).sum(dtype=np.float64)) if self.has(REWARD) else None

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the Episode with all lanes, or with the named channels (see load_wshard)."""
        return _assemble(self, channels)


def open_wshard(source: PathOrFile | Buffer) -> EpisodeFile:
    """Open an episode file lazily.

    `with open_wshard(path) as ep: ep.lane("state")[10:20]` reads one lane. Cost: header, index and meta blocks.
    Raises FormatError and its subclasses, FileNotFoundError.
    """
    return EpisodeFile(source)


def load_wshard(source: PathOrFile | Buffer, channels: Sequence[str] | None = None) -> Episode:
    """Load an episode from a path or binary file object.

    channels: ids ("state") or block names ("action/ctrl"); observations, actions and the predictions of these channels
    are loaded, and rewards, terminations and time in any case. Arrays are read-only views [T, *shape].
    Raises FormatError and its subclasses (ValueErrors), EntryNotFoundError for an unknown channel, FileNotFoundError.
    """
    with open_wshard(source) as file:
        return file.load(channels)


def save_wshard(
    ep: Episode,
    target: PathOrFile,
    compression: Compression = CompressionType.NONE,
    compression_level: int = CompressionLevel.DEFAULT,
) -> None:
    """Save an episode: the file appears whole or not at all, equal episodes give equal bytes.

    compression: "none", "zstd", "lz4", "zstd:19", or per block: {"signal/rgb": "zstd:19", "*": "none"}.
    Raises EpisodeError (a ValueError) for an inconsistent episode, OSError for the disk; an earlier file stays intact.
    """
    ep.validate()
    about, payloads = describe(ep)
    store(target, about, payloads, CodecPlan.of(compression, compression_level))


def store(target: PathOrFile, about: Description, payloads: Mapping[str, Sequence[Buffer]], plan: CodecPlan) -> int:
    """Write description and lanes as one episode file; the only place that does. Returns the size in bytes."""
    writer = ShardWriter(target, role=ROLE_WSHARD, alignment=DEFAULT_ALIGNMENT, compression=plan.default)
    with writer:
        # Meta blocks stay uncompressed: catalog scans read them from every file.
        for name, data in write_description(about).items():
            writer.write_entry(name, data, compression=Codec(), content_type=CONTENT_JSON)
        for name, pieces in payloads.items():
            writer.write_entry(name, pieces, compression=plan.codec(name))
        return writer.close()


# ---- blocks -> Episode ---------------------------------------------------------------------------------------------


def _assemble(file: EpisodeFile, channels: Sequence[str] | None) -> Episode:
    about, lanes = file.description, file.lanes()
    selected = _selected(file, channels)
    ep = Episode(
        id=about.episode_id,
        env_id=about.env_id,
        length=file.length,
        timebase=about.timebase,
        metadata=dict(about.metadata),
        source_format=Format.WSHARD,
        chunk_index=about.chunk_index,
        total_chunks=about.total_chunks,
        timestep_range=about.timestep_range,
    )
    for name in selected:
        if name not in about.synthesized:
            _place(ep, name, file, lanes.get(name))
    if EXACT_REWARD in lanes:
        ep.rewards = file.lane(EXACT_REWARD)
    return ep


def _selected(file: EpisodeFile, channels: Sequence[str] | None) -> list[str]:
    """Return the blocks that a channel filter keeps, lanes first; None keeps all."""
    blocks = [name for name in dict.fromkeys((*file.lanes(), *file.shard.names())) if name not in META_BLOCKS]
    if channels is None:
        return blocks
    asked = {channels} if isinstance(channels, str) else set(channels)
    ids = {block: block.partition("/")[2] for block in blocks if block.startswith(("signal/", "action/"))}
    unknown = sorted(asked - set(blocks) - set(ids.values()))
    if unknown:
        known = ", ".join(sorted(set(ids.values()))) or "none"
        raise EntryNotFoundError(f"{file.where}: no channel {unknown[0]!r}; it has {known}")
    kept = {block for block, id_ in ids.items() if asked & {block, id_}}
    about = tuple(f"{ids[block]}/" for block in kept)
    return [
        block
        for block in blocks
        if not block.startswith(_CHANNEL_PREFIXES)
        or block in kept | asked
        or (block not in ids and block.partition("/")[2].startswith(about))
    ]


def _place(ep: Episode, block: str, file: EpisodeFile, lane: Declaration | None) -> None:
    prefix, _, name = block.partition("/")
    if block in _STEP_FIELDS and lane is not None:
        setattr(ep, _STEP_FIELDS[block], file.lane(block))
    elif block == EXACT_REWARD and lane is not None:
        return
    elif is_residual(block):
        channel, _, kind = name.rpartition("/")
        ep.residuals[channel] = Residual(channel, kind, np.frombuffer(file.shard.read_entry(block), np.uint8))
    elif lane is not None and is_omen(block):
        owner, _, model = name.rpartition("/")
        ep.omens.setdefault(owner, {})[model] = _channel(name, lane, file.lane(block))
    elif lane is not None and prefix in ("signal", "action", "uncert"):
        channels = {"signal": ep.observations, "action": ep.actions, "uncert": ep.uncerts}[prefix]
        channels[name] = _channel(name, lane, file.lane(block))
    else:
        ep.blocks[block] = file.shard.read_entry(block)


def _channel(name: str, lane: Declaration, data: Array) -> Channel:
    return Channel(
        name=name,
        dtype=lane.dtype,
        shape=list(lane.shape),
        data=data,
        semantics=lane.semantics,
        modality=lane.modality,
        sampling_rate_hz=lane.sampling_rate_hz,
        content_type=lane.content_type,
    )
