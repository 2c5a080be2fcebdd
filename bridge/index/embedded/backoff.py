"""When to stop trying something that keeps failing, and when to try it again."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

_FAILURES: Final = 8  # in a row; so many are unlikely by chance, as few queries differ from all vectors
_PAUSE: Final = 31  # searches without another attempt


class Backoff:
    """Decides whether to try again; shared by threads without a lock, which at worst adds or skips an attempt."""

    def __init__(self) -> None:
        self._failures: Counter[Hashable] = Counter()
        self._pause: Counter[Hashable] = Counter()

    def allows(self, kind: Hashable) -> bool:
        """Return whether to try; called once per search."""
        if self._pause[kind] > 0:
            self._pause[kind] -= 1
            return False
        return True

    def record(self, kind: Hashable, *, failed: bool) -> None:
        """Record the outcome of an attempt."""
        self._failures[kind] = self._failures[kind] + 1 if failed else 0
        if self._failures[kind] >= _FAILURES:
            self._pause[kind] = _PAUSE
