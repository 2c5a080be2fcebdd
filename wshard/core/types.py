"""Plain values of an episode: Episode, Channel, timebase. T = number of timesteps, the first axis of every lane."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wshard.core.arguments import array_of, check_chunk, integer
from wshard.core.array_fields import (
    DType,
    DTypeField,
    EqualByValue,
    StepField,
    TimeField,
    as_steps,
    as_times,
    check_declared,
)
from wshard.core.array_fields import Residual as Residual
from wshard.core.channel_kinds import Modality as Modality
from wshard.core.channel_kinds import checked_kinds
from wshard.core.channel_names import checked_names
from wshard.core.converted_field import ConvertedField, SizesField, SpanField, TextsField
from wshard.core.media.frames import EncodedFrames, LaneData
from wshard.core.media.video_frames import are_same_frames
from wshard.core.messages import describe_channel, describe_episode, shown
from wshard.core.timebase import ASSUMED_HZ as ASSUMED_HZ
from wshard.core.timebase import AssumedRate as AssumedRate
from wshard.core.timebase import TimebaseSpec as TimebaseSpec
from wshard.core.timebase import TimebaseType as TimebaseType
from wshard.errors import EntryNotFoundError, EpisodeError

Array = NDArray[Any]


class Format(StrEnum):
    """Where an episode came from."""

    UNKNOWN = ""
    WSHARD = "wshard"
    DREAMER_V3 = "dreamerv3"
    TDMPC2 = "tdmpc2"
    MINARI = "minari"
    D4RL = "d4rl"
    ROBOMIMIC = "robomimic"
    HDF5 = "hdf5"


@dataclass(eq=False)
class Channel(EqualByValue):
    """One lane of an episode. Channels are equal by value.

    Args:
        name: The id of the lane, such as "state".
        dtype: The type of its values, a DType or its name.
        shape: The shape of one timestep, [] for a scalar.
        data: The values [T, *shape].
        semantics: What the values mean, free text.
        modality: The kind of data in a multi-modal lane.
        sampling_rate_hz: Its own rate, if it differs from the episode's.
        content_type: What its block holds, free text.
        encoded: Camera frames as JPEG, PNG or MP4, saved unchanged; `data` decodes them once, and setting it ends them.
        names: The names of the components of a timestep along its last axis, such as joints, or none.
        unit: The unit of the values, free text such as "rad".
        kinds: What the channels are, such as ("3:number", "4:quaternion"), or none: then their values tell.

    Examples:
        >>> Channel.of("state", np.zeros((20, 3), np.float32)).shape
        [3]
    """

    name: str
    dtype: DTypeField = ConvertedField(lambda name, _: DType.parse(name))
    shape: SizesField = ConvertedField(lambda sizes, _: [int(size) for size in sizes])
    data: LaneData = LaneData()
    semantics: str = ""
    modality: Modality | None = None
    sampling_rate_hz: float | None = None
    content_type: str | None = None
    encoded: EncodedFrames | None = field(default=None, compare=False)
    names: TextsField = ConvertedField(lambda names, lane: checked_names(names, f"channel {lane.name!r}"), ())
    unit: str = ""
    kinds: TextsField = ConvertedField(lambda kinds, lane: checked_kinds(kinds, f"channel {lane.name!r}"), ())

    __repr__ = describe_channel

    def __post_init__(self) -> None:
        """Accept anything array-like."""
        given = self.__dict__["_data"]
        if self.encoded is not None and given is not None and given is not self.encoded.__dict__.get("pixels"):
            self.encoded = None  # replace(channel, data=...)
        if self.encoded is None and type(given) is not np.ndarray:
            self.data = array_of(given, f"channel {self.name!r}")

    @staticmethod
    def of(name: str, data: Any, **described: Any) -> Channel:
        """Make a channel from an array [T, ...], EncodedFrames or another channel, and infer dtype and shape.

        Raises EpisodeError for other values, and for masked elements.
        """
        if isinstance(data, Channel):
            return replace(data, name=name, data=None if data.encoded else data.data, **described)
        if isinstance(data, EncodedFrames):
            return Channel(name, DType.from_numpy(data.dtype), list(data.shape), None, encoded=data, **described)
        array = array_of(data, f"channel {name!r}")
        if array.ndim == 0:
            raise EpisodeError(f"channel {name!r}: expected an array [T, ...], found a scalar")
        return Channel(name, DType.from_numpy(array.dtype), list(array.shape[1:]), array, **described)

    @property
    def length(self) -> int:
        """T, the number of timesteps."""
        frames = self.encoded
        return frames.length if frames is not None else int(self.data.shape[0]) if self.data.ndim else 0

    def clone(self) -> Channel:
        """Return a copy with its own data; encoded frames are immutable and shared."""
        return replace(self, data=None if self.encoded else self.data.copy(), shape=list(self.shape))

    def _equals(self, other: Channel) -> bool:
        if self.encoded is None or other.encoded is None:
            return super()._equals(other)
        rest = (replace(channel, data=np.empty(0)) for channel in (self, other))
        return EqualByValue._equals(*rest) and are_same_frames(self.encoded, other.encoded)  # noqa: SLF001  (our base)

    def part(self, start: int, stop: int) -> Channel:
        """Return the timesteps [start, stop); encoded frames stay encoded."""
        if self.encoded is not None:
            return replace(self, data=None, encoded=self.encoded.slice(start, stop))
        return replace(self, data=self.data[start:stop])


_NO_LANES: Any = ()
"""The default of lanes, which nothing can change; None, what a function without a return gives, is refused."""


def _as_channels(lanes: Any, owner: str) -> dict[str, Channel]:
    """Return the lanes with channels in place of arrays; the same dict if there are none."""
    plain = np.ndarray, EncodedFrames
    if not isinstance(lanes, Mapping):
        return {} if lanes == _NO_LANES else lanes  # anything else is refused when it is saved
    if isinstance(lanes, dict) and not any(isinstance(lane, plain) for lane in lanes.values()):
        return lanes
    return {name: Channel.of(owner + name, lane) if isinstance(lane, plain) else lane for name, lane in lanes.items()}


def _as_lanes(lanes: Any, _: object) -> dict[str, Channel]:
    return _as_channels(lanes, "")


def _as_omens(omens: Any, _: object) -> dict[str, dict[str, Channel]]:
    if not isinstance(omens, Mapping):
        return {} if omens == _NO_LANES else omens  # as lanes
    return {name: _as_channels(models, f"{name}/") for name, models in omens.items()}


Lanes = Mapping[str, Channel | EncodedFrames | Array]
LaneField = ConvertedField[Lanes, dict[str, Channel]]
OmenField = ConvertedField[Mapping[str, Lanes], dict[str, dict[str, Channel]]]


@dataclass(eq=False)
class Episode(EqualByValue):
    """One episode, or one chunk of one: T timesteps of observations, actions, rewards and more.

    `episode["state"]` is the array of an observation, `episode["action/ctrl"]` that of an action. Values per timestep
    may be passed as arrays, sequences or channels. Episodes are equal if all their values are, whatever their origin.

    Args:
        id: The name of the episode.
        env_id: The environment that it is from.
        length: T; the default is the length of the first lane.
        timebase: The clock.
        observations: {id: channel}; here and in all of these, arrays [T, ...] become channels.
        actions: As observations.
        rewards: [T], None if not recorded.
        terminations: [T], None if not recorded: where the task ended.
        truncations: [T], None if not recorded: where the recording was cut off.
        omens: Predictions, {channel: {model: channel}}.
        residuals: {channel: residual}, bits or deltas of a prediction.
        metadata: Anything that JSON can represent.
        source_format: Where the episode came from; not compared.
        chunk_index: Of a chunk: its number, from 0.
        total_chunks: Of a chunk: how many there are.
        timestep_range: Of a chunk: its [first, last] timesteps in the whole episode.
        uncerts: Uncertainties, {"channel/model/type": channel}.
        ticks: [T], the time of each timestep in ticks.
        timestamps_ns: [T], the time of each timestep in nanoseconds.
        blocks: Unknown blocks of other programs, preserved unchanged.

    Examples:
        >>> Episode("reach", observations={"state": np.zeros((20, 3))}).length
        20
    """

    id: str
    env_id: str = ""
    length: int = 0
    timebase: TimebaseSpec = field(default_factory=TimebaseSpec)
    observations: LaneField = ConvertedField(_as_lanes, _NO_LANES)
    actions: LaneField = ConvertedField(_as_lanes, _NO_LANES)
    rewards: StepField = ConvertedField(as_steps, None)
    terminations: StepField = ConvertedField(as_steps, None)
    truncations: StepField = ConvertedField(as_steps, None)
    omens: OmenField = ConvertedField(_as_omens, _NO_LANES)
    residuals: dict[str, Residual] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    source_format: Format = field(default=Format.UNKNOWN, compare=False)
    chunk_index: int | None = None
    total_chunks: int | None = None
    timestep_range: SpanField = ConvertedField(lambda steps, _: None if steps is None else list(steps), None)
    uncerts: LaneField = ConvertedField(_as_lanes, _NO_LANES)
    ticks: TimeField = ConvertedField(as_times, None)
    timestamps_ns: TimeField = ConvertedField(as_times, None)
    blocks: dict[str, bytes] = field(default_factory=dict)

    __repr__ = describe_episode

    def __post_init__(self) -> None:
        """Infer the length where none is given."""
        if self.length == 0 and isinstance(self.observations, dict) and isinstance(self.actions, dict):
            lanes = (lane.length for lane in self.lanes().values() if isinstance(lane, Channel))
            self.length = next((length for length in lanes if length), 0)

    def __getitem__(self, name: str) -> Array:
        """Return the array [T, ...] of a lane: of an observation by its id, of any by its block name.

        Raises EntryNotFoundError (a KeyError).
        """
        lanes = self.lanes() | self.predictions()
        lane = lanes.get(name) or lanes.get(f"signal/{name}")
        if lane is None:
            raise EntryNotFoundError(f"episode {self.id!r}: no lane {name!r}; it has {', '.join(lanes) or 'none'}")
        return lane.data

    def __iter__(self) -> Iterator[str]:
        """Yield the block names of its lanes."""
        return iter(self.lanes() | self.predictions())

    def __contains__(self, name: object) -> bool:
        """Return True for what self[name] takes."""
        return not {name, f"signal/{name}"}.isdisjoint(self)

    @property
    def is_chunked(self) -> bool:
        """True if this is one chunk of a longer episode."""
        return self.chunk_index is not None

    def lanes(self) -> dict[str, Channel]:
        """Return observations, then actions, by block name."""
        return {f"signal/{name}": channel for name, channel in self.observations.items()} | {
            f"action/{name}": channel for name, channel in self.actions.items()
        }

    def predictions(self) -> dict[str, Channel]:
        """Return omens and uncerts by block name."""
        omens = {f"omen/{c}/{m}": lane for c, models in self.omens.items() for m, lane in models.items()}
        return omens | {f"uncert/{name}": lane for name, lane in self.uncerts.items()}

    def validate(self) -> None:
        """Raise EpisodeError if lanes, lengths or chunk fields are inconsistent."""
        if not self.id:
            raise EpisodeError("episode: expected a non-empty id")
        if (integer(self.length) or 0) <= 0:
            raise EpisodeError(f"episode {self.id!r}: expected length > 0, a whole number, found {self.length!r}")
        if not isinstance(self.metadata, Mapping | None):
            raise EpisodeError(f"metadata: expected a mapping, found {shown(self.metadata)}")
        for block, channel in (self.lanes() | self.predictions()).items():
            _check_channel(block, channel, self.length)
        for model in {model for models in self.omens.values() for model in models if "/" in model}:
            raise EpisodeError(
                f"omen model {model!r}: expected a name without '/', which separates it from its channel"
            )
        for name in ("rewards", "terminations", "truncations", "ticks", "timestamps_ns"):
            array = getattr(self, name)
            if array is not None and np.shape(array) != (self.length,):
                raise EpisodeError(f"{name}: length mismatch: expected [{self.length}], found {list(np.shape(array))}")
        check_chunk(self.chunk_index, self.total_chunks, self.timestep_range)

    def clone(self) -> Episode:
        """Return a copy with its own arrays; metadata is copied shallowly."""
        return replace(copy.deepcopy(replace(self, metadata={})), metadata=dict(self.metadata))


def _check_channel(block: str, channel: object, length: int) -> None:
    if not isinstance(channel, Channel):
        raise EpisodeError(f"{block}: expected a channel, such as Channel.of(name, array), found {shown(channel)}")
    frames = channel.encoded
    shape = channel.data.shape if frames is None else (frames.length, *frames.shape)
    dtype = channel.data.dtype if frames is None else frames.dtype
    check_declared(block, (length, *channel.shape), shape, declared=channel.dtype, dtype=dtype)
