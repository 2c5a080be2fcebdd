"""The files of a data set of codebase v2.1: one of each kind per episode, and JSON lines that describe them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.files.schemes import place_of
from wshard.errors import UnsupportedFormatError
from wshard.formats.lerobot.dataset_info import DEFAULT_PATHS, read_info
from wshard.formats.lerobot.open_parquet import import_parquet
from wshard.formats.lerobot.read_meta import EPISODES_V2, TASKS_V2, read_episodes, read_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wshard.core.types import Array
    from wshard.formats.lerobot.stats import Stats

STATS_V2: Final = "meta/episodes_stats.jsonl"
CHUNK: Final = 1000


class LayoutV21:
    """The files of a data set that is being written."""

    copies_spans = False
    keeps_shape = True

    def __init__(self, folder: Path, info: Mapping[str, Any]) -> None:
        """Continue the data set in the folder; info: its info.json, empty for a new data set."""
        self._folder = folder
        self._tasks: dict[str, int] = {}
        self.episodes = self.frames = 0
        self._chunk = int(info.get("chunks_size") or CHUNK)
        (folder / "meta").mkdir(exist_ok=True)
        if info:
            place = place_of(folder)
            existing = read_info(place)
            if existing.version != (2, 1):
                raise UnsupportedFormatError(
                    f"{folder}: expected a data set of v2.1 to add to, "
                    f"found v{existing.version[0]}.{existing.version[1]}"
                )
            columns = read_episodes(place, existing)
            self.episodes = int(columns.numbers.max(initial=-1)) + 1
            self.frames = int(columns.lengths.sum())
            self._tasks = {text: number for number, text in sorted(read_tasks(place, existing).items(), reverse=True)}
            for name in (EPISODES_V2, TASKS_V2, STATS_V2):
                _copy_file(folder / name)

    def number_tasks(self, texts: Sequence[str]) -> Array:
        """Return the number of each task; new tasks get the next numbers."""
        return np.array([self._tasks.setdefault(text, len(self._tasks)) for text in texts])

    def next_video(self, camera: str) -> Path:
        """Return the path for the video of the next episode."""
        return self._folder / self._path(1, self.episodes, camera)

    def last_video(self, camera: str) -> Path:
        """Return the path of the video of the last episode."""
        return self._folder / self._path(1, self.episodes - 1, camera)

    def add(
        self, rows: Any, texts: Sequence[str], stats: Mapping[str, Stats], _videos: Mapping[str, tuple[float, float]]
    ) -> None:
        """Add an episode whose videos are written."""
        path = self._folder / self._path(0, self.episodes)
        path.parent.mkdir(parents=True, exist_ok=True)
        import_parquet().write_table(rows, path, version="2.6", compression="none", row_group_size=max(len(rows), 1))
        plain_stats = {
            name: {key: value.tolist() for key, value in row.items() if key[0] != "q"} for name, row in stats.items()
        }
        self._append(EPISODES_V2, {"episode_index": self.episodes, "tasks": list(texts), "length": len(rows)})
        self._append(STATS_V2, {"episode_index": self.episodes, "stats": plain_stats})
        self.episodes += 1
        self.frames += len(rows)

    def finish(self, info: Mapping[str, Any]) -> dict[str, Any]:
        """Write the files about all episodes; returns the values for info.json."""
        (self._folder / TASKS_V2).unlink(missing_ok=True)
        for text, number in self._tasks.items():
            self._append(TASKS_V2, {"task_index": number, "task": text})
        data, video = DEFAULT_PATHS[2]
        cameras = sum(row["dtype"] == "video" for row in info["features"].values())
        return {
            "codebase_version": "v2.1",
            "total_episodes": self.episodes,
            "total_frames": self.frames,
            "total_tasks": len(self._tasks),
            "total_videos": self.episodes * cameras,
            "total_chunks": -(-self.episodes // self._chunk),
            "chunks_size": self._chunk,
            "splits": {"train": f"0:{self.episodes}"},
            "data_path": data,
            "video_path": video if cameras else None,
        }

    def abandon(self) -> None:
        """Close open files: there are none."""

    def _path(self, template_index: int, number: int, camera: str = "") -> str:
        fields = {"episode_chunk": number // self._chunk, "episode_index": number, "video_key": camera}
        return DEFAULT_PATHS[2][template_index].format(**fields)

    def _append(self, name: str, row: Mapping[str, Any]) -> None:
        with (self._folder / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def _copy_file(path: Path) -> None:
    """Replace a file, which may be a hard link to the older data set, by a copy that can be appended to."""
    if path.exists():
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
