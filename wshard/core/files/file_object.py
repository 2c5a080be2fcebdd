"""An open file object as a place: one file, whose bytes begin at the current position of the object."""

from __future__ import annotations

import io
import os
import threading
from typing import IO, NoReturn

from wshard.core.files.place import FileStatus, Place
from wshard.errors import FormatError


class OpenFilePlace(Place):
    """A binary file object, which the caller closes; one that cannot seek (a pipe) is read completely.

    Such places are equal only if they are the same, and can be neither copied nor sent to another process.
    """

    __slots__ = ("_lock", "_size", "_start", "file")
    reads_ahead = True

    def __init__(self, file: IO[bytes]) -> None:
        """Take the file object; raises FormatError for one that gives text."""
        super().__init__(str(getattr(file, "name", "<file object>")))
        if not isinstance(file.read(0), bytes):
            raise FormatError(f"{self.uri}: expected a file opened in binary mode, found one that gives text")
        seekable = getattr(file, "seekable", None)
        self.file: IO[bytes] = file if seekable is not None and seekable() else io.BytesIO(file.read())
        self._start = self.file.tell()
        self._size = self.file.seek(0, os.SEEK_END) - self._start
        self.file.seek(self._start)
        self._lock = threading.Lock()  # a seek and its read belong together

    def status(self) -> FileStatus:
        """Return the size."""
        return FileStatus(self._size, 0)

    def is_dir(self) -> bool:
        """Return False."""
        return False

    def entries(self) -> NoReturn:
        """Raise NotADirectoryError."""
        raise NotADirectoryError(f"{self.uri}: expected a folder, found a file object")

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop), fewer at the end of the file."""
        with self._lock:
            self.file.seek(self._start + start)
            data = self.file.read(stop - start)
            while len(data) < stop - start and (more := self.file.read(stop - start - len(data))):
                data += more
        return data

    def local_path(self) -> NoReturn:
        """Raise FormatError."""
        raise FormatError(f"{self.uri}: expected the path of a file or folder, found a file object")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)
