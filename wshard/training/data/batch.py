"""A batch of clips: stacked columns, of which the items are views; and rows of what `_load_slice` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.messages import shown
from wshard.errors import DatasetError
from wshard.training.data.tensors import as_numpy, split_batch, stack_batch

if TYPE_CHECKING:
    from numpy.typing import NDArray


Item = dict[str, Any]
"""A clip or an episode: its columns by name."""


class ClipBatch(Sequence[Item]):
    """A batch of clips, stacked in `columns`; the items are views of these."""

    def __init__(self, columns: Item, size: int) -> None:
        self.columns = columns
        self._size = size
        self._items: list[Item] | None = None

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, number: Any) -> Any:
        if self._items is None:
            self._items = split_batch(self.columns, self._size)
        return self._items[number]


def collate(items: Sequence[Item]) -> Item:
    """Stack clips into a batch of columns, without a copy if they are already contiguous; a collate_fn."""
    return items.columns if isinstance(items, ClipBatch) else stack_batch(items)


def load_slice(data: Any, episode: int, start: int, stop: int) -> Item:
    """Return the timesteps [start, stop) of an episode by the `_load_slice` of its data set, every one of them.

    `_load_slice` may apply frameskip and transform, as the classes of the original do, or leave both to the base class:
    while it is called, there are neither. Raises DatasetError for columns of another length.
    """
    options = data.frameskip, data.transform
    data.frameskip, data.transform = 1, None
    try:
        item: object = data._load_slice(episode, start, stop)  # noqa: SLF001  (what a subclass defines)
    finally:
        data.frameskip, data.transform = options
    if not isinstance(item, Mapping):
        raise DatasetError(f"{data.where}._load_slice: expected a dict of columns, found {shown(item)}")
    for name, rows in item.items():
        if not isinstance(rows, str) and len(rows) != stop - start:
            raise DatasetError(
                f"{data.where}._load_slice: column {name!r}: expected {stop - start} timesteps, found {len(rows)}"
            )
    return dict(item)


def take_slices(data: Any, episodes: NDArray[np.int64], steps: NDArray[np.int64]) -> Item:
    """Return rows [clips, n, *row] of all columns by `_load_slice`; of a column of texts that of each clip's first."""
    taken: dict[str, list[Any]] = {}
    for episode, clip in zip(episodes.tolist(), steps, strict=True):
        first, stop = (int(clip.min()), int(clip.max()) + 1) if len(clip) else (0, 0)
        for name, column in load_slice(data, episode, first, stop).items():
            rows = column if isinstance(column, str) else np.asarray(as_numpy(column))[clip - first]
            is_text = isinstance(rows, np.ndarray) and rows.dtype.kind in "UO" and len(rows)
            taken.setdefault(name, []).append(str(rows[0]) if is_text else rows)
    return {name: rows if isinstance(rows[0], str) else np.stack(rows) for name, rows in taken.items()}


def defines_slices(cls: type) -> bool:
    """Return whether a class of data sets defines its rows by `_load_slice`, not by `_take`."""
    definer = next(base for base in cls.__mro__ if "_take" in vars(base) or "_load_slice" in vars(base))
    return "_load_slice" in vars(definer)
