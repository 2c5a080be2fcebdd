"""Checksums of the parts of a large file, each verified when its part is first used, so that opening reads little."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wshard.core.container.layout import checksum
from wshard.errors import ChecksumError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Checksums:
    """Part i of `vectors` is rows starts[i]:starts[i+1] and has the CRC32C sums[i]; without sums nothing is checked.

    Threads may share one instance.
    """

    def __init__(
        self, vectors: NDArray[np.generic], starts: NDArray[np.int64], sums: NDArray[np.int64] | None, what: str
    ) -> None:
        self._vectors = vectors
        self._starts = starts
        self._sums = sums
        self._what = what
        self._unread = np.full(len(starts) - 1, sums is not None, np.bool_)
        self._has_unread = bool(self._unread.any())

    def check(self, parts: NDArray[np.signedinteger] | None = None) -> None:
        """Verify those of the parts (None = all) that were not verified before; raises ChecksumError."""
        if not self._has_unread or self._sums is None:
            return
        is_unread = self._unread if parts is None else self._unread.take(parts)
        if not np.count_nonzero(is_unread):
            return  # nearly always; returning here halves the time
        unread = np.flatnonzero(is_unread)
        if parts is not None:
            unread = np.fromiter(dict.fromkeys(parts[unread].tolist()), np.int64)  # each once
        # Parts are many and small: plain numbers and one view of the bytes are faster than slices of arrays.
        starts, stops = (edges[unread].tolist() for edges in (self._starts[:-1], self._starts[1:]))
        data, width = self._vectors.reshape(-1).view(np.uint8).data, self._vectors[:1].nbytes
        for part, start, stop, expected in zip(
            unread.tolist(), starts, stops, self._sums[unread].tolist(), strict=True
        ):
            actual = checksum(data[start * width : stop * width])
            if actual != expected:
                raise ChecksumError(f"{self._what}: expected CRC32C {expected:08x} of part {part}, found {actual:08x}")
        self._unread[unread] = False
        self._has_unread = bool(self._unread.any())  # no counter: two threads may have verified the same part
