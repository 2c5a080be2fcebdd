"""Whether the rows of an episode are its timesteps, with the frames and tasks that their columns say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from wshard.core.types import Array
    from wshard.formats.lerobot.dataset_meta import DatasetMeta
    from wshard.formats.lerobot.episode_table import EpisodeEntry
    from wshard.formats.lerobot.parquet_columns import ParquetColumns

_FRAME: Final = "frame_index"
_TIME: Final = "timestamp"
_SAME_FRAME: Final = 0.5  # LeRobot shows the frame next to a timestamp


def check_rows(file: ParquetColumns, ref: EpisodeEntry, meta: DatasetMeta) -> None:
    """Raise FormatError for rows of other episodes, another order than that of frame_index.

    With videos, timestamps must be those of the frames that are shown at the rate: LeRobot finds them by these.
    """
    if not ref.length:
        return
    low, high = file.bounds("episode_index", ref.start, ref.start + ref.length)
    is_not_alone = meta.info.version < (3, 0) and file.count != ref.length
    if (low, high) != (ref.number, ref.number) or is_not_alone:
        raise FormatError(
            f"{file.path}: expected the {ref.length} rows of episode {ref.number}, "
            f"found {file.count} rows, there of episodes {low} to {high}"
        )
    _check_steps(file, ref.start, ref.length, meta.info.fps if ref.videos else None)


def check_tasks(numbers: Iterable[float], tasks: Mapping[int, str], where: str) -> None:
    """Raise FormatError for a task_index without a text; a data set without any tasks has none to compare."""
    unknown = [number for number in numbers if number not in tasks]
    if unknown and tasks:
        raise FormatError(f"{where}: task_index: expected one of the {len(tasks)} tasks in meta, found {unknown[0]}")


def _check_steps(file: ParquetColumns, start: int, length: int, fps: float | None) -> None:
    steps = np.arange(length)
    if _FRAME in file:
        found = file.numbers(_FRAME, (), start, start + length)
        _refuse(file.path, _FRAME, start, (steps, found, found != steps))
    if fps and _TIME in file:
        times = file.numbers(_TIME, (), start, start + length).astype(np.float64)
        is_same = np.abs(times * fps - steps) < _SAME_FRAME  # of NaN, too, it is not
        _refuse(file.path, _TIME, start, (steps / fps, times, ~is_same))


def _refuse(path: str, name: str, start: int, columns: tuple[Array, Array, Array]) -> None:
    expected, found, is_wrong = columns
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise FormatError(
            f"{path}: {name}: expected {expected[row]:g} in row {start + row}, found {found[row]:g}: rows were moved, "
            "deleted or doubled, or the rate is wrong; write the episode again with LeRobot"
        )
