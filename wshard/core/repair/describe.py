"""Describe an episode of any format, and the channels of its lanes, as plain JSON values."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Final

from wshard.core.array_fields import DType
from wshard.core.channel_kinds import declared_kinds
from wshard.core.channel_names import component_names
from wshard.core.quality.kinds import MAX_STEPS, kinds_of
from wshard.core.types import Modality
from wshard.errors import WShardError

if TYPE_CHECKING:
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.episode.protocol import EpisodeReader

_MAX_CHANNELS: Final = 4096  # point clouds have more


def describe_episode(episode: EpisodeReader) -> dict[str, Any]:
    """Return what an episode of any format states, as plain JSON values."""
    timebase = episode.timebase
    return {
        "episode_id": episode.id,
        "env_id": episode.env_id,
        "length": episode.length,
        "tick_hz": timebase.tick_hz,
        "assumed_rate": timebase.assumed,
        "timebase": timebase.type.value,
        "epoch_ns": timebase.epoch_ns,
        "metadata": dict(episode.metadata),
    }


def describe_channels(episode: EpisodeReader, block: str, start: int, stop: int) -> dict[str, Any]:
    """Return names and unit of the channels of a lane, where it states them, and their kinds in a span of timesteps.

    Frames, texts, and lanes that are no observation or action have no kinds.
    """
    lane = episode.lanes()[block]
    found: dict[str, Any] = {"names": list(component_names(lane)), "unit": lane.unit}
    if block.startswith(("signal/", "action/")) and _has_numbers(lane):
        with contextlib.suppress(WShardError):  # the report has the damage
            kinds = kinds_of(lane, episode.lane_view(block)[start : min(stop, start + MAX_STEPS)])
            found |= {"kinds": [str(run) for run in kinds], "kinds_declared": bool(declared_kinds(lane))}
    return {name: value for name, value in found.items() if value}


def _has_numbers(lane: Declaration) -> bool:
    is_image = bool(lane.encoding) or (lane.dtype is DType.UINT8 and len(lane.shape) > 1)
    return not is_image and lane.modality in (None, Modality.PROPRIOCEPTION) and math.prod(lane.shape) <= _MAX_CHANNELS
