"""Statements for somebody who may leave: whoever asked no longer waits, and the database need not go on."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection


class Asker:
    """Who waits for what is read in this context; when it leaves, statements that run for it end with an error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[Any] = set()

    def leave(self) -> None:
        """Interrupt what runs. Any thread may call it."""
        with self._lock:
            for driver in self._running:
                interrupt = getattr(driver, "interrupt", None) or getattr(driver, "cancel", None)
                if interrupt is not None:
                    with suppress(Exception):  # it ends by itself
                        interrupt()

    @contextmanager
    def reading(self, connection: Connection) -> Iterator[None]:
        """Run statements of a connection until the block ends."""
        driver = connection.connection.driver_connection
        with self._lock:
            self._running.add(driver)
        try:
            yield
        finally:
            with self._lock:  # afterwards the connection is another one's
                self._running.discard(driver)


ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)
