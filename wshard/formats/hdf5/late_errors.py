"""Files for writing HDF5 that postpone errors until they can be raised outside of the library."""

from __future__ import annotations

import io
from typing import Any


class LateErrorFile(io.FileIO):
    """A file whose first write error is raised by check(): the HDF5 library may crash after one."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write all bytes, or nothing after an error; returns their number."""
        remaining = memoryview(data).cast("B")
        size = len(remaining)
        try:
            while remaining and self.error is None:
                remaining = remaining[super().write(remaining) :]
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
