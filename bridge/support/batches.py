"""Take items from an iterator in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


BATCH: Final = 256  # episodes per transaction: large enough to share one fsync, small enough to lose little work
Item = TypeVar("Item")


def batches(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items, BATCH at a time."""
    return (items[start : start + BATCH] for start in range(0, len(items), BATCH))
