"""Episode files: load, save, and lazy opening.

Knows: how the container and the episode profile come together in one file.
Does not know: recording step by step (streaming.py), other formats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np

from wshard.compress import Codec, CodecPlan, Compression, CompressionLevel, CompressionType
from wshard.container import PathOrFile, ShardReader, ShardWriter
from wshard.errors import EntryNotFoundError, EpisodeError, HeaderError, IndexCorruptError, LaneError
from wshard.lanes import (
    DONE,
    EXACT_REWARD,
    META_BLOCKS,
    REWARD,
    TICKS,
    TIMESTAMPS,
    TRUNCATIONS,
    Declaration,
    Description,
    declaration_of,
    lane_array,
    read_description,
    write_description,
)
from wshard.layout import CONTENT_JSON, DEFAULT_ALIGNMENT, ROLE_WSHARD
from wshard.types import Array, Channel, DType, Episode, Format, Residual, TimebaseSpec

if TYPE_CHECKING:
    from wshard.layout import Buffer


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
    """Open an episode file lazily: `with open_wshard(path) as ep: ep.lane("state")[10:20]`.

    Cost: header, index and meta blocks. Raises FormatError and its subclasses, FileNotFoundError.
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


# ---- Episode -> blocks ---------------------------------------------------------------------------------------------


def describe(ep: Episode) -> tuple[Description, dict[str, Sequence[Buffer]]]:
    """Return what the meta blocks of an episode say, and the bytes of its lanes by block name."""
    declared: dict[str, Declaration] = {}
    arrays: dict[str, Array] = {}
    for block, channel in (ep.lanes() | ep.predictions()).items():
        declared[block] = _declare(block, channel)
        arrays[block] = channel.data
    arrays |= _step_lanes(ep)
    if EXACT_REWARD in arrays:
        declared[EXACT_REWARD] = Declaration(EXACT_REWARD, DType.from_numpy(arrays[EXACT_REWARD].dtype))
    payloads: dict[str, Sequence[Buffer]] = {name: as_bytes(array) for name, array in arrays.items()}
    payloads |= _residual_payloads(ep)
    for name, data in ep.blocks.items():
        if name in payloads or name in META_BLOCKS:
            raise EpisodeError(f"episode {ep.id!r}: blocks: {name!r} is also a lane of the episode")
        payloads[name] = (data,)
    recorded = {REWARD: ep.rewards, DONE: ep.terminations, TICKS: ep.ticks}
    about = Description(
        episode_id=ep.id,
        env_id=ep.env_id,
        length=ep.length,
        timebase=ep.timebase,
        metadata=ep.metadata,
        chunk_index=ep.chunk_index,
        total_chunks=ep.total_chunks,
        timestep_range=ep.timestep_range,
        declared=declared,
        synthesized=frozenset(name for name, array in recorded.items() if array is None),
    )
    return about, payloads


def _declare(block: str, channel: Channel) -> Declaration:
    return Declaration(
        block=block,
        dtype=channel.dtype,
        shape=tuple(channel.shape),
        modality=channel.modality,
        sampling_rate_hz=channel.sampling_rate_hz,
        content_type=channel.content_type,
        semantics=channel.semantics,
    )


def _step_lanes(ep: Episode) -> dict[str, Array]:
    """Rewards, terminations and time: other readers need reward, done and ticks in every file."""
    rewards = np.zeros(ep.length, "<f4") if ep.rewards is None else np.asarray(ep.rewards)
    done = np.zeros(ep.length, np.bool_) if ep.terminations is None else np.asarray(ep.terminations).astype(np.bool_)
    ticks = np.arange(ep.length, dtype="<i4") if ep.ticks is None else _integers(ep.ticks, TICKS)
    lanes: dict[str, Array] = {REWARD: rewards.astype("<f4"), DONE: done, TICKS: ticks}
    if rewards.dtype != np.float32:
        lanes[EXACT_REWARD] = rewards
    if ep.truncations is not None:
        lanes[TRUNCATIONS] = np.asarray(ep.truncations).astype(np.bool_)
    if ep.timestamps_ns is not None:
        lanes[TIMESTAMPS] = _integers(ep.timestamps_ns, TIMESTAMPS).astype("<i8")
    return lanes


def _integers(values: Array, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise EpisodeError(f"{name}: expected integers, found {array.dtype}")
    return array.astype("<i8" if array.dtype.itemsize == 8 else "<i4")


def as_bytes(array: Array) -> tuple[Buffer, ...]:
    """Return the little-endian, C-ordered bytes of an array, without a copy where it has that form already."""
    plain = array if array.dtype.byteorder in "=|<" else array.astype(array.dtype.newbyteorder("<"))
    flat = np.ascontiguousarray(plain).reshape(-1).view(np.uint8)
    return (memoryview(flat),)


def _residual_payloads(ep: Episode) -> dict[str, Sequence[Buffer]]:
    payloads: dict[str, Sequence[Buffer]] = {}
    for channel, residual in ep.residuals.items():
        if residual.scales is not None:
            raise EpisodeError(f"residual {channel!r}: type {residual.type!r} with scales has no block in the format")
        payloads[f"residual/{channel}/{residual.type}"] = (np.asarray(residual.data, np.uint8).tobytes(),)
    return payloads


# ---- blocks -> Episode ---------------------------------------------------------------------------------------------


def _assemble(file: EpisodeFile, channels: Sequence[str] | None) -> Episode:
    about, lanes = file.description, file.lanes()
    blocks = [name for name in (*lanes, *file.shard.names()) if name not in META_BLOCKS]
    selected = _Selection(channels, lanes, file.where)
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
    for name in dict.fromkeys(blocks):
        if name not in about.synthesized and selected.wants(name):
            _place(ep, name, file, lanes.get(name))
    if EXACT_REWARD in file.shard:
        ep.rewards = file.lane(EXACT_REWARD)
    return ep


class _Selection:
    """Which blocks a channel filter keeps; None keeps all."""

    def __init__(self, channels: Iterable[str] | None, lanes: Mapping[str, Declaration], where: str) -> None:
        self._all = channels is None
        self._names = set(channels or ())
        ids = {lane.id for name, lane in lanes.items() if name.startswith(("signal/", "action/"))}
        unknown = sorted(self._names - ids - set(lanes))
        if unknown:
            raise EntryNotFoundError(f"{where}: no channel {unknown[0]!r}; it has {', '.join(sorted(ids)) or 'none'}")

    def wants(self, block: str) -> bool:
        prefix, _, name = block.partition("/")
        if self._all or prefix not in ("signal", "action", "omen", "uncert", "residual"):
            return True
        if prefix in ("signal", "action"):
            return name in self._names or block in self._names
        return any(name == kept or name.startswith(f"{kept}/") for kept in self._names)


def _place(ep: Episode, block: str, file: EpisodeFile, lane: Declaration | None) -> None:
    prefix, _, name = block.partition("/")
    steps = {REWARD: "rewards", DONE: "terminations", TRUNCATIONS: "truncations", TICKS: "ticks"}
    if block in steps:
        setattr(ep, steps[block], file.lane(block))
    elif block == TIMESTAMPS:
        ep.timestamps_ns = file.lane(block)
    elif block == EXACT_REWARD:
        return
    elif prefix == "residual" and "/" in name:
        channel, _, kind = name.rpartition("/")
        ep.residuals[channel] = Residual(channel, kind, np.frombuffer(file.shard.read_entry(block), np.uint8))
    elif lane is None or prefix not in ("signal", "action", "omen", "uncert"):
        ep.blocks[block] = file.shard.read_entry(block)
    else:
        channel_value = _channel(name, lane, file.lane(block))
        if prefix == "omen":
            owner, _, model = name.rpartition("/")
            ep.omens.setdefault(owner, {})[model] = channel_value
        else:
            {"signal": ep.observations, "action": ep.actions, "uncert": ep.uncerts}[prefix][name] = channel_value


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
