"""Write world-model data sets as a folder of a Lance table and a table of the videos of its episodes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wshard.core.files.schemes import place_of
from wshard.core.plugins import import_library
from wshard.errors import FormatError
from wshard.formats.world_model.lance_sink import LanceSink
from wshard.formats.world_model.lance_tables import EPISODE, EPISODES, SUFFIX, VIDEOS, side_table, table_files
from wshard.formats.world_model.lance_video import BYTES, KEY, LanceVideoSource
from wshard.formats.world_model.rows_sink import encode_mp4

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.container.draft import Draft, WriteMode
    from wshard.core.files.schemes import PathOrFile
    from wshard.core.types import Channel

_VIDEO_TABLES: Final = f"*{VIDEOS}{SUFFIX}"
_BLOB: Final = {"lance-encoding:blob": "true"}


class LanceVideoSink(LanceSink):
    """The folder `NAME` with `NAME.lance` and `NAME_videos.lance`, which are published together."""

    frame_encoding = "mp4"
    notes_lanes_of = "numbers"

    def __init__(
        self,
        location: PathOrFile,
        *,
        fps: float = 10,
        codec: str = "libx264",
        table_name: str | None = None,
        **options: Any,
    ) -> None:
        self.fps, self.codec, self.table_name = fps, codec, table_name
        super().__init__(location, **options)

    def _has_episodes(self) -> bool:
        import_library("lance", "lance")
        if self._where.lower().endswith(SUFFIX):
            raise FormatError(f"{self._where}: expected a folder of tables, found the name of one: leave out {SUFFIX}")
        return any(Path(self._where).glob(_VIDEO_TABLES))

    def _open_draft(self, mode: WriteMode) -> Draft | None:
        """Return a draft also for tables with rows: unlike a single table, both are replaced together."""
        return super(LanceSink, self)._open_draft(mode)

    def _begin(self, draft: Path, *, continues: bool) -> None:
        stem = self.table_name or Path(self._where).name
        if continues:
            stem = min(draft.glob(_VIDEO_TABLES)).name.removesuffix(f"{VIDEOS}{SUFFIX}")
            self._continue(LanceVideoSource(draft))
        table = draft / f"{stem}{SUFFIX}"
        self._video_table = str(draft / f"{stem}{VIDEOS}{SUFFIX}")
        statements = side_table(place_of(table), EPISODES)
        if self._columns is None:  # tables without rows have no columns that others must have
            for old in (table, self._video_table, statements.local_path()):
                shutil.rmtree(old, ignore_errors=True)
        self._version = self._version_of(str(table))
        self._begin_tables(table, statements)

    def _encode_frames(self, channel: Channel) -> bytes:
        return encode_mp4(channel, self.fps, self.codec)

    def _append(self, columns: Mapping[str, Any], length: int) -> None:
        known = self._columns or {}
        videos = {name: rows for name, rows in columns.items() if known[name].encoding == self.frame_encoding}
        super()._append({name: rows for name, rows in columns.items() if name not in videos}, length)
        self._write_videos(videos)

    def _write_videos(self, videos: Mapping[str, bytes]) -> None:
        """Add rows to the table of videos in the draft."""
        pa = import_library("pyarrow", "lance")
        fields = [pa.field(EPISODE, pa.int32()), pa.field(KEY, pa.string())]
        schema = pa.schema([*fields, pa.field(BYTES, pa.large_binary(), metadata=_BLOB)])
        values = ([self.count] * len(videos), list(videos), list(videos.values()))
        arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
        mode = "append" if Path(self._video_table).exists() else "create"
        import_library("lance", "lance").write_dataset(pa.table(arrays, schema=schema), self._video_table, mode=mode)

    @classmethod
    def owned(cls, location: Path) -> list[str]:
        """Return the files of the tables of a data set below its folder."""
        stems = [table.name.removesuffix(f"{VIDEOS}{SUFFIX}") for table in location.glob(_VIDEO_TABLES)]
        tables = [f"{stem}{side}{SUFFIX}" for stem in stems for side in (VIDEOS, EPISODES, "")]
        return [f"{table}/{name}" for table in tables for name in table_files(place_of(location / table))]

    def _publish(self) -> None:
        if not Path(self._video_table).exists():
            self._write_videos({})
        super()._publish()
