"""An exclusive file lock between processes and threads, released by the operating system when the owner dies.

On Windows it excludes nobody.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wshard.container.open_file import needs_local_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if sys.platform != "win32":
    import fcntl


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock, and yield whether it is held: always where `wait`, else only if nobody else held it.

    Raises OSError where the folder cannot be written, or its disk knows no locks.
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
