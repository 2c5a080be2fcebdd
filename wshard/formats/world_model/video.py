"""World-model data sets in a folder: an .npz a column, and an MP4 for the frames of every episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wshard.formats.world_model.folder_rows import LENGTHS, OFFSETS, SUFFIX, VIDEO_SUFFIX, FolderRowsSource
from wshard.media.video_frames import VideoFrames

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.formats.world_model.columns import RowSpan


class VideoFolderSource(FolderRowsSource):
    """Frames are `COLUMN/ep_E.mp4`."""

    is_video = True

    @classmethod
    def matches(cls, location: str | os.PathLike[str]) -> bool:
        """Say whether a path is a folder with ep_len.npz, and videos one folder below."""
        return cls._fits(location)

    def _files(self, found: RowSpan) -> Sequence[str]:
        tables = [f"{name}{SUFFIX}" for name in (LENGTHS, OFFSETS, *self._tables())]
        videos = [f"{name}/ep_{found.number}{VIDEO_SUFFIX}" for name in self._folders()]
        return [str(Path(self._path, name)) for name in [*tables, *videos]]

    def _frames(self, rows: RowSpan, column: str) -> VideoFrames:
        return VideoFrames(Path(self._path, column, f"ep_{rows.number}{VIDEO_SUFFIX}"), count=rows.length)

    def _identify(self, found: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        frames = self._encoded(found, info, block)
        return str(frames.nbytes).encode()
