"""From the lanes of an episode to the features of a data set, and to the Parquet columns that they are stored in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.array_fields import DType
from wshard.episode.lanes import DONE, REWARD, STEP_TEXTS, TRUNCATIONS
from wshard.episode.step_texts import TASK, texts_of
from wshard.errors import EpisodeError
from wshard.formats.lerobot.dataset_info import BOOKKEEPING
from wshard.formats.lerobot.features import IMAGE, STEP_LANES, TEXT, VIDEO, split_names
from wshard.types import Modality

if TYPE_CHECKING:
    from collections.abc import Container

    from wshard.types import Channel, Episode

MAX_AXES: Final = 5
_CAMERA_CHANNELS: Final = {1, 3}
_STEP_NAMES: Final = {block: name for name, block in STEP_LANES.items()}
_TAKEN: Final = {*BOOKKEEPING, *STEP_LANES}
_COUNTED: Final = {"timestamp": np.float32, **dict.fromkeys(BOOKKEEPING[1:], np.int64)}


@dataclass(frozen=True)
class FeatureColumn:
    """A feature as it is written: `block` is the lane that it holds; shape and dtype are those of info.json."""

    name: str
    block: str
    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    lane_shape: tuple[int, ...] | None = None

    @property
    def is_camera(self) -> bool:
        """Whether it holds frames."""
        return self.dtype in {IMAGE, VIDEO}

    def describe(self) -> dict[str, Any]:
        """Return its entry in info.json; "wshard" says what LeRobot has no place for."""
        more = {} if self.lane_shape is None else {"wshard": {"lane": self.block, "shape": list(self.lane_shape)}}
        return {"dtype": self.dtype, "shape": list(self.shape), "names": self.names, **more}


def plan_columns(ep: Episode) -> list[FeatureColumn]:
    """Return the features of an episode, in their order; raises EpisodeError for lanes that none can hold."""
    native = any(name.startswith("observation") for name in ep.observations)
    found: dict[str, FeatureColumn] = {}
    for block, channel in ep.lanes().items():
        name = _free_name(_name_of(block, len(ep.actions), native=native), found)
        found[name] = _plan(block, channel, name)
    for text in texts_of(ep):
        if ep.metadata[text] != ep.metadata.get(TASK):
            name = _free_name(_name_of(f"signal/{text}", 0, native=native), found)
            found[name] = _named(FeatureColumn(name, f"{STEP_TEXTS}{text}", TEXT, (1,)), ())
    steps = {REWARD: ep.rewards, DONE: ep.terminations, TRUNCATIONS: ep.truncations}
    for block, values in steps.items():
        if values is not None:
            dtype = np.asarray(values).dtype.name if block == REWARD else "bool"
            found[_STEP_NAMES[block]] = FeatureColumn(_STEP_NAMES[block], block, dtype, (1,))
    return list(found.values())


def _free_name(name: str, taken: Container[str]) -> str:
    while name in taken or name in _TAKEN:
        name += "_"
    return name


def counted_features() -> dict[str, Any]:
    """Return the entries in info.json of the features that count rows."""
    return {name: {"dtype": np.dtype(dtype).name, "shape": [1], "names": None} for name, dtype in _COUNTED.items()}


def _name_of(block: str, actions: int, *, native: bool) -> str:
    """Return the name of a feature: as LeRobot names them, also where an episode of another format does not."""
    prefix, _, name = block.partition("/")
    plain = name.replace("/", ".")
    if prefix == "action":
        return plain if plain.startswith("action") else "action" if actions == 1 else f"action.{plain}"
    return plain if native or plain.startswith("next.") else f"observation.{plain}"


def _plan(block: str, channel: Channel, name: str) -> FeatureColumn:
    shape = tuple(channel.shape)
    if channel.encoded is not None or is_camera(channel):
        dtype = VIDEO if channel.encoded is not None and channel.encoded.encoding == "mp4" else IMAGE
        return _named(FeatureColumn(name, block, dtype, shape, ["height", "width", "channels"]), (*shape,))
    if len(shape) > MAX_AXES or 0 in shape:
        raise EpisodeError(f"{block}: expected up to {MAX_AXES} axes of at least one number, found {list(shape)}")
    wide = "float32" if channel.dtype is DType.BFLOAT16 else channel.dtype.numpy_dtype.name
    names = split_names(channel.semantics, shape)
    return _named(FeatureColumn(name, block, wide, shape or (1,), names), shape)


def _named(column: FeatureColumn, lane_shape: tuple[int, ...]) -> FeatureColumn:
    """Note lane and shape where a reader of the data set could not tell them."""
    usual = "action/" if column.name.startswith("action") else "signal/"
    block = f"{STEP_TEXTS if column.dtype == TEXT else usual}{column.name}"
    same = column.block == block and (lane_shape == column.shape or column.dtype == TEXT)
    return column if same else FeatureColumn(**{**vars(column), "lane_shape": lane_shape})


def is_camera(channel: Channel) -> bool:
    """Say whether a lane is frames that are stored as images: uint8 [H, W, C], C 1 or 3."""
    frames = channel.dtype is DType.UINT8 and len(channel.shape) == 3 and 0 not in channel.shape
    return frames and channel.shape[2] in _CAMERA_CHANNELS and channel.modality is not Modality.POINTCLOUD


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def make_schema(columns: list[FeatureColumn]) -> Any:
    """Return the Arrow schema of the data files, with the features as the `datasets` library describes them."""
    import pyarrow as pa  # noqa: PLC0415  (an optional dependency, imported by the Sink already)

    fields, described = [], {}
    for column in columns:
        if column.dtype != VIDEO:
            fields.append(_field(pa, column))
            described[column.name] = _describe_column(column)
    for name, dtype in _COUNTED.items():
        fields.append(pa.field(name, pa.from_numpy_dtype(dtype)))
        described[name] = {"dtype": np.dtype(dtype).name, "_type": "Value"}
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": described}})})


def _field(pa: Any, column: FeatureColumn) -> Any:
    if column.dtype == IMAGE:
        return pa.field(column.name, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    if column.dtype == TEXT:
        return pa.field(column.name, pa.string())
    kind = pa.from_numpy_dtype(np.dtype(column.dtype))
    if column.shape == (1,):
        return pa.field(column.name, kind)
    if len(column.shape) == 1:
        return pa.field(column.name, pa.list_(kind, column.shape[0]))
    for _ in column.shape:
        kind = pa.list_(kind)
    about = {
        "ARROW:extension:name": f"datasets.features.features.Array{len(column.shape)}DExtensionType",
        "ARROW:extension:metadata": json.dumps([list(column.shape), column.dtype]),
    }
    return pa.field(column.name, kind, metadata=about)


def _describe_column(column: FeatureColumn) -> dict[str, Any]:
    value = {"dtype": column.dtype, "_type": "Value"}
    if column.dtype == IMAGE:
        return {"_type": "Image"}
    if column.dtype == TEXT or column.shape == (1,):
        return value
    if len(column.shape) == 1:
        return {"feature": value, "length": column.shape[0], "_type": "List"}
    return {"shape": list(column.shape), "dtype": column.dtype, "_type": f"Array{len(column.shape)}D"}


def make_array(kind: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return an array [n, *shape] as an Arrow array of numbers, or of lists of them."""
    import pyarrow as pa  # noqa: PLC0415  (as above)

    flat = np.ascontiguousarray(values).reshape(-1)
    if hasattr(kind, "list_size"):
        return pa.FixedSizeListArray.from_arrays(pa.array(flat, kind.value_type), type=kind)
    inner, kinds = kind, []
    while hasattr(inner, "value_type"):
        kinds.append(inner)
        inner = inner.value_type
    array = pa.array(flat, inner)
    shape = values.shape
    for depth in reversed(range(len(kinds))):
        count = math.prod(shape[: depth + 1])
        offsets = np.arange(count + 1, dtype=np.int32) * shape[depth + 1]
        array = pa.ListArray.from_arrays(pa.array(offsets), array, type=kinds[depth])
    return array
