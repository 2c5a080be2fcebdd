"""When to stop trying something that keeps failing, and when to try it again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_FAILURES: Final = 8  # in a row: few enough queries are unlike all vectors for that to mean more than chance
_PAUSE: Final = 31  # searches without another attempt


class Backoff:
    """Says whether to try once more; threads may share it, for at worst an attempt is made or left out."""

    def __init__(self) -> None:
        self._failures: Counter[Hashable] = Counter()
        self._pause: Counter[Hashable] = Counter()

    def allows(self, kind: Hashable) -> bool:
        """Say whether to try; to be asked once per search."""
        if self._pause[kind] > 0:
            self._pause[kind] -= 1
            return False
        return True

    def record(self, kind: Hashable, *, failed: bool) -> None:
        """Take in how an attempt went."""
        self._failures[kind] = self._failures[kind] + 1 if failed else 0
        if self._failures[kind] >= _FAILURES:
            self._pause[kind] = _PAUSE
