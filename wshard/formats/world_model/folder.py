"""World-model data sets in a folder: one .npz file per column, and frames as JPEG files or one MP4 per episode."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from wshard.core.media.frames import ImageFrames
from wshard.core.media.image_files import ImageFiles
from wshard.core.media.video_frames import VideoFrames
from wshard.errors import FormatError
from wshard.formats.look import LocationLook, look_at
from wshard.formats.npz import map_npz
from wshard.formats.world_model.columns import LENGTHS, OFFSETS, TEXT, StepColumn, block_of, split_rows
from wshard.formats.world_model.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array
    from wshard.formats.world_model.columns import RowSpan

MEMBER: Final = "arr_0"
SUFFIX: Final = ".npz"
IMAGE_SUFFIXES: Final = (".jpeg", ".jpg")
VIDEO_SUFFIX: Final = ".mp4"
_FRAME_SUFFIXES: Final = (IMAGE_SUFFIXES, (VIDEO_SUFFIX,))  # by is_video


class FolderRowsSource(RowsSource):
    """`COLUMN.npz` has the rows of all episodes, a folder has the frames of a column."""

    whole = True
    is_video: ClassVar[bool]

    @classmethod
    def matches(cls, location: Location | LocationLook) -> bool:
        """Say whether a path is a folder with ep_len.npz, and videos one folder below or not, as the format needs."""
        look = look_at(location)
        if f"{LENGTHS}{SUFFIX}" not in look.names:
            return False
        if "videos" not in look.found:
            folders = [name for name in look.names if not name.endswith(SUFFIX)]
            inside = (LocationLook(look.place / name).names for name in folders)
            look.found["videos"] = any(file.endswith(VIDEO_SUFFIX) for names in inside for file in names)
        return bool(look.found["videos"]) is cls.is_video

    def _scan(self) -> Mapping[str, RowSpan]:
        if not self._folders and self._folders_of(*_FRAME_SUFFIXES[not self.is_video]):
            found = "found JPEG frames: it is a `folder`" if self.is_video else "found videos: it is a `video`"
            expected = "videos" if self.is_video else "JPEG frames"
            raise FormatError(f"{self.where_of('')}: expected columns of {expected}, {found}")
        lengths, offsets = (self._array(name) for name in (LENGTHS, OFFSETS))
        rows = {name: len(self._array(name)) for name in self._tables}
        return split_rows(lengths, offsets, rows, self.where_of(""))

    @cached_property
    def _tables(self) -> dict[str, StepColumn]:
        """The columns in .npz files, by name."""
        columns = {}
        for file in self._place.glob(f"*{SUFFIX}"):
            if file.stem in (LENGTHS, OFFSETS):
                continue
            array = self._array(file.stem)
            if array.ndim == 0:
                raise FormatError(f"{file}: expected rows, found one value")
            is_text = array.dtype.kind == "U" and array.ndim == 1
            columns[file.stem] = StepColumn(file.stem, array.dtype, array.shape[1:], TEXT if is_text else "")
        return columns

    @cached_property
    def _folders(self) -> list[str]:
        """The names of the folders with the frames of a column."""
        return self._folders_of(*_FRAME_SUFFIXES[self.is_video])

    def _folders_of(self, *suffixes: str) -> list[str]:
        """Return the names of the folders that have files of these suffixes."""
        folders = (folder for folder in self._place.folders() if folder.name[0] != ".")
        return [one.name for one in folders if any(entry.name.endswith(suffixes) for entry in one.entries())]

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        return self._remember("columns", str(rows.number), lambda: self._list_columns(rows))

    def _list_columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        columns = list(self._tables.values())
        for name in self._folders if rows.length else []:
            frames = self._frames(rows, name)
            columns.append(StepColumn(name, frames.dtype, frames.shape, frames.encoding))
        return sorted(columns, key=lambda column: column.name)

    def _describe(self, key: str, ref: RowSpan) -> EpisodeInfo:
        return replace(super()._describe(key, ref), id=f"ep_{ref.number}")

    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        return self._array(column)[start:stop].copy()

    def _array(self, column: str) -> Array:
        file = self._place / f"{column}{SUFFIX}"
        return self.open_once(file.uri, lambda: OpenArray(map_npz(file, MEMBER))).array

    def _encoded(self, ref: RowSpan, info: EpisodeInfo, block: str) -> EncodedFrames:
        return self._frames(ref, next(name for name in self._folders if block_of(name) == block))

    def _frames(self, rows: RowSpan, column: str) -> EncodedFrames:
        raise NotImplementedError


class OpenArray:
    """An array whose file is open."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def close(self) -> None:
        """Release the file; arrays in use keep it open."""
        del self.array


class ImageFolderSource(FolderRowsSource):
    """Frames are `COLUMN/ep_E_step_T.jpeg`."""

    is_video = False

    def _files(self, ref: RowSpan) -> Sequence[Place]:
        tables = [self._place / f"{name}{SUFFIX}" for name in (LENGTHS, OFFSETS, *self._tables)]
        ends = sorted({0, ref.length - 1}) if ref.length else []
        images = [FolderImages(self._place / name, ref) for name in self._folders]
        return [*tables, *(image.place_of_step(step) for image in images for step in ends)]

    def _frames(self, rows: RowSpan, column: str) -> ImageFrames:
        where = f"{self.where_of(str(rows.number))}: {column}"
        return ImageFrames("jpeg", FolderImages(self._place / column, rows), where=where)

    def _identify(self, ref: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        frames = self._encoded(ref, info, block)
        some = sorted({0, ref.length // 2, ref.length - 1})
        return b"".join(bytes(frames.images[step]) for step in some) if isinstance(frames, ImageFrames) else b""


class FolderImages(ImageFiles):
    """The files with the frames of an episode."""

    content = "frame of step"

    def __init__(self, folder: Place, rows: RowSpan) -> None:
        super().__init__(rows.length)
        self._folder, self._number = folder, rows.number

    def place_of_step(self, step: int) -> Place:
        """Return the file of a frame, with the suffix that it has."""
        files = [self._folder / f"ep_{self._number}_step_{step}{suffix}" for suffix in IMAGE_SUFFIXES]
        return next((file for file in files if file.exists()), files[0])


class VideoFolderSource(FolderRowsSource):
    """Frames are `COLUMN/ep_E.mp4`."""

    is_video = True

    def _files(self, ref: RowSpan) -> Sequence[Place]:
        tables = [f"{name}{SUFFIX}" for name in (LENGTHS, OFFSETS, *self._tables)]
        videos = [f"{name}/ep_{ref.number}{VIDEO_SUFFIX}" for name in self._folders]
        return [self._place / name for name in [*tables, *videos]]

    def _frames(self, rows: RowSpan, column: str) -> VideoFrames:
        return VideoFrames(self._place / f"{column}/ep_{rows.number}{VIDEO_SUFFIX}", count=rows.length)

    def _identify(self, ref: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        frames = self._encoded(ref, info, block)
        return str(frames.nbytes).encode()
