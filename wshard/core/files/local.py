"""Places on a local disk, named by their paths."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self
from urllib.parse import unquote, urlsplit

from wshard.core.files.place import FileStatus, Place
from wshard.core.files.regular import expect_unlocked, map_file, open_descriptor, open_file

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator


class LocalPlace(Place):
    """A file or folder on a local disk; `uri` is its path as it was given. It can be used as an os.PathLike."""

    __slots__ = ()
    is_local = True

    def __fspath__(self) -> str:
        return self.uri

    def local_path(self) -> str:
        """Return the path."""
        return self.uri

    def path_or_file(self) -> str:
        """Return the path, once it is known to be of a regular file: libraries would wait for a pipe."""
        os.close(open_descriptor(self.uri)[0])
        return self.uri

    def expect_unlocked(self) -> None:
        """Raise BlockingIOError while another program has locked the file."""
        expect_unlocked(self.uri)

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Yield the names directly in a folder."""
        with os.scandir(self.uri) as found:
            yield from found

    def status(self) -> FileStatus:
        """Return size, time and inode of what is there; links are followed."""
        status = os.stat(self.uri)  # noqa: PTH116  (its error names the path as it was given)
        return FileStatus(status.st_size, status.st_mtime_ns, status.st_ino)

    def exists(self) -> bool:
        """Return True if a file or folder is there; never raises."""
        return os.path.exists(self.uri)  # noqa: PTH110  (Path.exists can raise)

    def is_dir(self) -> bool:
        """Return True for a folder; never raises."""
        return os.path.isdir(self.uri)  # noqa: PTH112  (Path.is_dir can raise)

    def is_file(self) -> bool:
        """Return True for a regular file; never raises."""
        return os.path.isfile(self.uri)  # noqa: PTH113  (as above)

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes [start, stop) of a file, fewer at its end."""
        descriptor, size = open_descriptor(self.uri)
        try:
            return os.pread(descriptor, max(min(stop, size) - start, 0), start)
        finally:
            os.close(descriptor)

    def whole(self) -> memoryview:
        """Return all bytes of a file, memory-mapped."""
        descriptor, size = open_descriptor(self.uri)
        try:
            return map_file(descriptor, self.uri) if size else memoryview(b"")
        finally:
            os.close(descriptor)

    def open(self) -> io.BufferedReader:
        """Open a regular file for reading."""
        return open_file(self.uri)

    def resolve(self) -> Self:
        """Return the absolute place without links."""
        return type(self)(os.path.realpath(self.uri))

    def leads_out(self, name: str) -> bool:
        """Return True if a link on the way to a file below this folder leaves it."""
        root, path = self.resolve().uri, (self / name).resolve().uri
        return os.path.commonpath([root, path]) != root

    @property
    def parent(self) -> Self:
        """The folder of a file or folder."""
        return type(self)(os.path.dirname(self.uri.rstrip("/")) or ("/" if self.uri.startswith("/") else "."))  # noqa: PTH120

    def __truediv__(self, name: str) -> Self:
        """Return the place of a relative path in this folder."""
        return type(self)(os.path.join(self.uri, name))  # noqa: PTH118  (called very often: faster than pathlib)


def of_file_uri(uri: str) -> LocalPlace:
    """Return the place of a URI file:///PATH."""
    return LocalPlace(unquote(urlsplit(uri).path))
