"""The WShard episode profile: which block is which lane, and what the three JSON blocks say.

Knows: block names, dtype and shape rules, the meta JSON of every known writer, tolerant reading, strict describing.
Does not know: files, offsets, codecs. Rules by number: FORMAT.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import EpisodeError, LaneError
from wshard.types import Array, DType, Modality, TimebaseSpec, TimebaseType

if TYPE_CHECKING:
    from wshard.layout import Buffer

META_WSHARD: Final = "meta/wshard"
META_EPISODE: Final = "meta/episode"
META_CHANNELS: Final = "meta/channels"
META_BLOCKS: Final = (META_WSHARD, META_EPISODE, META_CHANNELS)
REWARD: Final = "reward"
DONE: Final = "done"
TICKS: Final = "time/ticks"
TIMESTAMPS: Final = "time/timestamps_ns"
# Lanes that the reference profile has no block for; readers skip the aux/ prefix.
EXACT_REWARD: Final = "aux/reward"
TRUNCATIONS: Final = "aux/truncations"

_MAX_TIMESTEPS: Final = 1 << 40
_DEFAULT_HZ: Final = 30.0
_FIXED: Final = {
    REWARD: (DType.FLOAT32, ()),
    DONE: (DType.BOOL, ()),
    TIMESTAMPS: (DType.INT64, ()),
    TRUNCATIONS: (DType.BOOL, ()),
}


@dataclass(frozen=True)
class Declaration:
    """What meta/channels says of one lane; shape is per timestep."""

    block: str
    dtype: DType
    shape: tuple[int, ...] = ()
    modality: Modality | None = None
    sampling_rate_hz: float | None = None
    content_type: str | None = None
    semantics: str = ""

    @property
    def id(self) -> str:
        """The channel id: the block name without its first part."""
        return self.block.partition("/")[2]

    @property
    def step_size(self) -> int:
        """Bytes per timestep."""
        return self.dtype.size * math.prod(self.shape)


@dataclass(frozen=True)
class Description:
    """Everything that the meta blocks of one episode say. length None = not stated."""

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
    length = _integer(episode.get("length_T", episode.get("length_t")), f"{at}: length_T")
    if length is not None and not 0 <= length <= _MAX_TIMESTEPS:
        raise LaneError(f"{at}: length_T: expected 0 to {_MAX_TIMESTEPS}, found {length}")
    metadata = episode.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise LaneError(f"{at}: metadata: expected an object, found {type(metadata).__name__}")
    return Description(
        episode_id=_text(episode.get("episode_id", episode.get("id", "unknown")), f"{at}: episode_id"),
        env_id=_text(episode.get("env_id") or "", f"{at}: env_id"),
        length=length,
        timebase=_timebase(episode.get("timebase"), file_json.get("timebase"), at),
        metadata=metadata,
        chunk_index=_integer(episode.get("chunk_index"), f"{at}: chunk_index"),
        total_chunks=_integer(episode.get("total_chunks"), f"{at}: total_chunks"),
        timestep_range=_range(episode.get("timestep_range"), length, at),
        declared=_declarations(channels, episode, where),
        synthesized=frozenset(str(name) for name in episode.get("synthesized") or ()),
        streaming=bool(file_json.get("streaming", False)),
    )


def _json_object(data: Buffer | None, where: str) -> dict[str, Any]:
    if data is None:
        return {}
    try:
        value = json.loads(bytes(data).decode())
    except (ValueError, RecursionError) as error:
        raise LaneError(f"{where}: expected UTF-8 JSON: {error}") from error
    if not isinstance(value, dict):
        raise LaneError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def _integer(value: object, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value // 1:
        raise LaneError(f"{where}: expected an integer, found {value!r}")
    return int(value)


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise LaneError(f"{where}: expected a string, found {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise LaneError(f"{where}: expected Unicode text: {error}") from error
    return value


def _range(value: object, length: int | None, where: str) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 2:
        raise LaneError(f"{where}: timestep_range: expected [first, last], found {value!r}")
    first, last = (_integer(bound, f"{where}: timestep_range") or 0 for bound in value)
    # The Go writer always writes the key: [0, 0] on a longer episode means "not a chunk".
    return None if (first, last) == (0, 0) and (length or 0) > 1 else (first, last)


def _timebase(own: object, fallback: object, where: str) -> TimebaseSpec:
    places = [place for place in (own, fallback) if isinstance(place, dict)]
    hz = next((rate for place in places if (rate := _rate(place)) is not None), _DEFAULT_HZ)
    kinds = [place["type"] for place in places if place.get("type") in {kind.value for kind in TimebaseType}]
    epoch = next((place["epoch_ns"] for place in places if "epoch_ns" in place), 0)
    return TimebaseSpec(
        TimebaseType(kinds[0]) if kinds else TimebaseType.TICKS, hz, _integer(epoch, f"{where}: epoch_ns") or 0
    )


def _rate(place: Mapping[str, Any]) -> float | None:
    hz, dt_ns = place.get("tick_hz"), place.get("dt_ns")
    if isinstance(hz, (int, float)) and hz > 0:
        return float(hz)
    if not isinstance(dt_ns, (int, float)) or not dt_ns > 0:
        return None
    # One writer truncates dt_ns and others round it: within 1 ns of a whole rate, that rate is meant.
    whole = round(1e9 / dt_ns)
    return float(whole) if whole and abs(1e9 / whole - dt_ns) <= 1 else 1e9 / dt_ns


def _declarations(channels: Mapping[str, Any], episode: Mapping[str, Any], where: str) -> dict[str, Declaration]:
    listed = channels.get("channels", [])
    if not listed and all(isinstance(value, dict) for value in channels.values()):
        listed = [{"signal_block": block, **value} for block, value in channels.items()]  # the oldest, map-like form
    spaces = episode.get("action_spaces") or []
    rows: list[tuple[str, Any]] = [("signal", row) for row in listed]
    rows += [("lane", row) for row in channels.get("lanes", [])]
    rows += [("action", row) for row in spaces]
    found: dict[str, Declaration] = {}
    for kind, row in rows:
        declaration = _declaration(kind, row, f"{where}: {META_CHANNELS}")
        found.setdefault(declaration.block, declaration)
    return found


def _declaration(kind: str, row: object, where: str) -> Declaration:
    if not isinstance(row, dict):
        raise LaneError(f"{where}: expected an object for each channel, found {row!r}")
    name = _text(row.get("id", row.get("name", "")), f"{where}: id")
    block = _text(
        row.get("signal_block") or row.get("block") or (name if kind == "action" else f"signal/{name}"), where
    )
    shape = row.get("shape", [])
    if not isinstance(shape, list) or not all(type(size) is int and 0 <= size < 1 << 40 for size in shape):
        raise LaneError(f"{where}: {block}: shape: expected a list of sizes, found {shape!r}")
    modality, rate, content = row.get("modality"), row.get("sampling_rate_hz"), row.get("content_type")
    return Declaration(
        block=block,
        dtype=DType.parse(row.get("dtype", "f32")),
        shape=tuple(shape),
        modality=Modality(modality) if modality in {known.value for known in Modality} else None,
        sampling_rate_hz=float(rate) if isinstance(rate, (int, float)) else None,
        content_type=content if isinstance(content, str) else None,
        semantics=str(row.get("semantics") or row.get("description") or ""),
    )


def declaration_of(block: str, size: int, about: Description) -> Declaration | None:
    """Return dtype and per-step shape of a block of `size` bytes, declared or by the profile's rules.

    None: the block is no lane, or nothing tells its dtype; it is kept as raw bytes.
    """
    if block in about.declared:
        return about.declared[block]
    if block in _FIXED:
        return Declaration(block, *_FIXED[block])
    if block == TICKS:
        wide = about.length and size == 8 * about.length
        return Declaration(block, DType.INT64 if wide else DType.INT32)
    prefix, _, name = block.partition("/")
    if prefix not in ("action", "omen", "uncert") or not about.length:
        return None
    parent = _parent(name, about)
    if parent is not None and parent.step_size * about.length == size:
        return Declaration(block, parent.dtype, parent.shape)
    values, rest = divmod(size, 4 * about.length)
    return None if rest else Declaration(block, DType.FLOAT32, () if values == 1 else (values,))


def _parent(name: str, about: Description) -> Declaration | None:
    """The declared channel that an undeclared action, omen or uncert lane belongs to: the longest id it starts with."""
    parts = name.split("/")
    ids = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((about.declared[f"signal/{id_}"] for id_ in ids if f"signal/{id_}" in about.declared), None)


def lane_array(declaration: Declaration, data: Buffer, length: int | None, where: str) -> Array:
    """Return the block's bytes as a read-only array [T, *shape], without copying.

    Raises LaneError where the bytes do not divide into timesteps, or T differs from the episode's length.
    """
    block, size, step = declaration.block, len(data), declaration.step_size
    if step == 0:
        steps = length or 0
        if size:
            raise LaneError(f"{where}: Cannot reshape block {block!r}: {size} bytes into shape {declaration.shape}")
    else:
        steps, rest = divmod(size, step)
        if rest:
            raise LaneError(
                f"{where}: Cannot reshape block {block!r}: {size} bytes are no multiple of the {step} bytes of "
                f"{declaration.dtype.value} {list(declaration.shape)} per timestep"
            )
    if length is not None and steps != length:
        raise LaneError(
            f"{where}: block {block!r}: length mismatch: meta/episode says {length} timesteps, "
            f"{declaration.dtype.value} {list(declaration.shape)} gives {steps}{_other_reading(size, length)}"
        )
    return _typed(data, declaration.dtype, (steps, *declaration.shape))


def _other_reading(size: int, length: int) -> str:
    values = size / length if length else 0
    fitting = [kind for kind, width in (("f64", 8), ("f32", 4), ("f16", 2)) if values and values % width == 0]
    return f" (the bytes would fit {fitting[0]})" if fitting else ""


def _typed(data: Buffer, dtype: DType, shape: tuple[int, ...]) -> Array:
    if not len(data):
        array: Array = np.zeros(shape, dtype.numpy_dtype)
    elif dtype is DType.BOOL:
        raw = np.frombuffer(data, np.uint8).reshape(shape)
        array = raw.view(np.bool_) if raw.max(initial=0) <= 1 else raw != 0
    else:
        array = np.frombuffer(data, dtype.numpy_dtype).reshape(shape)
    array.flags.writeable = False
    return array


# ---- writing -------------------------------------------------------------------------------------------------------


def write_description(about: Description) -> dict[str, bytes]:
    """Return the three meta blocks as deterministic JSON; raises EpisodeError for metadata that JSON cannot hold."""
    hz = about.timebase.tick_hz
    if not (hz > 0 and math.isfinite(hz)):
        raise EpisodeError(f"timebase: expected tick_hz > 0, found {hz}")
    timebase: dict[str, Any] = {"type": about.timebase.type.value, "tick_hz": hz, "dt_ns": round(1e9 / hz)}
    if about.timebase.epoch_ns:
        timebase["epoch_ns"] = about.timebase.epoch_ns
    episode: dict[str, Any] = {
        "episode_id": about.episode_id,
        "env_id": about.env_id,
        "length_T": about.length,
        "timebase": timebase,
    }
    if about.chunk_index is not None:
        episode |= {"chunk_index": about.chunk_index, "total_chunks": about.total_chunks}
    if about.timestep_range is not None:
        episode["timestep_range"] = list(about.timestep_range)
    if about.metadata:
        episode["metadata"] = dict(about.metadata)
    if about.synthesized:
        episode["synthesized"] = sorted(about.synthesized)
    file_json = {
        "format": "W-SHARD",
        "version": "0.1",
        "wshard_version": "0.1",
        "endianness": "little",
        "residual_encoding": "raw",
        "residual_edges": "pad",
    }
    contents = {META_WSHARD: file_json, META_EPISODE: episode, META_CHANNELS: _channels_json(about)}
    return {name: _dump(value, name) for name, value in contents.items()}


def _channels_json(about: Description) -> dict[str, Any]:
    channels: list[dict[str, Any]] = []
    lanes: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, str]]] = {}
    for declaration in about.declared.values():
        row: dict[str, Any] = {"dtype": declaration.dtype.value, "shape": list(declaration.shape)}
        if declaration.modality is not None:
            row |= {"modality": declaration.modality.value, "content_type_code": declaration.modality.content_type}
        optional = ("sampling_rate_hz", "content_type", "semantics")
        row |= {name: value for name in optional if (value := getattr(declaration, name)) not in (None, "")}
        if declaration.block.startswith(("signal/", "action/")):
            channels.append({"id": declaration.id, **row, "signal_block": declaration.block})
        else:
            lanes.append({"block": declaration.block, **row})
        if declaration.modality is not None:
            group = declaration.id.split("/")[0] if "/" in declaration.id else "default"
            groups.setdefault(group, []).append({"channel_id": declaration.id, "modality": declaration.modality.value})
    contents: dict[str, Any] = {"channels": channels}
    if groups:
        contents["modality_groups"] = groups
    if lanes:
        contents["lanes"] = lanes
    return contents


def _dump(value: dict[str, Any], block: str) -> bytes:
    try:
        return json.dumps(value, allow_nan=False, default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise EpisodeError(f"{block}: expected values that JSON can hold: {error}") from error


def _plain(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
