"""Map an episode to a record: the feature of each lane, and its values in an Example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, REWARD, STEP_TEXTS, TIMESTAMPS, TRUNCATIONS
from wshard.core.episode.meta_writer import encode_note
from wshard.core.episode.step_texts import TASK, task_texts, text_lanes, texts_of
from wshard.core.media.frames import ImageFrames
from wshard.core.media.images import encode_image
from wshard.errors import EpisodeError
from wshard.formats.draft_sink import list_losses
from wshard.formats.rlds.features import IMAGE, NUMBER, TEXT, TFDSFeature
from wshard.formats.rlds.source import IS_FIRST, IS_LAST, IS_TERMINAL, OWN_FIELD, STEP_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Channel, Episode

INSTRUCTION: Final = "steps/language_instruction"
_AS_BYTES: Final = frozenset({DType.FLOAT64, DType.FLOAT16, DType.UINT64})
"""Types that float32 and int64 cannot represent exactly: their tensors are stored as bytes."""

_MAX_INTS: Final = 256  # integers per timestep that are stored as int64; more are stored as bytes
_CAMERA_CHANNELS: Final = frozenset({1, 3})
_PATHS: Final = {block: path for path, block in STEP_BLOCKS.items()}
_BATCH: Final = 32
_EPISODE_FIELDS: Final = ("episode_id", "env_id", OWN_FIELD)


def find_losses(info: EpisodeInfo) -> list[str]:
    """Return what a data set cannot store of an episode."""
    losses = list_losses(info, {*_PATHS, TRUNCATIONS, *text_lanes(info)}, "feature")
    if TRUNCATIONS in info.lanes or DONE in info.lanes:
        losses.append(f"{TRUNCATIONS}: the last timestep counts as truncated unless it is terminal")
    if f"{STEP_TEXTS}{TASK}" in text_lanes(info):
        losses.append(f"{STEP_TEXTS}{TASK}: becomes {STEP_TEXTS}language_instruction")
    videos = [block for block, lane in info.lanes.items() if lane.encoding == "mp4"]
    return losses + [f"{block}: frames are encoded again, as PNG" for block in videos]


def plan_steps(ep: Episode) -> list[TFDSFeature]:
    """Return the features of the steps of an episode; raises EpisodeError for lanes without a valid feature."""
    features = [TFDSFeature(path, NUMBER, "bool") for path in (IS_FIRST, IS_LAST)]
    if ep.terminations is not None:
        features.append(TFDSFeature(IS_TERMINAL, NUMBER, "bool"))
    if ep.rewards is not None:
        features.append(_number(_PATHS[REWARD], DType.from_numpy(ep.rewards.dtype), ()))
    if ep.timestamps_ns is not None:
        features.append(TFDSFeature(_PATHS[TIMESTAMPS], NUMBER, "int64"))
    features += [TFDSFeature(path, TEXT) for path in _texts(ep)]
    features += [_plan(path, channel) for path, channel in _channels(ep)]
    paths = {feature.path for feature in features}
    if len(paths) < len(features):
        raise EpisodeError(f"episode {ep.id!r}: expected one lane a feature, found two of a name")
    for path in paths:
        parts = path.split("/")
        parent = next(("/".join(parts[:n]) for n in range(1, len(parts)) if "/".join(parts[:n]) in paths), None)
        if parent is not None or "" in parts:
            raise EpisodeError(f"{path}: expected a name at the level of other features, found it inside {parent!r}")
    return features


def plan_episode() -> list[TFDSFeature]:
    """Return the features of an episode as a whole."""
    return [TFDSFeature(f"episode_metadata/{name}", TEXT) for name in _EPISODE_FIELDS]


def _channels(ep: Episode) -> Iterator[tuple[str, Channel]]:
    for name, channel in ep.observations.items():
        yield ("steps/discount" if name == "discount" else f"steps/observation/{name}"), channel
    for name, channel in ep.actions.items():
        is_single = name == "action" and len(ep.actions) == 1
        yield ("steps/action" if is_single else f"steps/action/{name}"), channel


def _texts(ep: Episode) -> dict[str, list[str]]:
    """Return the text of each timestep by the path of its feature; texts equal to the task are stored once."""
    texts_by_path = {f"steps/observation/{name}": texts for name, texts in texts_of(ep).items() if name != TASK}
    if TASK in ep.metadata:
        task = task_texts(ep)
        texts_by_path = {path: texts for path, texts in texts_by_path.items() if texts != task} | {INSTRUCTION: task}
    return texts_by_path


def _plan(path: str, channel: Channel) -> TFDSFeature:
    shape = tuple(channel.shape)
    if 0 in shape:
        raise EpisodeError(f"{path}: expected at least one number a timestep, found shape {list(shape)}")
    if channel.encoded is not None or _is_camera(channel):
        encoding = "jpeg" if channel.encoded is not None and channel.encoded.encoding == "jpeg" else "png"
        return TFDSFeature(path, IMAGE, channel.dtype.numpy_dtype.name, shape, encoding)
    return _number(path, channel.dtype, shape)


def _is_camera(channel: Channel) -> bool:
    return channel.dtype is DType.UINT8 and len(channel.shape) == 3 and channel.shape[2] in _CAMERA_CHANNELS


def _number(path: str, dtype: DType, shape: tuple[int, ...]) -> TFDSFeature:
    stored_dtype = DType.FLOAT32 if dtype is DType.BFLOAT16 else dtype
    is_long = stored_dtype is not DType.FLOAT32 and int(np.prod(shape)) > _MAX_INTS
    encoding = "bytes" if stored_dtype in _AS_BYTES or is_long else ""
    return TFDSFeature(path, NUMBER, stored_dtype.numpy_dtype.name, shape, encoding)


# ---- values --------------------------------------------------------------------------------------------------------


def make_record(ep: Episode, features: list[TFDSFeature]) -> dict[str, Any]:
    """Return the values of an Example by the paths of its features."""
    channels, texts = dict(_channels(ep)), _texts(ep)
    values_by_path: dict[str, Any] = {}
    for feature in features:
        if feature.kind == TEXT:
            values_by_path[feature.path] = [text.encode() for text in texts[feature.path]]
        elif feature.kind == IMAGE:
            values_by_path[feature.path] = list(_images(channels[feature.path], feature.encoding))
        else:
            channel = channels.get(feature.path)
            values = np.asarray(_step_values(ep, feature.path) if channel is None else channel.data)
            values_by_path[feature.path] = _pack(values.astype(feature.dtype), feature)
    episode_fields = dict(zip(_EPISODE_FIELDS, (ep.id, ep.env_id, encode_note(ep)), strict=True))
    return values_by_path | {f"episode_metadata/{name}": [text.encode()] for name, text in episode_fields.items()}


def _step_values(ep: Episode, path: str) -> Any:
    last = np.arange(ep.length) == ep.length - 1
    ends = [np.asarray(flags, bool) for flags in (ep.terminations, ep.truncations) if flags is not None]
    values: dict[str, Any] = {
        IS_FIRST: np.arange(ep.length) == 0,
        IS_LAST: np.logical_or.reduce([last, *ends]) if ep.truncations is not None else last,
        _PATHS[DONE]: ep.terminations,
        _PATHS[REWARD]: ep.rewards,
        _PATHS[TIMESTAMPS]: ep.timestamps_ns,
    }
    return values[path]


def _pack(values: np.ndarray[Any, Any], feature: TFDSFeature) -> Any:
    if feature.encoding:
        little_endian = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        return [row.tobytes() for row in little_endian]
    return values.ravel() if values.dtype.kind == "f" else values.ravel().astype(np.int64)


def _images(channel: Channel, encoding: str) -> Iterator[bytes]:
    frames = channel.encoded
    if isinstance(frames, ImageFrames):
        yield from (bytes(frames.image(step)) for step in range(frames.length))
        return
    count = len(channel.data) if frames is None else frames.length
    for start in range(0, count, _BATCH):
        stop = min(start + _BATCH, count)
        pixels = channel.data[start:stop] if frames is None else frames.decode(start, stop)
        yield from (encode_image(frame, encoding) for frame in pixels)
