"""Limit BLAS to one thread for small matrix products."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import TYPE_CHECKING

import numpy as np  # noqa: F401  (its BLAS must be loaded to be found)
from threadpoolctl import OpenBLASController, ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@cache
def blas_threads() -> ThreadpoolController:
    """Return the controller of BLAS threads; finding the libraries takes milliseconds, once per process."""
    return ThreadpoolController().select(user_api="blas")


class _Limit:
    """The thread limit of this process: the first user sets it, the last one restores it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._restore: Callable[[], None] | None = None
        self._depth = local()

    def enter(self) -> None:
        self._depth.now = depth = getattr(self._depth, "now", 0) + 1
        if depth > 1:
            return  # this thread has set it already
        with self._lock:
            # Where BLAS uses one thread already nothing is set, which would take longer than most of what a search
            # does. Some libraries count per thread: there those that come later set it, too.
            if any(library.num_threads != 1 for library in blas_threads().lib_controllers):
                restore = blas_threads().limit(limits=1).restore_original_limits
                self._restore = self._restore or restore
            self._users += 1

    def leave(self) -> None:
        self._depth.now -= 1
        if self._depth.now:
            return
        with self._lock:
            self._users -= 1
            if self._users or self._restore is None:
                return
            # OpenBLAS heeds the thread alone that was the first to set a limit, and may be another one.
            OpenBLASController.clear_controlling_thread(force=True)
            self._restore()
            OpenBLASController.clear_controlling_thread(force=True)
            self._restore = None


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread, in a `with` statement or a function decorated by it."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
