"""Compiles functions by numba (extra "align"), once per machine; imported only where numba is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

    _Function = Callable[..., Any]


_WITHIN: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def read_only(dtype: Any, axes: int) -> Any:
    """Return the type of C arrays that a function reads, writable or not."""
    return numba.types.Array(dtype, axes, "C", readonly=True)


def compile_whole(signature: Any, **options: Any) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that Python calls, which compiles them at once."""

    def compiled(function: _Function) -> _Function:
        try:
            return numba.njit(signature, cache=True, nogil=True, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # nowhere may this user write a cache: compiled once per process then
            return numba.njit(signature, nogil=True, **options)(function)  # type: ignore[no-any-return]

    return compiled


def compile_part(**options: Any) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that only compiled ones call, which compile sooner without what Python needs."""
    return numba.njit(nogil=True, **_WITHIN, **options)  # type: ignore[no-any-return]
