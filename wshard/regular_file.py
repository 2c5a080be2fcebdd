"""Open files for reading, and nothing else that has a path: a named pipe would wait for a writer that may never come.

Knows: which kinds of things a path may lead to. Does not know: what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Final

from wshard.errors import FormatError, MissingFileError

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def open_descriptor(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the descriptor of a file, the caller's to close, and the file's size in bytes.

    Raises FormatError (a ValueError) for a pipe or device, IsADirectoryError, FileNotFoundError, OSError: all name it.
    """
    descriptor = os.open(path, _FLAGS)
    about = os.fstat(descriptor)
    if stat.S_ISREG(about.st_mode):
        return descriptor, about.st_size
    os.close(descriptor)
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something else")
    raise FormatError(f"{os.fspath(path)}: expected a regular file, found {kind}")


@contextlib.contextmanager
def named_in(manifest: str | os.PathLike[str], path: str | os.PathLike[str]) -> Iterator[None]:
    """Read a file that a manifest names; raises MissingFileError where it is not there."""
    try:
        yield
    except FileNotFoundError:
        error = MissingFileError(f"{os.fspath(manifest)}: expected the file {os.fspath(path)}, found none")
        error.errno, error.filename = errno.ENOENT, os.fspath(path)
        raise error from None


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Return a file opened for reading; raises what open_descriptor raises."""
    return open(path, "rb", opener=lambda name, _: open_descriptor(name)[0])
