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
            return  # already set by this thread
        with self._lock:
            # If BLAS uses one thread already, nothing is set, as that takes longer than most steps of a search. In
            # libraries with a limit per thread, later threads set it too.
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
            # OpenBLAS only accepts limits from the thread that set one first, which may be another one.
            OpenBLASController.clear_controlling_thread(force=True)
            self._restore()
            OpenBLASController.clear_controlling_thread(force=True)
            self._restore = None


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread, in a `with` statement or as a decorator."""
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
