"""The three JSON blocks of an episode, read tolerantly, whichever known writer wrote them.

Rules by number: FORMAT.md.
"""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeVar

from wshard.core.array_fields import DType
from wshard.core.channel_kinds import stated_kinds
from wshard.core.channel_names import stated_names
from wshard.core.container.layout import MAX_META_SIZE
from wshard.core.episode.frame_rows import read_encoding
from wshard.core.types import ASSUMED_HZ, AssumedRate, Modality, TimebaseSpec, TimebaseType
from wshard.errors import LaneError, LimitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.container.layout import Buffer

META_WSHARD: Final = "meta/wshard"
META_EPISODE: Final = "meta/episode"
META_CHANNELS: Final = "meta/channels"
META_BLOCKS: Final = (META_WSHARD, META_EPISODE, META_CHANNELS)

_MAX_TIMESTEPS: Final = 1 << 40
_MAX_SIZE: Final = 1 << 40
_MAX_AXES: Final = 63  # numpy's 64, less the one of time
_SLOWEST_RATE: Final = 1e-200  # so that arithmetic with rates and periods stays finite
_FASTEST_RATE: Final = 1e200
_DECODER: Final = json.JSONDecoder()  # without the search for white space that json.loads does around each object
_RATE_DIGITS: Final = range(-3, 4)


@dataclass(frozen=True)
class Declaration:
    """One lane in meta/channels; shape is per timestep; frame_steps: timesteps per zstd frame, 0 = all.

    encoding: "jpeg", "png" or "mp4" for camera frames; dtype and shape are those of decoded frames. first_frame: for a
    video, the number of the frame at timestep 0. names: of the components of a timestep along its last axis. kinds: of
    the channels, such as ("3:number", "4:quaternion").
    """

    block: str
    dtype: DType
    shape: tuple[int, ...] = ()
    modality: Modality | None = None
    sampling_rate_hz: float | None = None
    content_type: str | None = None
    semantics: str = ""
    frame_steps: int = 0
    encoding: str = ""
    first_frame: int = 0
    names: tuple[str, ...] = ()
    unit: str = ""
    kinds: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The channel id: the block name without its first part."""
        return self.block.partition("/")[2]

    @cached_property
    def step_size(self) -> int:
        """Bytes per timestep."""
        return self.dtype.size * math.prod(self.shape)


@dataclass(frozen=True)
class Description:
    """Contents of the meta blocks of one episode. length None = not stated."""

    episode_id: str
    env_id: str = ""
    length: int | None = None
    timebase: TimebaseSpec = field(default_factory=TimebaseSpec)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    chunk_index: int | None = None
    total_chunks: int | None = None
    timestep_range: tuple[int, int] | None = None
    declared: Mapping[str, Declaration] = field(default_factory=dict)
    synthesized: frozenset[str] = frozenset()
    streaming: bool = False


# ---- reading -------------------------------------------------------------------------------------------------------


def read_description(meta: Mapping[str, Buffer], where: str) -> Description:
    """Read the meta blocks that are there; raises LaneError naming the block and the key."""
    if not any(name in meta for name in META_BLOCKS):
        raise LaneError(f"{where}: not an episode: expected at least one of {', '.join(META_BLOCKS)}")
    file_json, episode, channels = (_json_object(meta.get(name), f"{where}: {name}") for name in META_BLOCKS)
    at = f"{where}: {META_EPISODE}"
    length = _integer(episode.get("length_T", episode.get("length_t")), at, "length_T")
    if length is not None and not 0 <= length <= _MAX_TIMESTEPS:
        raise LaneError(f"{at}: length_T: expected 0 to {_MAX_TIMESTEPS}, found {reprlib.repr(length)}")
    metadata = episode.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise LaneError(f"{at}: metadata: expected an object, found {type(metadata).__name__}")
    synthesized = _list(episode.get("synthesized"), f"{at}: synthesized")
    return Description(
        episode_id=unicode_text(episode.get("episode_id", episode.get("id", "unknown")), at, ": episode_id"),
        env_id=unicode_text(episode.get("env_id") or "", at, ": env_id"),
        length=length,
        timebase=_timebase(episode.get("timebase"), file_json.get("timebase"), at),
        metadata=metadata,
        chunk_index=_integer(episode.get("chunk_index"), at, "chunk_index"),
        total_chunks=_integer(episode.get("total_chunks"), at, "total_chunks"),
        timestep_range=_range(episode.get("timestep_range"), length, at),
        declared=_declarations(channels, episode, file_json, where),
        synthesized=frozenset(unicode_text(name, at, ": synthesized") for name in synthesized),
        streaming=bool(file_json.get("streaming", False)),
    )


def _json_object(data: Buffer | None, where: str) -> dict[str, Any]:
    if data is None:
        return {}
    if len(data) > MAX_META_SIZE:
        raise LimitError(f"{where}: expected at most {MAX_META_SIZE} bytes of JSON, found {len(data)}")
    try:
        text = str(data, "utf-8")
        value, end = _DECODER.raw_decode(text) if text.startswith("{") else (None, -1)
        if end != len(text):
            value = json.loads(text)  # with white space around it, or wrong: this says what
    except (ValueError, RecursionError) as error:
        raise LaneError(f"{where}: expected UTF-8 JSON: {error}") from error
    if not isinstance(value, dict):
        raise LaneError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def _integer(value: object, where: str, key: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise LaneError(f"{where}: {key}: expected an integer, found {reprlib.repr(value)}")
    return int(value)


def usable_rate(value: object) -> float | None:
    """Return a rate or period that can be calculated with, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _SLOWEST_RATE < value < _FASTEST_RATE:
        return None
    return float(value)


def stated_clock(rate: object, epoch_ns: object = 0) -> TimebaseSpec:
    """Return the clock that a file states; unusable values count as not stated."""
    return TimebaseSpec(tick_hz=usable_rate(rate) or ASSUMED_HZ, epoch_ns=epoch_ns if type(epoch_ns) is int else 0)


def _list(value: object, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise LaneError(f"{where}: expected a list, found {reprlib.repr(value)}")
    return value


def unicode_text(value: object, where: str, key: str = "") -> str:
    """Return a value that is Unicode text; raises LaneError for anything else."""
    if not isinstance(value, str):
        raise LaneError(f"{where}{key}: expected a string, found {reprlib.repr(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise LaneError(f"{where}{key}: expected Unicode text: {error}") from error
    return value


def _range(value: object, length: int | None, where: str) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise LaneError(f"{where}: timestep_range: expected [first, last], found {reprlib.repr(value)}")
    first, last = (_integer(bound, where, "timestep_range") or 0 for bound in value)
    # The Go writer always writes the key: [0, 0] on a longer episode means "not a chunk".
    return None if (first, last) == (0, 0) and (length or 0) > 1 else (first, last)


Named = TypeVar("Named", Modality, TimebaseType)


def _named(enum: type[Named], value: Any) -> Named | None:
    """Return the member that has this value, None for anything else."""
    try:
        return None if value is None else enum(value)
    except ValueError:
        return None


def _timebase(primary: object, fallback: object, where: str) -> TimebaseSpec:
    kind, hz, epoch = None, None, None
    for stated in (primary, fallback):
        if isinstance(stated, dict):
            kind = kind or _named(TimebaseType, stated.get("type"))
            hz = hz or _rate(stated)
            epoch = stated.get("epoch_ns") if epoch is None else epoch
    epoch_ns = _integer(epoch, where, "epoch_ns") or 0
    return TimebaseSpec(kind or TimebaseType.TICKS, hz or ASSUMED_HZ, epoch_ns)


def _rate(stated: Mapping[str, Any]) -> float | None:
    rate = _stated_rate(stated)
    return AssumedRate(rate) if rate and stated.get("assumed") is True else rate


def _stated_rate(stated: Mapping[str, Any]) -> float | None:
    hz, dt_ns = usable_rate(stated.get("tick_hz")), usable_rate(stated.get("dt_ns"))
    if hz is not None or dt_ns is None:
        return hz
    # One writer truncates dt_ns and others round it: of the rates within 1 ns, the one with fewest digits is meant.
    rounded = (round(1e9 / dt_ns, digits) for digits in _RATE_DIGITS) if dt_ns >= 1 else iter(())
    return next((rate for rate in rounded if rate and abs(1e9 / rate - dt_ns) <= 1), usable_rate(1e9 / dt_ns))


def _declarations(
    channels: Mapping[str, Any], episode: Mapping[str, Any], file_json: Mapping[str, Any], where: str
) -> dict[str, Declaration]:
    at = f"{where}: {META_CHANNELS}"
    listed = channels.get("channels")
    if not listed and all(isinstance(value, dict) for value in channels.values()):
        listed = [{"signal_block": block, **value} for block, value in channels.items()]  # the oldest, map-like form
    rows = [("signal", row) for row in _list(listed, f"{at}: channels")]
    rows += [("lane", row) for row in _list(channels.get("lanes"), f"{at}: lanes")]
    omens = _list(file_json.get("omen_channels"), f"{where}: {META_WSHARD}: omen_channels")
    rows += [("lane", row) for row in omens]
    rows += [("action", row) for row in _list(episode.get("action_spaces"), f"{where}: {META_EPISODE}: action_spaces")]
    declarations: dict[str, Declaration] = {}
    for kind, row in rows:
        declaration = _declaration(kind, row, at)
        declarations.setdefault(declaration.block, declaration)
    return declarations


def _declaration(kind: str, row: object, where: str) -> Declaration:
    if not isinstance(row, dict):
        raise LaneError(f"{where}: expected an object for each channel, found {reprlib.repr(row)}")
    name = unicode_text(row.get("id", row.get("name", "")), where, ": id")
    block = row.get("signal_block") or row.get("block") or (name if kind == "action" else f"signal/{name}")
    block = unicode_text(block, where)
    shape = _shape(row.get("shape"), f"{where}: {block}: shape")
    dtype = DType.parse(row.get("dtype", "f32"), where, block)
    encoding, first_frame = "", 0
    if row.get("encoding") is not None:
        encoding, dtype, shape, first_frame = read_encoding(row, block, dtype, shape, f"{where}: {block}")
    content = row.get("content_type")
    return Declaration(
        block=block,
        dtype=dtype,
        shape=shape,
        encoding=encoding,
        first_frame=first_frame,
        modality=_named(Modality, row.get("modality")),
        sampling_rate_hz=usable_rate(row.get("sampling_rate_hz")),
        content_type=content if isinstance(content, str) else None,
        semantics=str(row.get("semantics") or row.get("description") or ""),
        frame_steps=max(row["frame_steps"], 0) if type(row.get("frame_steps")) is int else 0,
        names=stated_names(row.get("names")),
        unit=row["unit"] if isinstance(row.get("unit"), str) else "",
        kinds=stated_kinds(row.get("kinds")),
    )


def _shape(value: object, where: str) -> tuple[int, ...]:
    shape = _list(value or None, where)
    if len(shape) > _MAX_AXES or not all(type(size) is int and 0 <= size < _MAX_SIZE for size in shape):
        raise LaneError(f"{where}: expected at most {_MAX_AXES} sizes, found {reprlib.repr(shape)}")
    return tuple(shape)
