"""Client-side limit of requests per minute, so that the server does not refuse requests."""

from __future__ import annotations

import math
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

    def wait(self, most: float | None = None) -> bool:
        """Wait until another request may be sent; return False at once if that takes more than `most` seconds."""
        return self._with_lock(most, self._admit)

    def refused(self, most: float | None = None) -> bool:
        """Wait for the server's next window after "rate limited", which never comes with a delay.

        Returns False immediately if that takes more than `most` seconds.
        """
        return self._with_lock(most, self._wait_for_window)

    def _with_lock(self, most: float | None, step: Callable[[float], bool]) -> bool:
        latest = math.inf if most is None else self._clock() + most
        if not self._lock.acquire(timeout=-1 if most is None else most):
            return False
        try:
            return step(latest)
        finally:
            self._lock.release()

    def _admit(self, latest: float) -> bool:
        if self._per_minute and len(self._sent) >= self._per_minute:
            if not self._sleep_until(self._sent[0] + WINDOW_S + _SLACK_S, latest):
                return False
            self._sent.popleft()
        self._sent.append(self._clock())
        while self._sent and self._sent[0] <= self._clock() - WINDOW_S - _SLACK_S:
            self._sent.popleft()
        return True

    def _wait_for_window(self, latest: float) -> bool:
        """Sleep until the server's window ends, which started at or before the oldest request of the last minute."""
        now = self._clock()
        window_start = self._sent[0] if self._sent and self._per_minute else now
        if not self._sleep_until(max(window_start + WINDOW_S + _SLACK_S, now + 1.0), latest):
            return False
        self._sent.clear()
        return True

    def _sleep_until(self, moment: float, latest: float) -> bool:
        if moment > latest:
            return False
        remaining = moment - self._clock()
        if remaining > 0:
            self._sleep(remaining)
        return True
