"""Which lanes become which arrays and images of a sample."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from wshard.core.array_fields import DType
from wshard.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.meta_reader import Declaration

_MAX_NUMBERS: Final = 1024  # of a lane that becomes an array by default
_FIELD: Final = re.compile(r"([^=]+)=([^\[\]]+?)(?:\[(\d*):(\d*)\])?")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MASKS: Final = ("past_mask", "future_mask")
_INTRINSICS: Final = "intrinsics"
_EXTRINSICS: Final = "extrinsics"
_POSE_PREFIX: Final = "signal/extrinsics/"


@dataclass(frozen=True)
class LaneField:
    """An array of a sample: numbers [start, stop) of a lane at each timestep. optional: omitted for shorter lanes."""

    key: str
    lane: str
    start: int = 0
    stop: int | None = None
    optional: bool = False

    def numbers_in(self, lanes: Mapping[str, Declaration]) -> tuple[int, int] | None:
        """Return the bounds [start, stop) in a lane, None if the lane is missing or an optional field too short.

        Raises DatasetError for another lane that is too short.
        """
        lane = lanes.get(self.lane)
        if lane is None:
            return None
        size = math.prod(lane.shape)
        stop = size if self.stop is None else self.stop
        if 0 <= self.start < stop <= size:
            return self.start, stop
        if self.optional:
            return None
        raise DatasetError(f"{self.key}: expected numbers [{self.start}:{stop}] in {self.lane}, found {size}")


@dataclass(frozen=True)
class CameraField:
    """A camera of a sample, and the lanes of its images, depth, intrinsics and extrinsics; "" for none."""

    name: str
    images: str = ""
    depth: str = ""
    intrinsics: str = ""
    extrinsics: str = ""


@dataclass(frozen=True)
class FieldMap:
    """The arrays and cameras of samples."""

    fields: tuple[LaneField, ...]
    cameras: tuple[CameraField, ...] = ()

    @property
    def sides(self) -> list[str]:
        """The arms with measured poses: SIDE of robot__actual__poses__SIDE__xyz."""
        return [
            field.key.removeprefix(_ACTUAL_POSES).removesuffix("__xyz")
            for field in self.fields
            if field.key.startswith(_ACTUAL_POSES) and field.key.endswith("__xyz")
        ]

    def choose_cameras(self, names: Sequence[str] | None, renamed: Mapping[str, str]) -> FieldMap:
        """Return the map with these cameras only (None: all), renamed; raises DatasetError for unknown ones."""
        cameras = {camera.name: camera for camera in self.cameras}
        unknown = [name for name in names or () if name not in cameras]
        if unknown:
            raise DatasetError(f"camera_names: expected some of {', '.join(cameras) or 'none'}, found {unknown[0]!r}")
        chosen = [cameras[name] for name in (cameras if names is None else names)]
        return replace(self, cameras=tuple(replace(one, name=renamed.get(one.name, one.name)) for one in chosen))


_ACTUAL_POSES: Final = "robot__actual__poses__"
_POSES: Final = (("action", "action/action"), ("actual", "signal/actual_poses"))
_JOINTS: Final = (("actual", "signal/joints"), ("desired", "action/action_joints"))
_ARMS: Final = ("left::yam", "right::yam")


def _raiden_fields() -> tuple[LaneField, ...]:
    fields = []
    for kind, lane in _POSES:
        for number, arm in enumerate(_ARMS):
            first = 13 * number
            pose = f"robot__{kind}__poses__{arm}"
            fields += [
                LaneField(f"{pose}__xyz", lane, first, first + 3, optional=True),
                LaneField(f"{pose}__rot_6d", lane, first + 3, first + 9, optional=True),
                LaneField(f"robot__{kind}__grippers__{arm}_hand", lane, first + 12, first + 13, optional=True),
            ]
    for kind, lane in _JOINTS:
        for number, arm in enumerate(_ARMS):
            key = f"robot__{kind}__joint_position__{arm}"
            fields.append(LaneField(key, lane, 7 * number, 7 * number + 7, optional=True))
    return tuple(fields)


def find_fields(info: EpisodeInfo) -> FieldMap:
    """Return the default field map of an episode: that of the original for Raiden's lanes, else a field per lane."""
    raiden = [block.removeprefix(_POSE_PREFIX) for block in info.lanes if block.startswith(_POSE_PREFIX)]
    if raiden:
        return FieldMap(_raiden_fields(), tuple(_raiden_camera(name) for name in raiden))
    fields, cameras = [], []
    for block, lane in info.lanes.items():
        if not block.startswith(("signal/", "action/")):
            continue
        if _is_image(lane):
            cameras.append(CameraField(_UNSAFE.sub("_", lane.id), images=block))
        elif not lane.encoding and not _is_depth(lane) and 0 < math.prod(lane.shape) <= _MAX_NUMBERS:
            fields.append(LaneField(_key_of(block, info.lanes), block))
    return _check_names(FieldMap(tuple(fields), tuple(cameras)))


def parse_fields(texts: Iterable[str], info: EpisodeInfo) -> FieldMap:
    """Return the field map of KEY=LANE and KEY=LANE[START:STOP].

    A lane of images becomes camera KEY, one of uint16 maps the depth of camera KEY; keys intrinsics.CAMERA and
    extrinsics.CAMERA are lanes of that camera. Everything else becomes an array. Raises DatasetError.
    """
    fields: list[LaneField] = []
    cameras: dict[str, dict[str, str]] = {}
    for text in texts:
        match = _FIELD.fullmatch(text)
        if match is None:
            raise DatasetError(f"field: expected KEY=LANE or KEY=LANE[START:STOP], found {text!r}")
        key, name = match[1], match[2]
        block = next((lane for lane in (name, f"signal/{name}", f"action/{name}") if lane in info.lanes), "")
        if not block:
            raise DatasetError(f"field {key}: expected a lane of {info.id}: {', '.join(info.lanes)}; found {name!r}")
        kind, _, camera = key.partition(".")
        if _is_image(info.lanes[block]) or _is_depth(info.lanes[block]):
            which = "images" if _is_image(info.lanes[block]) else "depth"
            cameras.setdefault(_UNSAFE.sub("_", key), {})[which] = block
        elif kind in (_INTRINSICS, _EXTRINSICS) and camera:
            cameras.setdefault(_UNSAFE.sub("_", camera), {})[kind] = block
        else:
            fields.append(LaneField(key, block, int(match[3] or 0), int(match[4]) if match[4] else None))
    return _check_names(FieldMap(tuple(fields), tuple(CameraField(name, **lanes) for name, lanes in cameras.items())))


def _raiden_camera(name: str) -> CameraField:
    return CameraField(name, *(f"signal/{kind}/{name}" for kind in ("rgb", "depth", _INTRINSICS, _EXTRINSICS)))


def _key_of(block: str, lanes: Iterable[str]) -> str:
    prefix, _, name = block.partition("/")
    is_only_action = sum(lane.startswith("action/") for lane in lanes) == 1
    key = name if prefix == "signal" else "action" if is_only_action else f"action__{name}"
    return key.replace("/", "__")


def _is_image(lane: Declaration) -> bool:
    return len(lane.shape) == 3 and lane.dtype is DType.UINT8 and lane.shape[2] in (1, 3, 4)


def _is_depth(lane: Declaration) -> bool:
    is_map = len(lane.shape) == 2 or (len(lane.shape) == 3 and lane.shape[2] == 1)
    return is_map and lane.dtype is DType.UINT16


def _check_names(field_map: FieldMap) -> FieldMap:
    keys = [field.key for field in field_map.fields] + [camera.name for camera in field_map.cameras]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise DatasetError(f"field {repeated}: expected different names, found it for two lanes")
    reserved = next((key for key in keys if key in _MASKS), None)
    if reserved is not None:
        raise DatasetError(
            f"field {reserved}: expected another name than {' and '.join(_MASKS)}, which every sample has"
        )
    return field_map
