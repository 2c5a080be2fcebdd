"""Clips of the episodes of any format, at one location or at several."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.messages import shown
from wshard.errors import DatasetError, EntryNotFoundError
from wshard.training.data.dataset import Dataset
from wshard.training.data.lane_columns import choose_column, describe_lane, find_columns, join_lanes, name_lanes
from wshard.training.data.lane_reader import EpisodeList

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from wshard.core.episode.meta_reader import Declaration
    from wshard.formats.source_base import Source
    from wshard.training.data.batch import Item
    from wshard.training.data.lane_columns import LaneColumn


Merges = Mapping[str, Sequence[str] | str]


class SourceDataset(Dataset):
    """Clips of the episodes of Sources.

    episodes: (index of the Source, key) of each, by default all; lengths: theirs, if known; layouts: a number for
    each, equal for those of equal lanes. keys_to_load: names of columns, or native names of lanes, by default all; a
    single one may be a text; a mapping {column: native name} renames them. keys_to_cache: columns that are read into
    memory once. keys_to_merge: {new column: columns, or a regular expression for them} to concatenate. Raises
    DatasetError for a location whose columns differ from those of the first, EntryNotFoundError for unknown columns.
    """

    def __init__(  # noqa: PLR0913  (the options that readers of the original have)
        self,
        sources: Sequence[Source],
        frameskip: int = 1,
        num_steps: int = 1,
        transform: Callable[[Item], Item] | None = None,
        *,
        episodes: Sequence[tuple[int, str]] | None = None,
        lengths: Sequence[int] | None = None,
        layouts: Sequence[int] | None = None,
        keys_to_load: Sequence[str] | Mapping[str, str] | None = None,
        keys_to_cache: Sequence[str] | None = None,
        keys_to_merge: Merges | None = None,
    ) -> None:
        keys_to_load = list_names(keys_to_load, "keys_to_load")
        keys_to_cache = list_names(keys_to_cache, "keys_to_cache")
        if keys_to_merge is not None and not isinstance(keys_to_merge, Mapping):
            raise DatasetError(f"keys_to_merge: expected {{new column: columns}}, found {shown(keys_to_merge)}")
        selected = episodes
        if selected is None:
            selected = [(index, key) for index, source in enumerate(sources) for key in source.keys()]  # noqa: SIM118
        source_indices = np.array([index for index, _ in selected], np.int64)
        self.episodes = EpisodeList(sources, source_indices, [key for _, key in selected])
        self.episodes.lengths = counts = np.array(
            self.episodes.read_lengths() if lengths is None else lengths, np.int64
        )
        super().__init__(counts, np.cumsum(counts) - counts, frameskip, num_steps, transform)
        self._cached: dict[str, Any] = {}
        self._merged: dict[str, tuple[list[str], int]] = {}
        self._native_names: dict[str, str] = {}
        self.columns = self._find_columns()
        self._names = self._select_columns(keys_to_load)
        self._match_locations()
        self._widen_floats(layouts)
        for target, merged in (keys_to_merge or {}).items():
            self.merge_col(merged, target)
        for name in (*(keys_to_merge or ()), *(keys_to_cache or ())):
            self._cached[name] = super().get_col_data(name)

    # ---- columns -------------------------------------------------------------------------------------------------

    def _find_columns(self) -> dict[str, LaneColumn]:
        if not len(self.episodes):
            return {}
        source = self.episodes.sources[self.episodes.source_indices[0]]
        columns = find_columns(self.episodes.info(0), texts=source.texts_are_columns)
        for name in self.episodes.statements(0) or ():
            if name in columns and columns[name].lane is None:
                columns[name] = replace(columns[name], loaded=False)
        return columns

    def _select_columns(self, requested: Sequence[str] | Mapping[str, str] | None) -> list[str]:
        """Return the names of the columns to load; renamed ones are added to `columns`."""
        if not requested:
            return [name for name, column in self.columns.items() if column.loaded]
        names = []
        for name, native in (
            requested.items() if isinstance(requested, Mapping) else ((name, name) for name in requested)
        ):
            self._native_names[name] = native
            if self.columns:
                self.columns[name] = self.find_column(native)
            names.append(name)
        return names

    def find_column(self, name: str) -> LaneColumn:
        """Return a column by its name, or by that of its lane; raises EntryNotFoundError."""
        column = choose_column(self.columns, name)
        if column is None:
            raise EntryNotFoundError(f"{self.where}: no column {name!r}; there are {', '.join(self.columns) or 'none'}")
        return column

    def name_loaded(self, requested: Sequence[str]) -> list[str]:
        """Give columns that are loaded the requested ones of their names, unless keys_to_load did; returns the names.

        Raises EntryNotFoundError.
        """
        names = []
        for name in requested:
            column = self.find_column(name)
            key = next((key for key in self._names if self.columns[key] is column), name)
            if key != name and key not in self._native_names:
                self._names[self._names.index(key)], self.columns[name] = name, column
                key = name
            names.append(key)
        return names

    def _match_locations(self) -> None:
        """Find the columns at every location, where their lanes may be named differently; floats become as wide as any.

        Raises DatasetError for a column whose shape, or kind of numbers, differs from those at earlier locations.
        """
        for first in self.episodes.first_of_each()[1:]:
            lanes = name_lanes(self.episodes.lanes(first))
            for name in self._names:
                column = self.columns[name]
                if column.lane is None:
                    continue
                match = choose_column(lanes, self._native_names.get(name, name))
                other = None if match is None else match.lane
                joined = None if other is None else join_lanes(column.lane, other)
                if match is None or joined is None:
                    found = "no such column" if other is None else describe_lane(other)
                    raise DatasetError(
                        f"{self.episodes.where(first)}: column {name!r}: expected {describe_lane(column.lane)} as at "
                        f"earlier locations, found {found}: choose columns by keys_to_load"
                    )
                self.columns[name] = replace(column, lane=joined)
                self.episodes.rename(first, column.block, match.block)

    def _widen_floats(self, layouts: Sequence[int] | None) -> None:
        """Make floats as wide as in any episode, at locations where each episode declares its own lanes."""
        for episode, lanes in self.episodes.own_lanes(layouts):
            for name in self._names:
                column = self.columns[name]
                other = lanes.get(self.episodes.name_there(episode, column.block))
                joined = None if column.lane is None or other is None else join_lanes(column.lane, other)
                if joined is not None:  # others are refused when they are read
                    self.columns[name] = replace(column, lane=joined)

    @property
    def where(self) -> str:
        """The location of the first episode."""
        return self.episodes.where(0) if len(self.episodes) else "no episodes"

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the clips, as far as keys and lengths of the episodes show."""
        return crc32("\n".join(self.episodes.keys).encode(), super().checksum_clips())

    def lane_of(self, column: str) -> Declaration | None:
        """Return the lane whose dtype and shape the rows of a column have, None for texts and for merged columns."""
        return self.columns[column].lane if column in self.columns else None

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item."""
        return [*self._names, *self._merged]

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:
        """Return per-episode values by name, from the table of episodes or their metadata; None where there is none."""
        episode_list = self.episodes
        numbers = range(len(episode_list)) if episodes_idx is None else [int(number) for number in episodes_idx]
        statements = [episode_list.statements(number) or episode_list.info(number).metadata for number in numbers]
        names = dict.fromkeys(name for values in statements for name in values if name not in self._names)
        return {name: [values.get(name) for values in statements] for name in names}

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it: whether all its libraries support forking."""
        return all(source.fork_safe for source in self.episodes.sources)

    def is_image(self, column: str) -> bool:
        """Return True for a column of images: frames that are stored encoded, or uint8 [H, W, C] with C 1 or 3."""
        return column in self.columns and self.columns[column].is_image

    def is_action(self, column: str) -> bool:
        """Return True for a column of actions."""
        return column in self.columns and self.columns[column].block.startswith("action/")

    def merge_col(self, source: Sequence[str] | str, target: str, dim: int = -1) -> None:
        """Add a column: others, concatenated along axis `dim` of an item; source: names or a regular expression.

        Columns that are not loaded can be merged, too. Raises EntryNotFoundError, DatasetError if there are none to
        merge, or `target` exists, or one has texts.
        """
        numbers = [name for name, column in self.columns.items() if column.lane is not None]
        try:
            names = (
                [name for name in numbers if re.match(source, name)]
                if isinstance(source, str)
                else list_names(source, f"column {target!r}")
            )
        except re.error as error:
            raise DatasetError(f"column {target!r}: expected a regular expression, found {source!r}: {error}") from None
        if target in self.column_names:
            raise DatasetError(f"column {target!r}: expected a new name for merged columns, found that of one")
        for name in names:
            if self.find_column(name).lane is None:
                raise DatasetError(f"column {target!r}: expected columns of numbers to merge, found the texts {name!r}")
        if not names:
            raise DatasetError(f"column {target!r}: expected columns to merge, found none that match {source!r}")
        self._merged[target] = (names, dim)

    # ---- rows ----------------------------------------------------------------------------------------------------

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        if column in self._cached:
            cached = self._cached[column]
            if isinstance(cached, list):
                return [cached[row] for row in (self.offsets[episodes] + steps[:, 0]).tolist()] if steps.size else []
            return cached[self.offsets[episodes][:, None] + steps]
        if column in self._merged:
            names, dim = self._merged[column]
            parts = [self._take(name, episodes, steps) for name in names]
            parts = [part[..., None] if part.ndim == 2 else part for part in parts]
            try:
                return np.concatenate(parts, dim if dim < 0 else dim + 1)
            except ValueError:
                rows = ", ".join(f"{name} {list(part.shape[2:])}" for name, part in zip(names, parts, strict=True))
                raise DatasetError(f"column {column!r}: expected rows that fit side by side, found {rows}") from None
        lane_column = self.find_column(column)
        if lane_column.lane is None:
            return self._texts(lane_column, episodes, steps)
        return self.episodes.take(lane_column.block, lane_column.lane, episodes, steps)

    def _texts(self, column: LaneColumn, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> list[str]:
        """Return the text of the first row of each clip; "" for clips of no rows."""
        texts = [""] * len(episodes)
        for episode in np.unique(episodes).tolist() if steps.shape[1] else ():
            clips = np.flatnonzero(episodes == episode)
            first, last = int(steps[clips, 0].min()), int(steps[clips, 0].max())
            found = self._texts_of(column, episode, first, last + 1)
            for clip, step in zip(clips.tolist(), steps[clips, 0].tolist(), strict=True):
                texts[clip] = found[step - first]
        return texts

    def _texts_of(self, column: LaneColumn, episode: int, start: int, stop: int) -> list[str]:
        texts = self.episodes.info(episode).metadata.get(column.block, "")
        if not isinstance(texts, list):
            return [str(texts)] * (stop - start)
        source = self.episodes.sources[self.episodes.source_indices[episode]]
        numbers = source.lane(self.episodes.keys[episode], f"{STEP_TEXTS}{column.block}", start, stop)
        return [str(texts[number]) for number in numbers.tolist()]

    def read_episode(self, episode: int, *, encoded: bool = False) -> Item:
        """Return all columns of an episode as stored arrays, texts as a list."""
        length = self._length_of(episode)
        item: Item = {}
        for name in self.column_names:
            column = self.columns.get(name)
            frames = self.episodes.encoded(episode, column.block) if encoded and column and column.is_image else None
            if frames is not None:
                item[name] = frames
            elif column is not None and column.lane is None:
                item[name] = self._texts_of(column, episode, 0, length)
            else:
                item[name] = self.column_rows(name, episode, 0, length)
        return item


def list_names(names: Any, option: str) -> Any:
    """Return names of columns (one text becomes a list) or a mapping; raises DatasetError for anything else."""
    name_list = [names] if isinstance(names, str) else names
    if name_list is not None and not isinstance(name_list, Iterable):
        raise DatasetError(f"{option}: expected names of columns, found {shown(names)}")
    return name_list
