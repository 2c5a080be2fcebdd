"""World-model data sets in a Lance table, with the videos of their episodes in a table beside it."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.media.video_frames import VideoFrames
from wshard.errors import CodecError, FormatError
from wshard.formats.look import look_at
from wshard.formats.world_model.columns import StepColumn
from wshard.formats.world_model.lance import LanceSource, LanceTable
from wshard.formats.world_model.lance_tables import EPISODE, SUFFIX, VIDEOS, is_table, translate_lance_errors, videos_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.files.place import Place
    from wshard.core.files.schemes import Location
    from wshard.core.media.frames import EncodedFrames
    from wshard.core.types import Array
    from wshard.formats.look import LocationLook
    from wshard.formats.world_model.columns import RowSpan

KEY: Final = "video_key"
BYTES: Final = "video_bytes"
_MAX_KEYS: Final = 256


class LanceVideoSource(LanceSource):
    """`NAME.lance` has the numbers, `NAME_videos.lance` an MP4 per episode and camera; also by the folder of both."""

    _video_damage = ""
    """What is wrong with the table of videos, for messages."""

    @staticmethod
    def matches(location: Location | LocationLook) -> bool:
        """Say whether a path is a Lance table with videos beside it, or the folder that has both."""
        look = look_at(location)
        if is_table(look):
            return videos_of(look.place).is_dir()
        return any(name.endswith(f"{VIDEOS}{SUFFIX}") for name in look.names)

    @property
    def _table_place(self) -> Place:
        place = self._place
        if place.suffix.lower() == SUFFIX:
            return place
        found = [table.name for table in place.glob(f"*{VIDEOS}{SUFFIX}")]
        if len(found) != 1:
            raise FormatError(f"{place}: expected one table of videos, found {', '.join(found) or 'none'}")
        return place / f"{found[0].removesuffix(f'{VIDEOS}{SUFFIX}')}{SUFFIX}"

    def _files(self, ref: RowSpan) -> Sequence[Place]:
        return [*super()._files(ref), *(videos_of(self._table_place) / "data").glob("*")]

    @cached_property
    def _places(self) -> dict[tuple[int, str], int]:
        """The row of each video, by episode and camera; of a table with damaged files, those in the others."""
        try:
            with self._translate():
                return self._list_videos(self._videos(), 0)
        except FormatError as error:
            places, count = self._list_readable()
            if len({camera for _, camera in places}) * len(self._episodes) < count:
                raise  # of some camera no video can be found
            self._video_damage = f": {error}"
            return places

    def _list_readable(self) -> tuple[dict[tuple[int, str], int], int]:
        """Return the row of each video in undamaged files, and the number of rows in all."""
        places: dict[tuple[int, str], int] = {}
        row = 0
        with self._translate():
            for fragment in self._videos().get_fragments():
                with suppress(FormatError), self._translate():
                    places |= self._list_videos(fragment, row)
                row += fragment.count_rows()
        return places, row

    def _list_videos(self, table: Any, row: int) -> dict[tuple[int, str], int]:
        found = table.to_table(columns=[EPISODE, KEY])
        keys = zip(found.column(EPISODE).to_pylist(), found.column(KEY).to_pylist(), strict=True)
        return {key: row + number for number, key in enumerate(keys)}

    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        keys = sorted({key for _, key in self._places})
        if len(keys) > _MAX_KEYS:
            raise FormatError(f"{self.where_of('')}: expected at most {_MAX_KEYS} cameras, found {len(keys)}")
        columns = [column for column in super()._columns(rows) if column.encoding != "jpeg"]
        shown = [] if not rows.length else [(key, self._frames(rows, key).shape) for key in keys]
        return [*columns, *(StepColumn(key, np.dtype(np.uint8), shape, "mp4") for key, shape in shown)]

    def _frames(self, rows: RowSpan, key: str) -> VideoFrames:
        where = f"{self.where_of(str(rows.number))}: column {key!r}"
        if (rows.number, key) not in self._places:
            table = videos_of(self._table_place)
            raise FormatError(f"{where}: expected a video of the episode, found none in {table}{self._video_damage}")
        cache, name = self._cache("videos"), f"{rows.number}/{key}"
        if name not in cache:  # whose shape is looked up once, and which stays open by its identity
            source = partial(_open_video, videos_of(self._table_place), self._places[rows.number, key])
            cache[name] = VideoFrames(source, count=rows.length, where=where)
        frames: VideoFrames = cache[name]
        return frames

    def _encoded(self, ref: RowSpan, info: EpisodeInfo, block: str) -> EncodedFrames:
        return self._frames(ref, self._column_of(ref, block).name)

    def _read(self, ref: RowSpan, info: EpisodeInfo, block: str, steps: slice) -> Array:
        if info.lanes[block].encoding == "mp4":
            frames: Array = self._encoded(ref, info, block).decode(steps.start, steps.stop)
            return frames
        return super()._read(ref, info, block, steps)

    def take_rows(self, block: str, keys: Sequence[str], steps: Array) -> Array:
        """Return timesteps of a lane as LanceSource does; frames are decoded from the videos."""
        if self.info(keys[0]).lanes[block].encoding != "mp4":
            return super().take_rows(block, keys, steps)
        found = []
        for key, at in zip(keys, steps, strict=True):
            first = int(at.min())
            found.append(self.lane(key, block, first, int(at.max()) + 1)[at - first])
        return np.stack(found)

    def _identify(self, ref: RowSpan, info: EpisodeInfo, block: str) -> bytes:
        return str(self._encoded(ref, info, block).nbytes).encode()

    def _videos(self) -> Any:
        return self.open_once("videos", lambda: LanceTable(videos_of(self._table_place))).data


def _open_video(table: Place, row: int) -> IO[bytes]:
    """Open a video of a table for seeking and reading."""
    with translate_lance_errors(f"{table}: row {row}"):
        file: Any = LanceTable(table).data.take_blobs(BYTES, indices=[row])[0]
    if not file.size():
        raise CodecError(f"{table}: row {row}: expected a video, found none: its writer failed")
    video: IO[bytes] = file
    return video
