"""Map the lanes of an episode to the features of a data set, and these to Parquet columns."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.channel_names import component_names
from wshard.core.episode.lanes import DONE, REWARD, STEP_TEXTS, TRUNCATIONS
from wshard.core.episode.step_texts import TASK, texts_of
from wshard.core.files.listed import is_nameable
from wshard.core.types import Modality
from wshard.errors import EpisodeError
from wshard.formats.lerobot.dataset_info import BOOKKEEPING
from wshard.formats.lerobot.features import IMAGE, STEP_LANES, TEXT, VIDEO

if TYPE_CHECKING:
    from collections.abc import Container

    from wshard.core.types import Channel, Episode

MAX_AXES: Final = 5
_CAMERA_CHANNELS: Final = {1, 3}
_STEP_NAMES: Final = {block: name for name, block in STEP_LANES.items()}
_RESERVED: Final = {*BOOKKEEPING, *STEP_LANES}
_COUNTER_DTYPES: Final = {"timestamp": np.float32, **dict.fromkeys(BOOKKEEPING[1:], np.int64)}


@dataclass(frozen=True)
class FeatureColumn:
    """A feature to write: `block` is its lane; shape and dtype are those of info.json."""

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
        """Return its entry in info.json; "wshard": lane and shape that readers could not derive."""
        origin = {} if self.lane_shape is None else {"wshard": {"lane": self.block, "shape": list(self.lane_shape)}}
        return {"dtype": self.dtype, "shape": list(self.shape), "names": self.names, **origin}


def plan_columns(ep: Episode) -> list[FeatureColumn]:
    """Return the features of an episode, in their order; raises EpisodeError for lanes that none can hold."""
    has_native_names = any(name.startswith("observation") for name in ep.observations)
    columns: dict[str, FeatureColumn] = {}
    for block, channel in ep.lanes().items():
        name = _free_name(_name_of(block, len(ep.actions), has_native_names=has_native_names), columns)
        columns[name] = _plan(block, channel, name)
    for text in texts_of(ep):
        if ep.metadata[text] != ep.metadata.get(TASK):
            name = _free_name(_name_of(f"signal/{text}", 0, has_native_names=has_native_names), columns)
            columns[name] = _note_origin(FeatureColumn(name, f"{STEP_TEXTS}{text}", TEXT, (1,)), ())
    steps = {REWARD: ep.rewards, DONE: ep.terminations, TRUNCATIONS: ep.truncations}
    for block, values in steps.items():
        if values is not None:
            dtype = np.asarray(values).dtype.name if block == REWARD else "bool"
            columns[_STEP_NAMES[block]] = FeatureColumn(_STEP_NAMES[block], block, dtype, (1,))
    for name in columns:
        if not is_nameable(name):
            raise EpisodeError(f"feature {name[:40]!r}...: expected a name that a folder can have: rename the lane")
    return list(columns.values())


def _free_name(name: str, taken: Container[str]) -> str:
    while name in taken or name in _RESERVED:
        name += "_"
    return name


def counter_features() -> dict[str, Any]:
    """Return the entries in info.json of the features that count rows."""
    return {
        name: {"dtype": np.dtype(dtype).name, "shape": [1], "names": None} for name, dtype in _COUNTER_DTYPES.items()
    }


def _name_of(block: str, actions: int, *, has_native_names: bool) -> str:
    """Return the name of a feature by LeRobot's conventions, also for an episode of another format."""
    prefix, _, name = block.partition("/")
    feature_name = name.replace("/", ".")
    if prefix == "action":
        return (
            feature_name
            if feature_name.startswith("action")
            else "action"
            if actions == 1
            else f"action.{feature_name}"
        )
    return feature_name if has_native_names or feature_name.startswith("next.") else f"observation.{feature_name}"


def _plan(block: str, channel: Channel, name: str) -> FeatureColumn:
    shape = tuple(channel.shape)
    if channel.encoded is not None or is_camera(channel):
        dtype = VIDEO if channel.encoded is not None and channel.encoded.encoding == "mp4" else IMAGE
        return _note_origin(FeatureColumn(name, block, dtype, shape, ["height", "width", "channels"]), (*shape,))
    if len(shape) > MAX_AXES or 0 in shape:
        raise EpisodeError(f"{block}: expected up to {MAX_AXES} axes of at least one number, found {list(shape)}")
    dtype_name = "float32" if channel.dtype is DType.BFLOAT16 else channel.dtype.numpy_dtype.name
    names = list(component_names(channel)) if len(shape) == 1 else []
    return _note_origin(FeatureColumn(name, block, dtype_name, shape or (1,), names or None), shape)


def _note_origin(column: FeatureColumn, lane_shape: tuple[int, ...]) -> FeatureColumn:
    """Set lane_shape if a reader could not derive lane and shape from the feature's name and shape."""
    usual_prefix = "action/" if column.name.startswith("action") else "signal/"
    block = f"{STEP_TEXTS if column.dtype == TEXT else usual_prefix}{column.name}"
    is_usual = column.block == block and (lane_shape == column.shape or column.dtype == TEXT)
    return column if is_usual else FeatureColumn(**{**vars(column), "lane_shape": lane_shape})


def is_camera(channel: Channel) -> bool:
    """Return True for frames that are stored as images: uint8 [H, W, C], C 1 or 3."""
    frames = channel.dtype is DType.UINT8 and len(channel.shape) == 3 and 0 not in channel.shape
    return frames and channel.shape[2] in _CAMERA_CHANNELS and channel.modality is not Modality.POINTCLOUD


# ---- Parquet ---------------------------------------------------------------------------------------------------------


def make_schema(columns: list[FeatureColumn]) -> Any:
    """Return the Arrow schema of the data files, with the features as the `datasets` library describes them."""
    import pyarrow as pa  # noqa: PLC0415  (an optional dependency, imported by the Sink already)

    fields, features = [], {}
    for column in columns:
        if column.dtype != VIDEO:
            fields.append(_field(pa, column))
            features[column.name] = _describe_column(column)
    for name, dtype in _COUNTER_DTYPES.items():
        fields.append(pa.field(name, pa.from_numpy_dtype(dtype)))
        features[name] = {"dtype": np.dtype(dtype).name, "_type": "Value"}
    return pa.schema(fields, {"huggingface": json.dumps({"info": {"features": features}})})


def _field(pa: Any, column: FeatureColumn) -> Any:
    if column.dtype == IMAGE:
        return pa.field(column.name, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    if column.dtype == TEXT:
        return pa.field(column.name, pa.string())
    type_ = pa.from_numpy_dtype(np.dtype(column.dtype))
    if column.shape == (1,):
        return pa.field(column.name, type_)
    if len(column.shape) == 1:
        return pa.field(column.name, pa.list_(type_, column.shape[0]))
    for _ in column.shape:
        type_ = pa.list_(type_)
    metadata = {
        "ARROW:extension:name": f"datasets.features.features.Array{len(column.shape)}DExtensionType",
        "ARROW:extension:metadata": json.dumps([list(column.shape), column.dtype]),
    }
    return pa.field(column.name, type_, metadata=metadata)


def _describe_column(column: FeatureColumn) -> dict[str, Any]:
    value = {"dtype": column.dtype, "_type": "Value"}
    if column.dtype == IMAGE:
        return {"_type": "Image"}
    if column.dtype == TEXT or column.shape == (1,):
        return value
    if len(column.shape) == 1:
        return {"feature": value, "length": column.shape[0], "_type": "List"}
    return {"shape": list(column.shape), "dtype": column.dtype, "_type": f"Array{len(column.shape)}D"}


def make_array(type_: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return an array [n, *shape] as an Arrow array of numbers, or of lists of them."""
    import pyarrow as pa  # noqa: PLC0415  (as above)

    flat = np.ascontiguousarray(values).reshape(-1)
    if hasattr(type_, "list_size"):
        return pa.FixedSizeListArray.from_arrays(pa.array(flat, type_.value_type), type=type_)
    element_type, list_types = type_, []
    while hasattr(element_type, "value_type"):
        list_types.append(element_type)
        element_type = element_type.value_type
    array = pa.array(flat, element_type)
    shape = values.shape
    for depth in reversed(range(len(list_types))):
        count = math.prod(shape[: depth + 1])
        offsets = np.arange(count + 1, dtype=np.int32) * shape[depth + 1]
        array = pa.ListArray.from_arrays(pa.array(offsets), array, type=list_types[depth])
    return array
