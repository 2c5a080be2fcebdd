"""Time limits of requests to a server or cluster, and messages about long waits."""

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
        self._thread_local = threading.local()
        self._lock = threading.Lock()
        self._pending: dict[object, tuple[float, list[str]]] = {}  # when to log, and what is being waited for
        self._watched = False

    @contextmanager
    def within(self, seconds: float | None) -> Iterator[None]:
        """Limit all requests of this thread in the context to this many seconds; None = no limit."""
        self._thread_local.limit = None if seconds is None else (seconds, time.monotonic() + seconds)
        try:
            yield
        finally:
            self._thread_local.limit = None

    def remaining(self, what: str) -> float | None:
        """Return the seconds left to this thread, None = no limit; raises IndexUnreachableError if none are left."""
        limit = getattr(self._thread_local, "limit", None)
        if limit is None:
            return None
        remaining: float = limit[1] - time.monotonic()
        if remaining <= 0:
            raise self.late(what)
        return remaining

    def late(self, what: str) -> IndexUnreachableError:
        """Return the error of a request that was not answered in time."""
        return IndexUnreachableError(f"no answer from {self._base} to {what} within {self._thread_local.limit[0]:g} s")

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
        """Log late requests while there are any pending: a thread per request would cost as much as HTTP."""
        watched = True
        while watched:
            time.sleep(_STEP_S)
            with self._lock:
                late = [key for key, (moment, _) in self._pending.items() if moment <= time.monotonic()]
                messages = [self._pending.pop(key)[1][-1] for key in late]
                watched = self._watched = bool(self._pending)
            for message in messages:
                _LOG.warning("waiting for %s: %s", self._base, message)
