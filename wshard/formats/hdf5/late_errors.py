"""Files that HDF5 is written to, whose errors are raised outside of the library."""

from __future__ import annotations

import io
from typing import Any


class LateErrorFile(io.FileIO):
    """A file whose first write error is raised by check(): the HDF5 library may crash after one."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or nothing after an error; returns their number."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left and self.error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.error = error
        return size

    def truncate(self, size: int | None = None) -> int:
        """Change the size, unless after an error."""
        try:
            return super().truncate(size) if self.error is None else size or 0
        except OSError as error:
            self.error = error
            return size or 0

    def check(self) -> None:
        """Raise the error."""
        if self.error is not None:
            raise self.error
