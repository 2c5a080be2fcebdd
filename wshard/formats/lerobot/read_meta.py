"""Read the meta folder of a data set: episodes and tasks, JSON lines in v2 and Parquet in v3."""

from __future__ import annotations

import json
from array import array
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.arguments import integer
from wshard.core.messages import shown
from wshard.errors import FormatError, LimitError, MissingFileError
from wshard.formats.lerobot.arrow_arrays import plain_numbers
from wshard.formats.lerobot.episode_table import EpisodeColumns, VideoColumns
from wshard.formats.lerobot.features import VIDEO
from wshard.formats.lerobot.open_parquet import MAX_ROWS, count_row_groups, read_table, release_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wshard.core.files.place import Place
    from wshard.core.types import Array
    from wshard.formats.lerobot.dataset_info import DatasetInfo

EPISODES_V2: Final = "meta/episodes.jsonl"
TASKS_V2: Final = "meta/tasks.jsonl"
EPISODES_V3: Final = "meta/episodes"
TASKS_V3: Final = "meta/tasks.parquet"
ORIGINS: Final = "meta/wshard.jsonl"
"""Notes of a Sink of this package beside the files of LeRobot: data that LeRobot has no field for."""

_NUMBERS: Final = ("episode_index", "length", "data/chunk_index", "data/file_index", "dataset_from_index")
_VIDEO: Final = ("chunk_index", "file_index", "from_timestamp")
_MAX_INTEGRAL: Final = 2.0**53  # of float64
_MAX_LINE_SIZE: Final = 1 << 24
_BATCH: Final = 4096  # episodes whose tasks are objects at a time


def read_episodes(folder: Place, info: DatasetInfo) -> EpisodeColumns:
    """Return the episodes of a data set; raises FormatError if none can be read."""
    return _read_v2(folder, info) if info.version < (3, 0) else _read_v3(folder, info)


def read_tasks(folder: Place, info: DatasetInfo) -> dict[int, str]:
    """Return the text of each task by its task_index; raises FormatError, MissingFileError."""
    if info.version < (3, 0):
        return dict(_read_task(folder / TASKS_V2, row, error) for row, error in read_lines(folder / TASKS_V2))
    path = folder / TASKS_V3
    table = read_table(path)
    texts = [column.to_pylist() for name, column in table.items() if name != "task_index"]
    if "task_index" not in table or len(texts) != 1:
        raise FormatError(f"{path}: expected task_index and one other column, found {', '.join(table) or 'none'}")
    return dict(zip(table["task_index"].to_pylist(), map(str, texts[0]), strict=True))


def _read_task(path: Place, row: dict[str, Any] | None, error: str) -> tuple[int, str]:
    number, text = integer((row or {}).get("task_index")), (row or {}).get("task")
    if number is None or not isinstance(text, str):
        raise FormatError(error or f"{path}: expected lines with task_index and task, found {shown(row)}")
    return number, text


# ---- v2: a JSON object a line ----------------------------------------------------------------------------------------


def _read_v2(folder: Place, info: DatasetInfo) -> EpisodeColumns:
    path = folder / EPISODES_V2
    numbers, lengths, tasks = array("q"), array("q"), _Tasks()
    damaged: dict[int, str] = {}
    for index, (row, error) in enumerate(read_lines(path)):
        number, length = (integer((row or {}).get(name)) for name in ("episode_index", "length"))
        if row is None or number is None or length is None:
            damaged[index] = error or f"{path}: line {index + 1}: expected episode_index and length, found {shown(row)}"
        else:
            numbers.append(number)
            lengths.append(length)
            tasks.add(row.get("tasks"))
    zeros = np.zeros(len(numbers), np.int64)
    videos = {name: VideoColumns(zeros, zeros, zeros) for name in info.cameras(VIDEO)}
    valid_numbers = {*numbers} if damaged else ()
    damaged_episodes = {number: text for number, text in damaged.items() if number not in valid_numbers}
    files, both = np.arange(len(numbers)), (np.array(numbers, np.int64), np.array(lengths, np.int64))
    return EpisodeColumns(*both, zeros, files, zeros, tasks.rows, videos, damaged_episodes)


def read_lines(path: Place) -> Iterator[tuple[dict[str, Any] | None, str]]:
    """Yield the object of each line that is not empty; (None, reason) for an invalid one."""
    try:
        with path.open() as file:
            line_number = 0
            while line := file.readline(_MAX_LINE_SIZE):
                line_number += 1
                if line.isspace():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield None, f"{path}: line {line_number}: expected a JSON object: {error}"
                    continue
                yield (
                    (row, "")
                    if isinstance(row, dict)
                    else (None, f"{path}: line {line_number}: expected a JSON object")
                )
    except FileNotFoundError:
        raise MissingFileError.at(path, f"{path}: expected a file of JSON lines, found none") from None


# ---- v3: Parquet -----------------------------------------------------------------------------------------------------


def _read_v3(folder: Place, info: DatasetInfo) -> EpisodeColumns:
    paths = (folder / EPISODES_V3).glob("*/*.parquet")
    cameras = info.cameras(VIDEO)
    names = [*_NUMBERS, "tasks", *(f"videos/{name}/{field}" for name in cameras for field in _VIDEO)]
    parts: list[dict[str, Any]] = []
    failures: list[str] = []
    for path in paths:
        try:
            parts.append(_check_columns(read_table(path, names), path))
        except LimitError:
            raise
        except FormatError as error:
            failures.append(str(error))
            parts += _readable_groups(path, names)
        if (rows := sum(len(part["episode_index"]) for part in parts)) > MAX_ROWS:
            raise LimitError(f"{folder / EPISODES_V3}: expected at most {MAX_ROWS} episodes, found {rows}")
    if not parts:
        if info.total_episodes or failures:
            no_files = f"{folder / EPISODES_V3}: expected Parquet files, found none"
            raise FormatError(failures[0] if failures else no_files)
        parts = [{}]
    numbers, lengths, chunks, files, starts = (_numbers(parts, name, folder) for name in _NUMBERS)
    videos = {}
    for name in cameras:
        columns = [_numbers(parts, f"videos/{name}/{field}", folder) for field in _VIDEO]
        if len(columns[0]) == len(numbers):
            videos[name] = VideoColumns(*columns)
    tasks = _Tasks()
    for part in parts:
        _add_tasks(tasks, part)
    del parts
    release_memory()
    return EpisodeColumns(numbers, lengths, chunks, files, starts, tasks.rows, videos, failure="".join(failures[:1]))


def _readable_groups(path: Place, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the row groups of a damaged file that can be read."""
    tables = []
    with suppress(FormatError):  # raised if the footer is damaged
        for group in range(count_row_groups(path)):
            with suppress(FormatError):
                tables.append(_check_columns(read_table(path, names, group), path))
    return tables


def _check_columns(table: dict[str, Any], path: Place) -> dict[str, Any]:
    missing = [name for name in _NUMBERS if name not in table]
    if missing:
        raise FormatError(f"{path}: expected the columns {', '.join(_NUMBERS)}, found no {missing[0]!r}")
    return table


def _numbers(parts: list[dict[str, Any]], name: str, folder: Place) -> Array:
    """Return a column of all parts; -1, which is never valid, for missing values and fractions."""
    dtype = np.float64 if name.endswith("timestamp") else np.int64
    columns = [np.zeros(0, dtype)]
    for part in parts:
        if name in part:
            try:
                values = part[name].fill_null(-1) if part[name].null_count else part[name]  # that imports pandas
                numbers = plain_numbers(values)
                if dtype is np.int64 and numbers.dtype.kind == "f":  # as pandas makes them of merged tables
                    numbers = np.where(np.rint(numbers) == numbers, numbers, -1)
                    numbers = np.where(np.abs(numbers) < _MAX_INTEGRAL, numbers, -1).astype(np.int64)
                columns.append(numbers.astype(dtype, casting="same_kind"))
            except (TypeError, NotImplementedError) as error:
                raise FormatError(f"{folder / EPISODES_V3}: column {name!r}: expected numbers: {error}") from None
    return np.concatenate(columns)


def _add_tasks(tasks: _Tasks, part: Mapping[str, Any]) -> None:
    rows = part.get("tasks", part.get("episode_index", ()))
    for start in range(0, len(rows), _BATCH):
        for value in rows.slice(start, _BATCH).to_pylist():
            tasks.add(value)


class _Tasks:
    """The texts of the tasks of each episode; equal ones are in memory once, as most are."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def add(self, value: object) -> None:
        """Add those of an episode: a text or a list of such, anything else is none."""
        listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        texts = tuple(text for text in listed if isinstance(text, str))
        self.rows.append(self._known.setdefault(texts, texts))
