"""Take items from an iterator in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


BATCH: Final = 256  # episodes per transaction: large enough to share one fsync, small enough to lose little work
_LEAST: Final = 32
Item = TypeVar("Item")


def batches(items: Sequence[Item], sharing: int = 1) -> Iterator[Sequence[Item]]:
    """Yield the items, BATCH at a time; sharing: processes, which get ever fewer at the end, so as to end together."""
    start = 0
    while start < len(items):
        size = BATCH if sharing == 1 else min(BATCH, max(_LEAST, (len(items) - start) // (4 * sharing)))
        yield items[start : start + size]
        start += size
