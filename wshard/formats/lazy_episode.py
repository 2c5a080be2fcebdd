"""An open episode of a LazySource, whose lanes are read on demand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from wshard.core.arguments import span
from wshard.core.episode.decode import place_lane, select_blocks
from wshard.core.episode.encode import as_bytes
from wshard.core.episode.encoded_lane import in_memory
from wshard.core.episode.lane_view import LazyLane
from wshard.core.episode.lanes import REWARD
from wshard.core.episode.protocol import EpisodeReader, StoredLane
from wshard.core.types import Episode
from wshard.errors import ClosedError, EntryNotFoundError, StaleEpisodeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.meta_reader import Declaration
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array, TimebaseSpec
    from wshard.formats.open_lanes import OpenLanes

_HASHED_WHOLE: Final = 1 << 20
"""Larger lanes are hashed by their first, middle and last timestep."""

_SMALL_LANE: Final = 1 << 18
"""Larger lanes are not cached by an open episode."""

_SORTED: Final = json.JSONEncoder(sort_keys=True)

_VERIFIED_AT_ONCE: Final = 256
"""Timesteps that verify decodes at once."""


class SourceLane(LazyLane):
    """A lane of an episode of a LazySource."""

    def __init__(self, episode: LazyEpisode, lane: Declaration) -> None:
        super().__init__(lane, (episode.length, *lane.shape), episode.where)
        self._episode = episode

    def _rows(self, start: int, stop: int) -> Array:
        return self._episode.read_shared(self.declaration.block, start, stop)


class LazyEpisode(EpisodeReader):
    """An open episode of a Source, which stays open until the episode is closed."""

    def __init__(self, source: OpenLanes, key: str) -> None:
        self._source = source
        self._key = key
        self._info: EpisodeInfo = source.info(key)
        self._open = True
        self._small_lanes: dict[str, Array] = {}

    def close(self) -> None:
        """Release the Source: the description stays available, further reads raise ClosedError."""
        if self._open:
            self._open = False
            self._small_lanes.clear()
            self._source.release()

    @cached_property
    def where(self) -> str:  # type: ignore[override]
        """Name in messages."""
        return self._source.where_of(self._key)

    @property
    def info(self) -> EpisodeInfo:
        """The description of the episode, known without reading data."""
        return self._info

    @property
    def id(self) -> str:
        """The episode id; need not be unique."""
        return self._info.id

    @property
    def env_id(self) -> str:
        """The environment id, "" if unknown."""
        return self._info.env_id

    @property
    def length(self) -> int:
        """T, the number of timesteps."""
        return self._info.length

    @property
    def timebase(self) -> TimebaseSpec:
        """The episode's clock."""
        return self._info.timebase

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Free metadata, JSON values."""
        return self._info.metadata

    def lanes(self) -> dict[str, Declaration]:
        """Return dtype and per-step shape of every lane by block name."""
        return dict(self._info.lanes)

    def has(self, block: str) -> bool:
        """Return True if the lane was recorded."""
        return block in self._info.lanes

    def lane_view(self, name: str, *, verify: bool = False) -> SourceLane:
        """Return a lane that reads only the requested timesteps; raises EntryNotFoundError."""
        return SourceLane(self, self._declaration(name))

    def lane(self, name: str) -> Array:
        """Return a lane as a read-only array [T, *shape]; raises EntryNotFoundError, FormatError."""
        return self.read_shared(self._declaration(name).block, 0, self.length)

    def encoded(self, name: str) -> EncodedFrames | None:
        """Return the EncodedFrames of a lane, None for a numeric lane."""
        self._check_open()
        return self._source.encoded(self._key, self._declaration(name).block)

    def read(self, block: str, start: int, stop: int) -> Array:
        """Return the timesteps [start, stop) of a lane by its block name; raises ClosedError, StaleEpisodeError."""
        self._check_open()
        rows = self._source.lane(self._key, block, start, stop)
        if len(rows) != stop - start:  # the lengths of a location are read once
            raise StaleEpisodeError(
                f"{self.where}: block {block!r}: expected timesteps {start} to {stop}, found {len(rows)} of them: the "
                "file has changed since it was opened first; open it again"
            )
        return rows

    def read_shared(self, block: str, start: int, stop: int) -> Array:
        """Return timesteps of a lane as a read-only array; small lanes that were read completely are cached."""
        self._check_open()
        if block in self._small_lanes:
            return self._small_lanes[block][start:stop]
        rows = self.read(block, start, stop)
        rows.flags.writeable = False
        if (start, stop) == (0, self.length) and rows.nbytes <= _SMALL_LANE:
            self._small_lanes[block] = rows
        return rows

    def load(self, channels: Sequence[str] | None = None) -> Episode:
        """Return the Episode with all lanes, or with the named channels (see load_wshard).

        Lanes without a field of an Episode (aux/) and long texts become its blocks, as bytes.
        """
        ep = self._gather(channels, range(self.length), whole=True)
        return self._source.complete(self._key, ep) if channels is None else ep

    def slice(self, start: int, stop: int, channels: Sequence[str] | None = None) -> Episode:
        """Return the timesteps [start, stop) as an Episode; StepError unless 0 <= start < stop <= T."""
        steps = span(start, stop, self.length, self.where)
        return replace(self._gather(channels, steps), timestep_range=[steps.start, steps.stop - 1])

    def _gather(self, channels: Sequence[str] | None, steps: range, *, whole: bool = False) -> Episode:
        self._check_open()
        ep = Episode(
            id=self.id,
            env_id=self.env_id,
            length=len(steps),
            timebase=replace(self.timebase),
            metadata=dict(self.metadata),
        )
        for block in select_blocks(list(self._info.lanes), channels, self.where):
            frames = self.encoded(block)
            values = in_memory(frames, steps.start, steps.stop) if frames else self.read(block, steps.start, steps.stop)
            is_placed = place_lane(ep, self._info.lanes[block], values)
            if whole and not is_placed:
                ep.blocks[block] = bytes(as_bytes(np.asarray(values))[0])
        return ep

    def total_reward(self) -> float | None:
        """Return the sum of rewards in float64, None if none were recorded."""
        if self._info.total_reward is not None or not self.has(REWARD):
            return self._info.total_reward
        with np.errstate(over="ignore", invalid="ignore"):  # the sum is then inf or NaN
            return float(self.lane(REWARD).sum(dtype=np.float64))

    def digest(self) -> str:
        """Return the content digest: equal for equal data, whatever their location.

        Of lanes of more than 1 MiB it covers the first, middle and last timestep; of frames, the result of identify.
        """
        info = self._info
        lanes = {name: [lane.dtype.value, lane.shape, lane.encoding] for name, lane in info.lanes.items()}
        clock = [info.timebase.type.value, info.timebase.tick_hz, info.timebase.epoch_ns]
        text = _SORTED.encode([info.id, info.env_id, info.length, clock, info.metadata, lanes])
        state = xxhash.xxh3_128(text.encode())
        for name, lane in info.lanes.items():
            state.update(self._sample(name, lane))
        return state.hexdigest()

    def _sample(self, name: str, lane: Declaration) -> bytes:
        if lane.encoding:
            return self.identify(name)
        if lane.step_size * self.length <= _HASHED_WHOLE:
            return np.ascontiguousarray(self.read_shared(name, 0, self.length)).tobytes()
        samples = [self.read(name, step, step + 1) for step in (0, self.length // 2, self.length - 1)]
        return b"".join(np.ascontiguousarray(rows).tobytes() for rows in samples)

    def identify(self, block: str) -> bytes:
        """Return bytes that differ if the encoded frames of a lane do, without reading all of them."""
        return self._source.identify(self._key, block)

    def stored(self, block: str) -> StoredLane:
        """Return how a lane is stored; raises EntryNotFoundError."""
        lane = self._declaration(block)
        size = lane.step_size * self.length
        stored = self._info.stored_sizes.get(lane.block, -1 if lane.encoding else size)
        return StoredLane(lane.encoding or "none", size, None if stored < 0 else stored)

    def verify(self) -> None:
        """Read and decode all data, as there are no checksums; raises the first error."""
        for name in self._info.lanes:
            for start in range(0, self.length, _VERIFIED_AT_ONCE):
                self.read(name, start, min(start + _VERIFIED_AT_ONCE, self.length))

    def _declaration(self, name: str) -> Declaration:
        lane = self._info.lanes.get(name) or self._info.lanes.get(f"signal/{name}")
        if lane is None:
            raise EntryNotFoundError(f"{self.where}: no lane {name!r}; it has {', '.join(self) or 'none'}")
        return lane

    def _check_open(self) -> None:
        if not self._open:
            raise ClosedError(f"{self.where}: the episode is closed")
