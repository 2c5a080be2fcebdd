"""So many requests per minute, and no more: what keeps a client from being refused.

Knows: when the last requests went out. Does not know: HTTP, or other clients of the same key.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_S: Final = 60.0
_SLACK_S: Final = 0.5  # the server's window was measured as 60.3 s


class Throttle:
    """Lets `per_minute` requests through in any 60 seconds (0: all of them); threads may share it."""

    def __init__(
        self,
        per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._sleep = sleep
        self._sent: deque[float] = deque()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when one more request may go out."""
        with self._lock:
            if self._per_minute and len(self._sent) >= self._per_minute:
                self._sleep_until(self._sent.popleft() + WINDOW_S + _SLACK_S)
            self._sent.append(self._clock())
            while self._sent and self._sent[0] <= self._clock() - WINDOW_S - _SLACK_S:
                self._sent.popleft()

    def refused(self) -> None:
        """Wait for the server's next window: it said "rate limited", and never says for how long.

        The window began with or before the oldest request of the last minute that this client knows of.
        """
        with self._lock:
            now = self._clock()
            begun = self._sent[0] if self._sent and self._per_minute else now
            self._sleep_until(max(begun + WINDOW_S + _SLACK_S, now + 1.0))
            self._sent.clear()

    def _sleep_until(self, moment: float) -> None:
        left = moment - self._clock()
        if left > 0:
            self._sleep(left)
