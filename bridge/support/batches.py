"""Take items from an iterator in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


BATCH: Final = 256  # episodes per transaction: large enough to share one fsync, small enough to lose little work
_LEAST: Final = 32
_FIRST: Final = 8
Item = TypeVar("Item")


def batches(items: Sequence[Item], sharing: int = 1) -> Iterator[Sequence[Item]]:
    """Yield the items, BATCH at a time; sharing: processes, which get ever fewer at the end, so as to end together."""
    return _cut(items, sharing, BATCH)


def growing_batches(items: Sequence[Item], sharing: int = 1) -> Iterator[Sequence[Item]]:
    """Yield the items as `batches` does, a few first, then ever more: much of work that is soon interrupted is kept."""
    return _cut(items, sharing, _FIRST)


def _cut(items: Sequence[Item], sharing: int, most: int) -> Iterator[Sequence[Item]]:
    start = 0
    while start < len(items):
        most = min(BATCH, most)
        size = most if sharing == 1 else min(most, max(_LEAST, (len(items) - start) // (4 * sharing)))
        yield items[start : start + size]
        start, most = start + size, 2 * most
