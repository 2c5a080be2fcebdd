"""The base of data sets derived from another one, whose columns they have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from wshard.errors import DatasetError
from wshard.training.data.dataset import Dataset

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from wshard.core.episode.meta_reader import Declaration
    from wshard.training.data.batch import Item


class DerivedDataset(Dataset):
    """A data set whose columns are those of `dataset`, whose transform is applied before its own.

    lengths, offsets: as in Dataset. same_clips: its frameskip and num_steps are those of `dataset`, too.
    """

    def __init__(
        self, dataset: Dataset, lengths: NDArray[Any], offsets: NDArray[Any], *, same_clips: bool = True
    ) -> None:
        check_without_goals(dataset)
        super().__init__(lengths, offsets, *((dataset.frameskip, dataset.num_steps) if same_clips else ()))
        self.dataset = dataset
        self.weights = dataset.weights
        self._revision = dataset.revision

    @property
    def as_tensors(self) -> bool:
        """Whether items have tensors."""
        return self.dataset.as_tensors

    @as_tensors.setter
    def as_tensors(self, value: bool) -> None:
        self.dataset.as_tensors = value

    @property
    def channels_first(self) -> bool:
        """Whether images are [T, C, H, W]."""
        return self.dataset.channels_first

    @channels_first.setter
    def channels_first(self, value: bool) -> None:
        self.dataset.channels_first = value

    def checksum_clips(self) -> int:
        """Return a checksum that changes with the clips."""
        return crc32(str(self.dataset.checksum_clips()).encode(), super().checksum_clips())

    @property
    def fork_safe(self) -> bool:
        """Whether forked processes can read from it."""
        return self.dataset.fork_safe

    def get_episode_data(self, episodes_idx: Sequence[int] | None = None) -> dict[str, list[Any]]:
        """Return per-episode values by name: those of these episodes, by default of all."""
        numbers = np.arange(len(self.lengths)) if episodes_idx is None else np.asarray(episodes_idx, np.int64)
        return self.dataset.get_episode_data(self._map_to_source(numbers, np.zeros(len(numbers), np.int64))[0].tolist())

    @property
    def column_names(self) -> list[str]:
        """The names of the columns of an item, without calculated ones."""
        return self.dataset.column_names

    def is_image(self, column: str) -> bool:
        """Return True for a column of images."""
        return self.dataset.is_image(column)

    def is_action(self, column: str) -> bool:
        """Return True for a column of actions."""
        return self.dataset.is_action(column)

    def lane_of(self, column: str) -> Declaration | None:
        """Return the lane whose dtype and shape the rows of a column have."""
        return self.dataset.lane_of(column)

    # ---- rows of the underlying data set -------------------------------------------------------------------------

    def _map_to_source(self, episodes: NDArray[np.int64], steps: Any) -> tuple[NDArray[np.int64], Any]:
        """Return the episodes and timesteps of `dataset` that these ones of this data set correspond to."""
        return episodes, steps

    def _take(self, column: str, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Any:
        check_revision(self.dataset, self._revision)
        return self.dataset._take(column, *self._map_to_source(episodes, steps))  # noqa: SLF001  (of the same base)

    def _read_clips(self, episodes: NDArray[np.int64], starts: NDArray[np.int64], count: int) -> Sequence[Item]:
        check_revision(self.dataset, self._revision)
        items = self.dataset._read_clips(*self._map_to_source(episodes, starts), count)  # noqa: SLF001  (as above)
        return self._transform_all(items)

    def _load_steps(self, episode: int, steps: range) -> Item:
        check_revision(self.dataset, self._revision)
        episodes, starts = self._map_to_source(np.array([episode]), np.array([steps.start]))
        start = int(starts[0])
        item = self.dataset._load_steps(int(episodes[0]), range(start, start + len(steps)))  # noqa: SLF001  (as above)
        return self._apply_transform(item)

    def _group_actions(self, column: str, rows: Any, axis: int, count: int) -> Any:
        return self.dataset._group_actions(column, rows, axis, count)  # noqa: SLF001  (as above)

    def _as_shown(self, column: str, rows: Any) -> Any:
        return self.dataset._as_shown(column, rows)  # noqa: SLF001  (as above)


def check_without_goals(dataset: Dataset) -> None:
    """Raise DatasetError for a data set with goals, which depend on the numbers of its own clips."""
    if dataset.has_goals:
        raise DatasetError("expected a data set without goals: make the GoalDataset last, of what is made of others")


def check_revision(dataset: Dataset, revision: int) -> None:
    """Raise DatasetError if episodes were added to a data set, or removed, since another one was made of it."""
    if dataset.revision != revision:
        raise DatasetError(
            f"{dataset.where}: expected the episodes that it had when this data set was made of it, found others now: "
            f"make it anew after writing"
        )


def list_columns(dataset: Dataset, requested: Iterable[str]) -> list[str]:
    """Return the names of the columns of an item; includes calculated ones if some are requested."""
    available = dataset.column_names
    return [*dataset[0]] if len(dataset) and not set(requested) <= set(available) else available
