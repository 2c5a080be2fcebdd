"""Several data sets as one: their columns merged, or their episodes concatenated."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, cast
from zlib import crc32

import numpy as np

from wshard.core.messages import shown
from wshard.errors import DatasetError, EntryNotFoundError
from wshard.training.data.dataset import Dataset
from wshard.training.data.derived.base import check_revision, check_without_goals, list_columns
from wshard.training.data.lane_columns import describe_lane, join_lanes
from wshard.training.data.tensors import as_wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.core.episode.meta_reader import Declaration
    from wshard.training.data.batch import Item


class _SeveralDatasets(Dataset):
    datasets: list[Dataset]
    _revisions: list[int]
    _foreign = ""

    def __new__(cls, datasets: Sequence[Dataset], *args: Any, **options: Any) -> Self:  # noqa: ARG004
        """Return a set for data sets of other classes, if there are some that look like data sets."""
        others = [] if not isinstance(datasets, Sequence) else [one for one in datasets if is_foreign(one)]
        if cls._foreign and others and all(looks_like_dataset(one) for one in others):
            foreign = import_module("wshard.training.data.derived.foreign")
            return cast("Self", object.__new__(getattr(foreign, cls._foreign)))
        return object.__new__(cls)

    def _check_revisions(self) -> None:
        for dataset, revision in zip(self.datasets, self._revisions, strict=True):
            check_revision(dataset, revision)

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the clips."""
        return crc32(repr([dataset.checksum_clips() for dataset in self.datasets]).encode())

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it."""
        return all(dataset.fork_safe for dataset in self.datasets)


class MergeDataset(_SeveralDatasets):
    """The columns of several data sets of the same episodes.

    keys_from_dataset: the columns of each; by default each column is that of the first data set that has it. They may
    be of other classes that have `column_names`, `len`, items and, for what needs it, `load_chunk`, `get_col_data` and
    `get_row_data`. Raises DatasetError for data sets of other lengths or clips.
    """

    _foreign = "ForeignMerge"

    def __init__(self, datasets: Sequence[Dataset], keys_from_dataset: Sequence[Sequence[str]] | None = None) -> None:
        self.datasets = _check_alike(datasets)
        self._revisions = [dataset.revision for dataset in self.datasets]
        first = self.datasets[0]
        for number, other in enumerate(self.datasets):
            if not np.array_equal(other.lengths, first.lengths):
                raise DatasetError(
                    f"datasets: number {number}: expected the lengths of the first, found different ones"
                )
        super().__init__(first.lengths, first.offsets, first.frameskip, first.num_steps)
        self.as_tensors, self.channels_first = first.as_tensors, first.channels_first
        self.weights = first.weights
        keys_by_dataset = keys_from_dataset or [dataset.column_names for dataset in self.datasets]
        if len(keys_by_dataset) != len(self.datasets) or any(isinstance(keys, str) for keys in keys_by_dataset):
            raise DatasetError(
                f"keys_from_dataset: expected the columns of each of {len(self.datasets)} data sets, "
                f"found {shown(keys_from_dataset)}"
            )
        self._owners: dict[str, Dataset] = {}
        for dataset, keys in zip(self.datasets, keys_by_dataset, strict=True):
            available = list_columns(dataset, keys)
            for key in keys:
                if key not in available:
                    raise EntryNotFoundError(f"no column {key!r}; there are {', '.join(available)}")
                self._owners.setdefault(key, dataset)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item."""
        return list(self._owners)

    def is_image(self, column: str) -> bool:
        """Return True for a column of images."""
        return self._owners[column].is_image(column)

    def lane_of(self, column: str) -> Declaration | None:
        """Return the lane whose dtype and shape the rows of a column have."""
        return self._owners[column].lane_of(column) if column in self._owners else None

    def is_action(self, column: str) -> bool:
        """Return True for a column of actions."""
        return self._owners[column].is_action(column)

    def _read_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        self._check_revisions()
        parts = [dataset._read_clips(episodes, starts, count) for dataset in self.datasets]  # noqa: SLF001  (of the same base)
        return self._transform_all([self._join(items) for items in zip(*parts, strict=True)])

    def _load_steps(self, episode: int, steps: range) -> Item:
        self._check_revisions()
        return self._apply_transform(self._join([dataset._load_steps(episode, steps) for dataset in self.datasets]))  # noqa: SLF001

    def _join(self, items: Sequence[Item]) -> Item:
        """Merge the items of one clip in each data set: each column comes from the data set that owns it."""
        item_by_dataset = {id(dataset): item for dataset, item in zip(self.datasets, items, strict=True)}
        return {key: item_by_dataset[id(owner)][key] for key, owner in self._owners.items()}

    def _as_shown(self, column: str, rows: Any) -> Any:
        return self._owners[column]._as_shown(column, rows)  # noqa: SLF001  (as above)

    def _group_actions(self, column: str, rows: Any, axis: int, count: int) -> Any:
        return self._owners.get(column, self.datasets[0])._group_actions(column, rows, axis, count)  # noqa: SLF001  (as above)

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        self._check_revisions()
        if column not in self._owners:
            raise EntryNotFoundError(f"no column {column!r}; there are {', '.join(self._owners)}")
        return self._owners[column]._take(column, episodes, steps)  # noqa: SLF001  (of the same base)

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:
        """Return per-episode values by name: those of the first data set that has them."""
        found: dict[str, list[Any]] = {}
        for dataset in self.datasets:
            for name, values in episode_data_of(dataset, episodes_idx).items():
                found.setdefault(name, values)
        return found

    def load_chunk(self, episodes: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> list[Item]:
        """Return timesteps with all columns of all data sets; of columns that several have, those of the last."""
        chunks = [dataset.load_chunk(episodes, starts, ends) for dataset in self.datasets]
        return [{name: rows for item in items for name, rows in item.items()} for items in zip(*chunks, strict=True)]


class ConcatDataset(_SeveralDatasets):
    """The episodes of several data sets, one after the other; those of sets without weights have the weight 1.

    They may be of other classes, as for MergeDataset; then they need `lengths`, too. Floats of a column become as wide
    as in any. Raises DatasetError for one whose columns or clips are not those of the first.
    """

    _foreign = "ForeignConcat"

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = _check_alike(datasets)
        self._revisions = [dataset.revision for dataset in self.datasets]
        first = self.datasets[0]
        self._lanes = {name: first.lane_of(name) for name in first.column_names}
        for number, other in enumerate(self.datasets):
            self._join_columns(other, f"datasets: number {number} ({other.where})")
        lengths = np.concatenate([dataset.lengths for dataset in self.datasets])
        super().__init__(lengths, np.cumsum(lengths) - lengths, first.frameskip, first.num_steps)
        self.as_tensors, self.channels_first = first.as_tensors, first.channels_first
        if any(dataset.weights is not None for dataset in self.datasets):
            weights = [
                np.ones(len(dataset.lengths)) if dataset.weights is None else dataset.weights
                for dataset in self.datasets
            ]
            self.weights = np.concatenate(weights)
        counts = [len(dataset.lengths) for dataset in self.datasets]
        self._first_episodes = np.cumsum(counts) - counts

    def _join_columns(self, other: Dataset, where: str) -> None:
        missing, unexpected = ({*self._lanes} - {*other.column_names}, {*other.column_names} - {*self._lanes})
        if missing or unexpected:
            raise DatasetError(
                f"{where} has other columns than the first: missing columns: {sorted(missing)}; unexpected columns: "
                f"{sorted(unexpected)}: choose columns by keys_to_load"
            )
        for name, lane in self._lanes.items():
            found = other.lane_of(name)
            if lane is None or found is None:
                continue
            self._lanes[name] = joined = join_lanes(lane, found)
            if joined is None:
                expected = describe_lane(lane)
                raise DatasetError(
                    f"{where}: column {name!r}: expected {expected} as in the first, found {describe_lane(found)}"
                )

    def lane_of(self, column: str) -> Declaration | None:
        """Return the lane whose dtype and shape the rows of a column have, None where they are not declared."""
        return self._lanes.get(column)

    def _widened(self, owner: int, column: str, rows: Any) -> Any:
        lane, own = self._lanes.get(column), self.datasets[owner].lane_of(column)
        return rows if lane is None or own is None or lane.dtype is own.dtype else as_wide(rows, lane.dtype.numpy_dtype)

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:
        """Return per-episode values by name; None for episodes of data sets that have no such value."""
        numbers = np.arange(len(self.lengths)) if episodes_idx is None else np.asarray(episodes_idx, np.int64)
        owners = self._owners_of(numbers)
        found: dict[str, list[Any]] = {}
        for owner, dataset in enumerate(self.datasets):
            positions = np.flatnonzero(owners == owner)
            local = (numbers[positions] - self._first_episodes[owner]).tolist()
            for name, values in episode_data_of(dataset, local).items():
                column = found.setdefault(name, [None] * len(numbers))
                for position, value in zip(positions.tolist(), values, strict=True):
                    column[position] = value
        return found

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item."""
        return self.datasets[0].column_names

    def is_image(self, column: str) -> bool:
        """Return True for a column of images."""
        return self.datasets[0].is_image(column)

    def is_action(self, column: str) -> bool:
        """Return True for a column of actions."""
        return self.datasets[0].is_action(column)

    def _read_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        self._check_revisions()
        owners = self._owners_of(episodes)
        merged: list[Item] = [{}] * len(episodes)
        for owner in np.unique(owners).tolist():
            positions = np.flatnonzero(owners == owner)
            local = episodes[positions] - self._first_episodes[owner]
            items = self.datasets[owner]._read_clips(local, starts[positions], count)  # noqa: SLF001  (of the same base)
            for position, item in zip(positions.tolist(), items, strict=True):
                merged[position] = {name: self._widened(owner, name, rows) for name, rows in item.items()}
        return self._transform_all(merged)

    def _owners_of(self, episodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self._first_episodes, episodes, side="right") - 1

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        self._check_revisions()
        owners = self._owners_of(episodes)
        parts: dict[int, Any] = {}
        for owner in np.unique(owners).tolist():
            positions = np.flatnonzero(owners == owner)
            local = episodes[positions] - self._first_episodes[owner]
            rows = self._widened(owner, column, self.datasets[owner]._take(column, local, steps[positions]))  # noqa: SLF001  (as above)
            parts |= dict(zip(positions.tolist(), rows, strict=True))
        ordered = [parts[position] for position in range(len(episodes))]
        return ordered if ordered and isinstance(ordered[0], str) else np.stack(ordered)

    def _load_steps(self, episode: int, steps: range) -> Item:
        self._check_revisions()
        owner = int(self._owners_of(np.array([episode]))[0])
        first = int(self._first_episodes[owner])
        item = self.datasets[owner]._load_steps(episode - first, steps)  # noqa: SLF001  (as above)
        return self._apply_transform({name: self._widened(owner, name, rows) for name, rows in item.items()})

    def _as_shown(self, column: str, rows: Any) -> Any:
        return self.datasets[0]._as_shown(column, rows)  # noqa: SLF001  (as above)

    def _group_actions(self, column: str, rows: Any, axis: int, count: int) -> Any:
        return self.datasets[0]._group_actions(column, rows, axis, count)  # noqa: SLF001  (as above)


def is_foreign(value: object) -> bool:
    """Return whether an object is no data set of this package, or joins such objects."""
    return not isinstance(value, Dataset) or getattr(value, "is_foreign", False)


def looks_like_dataset(value: object) -> bool:
    """Return whether an object has items and the names of their columns."""
    return hasattr(value, "column_names") and hasattr(value, "__len__")


def episode_data_of(dataset: Dataset, episodes: Sequence[int] | None) -> dict[str, list[Any]]:
    """Return the per-episode values of a data set; none of one of another class without such."""
    return dataset.get_episode_data(episodes) if hasattr(dataset, "get_episode_data") else {}


def _check_alike(datasets: Sequence[Dataset]) -> list[Dataset]:
    if not datasets:
        raise DatasetError("datasets: expected at least one dataset, found none")
    if not all(isinstance(dataset, Dataset) for dataset in datasets):
        raise DatasetError(f"datasets: expected a list of data sets, found {shown(datasets)}")
    first = datasets[0]
    for number, other in enumerate(datasets):
        check_without_goals(other)
        if (other.num_steps, other.frameskip) != (first.num_steps, first.frameskip):
            raise DatasetError(
                f"datasets: expected num_steps {first.num_steps} and frameskip {first.frameskip} like the first for "
                f"number {number}, found {other.num_steps} and {other.frameskip}"
            )
    return list(datasets)
