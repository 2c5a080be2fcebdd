"""The description of an episode, which is available before any of its data are read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wshard.core.episode.lanes import REWARD
from wshard.core.types import TimebaseSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.episode.protocol import EpisodeReader


@dataclass(frozen=True)
class EpisodeInfo:
    """An episode as a Source describes it, without decoding a frame.

    lanes: dtype and per-step shape by block name ("signal/state", "action/ctrl", "reward", "done", ...), only of what
    was recorded. total_reward: where the format states it, or None. stored_sizes: bytes of a lane as it is stored,
    where they are known. metadata: JSON values; "task" and "success" have the meaning that the catalog gives them.
    """

    id: str
    length: int
    lanes: Mapping[str, Declaration]
    env_id: str = ""
    timebase: TimebaseSpec = field(default_factory=TimebaseSpec)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    total_reward: float | None = None
    stored_sizes: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(reader: EpisodeReader) -> EpisodeInfo:
        """Return the description of an open episode; reads the total reward."""
        recorded = {name: lane for name, lane in reader.lanes().items() if reader.has(name)}
        return EpisodeInfo(
            id=reader.id,
            length=reader.length,
            lanes=recorded,
            env_id=reader.env_id,
            timebase=reader.timebase,
            metadata=reader.metadata,
            total_reward=reader.total_reward() if REWARD in recorded else None,
            stored_sizes={name: size for name in recorded if (size := reader.stored(name).stored) is not None},
        )
