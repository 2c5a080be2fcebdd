"""Cancel running statements when the client that requested them no longer waits."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection


class Cancellation:
    """Cancels the statements that read for a client: when it disconnects, they end with an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Any] = set()

    def cancel(self) -> None:
        """Interrupt the running statements. Any thread may call it."""
        with self._lock:
            for driver in self._running:
                interrupt = getattr(driver, "interrupt", None) or getattr(driver, "cancel", None)
                if interrupt is not None:
                    with suppress(Exception):  # the statement has just ended
                        interrupt()

    @contextmanager
    def reading(self, connection: Connection) -> Iterator[None]:
        """Let `cancel` interrupt the statements of a connection until the block ends."""
        driver = connection.connection.driver_connection
        with self._lock:
            self._running.add(driver)
        try:
            yield
        finally:
            with self._lock:  # afterwards, the pool may lend the connection to another client
                self._running.discard(driver)


CANCELLATION: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)
