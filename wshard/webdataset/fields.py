"""Which lanes become which arrays and images of a sample."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from wshard.array_fields import DType
from wshard.errors import DatasetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.episode.meta_reader import Declaration

_MAX_NUMBERS: Final = 1024  # of a lane that becomes an array by default
_FIELD: Final = re.compile(r"([^=]+)=([^\[\]]+?)(?:\[(\d*):(\d*)\])?")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MASKS: Final = ("past_mask", "future_mask")
_INTRINSICS: Final = "intrinsics"
_EXTRINSICS: Final = "extrinsics"
_POSE_OF: Final = "signal/extrinsics/"


@dataclass(frozen=True)
class LaneField:
    """An array of a sample: numbers [start, stop) of each timestep of a lane. optional: not in lanes with fewer."""

    key: str
    lane: str
    start: int = 0
    stop: int | None = None
    optional: bool = False

    def numbers_in(self, lanes: Mapping[str, Declaration]) -> tuple[int, int] | None:
        """Return the first number and the one behind the last in a lane, None where it does not have them."""
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
        """The arms whose measured poses are there: SIDE of robot__actual__poses__SIDE__xyz."""
        return [
            field.key.removeprefix(_ACTUAL).removesuffix("__xyz")
            for field in self.fields
            if field.key.startswith(_ACTUAL) and field.key.endswith("__xyz")
        ]

    def choose_cameras(self, names: Sequence[str] | None, renamed: Mapping[str, str]) -> FieldMap:
        """Return the map with these cameras only, under their new names; raises DatasetError for unknown ones."""
        known = {camera.name: camera for camera in self.cameras}
        unknown = [name for name in names or () if name not in known]
        if unknown:
            raise DatasetError(f"camera_names: expected some of {', '.join(known) or 'none'}, found {unknown[0]!r}")
        chosen = [known[name] for name in (known if names is None else names)]
        return replace(self, cameras=tuple(replace(one, name=renamed.get(one.name, one.name)) for one in chosen))


_ACTUAL: Final = "robot__actual__poses__"
_POSES: Final = (("action", "action/action"), ("actual", "signal/actual_poses"))
_JOINTS: Final = (("actual", "signal/joints"), ("desired", "action/action_joints"))
_ARMS: Final = ("left::yam", "right::yam")


def _raiden_fields() -> tuple[LaneField, ...]:
    found = []
    for kind, lane in _POSES:
        for number, arm in enumerate(_ARMS):
            first = 13 * number
            pose = f"robot__{kind}__poses__{arm}"
            found += [
                LaneField(f"{pose}__xyz", lane, first, first + 3, optional=True),
                LaneField(f"{pose}__rot_6d", lane, first + 3, first + 9, optional=True),
                LaneField(f"robot__{kind}__grippers__{arm}_hand", lane, first + 12, first + 13, optional=True),
            ]
    for kind, lane in _JOINTS:
        for number, arm in enumerate(_ARMS):
            key = f"robot__{kind}__joint_position__{arm}"
            found.append(LaneField(key, lane, 7 * number, 7 * number + 7, optional=True))
    return tuple(found)


def find_fields(info: EpisodeInfo) -> FieldMap:
    """Return the field map of an episode: that of the original for lanes as Raiden has them, else a field a lane."""
    cameras = [block.removeprefix(_POSE_OF) for block in info.lanes if block.startswith(_POSE_OF)]
    if cameras:
        return FieldMap(_raiden_fields(), tuple(_raiden_camera(name) for name in cameras))
    fields, found = [], []
    for block, lane in info.lanes.items():
        if not block.startswith(("signal/", "action/")):
            continue
        if _is_image(lane):
            found.append(CameraField(_UNSAFE.sub("_", lane.id), images=block))
        elif not lane.encoding and not _is_depth(lane) and 0 < math.prod(lane.shape) <= _MAX_NUMBERS:
            fields.append(LaneField(_key_of(block, info.lanes), block))
    return _check(FieldMap(tuple(fields), tuple(found)))


def parse_fields(texts: Iterable[str], info: EpisodeInfo) -> FieldMap:
    """Return the field map of KEY=LANE and KEY=LANE[START:STOP]; what a KEY is follows from its name and the lane.

    A lane of images is a camera KEY, one of uint16 maps the depth of camera KEY; intrinsics.KEY and extrinsics.KEY are
    those of a camera. Everything else is an array. Raises DatasetError.
    """
    fields: list[LaneField] = []
    cameras: dict[str, dict[str, str]] = {}
    for text in texts:
        found = _FIELD.fullmatch(text)
        if found is None:
            raise DatasetError(f"field: expected KEY=LANE or KEY=LANE[START:STOP], found {text!r}")
        key, name = found[1], found[2]
        block = next((one for one in (name, f"signal/{name}", f"action/{name}") if one in info.lanes), "")
        if not block:
            raise DatasetError(f"field {key}: expected a lane of {info.id}: {', '.join(info.lanes)}; found {name!r}")
        kind, _, camera = key.partition(".")
        if _is_image(info.lanes[block]) or _is_depth(info.lanes[block]):
            which = "images" if _is_image(info.lanes[block]) else "depth"
            cameras.setdefault(_UNSAFE.sub("_", key), {})[which] = block
        elif kind in (_INTRINSICS, _EXTRINSICS) and camera:
            cameras.setdefault(_UNSAFE.sub("_", camera), {})[kind] = block
        else:
            fields.append(LaneField(key, block, int(found[3] or 0), int(found[4]) if found[4] else None))
    return _check(FieldMap(tuple(fields), tuple(CameraField(name, **lanes) for name, lanes in cameras.items())))


def _raiden_camera(name: str) -> CameraField:
    return CameraField(name, *(f"signal/{kind}/{name}" for kind in ("rgb", "depth", _INTRINSICS, _EXTRINSICS)))


def _key_of(block: str, lanes: Iterable[str]) -> str:
    prefix, _, name = block.partition("/")
    alone = sum(one.startswith("action/") for one in lanes) == 1
    named = name if prefix == "signal" else "action" if alone else f"action__{name}"
    return named.replace("/", "__")


def _is_image(lane: Declaration) -> bool:
    return len(lane.shape) == 3 and lane.dtype is DType.UINT8 and lane.shape[2] in (1, 3, 4)


def _is_depth(lane: Declaration) -> bool:
    maps = len(lane.shape) == 2 or (len(lane.shape) == 3 and lane.shape[2] == 1)
    return maps and lane.dtype is DType.UINT16


def _check(found: FieldMap) -> FieldMap:
    keys = [field.key for field in found.fields] + [camera.name for camera in found.cameras]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise DatasetError(f"field {twice}: expected different names, found it for two lanes")
    taken = next((key for key in keys if key in _MASKS), None)
    if taken is not None:
        raise DatasetError(f"field {taken}: expected another name than {' and '.join(_MASKS)}, which every sample has")
    return found
