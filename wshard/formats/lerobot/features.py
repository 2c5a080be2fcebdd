"""Which lane a feature becomes, and how the lane is declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import DONE, REWARD, STEP_TEXTS, TRUNCATIONS
from wshard.core.episode.meta_reader import Declaration
from wshard.core.types import Modality
from wshard.errors import FormatError

if TYPE_CHECKING:
    from wshard.formats.lerobot.dataset_info import Feature

SUCCESS: Final = "next.success"
TEXT: Final = "string"
IMAGE: Final = "image"
VIDEO: Final = "video"
LANGUAGE: Final = "language"

STEP_LANES: Final = {"next.reward": REWARD, "next.done": DONE, "next.truncated": TRUNCATIONS}
"""Features of one number per timestep that an Episode has members for."""

_CAMERA_AXES: Final = 3
_OWN_METADATA: Final = frozenset({"task", "success"})


def block_of(feature: Feature) -> str:
    """Return the block name of the lane that a feature becomes."""
    if feature.dtype == TEXT:
        name = feature.lane.removeprefix(STEP_TEXTS).removeprefix("signal/") or feature.name
        return f"{STEP_TEXTS}{'feature.' if name in _OWN_METADATA else ''}{name}"
    if feature.lane:
        return feature.lane
    if feature.name in STEP_LANES and feature.shape in {(), (1,)}:
        return STEP_LANES[feature.name]
    return f"action/{feature.name}" if feature.name.startswith("action") else f"signal/{feature.name}"


def declare_numbers(feature: Feature, dtype: DType) -> Declaration:
    """Return the lane of a feature of numbers that are stored as `dtype`."""
    block = block_of(feature)
    if block in {DONE, TRUNCATIONS}:
        return Declaration(block, DType.BOOL)
    if block == REWARD:
        return Declaration(block, dtype)
    shape = feature.shape if feature.lane_shape is None else feature.lane_shape
    names = axis_names(feature)
    if shape == (len(names),):
        return Declaration(block, dtype, shape, names=tuple(names))
    return Declaration(block, dtype, shape, semantics=", ".join(names))  # such as "motors", the name of the axis


def declare_frames(feature: Feature) -> Declaration:
    """Return the lane of a camera: decoded frames are [H, W, C], however the shape is given."""
    height, width, channels = camera_shape(feature)
    facts = feature.facts or {}
    is_depth = facts.get("video.is_depth_map") is True or facts.get("is_depth_map") is True
    return Declaration(
        block_of(feature),
        DType.UINT16 if is_depth else DType.UINT8,
        (height, width, 1 if is_depth else channels),
        Modality.DEPTH if is_depth else Modality.RGB,
        encoding="mp4" if feature.dtype == VIDEO else "png",
    )


def camera_shape(feature: Feature) -> tuple[int, int, int]:
    """Return height, width and channels; names tell their order, else the smaller end is that of channels.

    Raises FormatError for a feature that has not three axes.
    """
    if len(feature.shape) != _CAMERA_AXES:
        raise FormatError(f"feature {feature.name!r}: expected the shape of a frame, found {list(feature.shape)}")
    first, middle, last = feature.shape
    names = axis_names(feature)
    channels_first = names[0].startswith("channel") if names else first < last
    return (middle, last, first) if channels_first else (first, middle, last)


def axis_names(feature: Feature) -> list[str]:
    """Return the names of a feature's axes or of its elements as a flat list: of any nesting, [] without names."""
    names: list[str] = []
    stack: list[Any] = [feature.names]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            names.append(value)
        elif isinstance(value, list):
            stack += reversed(value)
        elif isinstance(value, dict):  # {"motors": [...]}, or the place of each name
            items = sorted(value.items(), key=_place)
            stack += reversed([name if isinstance(place, int) else place for name, place in items])
    return names


def _place(item: tuple[str, Any]) -> int:
    return item[1] if isinstance(item[1], int) else 0
