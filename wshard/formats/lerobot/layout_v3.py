"""The files of a data set of codebase v3.0: many episodes per file, and a table that describes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.schemes import place_of
from wshard.errors import UnsupportedFormatError
from wshard.formats.lerobot.dataset_info import DEFAULT_PATHS, read_info, read_json
from wshard.formats.lerobot.open_parquet import import_parquet
from wshard.formats.lerobot.read_meta import TASKS_V3, read_episodes, read_tasks
from wshard.formats.lerobot.stats import Stats, merge_stats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.core.types import Array

STATS_V3: Final = "meta/stats.json"
CHUNK: Final = 1000
DATA_SIZE: Final = 100
VIDEO_SIZE: Final = 200
_META_PATH: Final = "meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_BUFFERED: Final = 16


class LayoutV3:
    """The files of a data set that is being written: new episodes go into new files, each video into its own."""

    copies_spans = True
    keeps_shape = False

    def __init__(self, folder: Path, info: Mapping[str, Any]) -> None:
        """Continue the data set in the folder; info: its info.json, empty for a new data set."""
        self._folder = folder
        self._tasks: dict[str, int] = {}
        self.episodes = self.frames = 0
        self._chunk = int(info.get("chunks_size") or CHUNK)
        self._max_data_size = int(info.get("data_files_size_in_mb") or DATA_SIZE) << 20
        self._next_file: dict[str, int] = {}
        self._stats: dict[str, Stats] = {}
        self._data: Any = None
        self._meta: Any = None
        self._rows: list[dict[str, Any]] = []
        (folder / "meta").mkdir(exist_ok=True)
        if info:
            self._continue()

    def _continue(self) -> None:
        place = place_of(self._folder)
        existing = read_info(place)
        if existing.version != (3, 0):
            raise UnsupportedFormatError(
                f"{self._folder}: expected a data set of v3.0 to add to, "
                f"found v{existing.version[0]}.{existing.version[1]}"
            )
        columns = read_episodes(place, existing)
        self.episodes = int(columns.numbers.max(initial=-1)) + 1
        self.frames = int((columns.starts + columns.lengths).max(initial=0))
        self._tasks = {text: number for number, text in sorted(read_tasks(place, existing).items(), reverse=True)}
        chunks_and_files = {"": (columns.chunks, columns.files)} | {
            k: (v.chunks, v.files) for k, v in columns.videos.items()
        }
        for name, (chunks, files) in chunks_and_files.items():
            self._next_file[name] = int((chunks * self._chunk + files).max(initial=-1)) + 1
        while (self._folder / self._path(_META_PATH, "meta")).exists():
            self._next_file["meta"] = self._next_file.get("meta", 0) + 1
        stats = read_json(place_of(self._folder / STATS_V3)) if (self._folder / STATS_V3).exists() else {}
        self._stats = {
            name: {key: np.asarray(value) for key, value in row.items()} for name, row in stats.items() if row
        }

    def number_tasks(self, texts: Sequence[str]) -> Array:
        """Return the number of each task; new tasks get the next numbers."""
        return np.array([self._tasks.setdefault(text, len(self._tasks)) for text in texts])

    def next_video(self, camera: str) -> Path:
        """Return the path for the video of the next episode."""
        return self._folder / self._path(DEFAULT_PATHS[3][1], camera)

    def last_video(self, camera: str) -> Path:
        """Return the path of the video of the last episode."""
        return self._folder / self._path(DEFAULT_PATHS[3][1], camera, -1)

    def add(
        self, rows: Any, texts: Sequence[str], stats: Mapping[str, Stats], videos: Mapping[str, tuple[float, float]]
    ) -> None:
        """Add an episode whose videos are written."""
        if self._data is None:
            path = self._folder / self._path(DEFAULT_PATHS[3][0], "")
            path.parent.mkdir(parents=True, exist_ok=True)
            writer = import_parquet().ParquetWriter(path, rows.schema, version="2.6", compression="snappy")
            self._data = writer, path
        self._data[0].write_table(rows, row_group_size=max(len(rows), 1))
        self._rows.append(self._describe(len(rows), texts, stats, videos))
        for name, row in stats.items():
            self._stats[name] = merge_stats(self._stats[name], row) if name in self._stats else row
        self.episodes += 1
        self.frames += len(rows)
        for camera in videos:
            self._next_file[camera] = self._next_file.get(camera, 0) + 1
        if self._data[1].stat().st_size >= self._max_data_size:
            self._close_data()
        if len(self._rows) >= _BUFFERED:
            self._flush()

    def _describe(
        self, length: int, texts: Sequence[str], stats: Mapping[str, Stats], videos: Mapping[str, tuple[float, float]]
    ) -> dict[str, Any]:
        chunk, file = divmod(self._next_file.get("", 0), self._chunk)
        row: dict[str, Any] = {
            "episode_index": self.episodes,
            "tasks": list(texts),
            "length": length,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + length,
        }
        for camera, (start, stop) in videos.items():
            chunk, file = divmod(self._next_file.get(camera, 0), self._chunk)
            span = {"chunk_index": chunk, "file_index": file, "from_timestamp": start, "to_timestamp": stop}
            row |= {f"videos/{camera}/{key}": value for key, value in span.items()}
        for name, values in stats.items():
            row |= {f"stats/{name}/{key}": value.tolist() for key, value in values.items()}
        chunk, file = divmod(self._next_file.get("meta", 0), self._chunk)
        return row | {"meta/episodes/chunk_index": chunk, "meta/episodes/file_index": file}

    def finish(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Write the files about all episodes; returns the values for info.json."""
        self._flush()
        self.abandon()
        self._write_tasks()
        stats = {name: {key: value.tolist() for key, value in row.items()} for name, row in self._stats.items()}
        _replace(self._folder / STATS_V3, json.dumps(stats, indent=4))
        data, video = DEFAULT_PATHS[3]
        cameras = any(row["dtype"] == "video" for row in info["features"].values())
        return {
            "codebase_version": "v3.0",
            "total_episodes": self.episodes,
            "total_frames": self.frames,
            "total_tasks": len(self._tasks),
            "chunks_size": self._chunk,
            "data_files_size_in_mb": self._max_data_size >> 20,
            "video_files_size_in_mb": info.get("video_files_size_in_mb", VIDEO_SIZE),
            "splits": {"train": f"0:{self.episodes}"},
            "data_path": data,
            "video_path": video if cameras else None,
        }

    def abandon(self) -> None:
        """Close open files."""
        self._close_data()
        if self._meta is not None:
            self._meta.close()
            self._meta = None

    def _close_data(self) -> None:
        if self._data is not None:
            self._data[0].close()
            self._data = None
            self._next_file[""] = self._next_file.get("", 0) + 1

    def _flush(self) -> None:
        """Write the buffered descriptions of the last episodes."""
        if not self._rows:
            return
        import pyarrow as pa  # noqa: PLC0415  (an optional dependency)

        if self._meta is None:
            path = self._folder / self._path(_META_PATH, "meta")
            path.parent.mkdir(parents=True, exist_ok=True)
            self._meta = import_parquet().ParquetWriter(path, pa.Table.from_pylist(self._rows).schema, version="2.6")
        self._meta.write_table(pa.Table.from_pylist(self._rows, schema=self._meta.schema))
        self._rows = []

    def _write_tasks(self) -> None:
        """Write the tasks as pandas does, with the text as the index."""
        import pyarrow as pa  # noqa: PLC0415  (an optional dependency)

        ordered = sorted(self._tasks.items(), key=lambda item: item[1])
        number = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
        text = {"name": "task", "field_name": "task", "pandas_type": "unicode", "numpy_type": "object"}
        pandas_metadata = {"index_columns": ["task"], "column_indexes": [], "columns": [number, text], "creator": {}}
        fields = [pa.field("task_index", pa.int64()), pa.field("task", pa.string())]
        schema = pa.schema(fields, {"pandas": json.dumps(pandas_metadata)})
        arrays = [
            pa.array([task_index for _, task_index in ordered], pa.int64()),
            pa.array([name for name, _ in ordered]),
        ]
        path = self._folder / TASKS_V3
        path.unlink(missing_ok=True)
        import_parquet().write_table(pa.table(arrays, schema=schema), path)

    def _path(self, template: str, kind: str, step: int = 0) -> str:
        """Return the path of the file that comes next; step: -1 of the one before."""
        chunk, file = divmod(self._next_file.get(kind, 0) + step, self._chunk)
        return template.format(chunk_index=chunk, file_index=file, video_key=kind)


def _replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)  # it may be a hard link to the older file
    path.write_text(text)
