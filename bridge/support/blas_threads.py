"""Limit BLAS to one thread for small matrix products."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import numpy as np  # noqa: F401  (its BLAS must be loaded to be found)
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator


@cache
def blas_threads() -> ThreadpoolController:
    """Return the one that limits BLAS threads; finding the libraries takes milliseconds, once per process."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread, in a `with` statement or a function decorated by it.

    Where it uses one already nothing is set, which would take longer than most of what a search does.
    """
    if all(library.num_threads == 1 for library in blas_threads().lib_controllers):
        yield
        return
    with blas_threads().limit(limits=1):
        yield
