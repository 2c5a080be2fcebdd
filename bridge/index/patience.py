"""When to stop trying what has been in vain: vectors without structure are scanned, lists or not.

Knows: how often in a row the attempt failed, for searches of each kind. Does not know: what was tried, what makes a
kind, or why it failed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_PATIENT: Final = 8  # failures in a row: few enough queries are unlike all vectors for that to mean more than chance
_PAUSE: Final = 31  # searches without another attempt


class Patience:
    """Says whether to try once more; threads may share it, for at worst an attempt is made or left out."""

    def __init__(self) -> None:
        self._failures: Counter[Hashable] = Counter()
        self._pause: Counter[Hashable] = Counter()

    def left(self, kind: Hashable) -> bool:
        """Say whether to try, which is asked once per search."""
        if self._pause[kind] > 0:
            self._pause[kind] -= 1
            return False
        return True

    def learn(self, kind: Hashable, *, failed: bool) -> None:
        """Hear how an attempt went."""
        self._failures[kind] = self._failures[kind] + 1 if failed else 0
        if self._failures[kind] >= _PATIENT:
            self._pause[kind] = _PAUSE
