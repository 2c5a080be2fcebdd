"""Changes of many episodes that can be taken back, for a while."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Final

from wshard.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 50


class Undos:
    """Undo functions of the last changes; each can be used once, by the account that made the change."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._known: dict[int, tuple[str, Callable[[], object]]] = {}
        self._lock = threading.Lock()

    def remember(self, who: str, act: Callable[[], object]) -> int:
        """Return the number with which a change can be undone."""
        with self._lock:
            number = next(self._numbers)
            self._known[number] = who, act
            while len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
            return number

    def run(self, number: int, who: str) -> None:
        """Undo a change; RequestError for an unknown one, or one of another account."""
        with self._lock:
            owner, act = self._known.get(number, (None, None))
            if act is None or owner != who:
                raise RequestError("expected a change of yours that can still be undone", 409)
            del self._known[number]
        act()
