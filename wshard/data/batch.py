"""A batch of clips: stacked columns, of which the items are views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wshard.data.tensors import split_batch, stack_batch

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
