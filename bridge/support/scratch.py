"""Room for numbers that are needed for a moment: memory that is used again, and files for what would not fit there."""

from __future__ import annotations

from math import prod
from tempfile import TemporaryFile
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import DTypeLike, NDArray


class _Room(local):
    def __init__(self) -> None:
        self.numbers = np.empty(0)


_room = _Room()


def scratch(*shape: int) -> NDArray[np.float64]:
    """Return uninitialised numbers of this shape, in memory that the next call in this thread returns again.

    Where memory goes back to the system, each use pays for new pages.
    """
    size = prod(shape)
    if len(_room.numbers) < size:
        _room.numbers = np.empty(size)
    return _room.numbers[:size].reshape(shape)


def map_rows(parts: Iterable[NDArray[Any]], width: int, kind: DTypeLike) -> NDArray[Any]:
    """Return the rows [n, width] of arrays, one after the other, mapped from a temporary file that ends with them.

    Written first, so that a full disk raises OSError here, where writing to a mapped file would end the process.
    """
    with TemporaryFile() as file:
        for part in parts:
            file.write(np.ascontiguousarray(part, kind).data)
        file.flush()
        if not file.tell():
            return np.zeros((0, width), kind)
        return np.asarray(np.memmap(file, kind, "r")).reshape(-1, width)
