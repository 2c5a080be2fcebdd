"""The base of Sources of world-model data sets: episodes are spans of rows, columns are lanes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wshard.core.episode.step_texts import declare_texts, find_positions, list_texts
from wshard.errors import FormatError
from wshard.formats.lazy_source import LazySource
from wshard.formats.world_model.columns import (
    MEANING,
    TEXT,
    RowSpan,
    StepColumn,
    as_lane,
    describe_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Array


class RowsSource(LazySource[RowSpan]):
    """A subclass defines `_scan`, `_files`, `_columns` and `_column_rows`; `_encoded` where columns are encoded."""

    meaning = MEANING
    texts_are_columns = True

    @abstractmethod
    def _columns(self, rows: RowSpan) -> Sequence[StepColumn]:
        """Return the columns of an episode; no frame is decoded."""

    @abstractmethod
    def _column_rows(self, column: str, start: int, stop: int) -> Array:
        """Return the rows [start, stop) of a column of numbers, or its texts as an array of str."""

    def _find(self, key: str) -> RowSpan:
        rows = super()._find(key)
        if rows.damage:
            raise FormatError(f"{self.where_of(key)}: {rows.damage}")
        return rows

    def length_of(self, key: str) -> int:
        """Return the number of timesteps of an episode without describing it."""
        return self._find(key).length

    def stored_columns(self) -> dict[str, StepColumn]:
        """Return the columns of the first episode by name; none without episodes.

        Raises FormatError where rows of any episode are damaged: where those of others begin is unknown.
        """
        for key in [key for key, rows in self._episodes.items() if rows.damage]:
            self._find(key)
        first = next(iter(self._episodes.values()), None)
        return {} if first is None else {column.name: column for column in self._columns(first)}

    def _about(self, rows: RowSpan) -> dict[str, Any]:
        """Return the metadata of an episode."""
        return {}

    def _describe(self, key: str, ref: RowSpan) -> EpisodeInfo:
        about, columns = self._about(ref), self._columns(ref)
        texts = [column.name for column in columns if column.encoding == TEXT]
        about |= {name: list_texts(self._texts(name, ref.start, ref.stop)) for name in texts}
        numbers = [column for column in columns if column.encoding != TEXT]
        described = describe_rows(ref, numbers, about, self.where_of(key))
        changing = [declare_texts(name) for name in texts if isinstance(about[name], list)]
        return replace(described, lanes={**described.lanes, **{lane.block: lane for lane in changing}})

    def _read(self, ref: RowSpan, info: EpisodeInfo, block: str, steps: slice) -> Array:
        if info.lanes[block].encoding:
            frames: Array = self._encoded(ref, info, block).decode(steps.start, steps.stop)
            return frames
        start, stop = ref.start + steps.start, ref.start + steps.stop
        column = self._column_of(ref, block)
        if column.encoding == TEXT:
            return find_positions(self._texts(column.name, start, stop), info.metadata[column.name], block)
        return as_lane(block, self._column_rows(column.name, start, stop))

    def _texts(self, column: str, start: int, stop: int) -> list[str]:
        return [str(text) for text in self._column_rows(column, start, stop)]

    def _column_of(self, rows: RowSpan, block: str) -> StepColumn:
        return next(column for column in self._columns(rows) if column.lane_block == block)
