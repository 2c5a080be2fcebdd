"""The compiled kernel of scans, of this process."""

from __future__ import annotations

from functools import cache
from typing import Final

from bridge.support.kernel_loader import KernelLoader

WORTH_IT: Final = 30  # scans: a search makes one to three


@cache
def get_kernel() -> KernelLoader:
    """Return the loader of the scans compiled by numba."""
    return KernelLoader("bridge.index.embedded.numba_kernel", WORTH_IT)
