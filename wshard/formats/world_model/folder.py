"""World-model data sets in a folder: an .npz a column, and a JPEG for every frame."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from wshard.formats.world_model.folder_rows import IMAGE_SUFFIXES, LENGTHS, OFFSETS, SUFFIX, FolderRowsSource
from wshard.media.frames import ImageFrames
from wshard.media.image_files import ImageFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.formats.world_model.columns import RowSpan


class ImageFolderSource(FolderRowsSource):
    """Frames are `COLUMN/ep_E_step_T.jpeg`."""

    is_video = False

    @classmethod
    def matches(cls, location: str | os.PathLike[str]) -> bool:
        """Say whether a path is a folder with ep_len.npz, and no videos one folder below."""
        return cls._fits(location)

    def _files(self, found: RowSpan) -> Sequence[str]:
        tables = [Path(self._path, f"{name}{SUFFIX}") for name in (LENGTHS, OFFSETS, *self._tables())]
        ends = sorted({0, found.length - 1}) if found.length else []
        frames = [FolderImages(self._path, name, found).path_of(step) for name in self._folders() for step in ends]
        return list(map(str, [*tables, *frames]))

    def _frames(self, rows: RowSpan, column: str) -> ImageFrames:
        where = f"{self.where_of(str(rows.number))}: {column}"
        return ImageFrames("jpeg", FolderImages(self._path, column, rows), where=where)

    def _identify(self, found: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        frames = self._encoded(found, info, block)
        some = sorted({0, found.length // 2, found.length - 1})
        return b"".join(bytes(frames.images[step]) for step in some) if isinstance(frames, ImageFrames) else b""


class FolderImages(ImageFiles):
    """The files of the frames of an episode."""

    content = "frame of step"

    def __init__(self, folder: str, column: str, rows: RowSpan) -> None:
        super().__init__(rows.length)
        self._begin = os.path.join(folder, column, f"ep_{rows.number}_step_")  # noqa: PTH118  (a million times)

    def path_of(self, step: int) -> str:
        """Return the path of a frame, with the suffix that it has."""
        paths = [f"{self._begin}{step}{suffix}" for suffix in IMAGE_SUFFIXES]
        return next((path for path in paths if os.path.exists(path)), paths[0])  # noqa: PTH110  (as above)
