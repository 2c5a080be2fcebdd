"""The contents of the meta folder of a data set, cached for all Sources of this process until its files change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from wshard.core.messages import shown
from wshard.errors import FormatError, MissingFileError
from wshard.formats.lerobot.dataset_info import INFO, DatasetInfo, read_info
from wshard.formats.lerobot.episode_table import EpisodeTable
from wshard.formats.lerobot.read_meta import (
    EPISODES_V2,
    EPISODES_V3,
    ORIGINS,
    TASKS_V2,
    TASKS_V3,
    read_episodes,
    read_lines,
    read_tasks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wshard.core.files.place import FileStatus, Place


@dataclass(frozen=True, eq=False)
class DatasetMeta:
    """A data set without its data."""

    folder: Place
    info: DatasetInfo
    episodes: EpisodeTable

    @cached_property
    def tasks(self) -> dict[int, str]:
        """The text of each task by its task_index; raises FormatError, MissingFileError."""
        return read_tasks(self.folder, self.info)

    @cached_property
    def origins(self) -> dict[int, dict[str, Any] | str]:
        """The notes of a Sink of this package by episode number, or the error of a damaged note; {} for others."""
        notes: dict[int, dict[str, Any] | str] = {}
        number = -1
        try:
            for row, error in read_lines(self.folder / ORIGINS):
                if row is not None and _is_origin(row):
                    number = row["episode_index"]
                    notes[number] = row
                else:
                    number += 1  # lines are in the order of episodes
                    notes.setdefault(number, error or f"{self.folder / ORIGINS}: expected a note, found {shown(row)}")
        except MissingFileError:
            return {}
        return notes

    def origin(self, number: int, length: int) -> dict[str, Any]:
        """Return id, env_id and metadata of an episode that were noted because LeRobot has no field for them.

        Raises FormatError for a damaged note.
        """
        row = self.origins.get(number, {})
        if isinstance(row, str):
            raise FormatError(row)
        return row if row.get("length") == length else {}


def native_id(number: int) -> str:
    """Return the id of an episode that has no other."""
    return f"episode_{number:06d}"


def _is_origin(row: dict[str, Any]) -> bool:
    types = {"episode_index": int, "length": int, "id": str, "env_id": str, "metadata": dict}
    return all(isinstance(row.get(name), type_) for name, type_ in types.items())


def read_dataset(folder: Place) -> DatasetMeta:
    """Read the meta folder; raises FormatError, MissingFileError, UnsupportedFormatError."""
    return _read_once(folder, tuple(_states(folder)))


@lru_cache(maxsize=2)
def _read_once(folder: Place, states: tuple[object, ...]) -> DatasetMeta:  # noqa: ARG001  (part of the cache key)
    info = read_info(folder)
    return DatasetMeta(folder, info, EpisodeTable(info, read_episodes(folder, info), str(folder)))


def _states(folder: Place) -> Iterator[tuple[Place, FileStatus]]:
    """Yield values that change if a file of the meta folder does."""
    files = [folder / name for name in (INFO, EPISODES_V2, TASKS_V2, TASKS_V3, ORIGINS)]
    for file in (*files, *(folder / EPISODES_V3).glob("*/*.parquet")):
        with suppress(OSError):
            yield file, file.status()
