"""Joined data sets of which some are of other classes: they have items, perhaps rows, but no episodes to read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wshard.errors import DatasetError, StepError
from wshard.training.data.batch import collate
from wshard.training.data.dataset import Dataset
from wshard.training.data.derived.compose import ConcatDataset, MergeDataset
from wshard.training.data.tensors import as_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.training.data.batch import Item


class _ForeignItems(Dataset):
    """Reads whole items of its data sets, number by number."""

    datasets: list[Any]
    is_foreign = True
    _count: int

    def _set(self, datasets: Sequence[Any], lengths: Any, count: int) -> None:
        self.datasets, self._count = list(datasets), count
        first = self.datasets[0]
        options = (getattr(first, "frameskip", 1), getattr(first, "num_steps", 1))
        Dataset.__init__(self, lengths, np.cumsum(lengths) - lengths, *options)

    def __len__(self) -> int:
        return self._count

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the number of items, and the lengths of the episodes."""
        return crc32(self.lengths.tobytes(), self._count)

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it."""
        return all(getattr(dataset, "fork_safe", True) for dataset in self.datasets)

    def _read_clips(self, *clips: Any) -> Any:  # noqa: ARG002  (of no use here)
        raise DatasetError(
            f"{type(self).__name__}: expected data sets of class Dataset, found objects that have items only"
        )

    def _take(self, *rows: Any) -> Any:
        return self._read_clips(*rows)

    def _numbers(self, numbers: Sequence[int]) -> list[int]:
        found = [int(number) + len(self) * (number < 0) for number in numbers]
        for number, position in zip(numbers, found, strict=True):
            if not 0 <= position < len(self):
                raise StepError(f"expected an item below {len(self)}, found {number}")
        return found


def _items_of(dataset: Any, numbers: list[int]) -> Sequence[Item]:
    if hasattr(dataset, "__getitems__"):
        items: Sequence[Item] = dataset.__getitems__(numbers)
        return items
    return [dataset[number] for number in numbers]


class ForeignMerge(_ForeignItems, MergeDataset):
    """The columns of several data sets with the same number of items."""

    def __init__(self, datasets: Sequence[Any], keys_from_dataset: Sequence[Sequence[str]] | None = None) -> None:
        count = len(datasets[0])
        for number, dataset in enumerate(datasets):
            if len(dataset) != count:
                raise DatasetError(f"datasets: expected {count} items as in the first for number {number}")
        self._set(datasets, np.asarray(getattr(datasets[0], "lengths", []), np.int64), count)
        self._owners = {}
        for dataset, keys in zip(datasets, keys_from_dataset or [one.column_names for one in datasets], strict=True):
            for key in keys:
                self._owners.setdefault(key, dataset)

    def __getitems__(self, numbers: Sequence[int]) -> Sequence[Item]:
        """Return several items, of which each column is that of the data set that owns it."""
        parts = [_items_of(dataset, self._numbers(numbers)) for dataset in self.datasets]
        return [self._apply_transform(self._join_present(items)) for items in zip(*parts, strict=True)]

    def _join_present(self, items: Sequence[Item]) -> Item:
        by_dataset = {id(dataset): item for dataset, item in zip(self.datasets, items, strict=True)}
        return {key: by_dataset[id(one)][key] for key, one in self._owners.items() if key in by_dataset[id(one)]}

    def get_col_data(self, col: str) -> Any:
        """Return a whole column; raises EntryNotFoundError."""
        self._check_column(col)
        return self._owners[col].get_col_data(col)

    def get_row_data(self, row_idx: int | Sequence[int]) -> Item:
        """Return rows of all columns by their number."""
        return self._join_present([dataset.get_row_data(row_idx) for dataset in self.datasets])


class ForeignConcat(_ForeignItems, ConcatDataset):
    """The items of several data sets, one after the other; rows and episodes by the `lengths` of each."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        counts = [len(dataset.lengths) for dataset in datasets]
        self._first_episodes = np.cumsum(counts) - counts
        self._ends = np.cumsum([len(dataset) for dataset in datasets])
        lengths = np.concatenate([np.asarray(dataset.lengths, np.int64) for dataset in datasets])
        self._set(datasets, lengths, int(self._ends[-1]))

    @property
    def column_names(self) -> list[str]:
        """The names of the columns that any of the data sets has."""
        return list(dict.fromkeys(name for dataset in self.datasets for name in dataset.column_names))

    def __getitems__(self, numbers: Sequence[int]) -> Sequence[Item]:
        """Return several items, those of a data set at once."""
        found = np.array(self._numbers(numbers), np.int64)
        owners = np.searchsorted(self._ends, found, side="right")
        items: list[Item] = [{}] * len(found)
        for owner in np.unique(owners).tolist():
            positions = np.flatnonzero(owners == owner).tolist()
            first = int(self._ends[owner]) - len(self.datasets[owner])
            local = [int(found[position]) - first for position in positions]
            for position, item in zip(positions, _items_of(self.datasets[owner], local), strict=True):
                items[position] = self._apply_transform(item)
        return items

    def load_chunk(self, episodes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> list[Item]:
        """Return the timesteps [start, end) of an episode each, as items."""
        chunks: list[Item] = []
        for episode, start, end in zip(episodes, starts, ends, strict=True):
            self._length_of(episode)
            owner = int(self._owners_of(np.array([episode]))[0])
            local = np.array([int(episode) - int(self._first_episodes[owner])])
            chunks += self.datasets[owner].load_chunk(local, np.array([start]), np.array([end]))
        return chunks

    def get_col_data(self, col: str) -> Any:
        """Return a whole column of the data sets that have it; raises EntryNotFoundError."""
        self._check_column(col)
        return np.concatenate(
            [as_numpy(dataset.get_col_data(col)) for dataset in self.datasets if col in dataset.column_names]
        )

    def get_row_data(self, row_idx: int | Sequence[int]) -> Item:
        """Return rows of the columns that all of their data sets have, by their number in all episodes."""
        rows = np.atleast_1d(np.asarray(row_idx, np.int64))
        rows = np.where(rows < 0, rows + int(self.lengths.sum()), rows)
        episodes, _ = self.locate_rows(rows)
        owners, firsts = self._owners_of(episodes), np.append(self.offsets, 0)[self._first_episodes]
        found = [
            self.datasets[owner].get_row_data(int(row - firsts[owner]))
            for owner, row in zip(owners.tolist(), rows.tolist(), strict=True)
        ]
        if np.ndim(row_idx) == 0:
            return dict(found[0])
        common = [name for name in self.column_names if all(name in row for row in found)]
        return collate([{name: row[name] for name in common} for row in found])
