"""A sequence that has no items in memory, but makes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import eq
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")


class MadeSequence(Sequence[Item]):
    """A sequence whose items are made when they are taken: len(found), found[3], found[256:512] (a list), iteration."""

    @abstractmethod
    def make(self, number: int) -> Item:
        """Return the item of that number, 0 <= number < len."""

    @overload
    def __getitem__(self, index: int, /) -> Item: ...
    @overload
    def __getitem__(self, index: slice, /) -> list[Item]: ...
    def __getitem__(self, index: int | slice, /) -> Any:
        numbers = range(len(self))[index]
        return self.make(numbers) if isinstance(numbers, int) else [self.make(number) for number in numbers]

    def __iter__(self) -> Iterator[Item]:
        return map(self.make, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Return whether the other is a list, a tuple or a sequence like this one, of equal items in the same order."""
        if not isinstance(other, MadeSequence | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # as that of a list
