"""What world-model data sets in folders have in common: an .npz a column, and a folder of frames a column."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from wshard.errors import FormatError
from wshard.formats.look import LocationLook
from wshard.formats.npz import map_npz
from wshard.formats.world_model.columns import TEXT, StepColumn, block_of, split_rows
from wshard.formats.world_model.rows_source import RowsSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.formats.world_model.columns import RowSpan
    from wshard.media.frames import EncodedFrames
    from wshard.types import Array

LENGTHS: Final = "ep_len"
OFFSETS: Final = "ep_offset"
MEMBER: Final = "arr_0"
SUFFIX: Final = ".npz"
IMAGE_SUFFIXES: Final = (".jpeg", ".jpg")
VIDEO_SUFFIX: Final = ".mp4"
_MOST_DESCRIBED: Final = 64


class FolderRowsSource(RowsSource):
    """`COLUMN.npz` has the rows of all episodes, a folder has the frames of a column."""

    whole = True
    is_video: ClassVar[bool]

    @classmethod
    def _fits(cls, location: str | os.PathLike[str]) -> bool:
        look = location if isinstance(location, LocationLook) else LocationLook(location)
        if f"{LENGTHS}{SUFFIX}" not in look.names:
            return False
        if "videos" not in look.found:
            folders = [name for name in look.names if os.path.splitext(name)[1] == ""]  # noqa: PTH122
            inside = (LocationLook(Path(look.path, name)).names for name in folders)
            look.found["videos"] = any(file.endswith(VIDEO_SUFFIX) for names in inside for file in names)
        return bool(look.found["videos"]) is cls.is_video

    def _scan(self) -> Mapping[str, RowSpan]:
        lengths, offsets = (self._array(name) for name in (LENGTHS, OFFSETS))
        return split_rows(lengths, offsets, self.where_of(""))

    def table_names(self) -> list[str]:
        """Return the names of the columns that are in .npz files."""
        return list(self._tables())

    def _tables(self) -> dict[str, StepColumn]:
        """Return the columns that are in .npz files, by name."""
        cache = self._cache("columns")
        if not cache:
            needed = max((rows.stop for rows in self._episodes.values()), default=0)
            for path in sorted(Path(self._path).glob(f"*{SUFFIX}")):
                if path.stem in (LENGTHS, OFFSETS):
                    continue
                array = self._array(path.stem)
                if array.ndim == 0 or len(array) < needed:
                    raise FormatError(f"{path}: expected {needed} rows, found {list(array.shape)}")
                is_text = array.dtype.kind == "U" and array.ndim == 1
                cache[path.stem] = StepColumn(path.stem, array.dtype, array.shape[1:], TEXT if is_text else "")
        return dict(cache)

    def _folders(self) -> list[str]:
        cache = self._cache("folders")
        if not cache:
            with os.scandir(self._path) as entries:
                cache["names"] = sorted(entry.name for entry in entries if entry.is_dir() and entry.name[0] != ".")
        names: list[str] = cache["names"]
        return [name for name in names if self._has_frames(name)]

    def _has_frames(self, folder: str) -> bool:
        """Say whether a folder has the frames of a column, and not something else that people keep."""
        cache = self._cache("frames")
        if folder not in cache:
            suffixes = (VIDEO_SUFFIX,) if self.is_video else IMAGE_SUFFIXES
            with os.scandir(Path(self._path, folder)) as entries:
                cache[folder] = any(entry.name.endswith(suffixes) for entry in entries)
        return bool(cache[folder])

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        cache, key = self._cache("columns of episodes"), str(rows.number)
        if key not in cache:
            columns = list(self._tables().values())
            for name in self._folders() if rows.length else []:
                frames = self._frames(rows, name)
                columns.append(StepColumn(name, frames.dtype, frames.shape, frames.encoding))
            cache[key] = sorted(columns, key=lambda column: column.name)
            if len(cache) > _MOST_DESCRIBED:
                cache.popitem(last=False)
        found: Sequence[StepColumn] = cache[key]
        return found

    def _describe(self, key: str, found: RowSpan) -> EpisodeInfo:
        return replace(super()._describe(key, found), id=f"ep_{found.number}")

    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        return self._array(column)[start:stop].copy()

    def _array(self, column: str) -> Array:
        path = str(Path(self._path, f"{column}{SUFFIX}"))
        return self.open_once(path, lambda: OpenArray(map_npz(path, MEMBER))).array

    def _encoded(self, found: RowSpan, info: EpisodeInfo, block: str) -> EncodedFrames:
        return self._frames(found, next(name for name in self._folders() if block_of(name) == block))

    def _frames(self, rows: RowSpan, column: str) -> EncodedFrames:
        raise NotImplementedError


class OpenArray:
    """An array that is open until nobody needs it."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def close(self) -> None:
        """Let go of the file; arrays of it that are in use keep it."""
        del self.array
