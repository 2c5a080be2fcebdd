"""Packed bits as an array that is equal to bytes, as programs for the format's reference package compare it.

Does not know: what the bits mean (residual.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np


class PackedBits(np.ndarray[Any, np.dtype[Any]]):
    """uint8 [n]: equal to bytes of the same values as bytes are; with anything else it compares as arrays do."""

    __hash__ = None  # as of all arrays

    @staticmethod
    def of(given: Any) -> PackedBits:
        """Return an array, or the values of anything bytes-like, without copying."""
        return (given if isinstance(given, np.ndarray) else np.frombuffer(given, np.uint8)).view(PackedBits)

    def __eq__(self, other: object) -> Any:
        return self.tobytes() == other if isinstance(other, (bytes, bytearray, memoryview)) else super().__eq__(other)

    def __ne__(self, other: object) -> Any:
        return self.tobytes() != other if isinstance(other, (bytes, bytearray, memoryview)) else super().__ne__(other)
