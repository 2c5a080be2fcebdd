"""Kernels are compiled wherever numba is installed, with a cache where one can be written."""

from __future__ import annotations

import pytest
from numba import njit, types
from numba.core.caching import CacheImpl

from bridge.alignment.numba_kernel import compile_whole


def test_where_no_cache_can_be_written_kernels_are_compiled_nevertheless(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    def double(value):
        return 2 * value

    with pytest.raises(RuntimeError, match="no locator"):
        njit(cache=True)(double)
    made = compile_whole(types.int64(types.int64))(double)
    assert made.signatures, "it was compiled at once"
    assert made(21) == 42
