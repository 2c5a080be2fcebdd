"""Files that belong to the file of an episode: videos, images, a JSON file; by paths that a description states."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.meta_reader import Declaration
from wshard.core.episode.natural_order import sort_naturally
from wshard.core.files.listed import place_of_data
from wshard.core.files.local import LocalPlace
from wshard.core.media.image_files import ImageFiles
from wshard.core.media.video_frames import VideoFrames
from wshard.errors import FormatError
from wshard.formats.hdf5.lane_table import DatasetColumn
from wshard.formats.layouts.columns import BYTES, RowView
from wshard.formats.layouts.layout import ACTION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wshard.core.files.place import FileStatus, Place
    from wshard.core.types import Array
    from wshard.formats.hdf5.lane_table import LaneTable
    from wshard.formats.layouts.columns import RowArray

VIDEO: Final = ".mp4"
_FIELD: Final = re.compile(r"\{@?([^{}]+)\}")
_WILDCARDS: Final = re.compile(r"[*?\[]")
_UP: Final = "../"
_MAX_JSON: Final = 1 << 28


class Camera(NamedTuple):
    """The files of a camera: one video, or an image a timestep.

    lane: "observation/front". absent: the path of a video that is missing. field: that of the path without a value.
    """

    lane: str
    files: tuple[Place, ...] = ()
    absent: Place | None = None
    field: str = ""

    @property
    def is_video(self) -> bool:
        """Whether the frames are in a video."""
        return self.files[0].suffix.lower() == VIDEO

    @property
    def reason(self) -> str:
        """Why there are no files."""
        return f"no {self.field!r} is stated" if self.field else f"{self.absent}: no such file"


@dataclass(frozen=True)
class CameraColumn(DatasetColumn):
    """The frames of a lane that are in files of their own."""

    files: tuple[Place, ...] = ()

    def rows(self) -> ImageRows:
        """Return the images."""
        return ImageRows(len(self.files), self.files.__getitem__)

    def video(self, lane: Declaration, length: int) -> VideoFrames:
        """Return the frames of the video."""
        height, width, channels = lane.shape
        shape, dtype = (height, width, channels), lane.dtype.numpy_dtype
        return VideoFrames(self.files[0], count=length, frame_shape=shape, frame_dtype=dtype)


class _Images(ImageFiles):
    def __init__(self, length: int, place_of: Callable[[int], Place]) -> None:
        super().__init__(length)
        self.place_of_step = place_of  # type: ignore[assignment,method-assign]

    def place_of_step(self, step: int) -> Place:
        """Return the file of an image."""
        raise NotImplementedError


class ImageRows(RowView):
    """Rows of the bytes of image files; place_of returns the file of a row."""

    def __init__(self, length: int, place_of: Callable[[int], Place]) -> None:
        images = _Images(length, place_of)
        self.place_of = place_of

        def read(start: int, stop: int) -> Array:
            rows = np.empty(stop - start, object)
            rows[:] = [np.frombuffer(images[row], np.uint8) for row in range(start, stop)]
            return rows

        super().__init__((length,), BYTES, read)


def add_cameras(table: LaneTable, file: Place, cameras: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Add the cameras of an episode as lanes; those without files are left out. Raises FormatError, ManifestError."""
    for camera in find_cameras(file, cameras, values, table.where):
        if camera.files:
            _add_camera(table, camera)
        else:
            table.leave_out(camera.lane, camera.reason)


def _add_camera(table: LaneTable, camera: Camera) -> None:
    """Add a camera as a lane; raises FormatError unless there is a frame for each timestep, or one more."""
    role, _, name = camera.lane.partition("/")
    block, path = f"{'action' if role == ACTION else 'signal'}/{name}", str(camera.files[0])
    frames = VideoFrames(camera.files[0]) if camera.is_video else None
    count = len(camera.files) if frames is None else frames.length
    if count not in (table.length, table.length + 1):
        raise FormatError(
            f"{table.where}: {camera.lane}: expected {table.length} frames, one for each timestep, "
            f"found {count}: {path}"
        )
    if block in table.lanes:
        raise FormatError(f"{table.where}: {path}: expected one lane {block!r}, found two")
    if frames is not None:
        dtype = DType.from_numpy(frames.dtype)
        table.lanes[block] = Declaration(block, dtype, frames.shape, encoding=frames.encoding)
        table.sizes[block] = frames.nbytes
        table.columns[block] = CameraColumn(path, "images", files=camera.files)
        return
    table.add(block, path, ImageRows(count, camera.files.__getitem__), rows=table.length)
    if block in table.columns:
        table.columns[block] = CameraColumn(path, "images", files=camera.files)


def why_empty(column: Any) -> str:
    """Return why an array is left out that has no rows, or no image in the first; "" for one that has values."""
    if 0 in column.shape:
        return f"{column.dtype} {list(column.shape)}"
    is_absent = isinstance(column, ImageRows) and not column.place_of(0).is_file()
    return f"{column.place_of(0)}: no such file" if is_absent else ""


def listed_images(texts: RowArray, file: Place, where: str) -> ImageRows:
    """Return the images whose paths, relative to the folder of a file, are the rows of a column; raises FormatError."""
    folder = _folder_of(file)
    if len(texts.shape) != 1 or texts.dtype.kind not in "OSU":
        raise FormatError(f"{where}: expected a path of an image a row, found {texts.dtype} {list(texts.shape)}")

    def place_of(row: int) -> Place:
        name = texts[row]
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        if not text:
            raise FormatError(f"{where}: row {row}: expected the path of an image, found none")
        return place_of_data(folder, text, f"{where}: row {row}")

    return ImageRows(texts.shape[0], place_of)


def path_values(file: Place) -> dict[str, str]:
    """Return the fields of paths that the path of the episode's file states."""
    folder = _absolute(_folder_of(file))
    return {"file": file.stem, "folder": folder.name, "folder2": folder.parent.name}


def fill_path(template: str, values: Mapping[str, Any]) -> tuple[str, str]:
    """Return a path with the values of its fields, and the name of a field without one ("" if all have)."""
    absent: list[str] = []
    has_wildcards = _WILDCARDS.search(_FIELD.sub("", template)) is not None

    def value_of(field: re.Match[str]) -> str:
        value = values.get(field[1])
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            absent.append(field[1])
            return ""
        return _WILDCARDS.sub(r"[\g<0>]", str(value)) if has_wildcards else str(value)

    return _FIELD.sub(value_of, template), "".join(absent[:1])


def find_file(file: Place, template: str, values: Mapping[str, Any], where: str) -> Place | None:
    """Return the file at a path, which may be missing, the first one of a path with wildcards; None without it."""
    if not template:
        return None
    found, absent, _ = _find_files(file, template, values, where)
    return found[0] if found else absent


def find_cameras(file: Place, cameras: Mapping[str, str], values: Mapping[str, Any], where: str) -> list[Camera]:
    """Return the cameras of an episode; raises FormatError, ManifestError.

    A lane with "*" in its name is one for each text that the first "*" of the path stands for.
    """
    return [
        camera
        for lane, template in cameras.items()
        for camera in _cameras_of(lane, template, _find_files(file, template, values, where), where)
    ]


def _cameras_of(lane: str, template: str, found: _Found, where: str) -> list[Camera]:
    files, absent, field = found
    groups: dict[str, list[Place]] = {}
    first = _first_wildcard(template) if "*" in lane else None
    for place in files:
        match = first.search(place.uri) if first else None
        groups.setdefault(lane.replace("*", match[1]) if match else lane, []).append(place)
    if not groups:
        return [] if "*" in lane else [Camera(lane, absent=absent, field=field)]
    for name, places in groups.items():
        if len(places) > 1 and places[0].suffix.lower() == VIDEO:
            raise FormatError(f"{where}: {name}: expected one video {template!r}, found {len(places)}")
    return [Camera(name, tuple(places)) for name, places in groups.items()]


def _first_wildcard(template: str) -> re.Pattern[str]:
    """Return the expression of paths that end as a template does; its group is what the first "*" stands for."""
    while template.startswith(_UP):
        template = template[len(_UP) :]
    before, _, after = _FIELD.sub("?*", template.replace("*", "\0", 1)).partition("\0")
    return re.compile(f"{_expression(before)}([^/]*){_expression(after)}$")


def _expression(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")


class _Found(NamedTuple):
    """Files of a path in natural order; if there are none, the path, or its field that has no value."""

    files: list[Place]
    absent: Place | None = None
    field: str = ""


def _find_files(file: Place, template: str, values: Mapping[str, Any], where: str) -> _Found:
    folder = _folder_of(file)
    while template.startswith(_UP):  # of the description; values of the data never lead out
        folder, template = _absolute(folder).parent, template[len(_UP) :]
    path, field = fill_path(template, values)
    if field:
        return _Found([], field=field)
    place = place_of_data(folder, path, where)
    if not _WILDCARDS.search(_FIELD.sub("", template)):
        return _Found([place]) if place.is_file() else _Found([], place)
    found = {one.relative_to(folder): one for one in folder.glob(path)}
    return _Found([found[name] for name in sort_naturally(found)], place)


def _folder_of(file: Place) -> Place:
    return file if file.is_dir() else file.parent  # a folder of .npy files


def _absolute(folder: Place) -> Place:
    return folder.resolve() if isinstance(folder, LocalPlace) else folder


def read_details(place: Place, row: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object in a JSON file, of a list the one whose members have the values of `row`."""
    document = _read_json(place, place.status())
    if isinstance(document, list):
        wanted = {name: fill_path(text, values)[0] for name, text in row.items()}
        objects = (one for one in document if isinstance(one, dict))
        fitting = (one for one in objects if all(str(one.get(name)) == text for name, text in wanted.items()))
        document = next(fitting, {})
    if not isinstance(document, dict):
        raise FormatError(f"{place}: expected a JSON object, found {type(document).__name__}")
    plain: dict[str, Any] = _without_nan(document)
    return plain


def _without_nan(value: Any) -> Any:
    """Return a JSON value with None for NaN and infinities."""
    if isinstance(value, dict):
        return {name: _without_nan(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_nan(member) for member in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@lru_cache(maxsize=4)
def _read_json(place: Place, _status: FileStatus) -> Any:
    return place.read_json(_MAX_JSON)
