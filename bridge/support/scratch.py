"""Memory for numbers that are needed for a moment: where it goes back to the system, each use pays for new pages."""

from __future__ import annotations

from math import prod
from threading import local
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Room(local):
    def __init__(self) -> None:
        self.numbers = np.empty(0)


_room = _Room()


def scratch(*shape: int) -> NDArray[np.float64]:
    """Return uninitialised numbers of this shape, in memory that the next call in this thread returns again."""
    size = prod(shape)
    if len(_room.numbers) < size:
        _room.numbers = np.empty(size)
    return _room.numbers[:size].reshape(shape)
