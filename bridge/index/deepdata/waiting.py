"""Time limits of requests to a server, and messages about long waits."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from wshard.errors import IndexUnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SILENT_S: Final = 2.0
_STEP_S: Final = 0.2
_LOG: Final = logging.getLogger(__name__)  # unless logging was set up, warnings go to stderr


class Waiting:
    """Waiting for one server; threads may share it, and each has its own time limit."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._pending: dict[object, tuple[float, list[str]]] = {}  # when to say so, and what is waited for
        self._watched = False

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Limit all requests of this thread in the context to this many seconds; None = no limit."""
        self._mine.limit = None if seconds is None else (seconds, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._mine.limit = None

    def left(self, what: str) -> float | None:
        """Return the seconds that are left to this thread; IndexUnreachableError where none are."""
        limit = getattr(self._mine, "limit", None)
        if limit is None:
            return None
        left: float = limit[1] - time.monotonic()
        if left <= 0:
            raise self.late(what)
        return left

    def late(self, what: str) -> IndexUnreachableError:
        """Return the error of a request that was not answered in time."""
        return IndexUnreachableError(f"no answer from {self._base} to {what} within {self._mine.limit[0]:g} s")

    @contextmanager
    def announce(self, why: list[str]) -> Iterator[None]:
        """Log once, as a warning, what is being waited for (the last of `why`) if it takes longer than 2 s."""
        key = object()
        with self._lock:
            self._pending[key] = (time.monotonic() + _SILENT_S, why)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._pending.pop(key, None)

    def _watch(self) -> None:
        """Look now and then, as long as there is something to look at: a thread per request costs as much as HTTP."""
        watched = True
        while watched:
            time.sleep(_STEP_S)
            with self._lock:
                late = [key for key, (moment, _) in self._pending.items() if moment <= time.monotonic()]
                said = [self._pending.pop(key)[1][-1] for key in late]
                watched = self._watched = bool(self._pending)
            for words in said:
                _LOG.warning("waiting for %s: %s", self._base, words)
