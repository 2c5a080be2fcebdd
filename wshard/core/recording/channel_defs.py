"""Channels of a recording: their definitions, and checks of the values of a timestep."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, SupportsFloat

import numpy as np

from wshard.core.arguments import array_of
from wshard.core.array_fields import DType
from wshard.core.channel_kinds import checked_kinds
from wshard.core.channel_names import checked_names
from wshard.core.container.codec_plan import CodecPlan, frames_by_block
from wshard.core.episode.camera_encoding import CameraEncoding
from wshard.core.episode.lanes import DONE, REWARD, TICKS, TRUNCATIONS
from wshard.core.episode.meta_writer import check_described
from wshard.core.recording.recorded_lane import RecordedLane
from wshard.core.types import Array, Modality
from wshard.errors import EpisodeError, FormatWarning

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from wshard.core.container.codec_plan import Compression, FrameSteps

_MAX_TICK: Final = 2**31 - 1
_MAX_REWARD: Final = float(np.finfo(np.float32).max)
ACTION_IDS: Final = ("action", "actions", "act", "ctrl", "control")
"""Ids that mean an action if nothing else determines it."""

_PREFIXES: Final = ("signal", "action")
_OPTIONS: Final = (
    *("compression", "frame_steps", "semantics", "sampling_rate_hz", "content_type", "names", "unit", "kinds", "codec"),
)
_KEYS: Final = ("id", "name", "dtype", "shape", "signal_block", "modality", *_OPTIONS)


@dataclass(frozen=True)
class ChannelDef:
    """A channel to record.

    Args:
        name: The id of the lane, such as "state".
        dtype: The type of its values.
        shape: The shape of one timestep, [] for a scalar; with a codec, [] = that of the first frame.
        modality: The kind of data in a multi-modal lane.
        compression: For this channel only, as in save_wshard.
        frame_steps: For this channel only, as in save_wshard.
        semantics: What the values mean, free text.
        sampling_rate_hz: Its own rate, if it differs from the episode's.
        content_type: What its block holds, free text.
        prefix: "signal" for an observation, "action" for an action, "" if timesteps decide.
        names: The names of the components of a timestep along its last axis, such as joints.
        unit: The unit of the values, free text.
        kinds: What the channels are, such as ("3:number", "4:quaternion").
        codec: Encode frames [H, W, C] while recording: "h264", "av1", "jpeg:90" or "png", which also takes uint16.

    Examples:
        >>> ChannelDef("state", DType.FLOAT32, [3]).shape
        [3]
    """

    name: str
    dtype: DType
    shape: Sequence[int] = field(default_factory=tuple)
    modality: Modality | None = None
    compression: str | None = None
    frame_steps: int | None = None
    semantics: str = ""
    sampling_rate_hz: float | None = None
    content_type: str | None = None
    prefix: str = ""
    names: Sequence[str] = ()
    unit: str = ""
    kinds: Sequence[str] = ()
    codec: str | None = None

    @staticmethod
    def of(channel: ChannelDef | Mapping[str, Any]) -> ChannelDef:
        """Parse {"name": "state", "dtype": "f32", "shape": [3], "compression": "zstd", ...}; "id" is accepted for name.

        A name such as "action/ctrl", or "signal_block": "action/ctrl", makes the channel an action. Raises EpisodeError
        for other keys or values.
        """
        if isinstance(channel, ChannelDef):
            return channel
        if not isinstance(channel, Mapping) or not set(channel) <= set(_KEYS) or not {"id", "name"} & set(channel):
            raise EpisodeError(f"channel: expected a ChannelDef or a dict of {', '.join(_KEYS)}, found {channel!r}")
        name = str(channel.get("name", channel.get("id")))
        prefix, _, rest = str(channel.get("signal_block", name)).partition("/")
        has_prefix = prefix in _PREFIXES and rest != ""
        modality = channel.get("modality")
        try:
            return ChannelDef(
                rest if has_prefix else name,
                DType.parse(channel.get("dtype", "u8" if "codec" in channel else "f32"), f"channel {name!r}: dtype"),
                tuple(channel.get("shape", ())),
                None if modality is None else Modality.parse(modality),
                prefix=prefix if has_prefix else "",
                **{option: channel[option] for option in _OPTIONS if option in channel},
            )
        except (TypeError, ValueError) as error:
            raise EpisodeError(f"channel {name!r}: {error}") from None

    @property
    def blocks(self) -> tuple[str, ...]:
        """The possible blocks of its values: one, or observation and action if timesteps decide."""
        return tuple(f"{prefix}/{self.name}" for prefix in ((self.prefix,) if self.prefix else _PREFIXES))

    def declare(self, prefix: str) -> RecordedLane:
        """Return the lane under "signal" or "action".

        Raises EpisodeError for an invalid definition, MissingExtraError if the library of its codec is not installed.
        """
        if not all(hasattr(size, "__index__") and size >= 0 for size in self.shape):
            raise EpisodeError(f"channel {self.name!r}: expected a shape of sizes >= 0, found {list(self.shape)}")
        shape = tuple(int(size) for size in self.shape)
        lane = RecordedLane(
            f"{prefix}/{self.name}",
            DType.parse(self.dtype),
            shape,
            self.modality,
            self.sampling_rate_hz,
            self.content_type,
            self.semantics,
            names=checked_names(self.names, f"channel {self.name!r}"),
            unit=self.unit,
            kinds=checked_kinds(self.kinds, f"channel {self.name!r}"),
            codec=None if self.codec is None else CameraEncoding.parse(self.codec, f"channel {self.name!r}: codec"),
        )
        check_described(lane)
        if lane.codec is not None:
            if self.compression is not None or self.frame_steps is not None:
                raise EpisodeError(f"channel {self.name!r}: expected a codec, or compression and frame_steps, not both")
            if shape or lane.dtype not in {DType.UINT8, DType.UINT16}:
                lane.check_frames(lane.codec, shape)
            lane.codec.import_libraries()
        return lane


def declare(channels: Sequence[ChannelDef], prefix: str) -> dict[str, RecordedLane]:
    """Return the declarations of the channels that may be `prefix` ("signal" or "action"), by name.

    Raises EpisodeError for duplicate names.
    """
    matching = [channel for channel in channels if channel.prefix in ("", prefix)]
    declared = {channel.name: channel.declare(prefix) for channel in matching}
    if len(declared) != len(matching):
        raise EpisodeError(f"channel_defs: expected unique names, found {[channel.name for channel in matching]}")
    return declared


def plan_of(
    channels: Sequence[ChannelDef], compression: Compression, level: int, frame_steps: FrameSteps | None
) -> CodecPlan:
    """Return the codecs of a recording: each channel's own if it has one, else those of the recording.

    Raises CodecError like CodecPlan.of, and for the name of a block that no timestep can have.
    """
    codecs = dict(compression) if isinstance(compression, Mapping) else {"*": compression}
    frames = frames_by_block(frame_steps)
    for channel in channels:
        for block in channel.blocks:
            if channel.compression is not None:
                codecs[block] = channel.compression
            if channel.frame_steps is not None:
                frames[block] = channel.frame_steps
    plan = CodecPlan.of(codecs, level, frames)
    plan.check([*(block for channel in channels for block in channel.blocks), REWARD, DONE, TICKS, TRUNCATIONS])
    return plan


def check_channels(where: str, expected: Sequence[ChannelDef], written: set[str], names: Sequence[str]) -> None:
    """Raise EpisodeError unless every expected channel is among the written blocks, and no name means another's."""
    if len(written) != len(names):
        raise EpisodeError(f"{where}: expected each channel once, found {', '.join(names)}")
    missing = [channel for channel in expected if written.isdisjoint(channel.blocks)]
    if missing:  # the block distinguishes an observation from an action of the same name
        names = [channel.name if len(channel.blocks) > 1 else channel.blocks[0] for channel in missing]
        raise EpisodeError(f"{where}: expected every channel, {', '.join(names)} missing")


def warn_without_actions(
    where: str, channels: Sequence[ChannelDef], written: Iterable[str], names: Collection[str]
) -> None:
    """Warn of channels that could be meant as actions, if there is no action among the written blocks."""
    plain = [channel for channel in channels if not (channel.prefix or channel.modality or channel.codec)]
    undecided = [channel.name for channel in plain if channel.name in names]
    if undecided and not any(block.startswith("action/") for block in written):
        text = (
            f"{where}: {', '.join(undecided)}: recorded as observations, and the episode has no action; for an action "
            f'use the id "action/{undecided[-1]}", for an observation "signal/{undecided[-1]}"'
        )
        warnings.warn(text, FormatWarning, stacklevel=3)


def check_step(
    t: object, reward: SupportsFloat | None, done: object, truncated: object
) -> tuple[tuple[str, float], ...]:
    """Return (block, value) of the step lanes of a timestep; that of the reward only if it has one.

    Raises EpisodeError for values that the lanes cannot represent.
    """
    try:
        tick, value = operator.index(t), 0.0 if reward is None else float(reward)  # type: ignore[arg-type]  # see below
        step = ((REWARD, value), (DONE, bool(done)), (TICKS, tick), (TRUNCATIONS, bool(truncated)))
    except (TypeError, ValueError) as error:
        raise EpisodeError(f"timestep {t!r}: expected an integer t, a number as reward, booleans: {error}") from None
    if not -_MAX_TICK <= tick <= _MAX_TICK:
        raise EpisodeError(f"timestep {tick}: t: expected at most {_MAX_TICK}")
    if abs(value) > _MAX_REWARD and math.isfinite(value):
        raise EpisodeError(f"timestep {tick}: reward: f32 cannot hold {value}")
    return step if reward is not None else step[1:]


def check_value(value: Any, lane: RecordedLane) -> Array:
    """Convert a value to an array of the lane's shape and dtype; raises EpisodeError if that is impossible."""
    array = value if type(value) is np.ndarray else array_of(value, lane.block)
    if array.shape != lane.shape and (lane.shape or lane.codec is None):
        raise EpisodeError(f"{lane.block}: Shape mismatch: expected {list(lane.shape)}, found {list(array.shape)}")
    target = lane.dtype.numpy_dtype
    converted = array if array.dtype == target else _convert(array, target)
    if converted is None:
        raise EpisodeError(f"{lane.block}: {lane.dtype.value} cannot hold {array.dtype} {array.ravel()[:4]}")
    return converted


def _convert(array: Array, target: np.dtype[Any]) -> Array | None:
    """Convert the array to `target`, None if that changes values: only floats may be rounded, and must stay finite."""
    if array.dtype.kind in "iub" and target.kind in "iu":
        limits = np.iinfo(target)
        is_in_range = array.size == 0 or (int(array.min()) >= limits.min and int(array.max()) <= limits.max)
        return array.astype(target) if is_in_range else None
    if array.dtype.kind not in "fiub" or not (target.kind == "f" or target.name == "bfloat16"):
        return None
    try:
        with np.errstate(over="raise"):
            return array.astype(target)
    except FloatingPointError:
        return None


def read_definitions(
    channels: Iterable[ChannelDef | Mapping[str, Any]] | None, actions: Iterable[ChannelDef | Mapping[str, Any]] | None
) -> tuple[list[ChannelDef], list[ChannelDef]]:
    """Return the channels, and those that may be actions: the same ones, unless actions are given."""
    defined = [ChannelDef.of(channel) for channel in channels or ()]
    if actions is None:
        return defined, defined
    defined = [replace(channel, prefix=channel.prefix or "signal") for channel in defined]
    return defined, [replace(ChannelDef.of(channel), prefix="action") for channel in actions]


def check_values(
    values: Mapping[str, Any], lanes: Mapping[str, RecordedLane], kind: str
) -> list[tuple[RecordedLane, Array]]:
    """Return each value as an array, with its lane. Raises EpisodeError, as for unknown names."""
    rows = []
    for name, value in values.items():
        lane = lanes.get(name)
        if lane is None:
            raise EpisodeError(f"unknown {kind}channel {name!r}; expected one of {', '.join(lanes) or 'none'}")
        rows.append((lane, check_value(value, lane)))
    return rows
