"""What encoders get to see of a frame: resized, cut and normalised as the settings in their folder say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from wshard.core.plugins import import_library
from wshard.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.encoders.model_folder import ModelFolder

_FILES: Final = ("preprocessor_config.json", "video_preprocessor_config.json")
_SETTINGS: Final = ("image_processor", "video_processor")  # of processor_config.json
_BILINEAR, _BICUBIC, _LARGEST_FILTER = 2, 3, 5  # as Pillow numbers them
_FILTERS: Final[Mapping[str, int]] = {"nearest": 0, "bilinear": _BILINEAR, "bicubic": _BICUBIC, "lanczos": 1}
_LARGEST_SIDE: Final = 4096
_PLANES: Final = 3


class Input(Protocol):
    """Turns frames uint8 [N, H, W, 3] into the arrays that a network takes, by their names."""

    def read(self, frames: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Return the arrays, one row per frame."""


@dataclass(frozen=True)
class Normalisation:
    """A value of a plane becomes (value * factor - mean) / std."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    factor: float = 1 / 255

    def apply(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return float32 [N, H, W, 3]."""
        rows: NDArray[np.float32] = frames.astype(np.float32)
        rows *= self.factor
        rows -= np.array(self.mean, np.float32)
        rows /= np.array(self.std, np.float32)
        return rows


@dataclass(frozen=True)
class PictureInput:
    """Pictures float32 [N, 3, height, width].

    size: (height, width) that frames are resized to, or the length of their shorter side; crop: (height, width) of the
    middle that is taken of that. resample: the number of Pillow's filter. name: that of the array. is_rounded: where
    the middle begins between two pixels, it is the even one, as in torchvision, not the first.
    """

    size: tuple[int, int] | int
    crop: tuple[int, int] | None
    resample: int
    normalisation: Normalisation
    name: str = "pixel_values"
    is_rounded: bool = False

    def read(self, frames: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Return the pictures by their name."""
        height, width = frames.shape[1:3]
        if isinstance(self.size, tuple):
            resized = self.size
        elif height <= width:
            resized = (self.size, int(self.size * width / height))
        else:
            resized = (int(self.size * height / width), self.size)
        small = resize(frames, resized, self.resample)
        if self.crop is not None:
            begin = round if self.is_rounded else math.floor
            top, left = (begin((side - part) / 2) for side, part in zip(resized, self.crop, strict=True))
            small = small[:, top : top + self.crop[0], left : left + self.crop[1]]
        return {self.name: np.ascontiguousarray(self.normalisation.apply(small).transpose(0, 3, 1, 2))}


@dataclass(frozen=True)
class PatchInput:
    """Patches float32 [N, patches, patch * patch * 3] of frames that keep their shape, as SigLIP 2 of type NaFlex."""

    patch: int
    most: int
    resample: int
    normalisation: Normalisation

    def read(self, frames: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
        """Return the patches, the mask of all of them, and how many there are along height and width."""
        rows, columns = self._count(*frames.shape[1:3])
        small = self.normalisation.apply(resize(frames, (rows * self.patch, columns * self.patch), self.resample))
        patches = small.reshape(len(frames), rows, self.patch, columns, self.patch, _PLANES).transpose(0, 1, 3, 2, 4, 5)
        flat = np.ascontiguousarray(patches).reshape(len(frames), rows * columns, -1)
        mask = np.ones(flat.shape[:2], np.int64)
        return {
            "pixel_values": flat,
            "pixel_attention_mask": mask,
            "spatial_shapes": np.tile(np.array([rows, columns], np.int64), (len(frames), 1)),
        }

    def _count(self, height: int, width: int) -> tuple[int, int]:
        """Return the patches along both sides: the most that keep the shape of the frame."""
        least, largest = 0.0, 100.0
        while largest - least >= 1e-5:
            scale = (least + largest) / 2
            rows, columns = self._rounded(scale, height, width)
            least, largest = (scale, largest) if rows * columns <= self.most else (least, scale)
        return self._rounded(least, height, width)

    def _rounded(self, scale: float, height: int, width: int) -> tuple[int, int]:
        rows, columns = (max(1, math.ceil(scale * side / self.patch)) for side in (height, width))
        return rows, columns


def resize(frames: NDArray[np.uint8], size: tuple[int, int], resample: int) -> NDArray[np.uint8]:
    """Return frames [N, H, W, 3] resized to (height, width) by Pillow. Raises MissingExtraError without it."""
    if frames.shape[1:3] == size:
        return frames
    image = import_library("PIL.Image", "encoders")
    pictures = (image.fromarray(np.ascontiguousarray(frame)) for frame in frames)
    return np.stack([np.asarray(one.resize(size[::-1], image.Resampling(resample))) for one in pictures])


def read_input(folder: ModelFolder, name: str = "pixel_values") -> PictureInput:
    """Return the input that the settings of a folder describe. Raises EmbedderError where they do not."""
    settings, where = _read_settings(folder)
    crop = _read_sides(settings.get("crop_size"), where) if settings.get("do_center_crop") else None
    size = _read_size(settings.get("size"), where, is_cut=crop is not None)
    if not settings.get("do_resize", True):
        raise EmbedderError(f"{where}: expected do_resize, frames have any size")
    least = min(size) if isinstance(size, tuple) else size
    if crop is not None and least < max(crop):
        raise EmbedderError(f"{where}: expected a crop_size within size {size}, found {crop}")
    return PictureInput(size, crop, _read_filter(settings, where, _BICUBIC), _read_normalisation(settings, where), name)


def read_patches(folder: ModelFolder) -> PatchInput:
    """Return the input in patches that the settings of a folder describe. Raises EmbedderError."""
    settings, where = _read_settings(folder)
    patch, most = (_read_side(settings.get(name), f"{where}: {name}") for name in ("patch_size", "max_num_patches"))
    return PatchInput(patch, most, _read_filter(settings, where, _BILINEAR), _read_normalisation(settings, where))


def cut_input(settings: Mapping[str, Any], side: int, where: str, *, name: str) -> PictureInput:
    """Return the input of squares that timm and open_clip describe: the middle of frames. Raises EmbedderError."""
    share, filter_name = settings.get("crop_pct", 1.0), settings.get("interpolation", "bicubic")
    if filter_name not in _FILTERS or not isinstance(share, int | float) or not 0 < share <= 1:
        expected = f"interpolation of {', '.join(_FILTERS)} and crop_pct up to 1"
        raise EmbedderError(f"{where}: expected {expected}, found {filter_name!r} and {share!r}")
    mean = _read_planes(settings.get("mean"), f"{where}: mean")
    normalisation = Normalisation(mean, _read_planes(settings.get("std"), f"{where}: std", above=0))
    return PictureInput(
        math.floor(side / share), (side, side), _FILTERS[filter_name], normalisation, name, is_rounded=True
    )


def _read_settings(folder: ModelFolder) -> tuple[dict[str, Any], str]:
    for name in _FILES:
        if settings := folder.read_json(name):
            return settings, str(folder.path / name)
    both = folder.read_json("processor_config.json")
    for part in _SETTINGS:
        if isinstance(found := both.get(part), dict):
            return found, f"{folder.path / 'processor_config.json'}, {part}"
    raise EmbedderError(
        f"{folder.path}: expected preprocessor_config.json, which says how frames are resized, found none"
    )


def _read_size(given: Any, where: str, *, is_cut: bool) -> tuple[int, int] | int:
    if isinstance(given, Mapping) and "shortest_edge" in given and "height" not in given:
        return _read_side(given["shortest_edge"], f"{where}: size")
    if isinstance(given, int) and is_cut:
        return _read_side(given, f"{where}: size")
    return _read_sides(given, f"{where}: size")


def _read_sides(given: Any, where: str) -> tuple[int, int]:
    if isinstance(given, Mapping):
        return _read_side(given.get("height"), where), _read_side(given.get("width"), where)
    return _read_side(given, where), _read_side(given, where)


def _read_side(given: Any, where: str) -> int:
    if type(given) is not int or not 1 <= given <= _LARGEST_SIDE:
        raise EmbedderError(f"{where}: expected a whole number of 1 to {_LARGEST_SIDE}, found {given!r}")
    return given


def _read_filter(settings: Mapping[str, Any], where: str, default: int) -> int:
    found = settings.get("resample", default)
    if type(found) is not int or not 0 <= found <= _LARGEST_FILTER:
        raise EmbedderError(f"{where}: resample: expected the number of a filter, 0 to 5, found {found!r}")
    return found


def _read_normalisation(settings: Mapping[str, Any], where: str) -> Normalisation:
    factor = settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0
    if not isinstance(factor, int | float) or not 0 < factor <= 1:
        raise EmbedderError(f"{where}: rescale_factor: expected a number above 0, up to 1, found {factor!r}")
    if not settings.get("do_normalize", True):
        return Normalisation((0.0,) * _PLANES, (1.0,) * _PLANES, float(factor))
    mean = _read_planes(settings.get("image_mean"), f"{where}: image_mean")
    return Normalisation(mean, _read_planes(settings.get("image_std"), f"{where}: image_std", above=0), float(factor))


def _read_planes(given: Any, where: str, above: float = -math.inf) -> tuple[float, ...]:
    is_list = isinstance(given, Sequence) and len(given) == _PLANES
    if not is_list or not all(isinstance(one, int | float) and above < one < math.inf for one in given):
        raise EmbedderError(f"{where}: expected {_PLANES} numbers, found {given!r}")
    return tuple(float(one) for one in given)
