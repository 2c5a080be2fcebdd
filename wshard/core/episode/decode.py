"""Blocks to Episode: the inverse of encode.py, for whole episodes and for spans of timesteps."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from wshard.core.episode.encoded_lane import EncodedLane, frames_of
from wshard.core.episode.lanes import (
    DONE,
    EXACT_REWARD,
    REWARD,
    STEP_TEXTS,
    TICKS,
    TIMESTAMPS,
    TRUNCATIONS,
    is_omen,
    is_residual,
    lane_array,
)
from wshard.core.episode.meta_reader import META_BLOCKS, Declaration
from wshard.core.media.frames import EncodedFrames
from wshard.core.types import Array, Channel, Episode, Format, Residual
from wshard.errors import EntryNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from wshard.core.container.layout import Buffer
    from wshard.core.container.reader import ShardReader
    from wshard.core.episode.lane_view import LazyLane
    from wshard.core.episode.meta_reader import Description

LaneValues = Array | EncodedFrames
_CHANNEL_PREFIXES = ("signal/", "action/", "omen/", "uncert/", "residual/")
_STEP_FIELDS = {
    EXACT_REWARD: "rewards",
    REWARD: "rewards",
    DONE: "terminations",
    TRUNCATIONS: "truncations",
    TICKS: "ticks",
    TIMESTAMPS: "timestamps_ns",
}


class LanesAndBlocks(Protocol):
    """The parts of an open file that decoding needs: its description, its lanes, and the container with its blocks."""

    where: str
    description: Description

    @property
    def shard(self) -> ShardReader:
        """The underlying container."""

    @property
    def length(self) -> int:
        """T, the number of timesteps."""

    def lanes(self) -> Mapping[str, Declaration]:
        """Return dtype and per-step shape of every lane by block name."""

    def lane_view(self, name: str) -> LazyLane:
        """Return a lane that reads only the requested timesteps."""


def decode_episode(file: LanesAndBlocks, channels: Sequence[str] | None, steps: range | None = None) -> Episode:
    """Return the Episode with all lanes, or those of the named channels.

    steps: only this range of timesteps; residuals, other programs' blocks and the chunk fields are then omitted.
    """
    lanes, filled_in = file.lanes(), file.description.synthesized
    selected = select_blocks([*lanes, *file.shard.names()], channels, file.where)
    selected.sort(key=lambda name: name == EXACT_REWARD)  # the exact rewards replace the rounded ones
    if steps is not None:
        ep = _part(file, steps)
        for name in selected:
            if name in lanes and name not in filled_in and not is_residual(name):
                place_lane(ep, lanes[name], _read_steps(file, lanes[name], steps))
        return ep
    ep = _empty(file)
    for name, data in _blocks(file, selected):
        lane = lanes.get(name)
        if name in filled_in:  # its bytes were verified all the same, so that no damage goes unnoticed
            continue
        if is_residual(name):
            channel, _, kind = name.partition("/")[2].rpartition("/")
            ep.residuals[channel] = Residual(channel, kind, np.frombuffer(bytes(data), np.uint8))
        elif lane is None or not place_lane(ep, lane, _read_whole(file, lane, data)):
            ep.blocks[name] = bytes(data)
    return ep


def _read_whole(file: LanesAndBlocks, lane: Declaration, data: Buffer) -> LaneValues:
    if lane.encoding:
        return frames_of(lane, data, file.length, file.where)
    return lane_array(lane, data, file.description.length, file.where)


def _read_steps(file: LanesAndBlocks, lane: Declaration, steps: range) -> LaneValues:
    view = file.lane_view(lane.block)
    if isinstance(view, EncodedLane):
        return view.part(steps.start, steps.stop)
    rows: Array = view[steps.start : steps.stop]
    return rows


def _empty(file: LanesAndBlocks) -> Episode:
    description = file.description
    return Episode(
        id=description.episode_id,
        env_id=description.env_id,
        length=file.length,
        timebase=description.timebase,
        metadata=dict(description.metadata),
        source_format=Format.WSHARD,
        chunk_index=description.chunk_index,
        total_chunks=description.total_chunks,
        timestep_range=None if description.timestep_range is None else list(description.timestep_range),
    )


def _part(file: LanesAndBlocks, steps: range) -> Episode:
    episode = _empty(file)
    first = episode.timestep_range[0] if episode.timestep_range else 0
    return replace(
        episode,
        length=len(steps),
        chunk_index=None,
        total_chunks=None,
        timestep_range=[first + steps.start, first + steps.stop - 1],
    )


def _blocks(file: LanesAndBlocks, names: Sequence[str]) -> Iterator[tuple[str, Buffer]]:
    """Yield the checked bytes of the blocks; several are decoded at a time."""
    return zip(names, file.shard.blocks(names), strict=True)


def select_blocks(names: Iterable[str], channels: Sequence[str] | None, where: str) -> list[str]:
    """Return the existing blocks that a channel filter selects, each once; None selects all.

    Raises EntryNotFoundError for an unknown channel.
    """
    blocks = [name for name in dict.fromkeys(names) if name not in META_BLOCKS]
    if channels is None:
        return blocks
    requested = {channels} if isinstance(channels, str) else set(channels)
    ids = {block: block.partition("/")[2] for block in blocks if block.startswith(("signal/", "action/"))}
    unknown = sorted(requested - set(blocks) - set(ids.values()))
    if unknown:
        available = ", ".join(sorted(set(ids.values()))) or "none"
        raise EntryNotFoundError(f"{where}: no channel {unknown[0]!r}; it has {available}")
    selected = {block for block, id_ in ids.items() if requested & {block, id_}}
    prediction_prefixes = tuple(f"{ids[block]}/" for block in selected)
    return [
        block
        for block in blocks
        if not block.startswith(_CHANNEL_PREFIXES)
        or block in selected | requested
        or (block not in ids and block.partition("/")[2].startswith(prediction_prefixes))
    ]


def place_lane(ep: Episode, lane: Declaration, data: LaneValues) -> bool:
    """Add a lane to the episode; False if no field of an Episode holds it."""
    prefix, _, name = lane.block.partition("/")
    if lane.block in _STEP_FIELDS:
        setattr(ep, _STEP_FIELDS[lane.block], data)
    elif is_omen(lane.block):
        owner, _, model = name.rpartition("/")
        ep.omens.setdefault(owner, {})[model] = _channel(name, lane, data)
    elif prefix in ("signal", "action", "uncert"):
        channels = {"signal": ep.observations, "action": ep.actions, "uncert": ep.uncerts}[prefix]
        channels[name] = _channel(name, lane, data)
    elif lane.block.startswith(STEP_TEXTS):
        ep.blocks[lane.block] = np.asarray(data, "<i4").tobytes()
    else:
        return False
    return True


def _channel(name: str, lane: Declaration, data: LaneValues) -> Channel:
    frames = data if isinstance(data, EncodedFrames) else None
    return Channel(
        name=name,
        dtype=lane.dtype,
        shape=list(lane.shape),
        data=data if frames is None else None,
        encoded=frames,
        semantics=lane.semantics,
        modality=lane.modality,
        sampling_rate_hz=lane.sampling_rate_hz,
        content_type=lane.content_type,
        names=lane.names,
        unit=lane.unit,
        kinds=lane.kinds,
    )
