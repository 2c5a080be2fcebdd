"""Collects garbage rarely, as objects of modules and episodes hardly ever form cycles; gives back what is free."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OBJECTS: Final = 200_000
"""Threshold of the youngest generation; with Python's 700, collections take a tenth of an ingest and of a start."""


class _Threshold:
    """The threshold of this process: the first user sets it, the last one restores it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._before = gc.get_threshold()

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _OBJECTS:  # 0: collection is disabled
                    gc.set_threshold(_OBJECTS, *self._before[1:])

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                gc.set_threshold(*self._before)


_threshold = _Threshold()


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Collect garbage every 200,000 new objects only, in a `with` statement."""
    _threshold.enter()
    try:
        yield
    finally:
        _threshold.leave()


def begin_collecting_rarely() -> None:
    """Collect garbage that rarely until the process ends."""
    _threshold.enter()


def give_back() -> None:
    """Return free memory to the system, after a step that took much; where the C library can do so (glibc)."""
    if arrow := sys.modules.get("pyarrow"):
        arrow.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
