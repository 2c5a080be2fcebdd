"""Publish files atomically. Output starts at `publish`.

Knows: how a finished file gets its name. Does not know: what is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def publish(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file to write; it appears at `path` whole, or not at all.

    Written under a temporary name in the same folder, flushed to disk, then renamed; on any error the temporary file
    is removed and an earlier file at `path` stays as it was. Output starts at this line. Raises FileExistsError for a
    pipe or a device, which a file would replace, OSError.
    """
    final = Path(os.path.realpath(path))  # a link keeps pointing at the file that it names
    with contextlib.suppress(FileNotFoundError):
        kind = Path(path).stat().st_mode  # of what a link names, also of a pipe that has no path
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise FileExistsError(
                errno.EEXIST, "expected a file or nothing there, found a pipe or a device", str(final)
            )
    temporary = final.with_name(f".{final.name[:40]}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    except OSError as error:
        error.filename = str(final)  # the name that was asked for
        raise
    try:
        with os.fdopen(descriptor, "w+b", buffering=1 << 18) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(final)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(final)  # a full disk names no file by itself
        raise
    sync_folder(final.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable, where the platform can."""
    with contextlib.suppress(OSError):  # Windows cannot open folders; the rename itself has already happened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
