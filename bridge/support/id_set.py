"""A set of ids of episodes, as a byte for each number up to the largest: a set of numbers takes 60 bytes for each."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class IdSet:
    """Ids of episodes, which a catalog numbers from 1 on."""

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._flags = bytearray()
        self.update(ids)

    def update(self, ids: Iterable[int]) -> None:
        """Add ids."""
        flags = self._flags
        for id_ in ids:
            if id_ >= len(flags):
                flags.extend(bytes(id_ + 1 + len(flags) // 8 - len(flags)))
            flags[id_] = 1

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, int) and id_ < len(self._flags) and self._flags[id_] == 1

    def __len__(self) -> int:
        return self._flags.count(1)

    def __iter__(self) -> Iterator[int]:
        """Yield them, ascending."""
        return compress(range(len(self._flags)), self._flags)
