"""Decoded episodes in temporary files: samples in any order need little memory, and no frame is decoded twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.errors import DatasetError
from wshard.training.webdataset.images import as_depth, as_jpeg, read_frames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.protocol import EpisodeReader
    from wshard.formats.source_base import SourceBase
    from wshard.training.conversion.jobs import ConversionJob
    from wshard.training.webdataset.recipe import ShardRecipe

_MAX_LOADED: Final = 1 << 27  # bytes
_MAX_OPEN: Final = 256
_KINDS: Final = 2  # images, depth
NO_FRAME: Final = -1


@dataclass(frozen=True)
class SpooledEpisode:
    """What is kept in memory of a spooled episode.

    left_out: numbers of windows skipped for padding and for stillness. sizes: (height, width) of the images of each
    camera before resizing.
    """

    name: str
    address: str
    length: int
    texts: tuple[str, ...]
    control: str
    anchors: NDArray[np.int64]
    left_out: tuple[int, int]
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedEpisode:
    """A loaded episode: values [timesteps, numbers], and the offsets of its frames in the file at `path`.

    present: whether a column has a value [timesteps, columns]. columns: bounds of each column in values [columns, 2],
    -1 for missing ones. frames: offset and size of each frame in the file [cameras, kinds, timesteps, 2].
    """

    values: NDArray[np.float32]
    present: NDArray[np.bool_]
    columns: NDArray[np.int64]
    frames: NDArray[np.int64]
    path: Path

    def frame(self, camera: int, kind: int, step: int) -> bytes | None:
        """Return the bytes of an image or a depth map, None where there is none."""
        offset, size = self.frames[camera, kind, step].tolist()
        if offset == NO_FRAME:
            return None
        with self.path.open("rb", buffering=0) as file:
            file.seek(offset)
            return file.read(size)

    def rows(self, column: int, steps: Any) -> NDArray[np.float32] | None:
        """Return the rows of a column at timesteps, None where one of them has no value."""
        first, stop = self.columns[column].tolist()
        if first < 0 or not self.present[steps, column].all():
            return None
        return self.values[steps, first:stop]


def spool_episode(source: SourceBase, job: ConversionJob, recipe: ShardRecipe, base: Path) -> SpooledEpisode:
    """Write the values and encoded frames that samples of an episode need to BASE.npz and BASE.frames."""
    info = source.info(job.span.address.key)
    span = job.span.start, info.length if job.span.stop is None else min(job.span.stop, info.length)
    if not 0 <= span[0] < span[1]:
        raise DatasetError(f"{job.span.address}: expected a span of at least one timestep, found {list(span)}")
    length = span[1] - span[0]
    with source.open(job.span.address.key) as reader:
        values, present, columns = _gather_rows(source, job, reader, recipe, span)
        anchors, padded, still = recipe.choose_anchors(length, values, columns)
        steps = np.unique(np.clip(anchors[:, None] + np.array(recipe.options.image_indices), 0, length - 1))
        frames = np.full((len(recipe.fields.cameras), _KINDS, length, 2), NO_FRAME, np.int64)
        with base.with_suffix(".frames").open("wb") as file:
            _write_frames(reader, recipe, span[0], steps, (frames, file))
    np.savez(base.with_suffix(".npz"), values=values, present=present, columns=columns, frames=frames)
    return SpooledEpisode(
        job.name_of(info.id),
        str(job.span.address),
        length,
        _texts_of(info),
        str(info.metadata.get("control", "leader")),
        anchors,
        (padded, still),
        {camera.name: _size_of(info, camera.images) for camera in recipe.fields.cameras},
    )


def _gather_rows(
    source: SourceBase, job: ConversionJob, reader: EpisodeReader, recipe: ShardRecipe, span: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.bool_], NDArray[np.int64]]:
    lanes, key = reader.lanes(), job.span.address.key
    length = span[1] - span[0]
    parts, present = [], np.zeros((length, len(recipe.columns)), np.bool_)
    columns = np.full((len(recipe.columns), 2), -1, np.int64)
    rows_by_lane: dict[str, tuple[Any, Any]] = {}
    width = 0
    for number, column in enumerate(recipe.columns):
        bounds = column.numbers_in(lanes) if reader.has(column.lane) else None
        if bounds is None:
            continue
        if column.lane not in rows_by_lane:
            rows = np.asarray(reader.lane_view(column.lane)[span[0] : span[1]], np.float32).reshape(length, -1)
            found = source.find_missing(key, column.lane)
            missing = np.zeros(length, np.bool_) if found is None else found[span[0] : span[1]]
            rows_by_lane[column.lane] = np.where(missing[:, None], np.float32(0), rows), ~missing
        rows, has_value = rows_by_lane[column.lane]
        parts.append(rows[:, slice(*bounds)])
        present[:, number], columns[number] = has_value, (width, width + bounds[1] - bounds[0])
        width = int(columns[number, 1])
    values = np.concatenate(parts, axis=1) if parts else np.zeros((length, 0), np.float32)
    return values, present, columns


def _write_frames(
    reader: EpisodeReader, recipe: ShardRecipe, first: int, steps: NDArray[np.int64], target: tuple[Any, Any]
) -> None:
    frames, file = target
    encoders: tuple[Callable[..., bytes], ...] = (as_jpeg, as_depth)
    for number, camera in enumerate(recipe.fields.cameras):
        for kind, block in enumerate((camera.images, camera.depth if recipe.options.use_depth else "")):
            if not block or not reader.has(block):
                continue
            for step, frame in read_frames(reader, block, (steps + first).tolist()):
                if frame is not None:
                    data = encoders[kind](frame, recipe.options, f"{reader.where}: {block}: timestep {step}")
                    frames[number, kind, step - first] = file.tell(), len(data)
                    file.write(data)


def _texts_of(info: EpisodeInfo) -> tuple[str, ...]:
    task = info.metadata.get("task")
    if isinstance(task, str):
        return (task,) if task else ()
    return tuple(text for text in task if isinstance(text, str)) if isinstance(task, list) else ()


def _size_of(info: EpisodeInfo, block: str) -> tuple[int, int]:
    shape = info.lanes[block].shape if block in info.lanes else (0, 0)
    return shape[0], shape[1]


class Spool:
    """A folder of spooled episodes by number, with a cache of bounded size; safe for use by several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._loaded: OrderedDict[int, LoadedEpisode] = OrderedDict()
        self._size = 0

    def base_of(self, number: int) -> Path:
        """Return the path of an episode's files, without their suffixes."""
        return self.folder / f"{number:08d}"

    def load(self, number: int) -> LoadedEpisode:
        """Return an episode, from the cache if possible."""
        with self._lock:
            if number not in self._loaded:
                self._loaded[number] = self._read(number)
                self._size += self._loaded[number].values.nbytes
                while len(self._loaded) > 1 and (self._size > _MAX_LOADED or len(self._loaded) > _MAX_OPEN):
                    self._size -= self._loaded.popitem(last=False)[1].values.nbytes
            self._loaded.move_to_end(number)
            return self._loaded[number]

    def _read(self, number: int) -> LoadedEpisode:
        base = self.base_of(number)
        with np.load(base.with_suffix(".npz")) as arrays:
            loaded = {name: arrays[name] for name in ("values", "present", "columns", "frames")}
        return LoadedEpisode(**loaded, path=base.with_suffix(".frames"))
