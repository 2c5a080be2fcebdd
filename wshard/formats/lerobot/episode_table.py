"""The episodes of a data set, and the location of the rows and frames of each, according to its meta folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from wshard.errors import FormatError
from wshard.formats.lerobot.dataset_info import fill_template

if TYPE_CHECKING:
    from wshard.core.types import Array
    from wshard.formats.lerobot.dataset_info import DatasetInfo

_MAX_STEPS: Final = 1 << 40
_MAX_MISSING: Final = 1 << 17  # a wrong total must not list millions of episodes that never existed
_MAX_FILES: Final = 1 << 24  # of one chunk
_MAX_KEY_LENGTH: Final = 19


class VideoSpan(NamedTuple):
    """The frames of one camera: from `start` seconds of a file on. shared: other episodes are in the same file."""

    path: str
    start: float
    shared: bool


class EpisodeEntry(NamedTuple):  # made several times for each episode, so they must be made quickly
    """One episode: `length` rows of the file `data` from the row `start` on; share: of the file's rows.

    Paths are relative to the data set.
    """

    number: int
    length: int
    tasks: tuple[str, ...]
    data: str
    start: int
    share: float
    videos: Mapping[str, VideoSpan]


class VideoColumns(NamedTuple):
    """Chunk, file and first second of the frames of one camera, an array each with a value per episode."""

    chunks: Array
    files: Array
    starts: Array


@dataclass(frozen=True)
class EpisodeColumns:
    """The episodes of a data set as columns; starts: the global number of the first row.

    damaged: the error of each unreadable episode, by its number. failure: why others may be missing.
    """

    numbers: Array
    lengths: Array
    chunks: Array
    files: Array
    starts: Array
    tasks: Sequence[tuple[str, ...]]
    videos: Mapping[str, VideoColumns] = field(default_factory=dict)
    damaged: Mapping[int, str] = field(default_factory=dict)
    failure: str = ""


class EpisodeTable(Mapping[str, EpisodeEntry]):
    """The episodes by key, which is their number; entries are created on access."""

    def __init__(self, info: DatasetInfo, columns: EpisodeColumns, where: str) -> None:
        """Index the columns; episodes with impossible values count as damaged, and so do missing ones."""
        self._info, self._columns, self._where = info, columns, where  # the columns, until they are indexed
        self._damaged = {**columns.damaged, **self._find_invalid()}
        self._note_missing()
        valid = np.isin(columns.numbers, [*self._damaged], invert=True)
        damaged = np.array([number for number in self._damaged if number >= 0], np.int64)
        rows = np.flatnonzero(valid & (columns.numbers >= 0))
        numbers = np.concatenate([columns.numbers[rows], damaged])
        order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[order]
        self._rows = _shrink(np.concatenate([rows, np.full(len(damaged), -1)])[order])
        file_numbers = columns.chunks.astype(np.int64) * _MAX_FILES + columns.files
        found, file_of = np.unique(file_numbers, return_inverse=True)
        self._file_of, files = _shrink(file_of), len(found)
        self._first_rows = np.full(files, np.iinfo(np.int64).max)
        np.minimum.at(self._first_rows, self._file_of[valid], columns.starts[valid])
        self._last: tuple[str, EpisodeEntry] | None = None
        self._paths: dict[str, tuple[tuple[int, int, int], str]] = {}  # the last path by camera, "" for data files
        self._file_rows = np.bincount(self._file_of[valid], columns.lengths[valid], files)
        indices = ("lengths", "chunks", "files", "starts")
        small: dict[str, Any] = {name: _shrink(getattr(columns, name)) for name in indices}
        self._columns = replace(columns, numbers=self._numbers, **small)

    def _find_invalid(self) -> dict[int, str]:
        """Return the errors of episodes with impossible values or duplicate numbers, by number."""
        columns = {
            "episode_index": self._columns.numbers,
            "length": self._columns.lengths,
            "data/chunk_index": self._columns.chunks,
            "data/file_index": self._columns.files,
            "dataset_from_index": self._columns.starts,
        }
        numbers = self._columns.numbers
        errors = {
            numbers.item(row): f"{self._where}: episode {numbers[row]}: {name}: expected 0 or more, found {column[row]}"
            for name, column in columns.items()
            for row in np.flatnonzero((column < 0) | (column > _MAX_STEPS)).tolist()
        }
        values, counts = np.unique(numbers, return_counts=True)
        duplicates = values[counts > 1].tolist()
        return errors | {
            number: f"{self._where}: expected episode {number} once, found it twice" for number in duplicates
        }

    def _note_missing(self) -> None:
        """Mark episodes that are missing, according to total_episodes, as damaged."""
        present = np.sort(np.concatenate([self._columns.numbers, np.array([*self._damaged], np.int64)]))
        present = present[(present >= 0) & (np.diff(present, prepend=-1) > 0)]  # np.union1d imports numpy.ma
        total = self._info.total_episodes
        if 0 < total - len(present) <= _MAX_MISSING:
            text = self._columns.failure or f"{self._where}: expected {total} episodes in meta, found {len(present)}"
            self._damaged |= dict.fromkeys(np.setdiff1d(np.arange(total), present).tolist(), text)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[str]:
        return (str(number) for number in self._numbers)

    def __contains__(self, key: object) -> bool:
        return self._number(key) is not None

    def __getitem__(self, key: str) -> EpisodeEntry:
        """Return an episode; raises KeyError, FormatError for one of which nothing could be read."""
        last = self._last  # which another thread may replace
        if last is None or last[0] != key:
            number = self._number(key)
            if number is None:
                raise KeyError(key)
            last = self._last = key, self._entry(number)
        return last[1]

    def _number(self, key: object) -> int | None:
        """Return the number of the episode of a key, None where there is none."""
        if not (isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) <= _MAX_KEY_LENGTH):
            return None
        number = int(key)
        place = int(self._numbers.searchsorted(number))
        is_there = place < len(self._numbers) and self._numbers[place] == number
        return number if is_there and str(number) == key else None

    def _entry(self, number: int) -> EpisodeEntry:
        if number in self._damaged:
            raise FormatError(self._damaged[number])
        row = self._rows.item(self._numbers.searchsorted(number))
        for name, video in self._columns.videos.items():
            if video.chunks[row] < 0 or video.files[row] < 0 or not video.starts[row] >= 0:
                raise FormatError(f"{self._where}: episode {number}: videos/{name}: expected its file and first second")
        columns, file, length = self._columns, self._file_of.item(row), self._columns.lengths.item(row)
        return EpisodeEntry(
            number=number,
            length=length,
            tasks=columns.tasks[row],
            data=self._path(self._info.data_path, number, columns.chunks.item(row), columns.files.item(row)),
            start=columns.starts.item(row) - self._first_rows.item(file),
            share=length / max(self._file_rows.item(file), 1.0),
            videos={
                name: VideoSpan(
                    self._path(self._info.video_path, number, column.chunks.item(row), column.files.item(row), name),
                    column.starts.item(row),
                    self._info.version >= (3, 0),
                )
                for name, column in columns.videos.items()
            },
        )

    def _path(self, template: str, number: int, chunk: int, file: int, camera: str = "") -> str:
        file_key = chunk, file, number if "{episode_" in template else -1
        cached = self._paths.get(camera)  # most episodes are in the file of the one before
        if cached is None or cached[0] != file_key:
            cached = self._paths[camera] = file_key, self._fill(template, number, chunk, file, camera)
        return cached[1]

    def _fill(self, template: str, number: int, chunk: int, file: int, camera: str) -> str:
        fields: dict[str, int | str] = {
            "chunk_index": chunk,
            "file_index": file,
            "episode_chunk": number // self._info.chunks_size,
            "episode_index": number,
            "video_key": camera,
        }
        return fill_template(template, fields, self._where)


def _shrink(numbers: Array) -> Array:
    """Return integers in the smallest type that has them all: a data set may have millions of episodes."""
    bounds = (np.min_scalar_type(int(bound)) for bound in (numbers.min(initial=0), numbers.max(initial=0)))
    return numbers.astype(np.result_type(*bounds), copy=False)
