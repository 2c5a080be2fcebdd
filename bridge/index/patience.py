"""When to stop trying what has been in vain: vectors without structure are scanned, lists or not.

Knows: how often in a row the attempt failed. Does not know: what was tried, or why it failed.
"""

from __future__ import annotations

from typing import Final

_PATIENT: Final = 8  # failures in a row: few enough queries are unlike all vectors for that to mean more than chance
_PAUSE: Final = 31  # searches without another attempt


class Patience:
    """Says whether to try once more; threads may share it, for at worst an attempt is made or left out."""

    def __init__(self) -> None:
        self._failures = 0
        self._pause = 0

    def left(self) -> bool:
        """Say whether to try, which is asked once per search."""
        if self._pause > 0:
            self._pause -= 1
            return False
        return True

    def learn(self, *, failed: bool) -> None:
        """Hear how an attempt went."""
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= _PATIENT:
            self._pause = _PAUSE
