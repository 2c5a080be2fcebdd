"""Detect commits by other connections to an SQLite file, through PRAGMA data_version."""

from __future__ import annotations

import sqlite3
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class DataVersion:
    """The version of the file that `connect` opens; stays open after the first use. Any thread may use it."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._openings = 0
        self._closed = False
        self._lock = threading.Lock()

    def version(self) -> tuple[int, int] | None:
        """Return a token that changes if, and only if, something was committed; None if it cannot be determined.

        Never blocks, neither on another thread nor on a lock of the file.
        """
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._closed:
                return None
            if self._connection is None:
                self._connection, self._openings = self._connect(), self._openings + 1
            (number,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            self._disconnect()
            return None
        else:
            return self._openings, number
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the file. After a fork, a thread that no longer exists may hold the lock."""
        self._closed = True
        if self._lock.acquire(timeout=1.0):
            try:
                self._disconnect()
            finally:
                self._lock.release()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
