"""An exclusive file lock between processes and threads, released by the operating system when the owner dies.

It has no effect on Windows.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wshard.core.files.regular import needs_local_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Acquire the lock, and yield whether it was acquired: always with `wait`, else only if it was free.

    Raises OSError if the folder is not writable, or its file system does not support locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        if sys.platform != "win32":
            try:
                with needs_local_disk("locks", path):
                    fcntl.flock(file.fileno(), fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
        yield True
