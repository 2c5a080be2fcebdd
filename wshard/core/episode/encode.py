"""Episode to blocks: the contents of the meta blocks, and the bytes of the lanes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.encoded_lane import pack_frames
from wshard.core.episode.lanes import (
    DONE,
    EXACT_REWARD,
    REWARD,
    STEP_TEXTS,
    TICKS,
    TIMESTAMPS,
    TRUNCATIONS,
    declaration_of,
    is_residual,
)
from wshard.core.episode.meta_reader import META_BLOCKS, Declaration, Description
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.container.layout import Buffer
    from wshard.core.types import Array, Channel, Episode

_MAX_INT64 = 2**63 - 1


def describe(ep: Episode) -> tuple[Description, dict[str, Sequence[Buffer]]]:
    """Return the contents of the meta blocks of an episode, and the bytes of its lanes by block name."""
    declared: dict[str, Declaration] = {}
    arrays: dict[str, Array] = {}
    frames: dict[str, Sequence[Buffer]] = {}
    for block, channel in (ep.lanes() | ep.predictions()).items():
        declared[block] = _declare(block, channel)
        if channel.encoded is None:
            arrays[block] = channel.data
            continue
        frames[block], first = pack_frames(channel.encoded, block)
        declared[block] = replace(declared[block], encoding=channel.encoded.encoding, first_frame=first)
    arrays |= _step_lanes(ep)
    if EXACT_REWARD in arrays:
        declared[EXACT_REWARD] = Declaration(EXACT_REWARD, DType.from_numpy(arrays[EXACT_REWARD].dtype))
    payloads: dict[str, Sequence[Buffer]] = {name: as_bytes(array) for name, array in arrays.items()}
    payloads |= frames | _residual_payloads(ep)
    recorded = {REWARD: ep.rewards, DONE: ep.terminations, TICKS: ep.ticks}
    description = Description(
        episode_id=ep.id,
        env_id=ep.env_id,
        length=ep.length,
        timebase=ep.timebase,
        metadata=ep.metadata,
        chunk_index=ep.chunk_index,
        total_chunks=ep.total_chunks,
        timestep_range=None if ep.timestep_range is None else (ep.timestep_range[0], ep.timestep_range[1]),
        declared=declared,
        synthesized=frozenset(name for name, array in recorded.items() if array is None),
    )
    for name, data in ep.blocks.items():
        is_lane = is_residual(name) or (
            declaration_of(name, len(data), description) and not name.startswith(STEP_TEXTS)
        )
        if name in (*payloads, *META_BLOCKS) or is_lane:
            raise EpisodeError(f"episode {ep.id!r}: blocks: {name!r} would be read as a lane of the episode")
        payloads[name] = (data,)
    return description, payloads


def _declare(block: str, channel: Channel) -> Declaration:
    return Declaration(
        block=block,
        dtype=channel.dtype,
        shape=tuple(channel.shape),
        modality=channel.modality,
        sampling_rate_hz=channel.sampling_rate_hz,
        content_type=channel.content_type,
        semantics=channel.semantics,
        names=channel.names,
        unit=channel.unit,
        kinds=channel.kinds,
    )


def _step_lanes(ep: Episode) -> dict[str, Array]:
    """Rewards, terminations and time: other readers need reward, done and ticks in every file."""
    rewards = np.zeros(ep.length, "<f4") if ep.rewards is None else np.asarray(ep.rewards)
    exact = DType.from_numpy(rewards.dtype) is not DType.FLOAT32
    with np.errstate(over="ignore"):  # rewards beyond f32 are infinite for other readers; ours takes the exact lane
        lanes: dict[str, Array] = {REWARD: rewards.astype("<f4")}
    lanes[DONE] = np.zeros(ep.length, np.bool_) if ep.terminations is None else _booleans(ep.terminations, DONE)
    ticks = np.arange(ep.length) if ep.ticks is None else _integers(ep.ticks, TICKS)
    narrow = ticks.astype("<i4")
    lanes[TICKS] = narrow if (narrow == ticks).all() else ticks
    if exact:
        lanes[EXACT_REWARD] = rewards
    if ep.truncations is not None:
        lanes[TRUNCATIONS] = _booleans(ep.truncations, TRUNCATIONS)
    if ep.timestamps_ns is not None:
        lanes[TIMESTAMPS] = _integers(ep.timestamps_ns, TIMESTAMPS)
    return lanes


def _booleans(values: Array, name: str) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise EpisodeError(f"{name}: expected booleans, found {array.dtype}")
    return array.astype(np.bool_)


def _integers(values: Array, name: str) -> Array:
    if values.dtype.kind not in "iu" or int(values.max(initial=0)) > _MAX_INT64:
        raise EpisodeError(f"{name}: expected 64-bit signed integers, found {values.dtype}")
    return values.astype("<i8")


def as_bytes(array: Array) -> tuple[Buffer, ...]:
    """Return the little-endian, C-ordered bytes of an array, without a copy if possible."""
    little_endian = array if array.dtype.byteorder in "=|<" else array.astype(array.dtype.newbyteorder("<"))
    return (np.ascontiguousarray(little_endian).reshape(-1).view(np.uint8).data,)


def _residual_payloads(ep: Episode) -> dict[str, Sequence[Buffer]]:
    payloads: dict[str, Sequence[Buffer]] = {}
    for channel, residual in ep.residuals.items():
        data = np.asarray(residual.data)
        if residual.scales is not None or "/" in residual.type or data.dtype != np.uint8:
            raise EpisodeError(
                f"residual {channel!r}: expected packed bits in uint8, without scales and with a type free of '/', "
                f"found {data.dtype}, type {residual.type!r}"
            )
        payloads[f"residual/{channel}/{residual.type}"] = (data.tobytes(),)
    return payloads
