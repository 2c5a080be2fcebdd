"""Open regular files for reading, and nothing else: opening a pipe would block without a writer."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import sys
from typing import TYPE_CHECKING, Final

from wshard.errors import FormatError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LFS_HEAD: Final = b"version https://git-lfs.github.com/spec/"
_LFS_SIZE: Final = 1024  # bytes; pointers are smaller, and longer than their first line
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


def open_descriptor(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the descriptor of a file, the caller's to close, and the file's size in bytes.

    Links are followed, also out of the folder. Raises FormatError (a ValueError) for a pipe, a device and a pointer of
    Git LFS, IsADirectoryError, FileNotFoundError, OSError: all name it.
    """
    descriptor = os.open(path, _FLAGS)
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        if len(_LFS_HEAD) < status.st_size < _LFS_SIZE and os.read(descriptor, len(_LFS_HEAD)) == _LFS_HEAD:
            os.close(descriptor)
            advice = "run `git lfs pull` in its repository"
            raise FormatError(f"{os.fspath(path)}: expected data, found a pointer of Git LFS: {advice}")
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor, status.st_size
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    raise FormatError(f"{os.fspath(path)}: expected a regular file, found {kind}")


def expect_unlocked(path: str) -> None:
    """Raise BlockingIOError while another program has locked a file."""
    if sys.platform == "win32":
        return
    descriptor, _ = open_descriptor(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError as error:
        reason = "another program writes to it: read it once that has closed it"
        raise BlockingIOError(error.errno, reason, path) from None
    except OSError:
        return  # a disk without locks
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def needs_local_disk(what: str, where: str | os.PathLike[str]) -> Iterator[None]:
    """Lock or map a file; an OSError mentions network disks, unless another process holds the lock."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as error:
        advice = f"{error.strerror}; {what} fail on some network disks: use a local disk"
        raise OSError(error.errno, advice, os.fspath(where)) from error


def map_file(descriptor: int, where: str | os.PathLike[str]) -> memoryview:
    """Return the bytes of an open file of at least one, mapped; raises OSError, as needs_local_disk."""
    with needs_local_disk("memory maps", where):
        return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))


def open_file(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Return a file opened for reading; raises what open_descriptor raises."""
    return open(path, "rb", opener=lambda name, _: open_descriptor(name)[0])
