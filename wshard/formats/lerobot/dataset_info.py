"""Read meta/info.json: version, rate and features of a data set, and the paths of its files."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wshard.core.arguments import integer
from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.episode.meta_reader import usable_rate
from wshard.core.files.listed import is_nameable
from wshard.core.messages import shown
from wshard.errors import FormatError, MissingFileError, UnsupportedFormatError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.files.place import Place

INFO: Final = "meta/info.json"
BOOKKEEPING: Final = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Features that every data set has, which count its rows."""

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_FIELD: Final = re.compile(r"\{(\w+)(?::0?(\d{0,2})d?)?\}")
_MAX_JSON: Final = 1 << 26
_MAX_FEATURES: Final = 4096
_MAX_AXES: Final = 8
_MAX_VALUES: Final = 1 << 28
DEFAULT_PATHS: Final = {
    2: (
        "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    ),
    3: (
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    ),
}


@dataclass(frozen=True)
class Feature:
    """One entry of "features": dtype is a numpy name, or "string", "image", "video" and the like.

    lane, lane_shape: the lane that the feature was made from, if a Sink of this package wrote it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    names: Any = None
    facts: Mapping[str, Any] | None = None
    lane: str = ""
    lane_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """The parts of meta/info.json that reading needs; data_path and video_path are templates."""

    version: tuple[int, int]
    fps: float
    robot_type: str
    features: Mapping[str, Feature]
    data_path: str
    video_path: str
    chunks_size: int
    total_episodes: int

    def cameras(self, dtype: str) -> list[str]:
        """Return the names of the features of dtype "video" or "image"."""
        return [name for name, feature in self.features.items() if feature.dtype == dtype]


def read_info(folder: Place) -> DatasetInfo:
    """Read meta/info.json; raises MissingFileError, FormatError, UnsupportedFormatError for other versions."""
    where = f"{folder}/{INFO}"
    value = read_json(folder / INFO)
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, found {shown(value)}")
    match = _VERSION.fullmatch(str(value.get("codebase_version")))
    if match is None or int(match[1]) not in DEFAULT_PATHS:
        raise UnsupportedFormatError(
            f"{where}: expected codebase_version v2.0, v2.1 or v3.0, found {shown(value.get('codebase_version'))}"
        )
    fps = usable_rate(value.get("fps"))
    if fps is None:
        raise FormatError(f"{where}: fps: expected a number above 0, found {shown(value.get('fps'))}")
    data, video = DEFAULT_PATHS[int(match[1])]
    robot = value.get("robot_type")
    return DatasetInfo(
        version=(int(match[1]), int(match[2])),
        fps=fps,
        robot_type=robot if isinstance(robot, str) else "",
        features=_features(value.get("features"), where),
        data_path=_template(value.get("data_path") or data, where),
        video_path=_template(value.get("video_path") or video, where),
        chunks_size=max(integer(value.get("chunks_size")) or 1000, 1),
        total_episodes=max(integer(value.get("total_episodes")) or 0, 0),
    )


def read_json(place: Place) -> Any:
    """Return the JSON of a file of at most 64 MiB; raises MissingFileError, FormatError."""
    try:
        return place.read_json(_MAX_JSON)
    except FileNotFoundError:
        raise MissingFileError.at(place, f"{place}: expected a file of JSON, found none") from None


def fill_template(template: str, fields: Mapping[str, int | str], where: str) -> str:
    """Return the relative path that a template gives for an episode or a file.

    Raises FormatError for a path that leaves the data set.
    """
    path = _FIELD.sub(lambda match: format(fields[match[1]], f"0{match[2]}d" if match[2] else ""), template)
    if path.startswith("/") or ".." in path.split("/") or "\0" in path or not is_nameable(path):
        raise FormatError(f"{where}: expected a path inside of the data set, found {shown(path)}")
    return path


def _template(value: object, where: str) -> str:
    names = {"chunk_index", "file_index", "episode_chunk", "episode_index", "video_key"}
    if not isinstance(value, str):
        raise FormatError(f"{where}: expected the template of a path, found {shown(value)}")
    unknown = {match[1] for match in _FIELD.finditer(value)} - names
    if unknown or set("{}") & set(_FIELD.sub("", value)):
        raise FormatError(f"{where}: expected a template with {', '.join(sorted(names))}, found {shown(value)}")
    return value


def _features(value: object, where: str) -> dict[str, Feature]:
    if not isinstance(value, dict) or not 0 < len(value) <= _MAX_FEATURES:
        raise FormatError(f"{where}: features: expected 1 to {_MAX_FEATURES} features, found {shown(value)}")
    features = {}
    for name, row in value.items():
        at = f"{where}: features: {shown(name)}"
        if not isinstance(row, dict) or not isinstance(row.get("dtype"), str) or not name or not is_nameable(name):
            raise FormatError(f"{at}: expected an object with a dtype, found {shown(row)}")
        facts = row.get("info") or row.get("video_info")
        shape = _shape(row.get("shape"), at)
        details = facts if isinstance(facts, dict) else None
        features[name] = Feature(
            name, row["dtype"], shape, row.get("names"), details, *_origin(row.get("wshard"), shape, at)
        )
    return features


def _origin(value: object, shape: tuple[int, ...], where: str) -> tuple[str, tuple[int, ...] | None]:
    """Return the lane and shape that a feature was made from; ("", None) if they are not stated."""
    if not isinstance(value, dict):
        return "", None
    lane, lane_shape = value.get("lane"), _shape(value.get("shape"), where)
    prefixes = ("signal/", "action/", STEP_TEXTS)
    if not isinstance(lane, str) or not lane.startswith(prefixes) or math.prod(lane_shape) != math.prod(shape):
        raise FormatError(f"{where}: wshard: expected the lane and shape of the feature, found {shown(value)}")
    return lane, lane_shape


def _shape(value: object, where: str) -> tuple[int, ...]:
    sizes = [integer(size) for size in value] if isinstance(value, list) and len(value) <= _MAX_AXES else [None]
    shape = tuple(size for size in sizes if size is not None and size > 0)
    if len(shape) < len(sizes) or math.prod(shape) > _MAX_VALUES:
        raise FormatError(f"{where}: shape: expected up to {_MAX_AXES} sizes, found {shown(value)}")
    return shape
