"""Converted Raiden episodes as a Source: the folder of a task, the folder `processed`, or that of an episode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.encoded_lane import image_frames
from wshard.core.episode.info import EpisodeInfo
from wshard.core.episode.lanes import TIMESTAMPS
from wshard.core.episode.meta_reader import Declaration, stated_clock
from wshard.core.media.frames import ImageFrames
from wshard.core.types import Modality
from wshard.errors import EpisodeError, FormatError, MissingFileError
from wshard.formats.hdf5.values import read_object
from wshard.formats.lazy_source import LazySource
from wshard.formats.look import look_at
from wshard.formats.npz import parse_npy
from wshard.formats.raiden.frame_files import (
    DEPTH,
    ENCODINGS,
    LOWDIM,
    METADATA,
    RGB,
    CameraImages,
    list_cameras,
    list_pickles,
    read_depth,
)
from wshard.formats.raiden.frame_pickle import PickledStep, read_frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook

_MAX_STEPS: Final = 4096  # in the cache
_MAX_METADATA: Final = 1 << 22
_METADATA: Final = ("control", "labels", "cameras", "info")
_MAX_FOLDERS_TRIED: Final = 64
_MAX_HEADER: Final = 1 << 16
_TIMESTAMPS_FILE: Final = "timestamps.npy"


class RaidenSource(LazySource["Place"]):
    """Keys are the names of episode folders, below `processed` with the task: "0000", "pick_cube/0000"."""

    whole = True
    own_lanes = True
    meaning: ClassVar = (
        ("joints, actual_poses", "signal/joints, signal/actual_poses: measured, left arm first"),
        ("action, action_joints", "action/action (poses), action/action_joints: commanded"),
        ("intrinsics, extrinsics", "signal/intrinsics/CAMERA [3, 3], signal/extrinsics/CAMERA [4, 4]"),
        ("every other array of the pickles", "signal/NAME"),
        ("a value that some timesteps lack", "NaN there"),
        ("rgb/CAMERA", "signal/rgb/CAMERA: the image of each timestep, decoded on access"),
        ("depth/CAMERA", "signal/depth/CAMERA [H, W], uint16 in millimetres, 0 where there is none"),
        ("language", "metadata task: the prompt, or else the name of the task; task_name"),
        ("metadata.json: control, labels, cameras, info", "metadata"),
        ("timestamps.npy of the first camera", "time/timestamps_ns; those of others are left out"),
        ("action alignment", "the command at the time of the observation"),
        ("clock", "framerate"),
    )

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Return True for a folder of episodes, of tasks with episodes, or an episode."""
        look = look_at(location)
        if not look.is_folder:
            return False
        if _is_episode(look.place):
            return (look.place / RGB).is_dir()
        folders = sorted(name for name in look.names if not name.startswith(".") and "." not in name)
        return any(_has_episodes(look.place / name) for name in folders[:_MAX_FOLDERS_TRIED])

    def _scan(self) -> Mapping[str, Place]:
        root = self._place
        if _is_episode(root):
            return {"": root}
        episodes: dict[str, Place] = {}
        for folder in _folders(root):
            if _is_episode(folder):
                episodes[folder.name] = folder
                continue
            episodes |= {f"{folder.name}/{one.name}": one for one in _folders(folder) if _is_episode(one)}
        return episodes

    def _files(self, ref: Place) -> list[Place]:
        return [ref / METADATA, *(folder for folder in (ref / LOWDIM, ref / RGB) if folder.is_dir())]

    # ---- description -------------------------------------------------------------------------------------------------

    def _describe(self, key: str, ref: Place) -> EpisodeInfo:
        metadata, names = _read_metadata(ref / METADATA), list_pickles(ref)
        if not names:
            raise FormatError(f"{ref / LOWDIM}: expected a pickle for each timestep, found none")
        first, last = self._step(ref, names[0]), self._step(ref, names[-1])
        lanes = {block: _declare(block, array, ref) for block, array in (last.lanes | first.lanes).items()}
        for camera in list_cameras(ref):
            lanes |= self._camera_lanes(ref, camera, len(names))
        if any((ref / RGB / camera / _TIMESTAMPS_FILE).exists() for camera in list_cameras(ref)):
            lanes[TIMESTAMPS] = Declaration(TIMESTAMPS, DType.INT64)
        return EpisodeInfo(
            key or ref.name,
            len(names),
            lanes,
            timebase=stated_clock(metadata.get("framerate")),
            metadata=_describe_task(metadata, first.texts, ref),
        )

    def _camera_lanes(self, ref: Place, camera: str, length: int) -> dict[str, Declaration]:
        lanes: dict[str, Declaration] = {}
        images = CameraImages(ref, camera, length)
        if images.suffix and images.first is not None:
            frames = ImageFrames(ENCODINGS[images.suffix], [images[images.first]], where=str(images.folder))
            block = f"signal/{RGB}/{camera}"
            lanes[block] = Declaration(
                block, DType.from_numpy(frames.dtype), frames.shape, Modality.RGB, encoding=frames.encoding
            )
        if camera in list_cameras(ref, DEPTH):
            block = f"signal/{DEPTH}/{camera}"
            shape = read_depth(ref, camera, 0).shape
            lanes[block] = Declaration(block, DType.UINT16, shape, Modality.DEPTH)
        return lanes

    # ---- data --------------------------------------------------------------------------------------------------------

    def _read(self, ref: Place, info: EpisodeInfo, block: str, steps: slice) -> Array:
        lane = info.lanes[block]
        if lane.encoding:
            decoded: Array = self._encoded(ref, info, block).decode(steps.start, steps.stop)
            return decoded
        if block == TIMESTAMPS:
            return self._stamps(ref, info.length)[steps].copy()
        rows = np.empty((steps.stop - steps.start, *lane.shape), lane.dtype.numpy_dtype)
        for number, value in enumerate(self._values(ref, block, steps)):
            row, step = rows[number], steps.start + number
            if value is None and rows.dtype.kind == "f":
                row[...] = np.nan
            elif value is None or (value.shape, value.dtype) != (lane.shape, rows.dtype):
                found = "none" if value is None else f"{value.dtype} {list(value.shape)}"
                raise FormatError(
                    f"{ref}: timestep {step}: {block}: expected {lane.dtype.value} {list(lane.shape)}, found {found}"
                )
            else:
                row[...] = value
        return rows

    def find_missing(self, key: str, block: str) -> Array:
        """Return a mask [T] of the timesteps at which a lane of the pickles has no value."""
        ref, length = self._find(key), self.info(key).length
        return np.array([value is None for value in self._values(ref, block, slice(0, length))], np.bool_)

    def _values(self, ref: Place, block: str, steps: slice) -> Iterator[Any]:
        camera = block.removeprefix(f"signal/{DEPTH}/")
        if camera != block:
            return (read_depth(ref, camera, step) for step in range(steps.start, steps.stop))
        return (self._step(ref, name).lanes.get(block) for name in list_pickles(ref)[steps])

    def _encoded(self, ref: Place, info: EpisodeInfo, block: str) -> ImageFrames:
        camera = block.removeprefix(f"signal/{RGB}/")
        return image_frames(info.lanes[block], CameraImages(ref, camera, info.length), str(ref / RGB / camera))

    def _identify(self, ref: Place, info: EpisodeInfo, block: str) -> bytes:
        images = CameraImages(ref, block.removeprefix(f"signal/{RGB}/"), info.length)
        steps = sorted({0, info.length // 2, info.length - 1})
        return b"".join(bytes(images[step]) for step in steps if images.place_of_step(step).exists())

    def _stamps(self, ref: Place, length: int) -> Array:
        path = next(
            path for path in (ref / RGB / camera / _TIMESTAMPS_FILE for camera in list_cameras(ref)) if path.exists()
        )
        stamps = parse_npy(path.read(0, _MAX_HEADER + 8 * length), str(path))
        if stamps.shape != (length,) or stamps.dtype != np.int64:
            raise FormatError(f"{path}: expected int64 [{length}], found {stamps.dtype} {list(stamps.shape)}")
        return stamps

    def _step(self, ref: Place, name: str) -> PickledStep:
        file = ref / f"{LOWDIM}/{name}"
        return self._remember("steps", file.uri, lambda: PickledStep.of(read_frame(file)), _MAX_STEPS)


def _is_episode(folder: Place) -> bool:
    return (folder / METADATA).is_file() and (folder / LOWDIM).is_dir()


def _has_episodes(folder: Place) -> bool:
    if _is_episode(folder):
        return True
    names = sorted(look_at(folder).names)
    return any(_is_episode(folder / name) for name in names[:_MAX_FOLDERS_TRIED])


def _folders(root: Place) -> list[Place]:
    return [folder for folder in root.folders() if not folder.name.startswith(".")]


def list_tasks(processed: Place) -> dict[str, int]:
    """Return {task: number of episodes} of a folder, the most recently changed task first."""
    tasks = {task: sum(map(_is_episode, _folders(task))) for task in _folders(processed)} if processed.is_dir() else {}
    recent = sorted(tasks, key=lambda task: -task.status().mtime_ns)
    return {task.name: tasks[task] for task in recent if tasks[task]}


def _read_metadata(path: Place) -> dict[str, Any]:
    try:
        return read_object(path, _MAX_METADATA)
    except FileNotFoundError:
        raise MissingFileError.at(path, f"{path}: expected the metadata of an episode, found no file") from None


def _describe_task(file_metadata: Mapping[str, Any], texts: Mapping[str, str], ref: Place) -> dict[str, Any]:
    """Return the metadata of an episode; texts: those of its first timestep."""
    metadata = {name: file_metadata[name] for name in _METADATA if name in file_metadata}
    language = file_metadata.get("language")
    name = texts.get("language_task") or (language.get("task") if isinstance(language, dict) else "")
    name = name if isinstance(name, str) and name else ref.parent.name
    prompt = texts.get("language_prompt")
    return metadata | {"task": prompt if isinstance(prompt, str) and prompt else name, "task_name": name}


def _declare(block: str, array: Array, ref: Place) -> Declaration:
    try:
        return Declaration(block, DType.from_numpy(array.dtype), array.shape)
    except EpisodeError as error:
        raise FormatError(f"{ref}: {block}: {error}") from None
