"""The files of an episode: pickles, and an image and a depth map for each camera, all named by their timestep."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.media.image_files import ImageFiles
from wshard.errors import FormatError, MissingFileError
from wshard.formats.npz import read_npz

if TYPE_CHECKING:
    from wshard.core.files.place import FileStatus, Place
    from wshard.core.types import Array

LOWDIM: Final = "lowdim"
RGB: Final = "rgb"
DEPTH: Final = "depth"
METADATA: Final = "metadata.json"
ENCODINGS: Final = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg"}

_PICKLES: Final = (re.compile(r".{10}\.pkl"), re.compile(r".{9}\.pkl"))


@lru_cache(maxsize=256)
def _list_folder(folder: Place, _status: FileStatus) -> tuple[str, ...]:
    return tuple(sorted(entry.name for entry in folder.entries()))


def list_names(folder: Place) -> tuple[str, ...]:
    """Return the sorted names in a folder; none if there is no folder."""
    try:
        return _list_folder(folder, folder.status())
    except (FileNotFoundError, NotADirectoryError):
        return ()


@lru_cache(maxsize=64)
def _choose_pickles(names: tuple[str, ...]) -> tuple[str, ...]:
    ten_digits, nine_digits = (tuple(name for name in names if pattern.fullmatch(name)) for pattern in _PICKLES)
    return ten_digits or nine_digits


def list_pickles(episode: Place) -> tuple[str, ...]:
    """Return the names of the pickles of an episode, one per timestep: those of ten digits, or else of nine."""
    return _choose_pickles(list_names(episode / LOWDIM))


def list_cameras(episode: Place, kind: str = RGB) -> list[str]:
    """Return the names of the cameras that have a folder with files."""
    return [
        name for name in list_names(episode / kind) if not name.startswith(".") and list_names(episode / kind / name)
    ]


class CameraImages(ImageFiles):
    """The image of a camera at each timestep, as it is stored."""

    def __init__(self, episode: Place, camera: str, length: int) -> None:
        super().__init__(length)
        self.folder = episode / RGB / camera
        names = list_names(self.folder)
        self.suffix = next((suffix for suffix in ENCODINGS if any(name.endswith(suffix) for name in names)), "")

    @property
    def first(self) -> int | None:
        """The first timestep that has an image."""
        names = list_names(self.folder) if self.suffix else ()
        stems = (name.removesuffix(self.suffix) for name in names if name.endswith(self.suffix))
        return next((int(stem) for stem in stems if stem.isdecimal() and int(stem) < self._length), None)

    def place_of_step(self, step: int) -> Place:
        """Return the file of the image of a timestep, whether or not it exists."""
        return self.folder / f"{step:010d}{self.suffix}"


def read_depth(episode: Place, camera: str, step: int) -> Array:
    """Return the depth map [H, W] of a timestep, uint16 in millimetres; raises FormatError, MissingFileError."""
    path = episode / DEPTH / camera / f"{step:010d}.npz"
    try:
        depth = read_npz(path, (DEPTH,)).get(DEPTH)
    except FileNotFoundError:
        raise MissingFileError.at(path, f"{path}: expected the depth of timestep {step}, found no file") from None
    if depth is None or depth.dtype != np.uint16 or depth.ndim != 2:
        found = "none" if depth is None else f"{depth.dtype} {list(depth.shape)}"
        raise FormatError(f"{path}: expected an array 'depth', uint16 [H, W], found {found}")
    return depth
