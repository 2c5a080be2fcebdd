"""Publish files atomically. Output starts at `publish`."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from wshard.core.container.layout import MAGIC

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TEMPORARY: Final = re.compile(r"\.(.{1,40})\.[0-9a-f]{8}\.tmp", re.DOTALL)
"""The names of files while they are written."""

_SUFFIXES: Final = (".wshard", ".shard")
_MAX_NAME_LENGTH: Final = 40

_FIRST_BYTES: Final = (b"", MAGIC, bytes(len(MAGIC)))  # of a temporary file: its header is written last, over zeros


def check_place(path: str | os.PathLike[str]) -> Path:
    """Return the real path of a file to write; raises OSError for a folder, pipe or device, or a missing parent."""
    final = Path(os.path.realpath(path))  # a link keeps pointing at the file that it names
    with contextlib.suppress(FileNotFoundError):
        mode = Path(path).stat().st_mode  # of what a link names, also of a pipe that has no path
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise FileExistsError(
                errno.EEXIST, "expected a file or an unused path, found a pipe or a device", str(final)
            )
    check_folder_of(final)
    return final


def check_replaceable(path: str | os.PathLike[str], what: str, own: bytes | Callable[[IO[bytes]], bool]) -> None:
    """Raise FileExistsError if the file at `path` is not `what`: a writer replaces only files of its own kind.

    own: how such a file begins, or a function that recognises one. Raises what check_place raises, OSError.
    """
    check_place(path)
    with contextlib.suppress(FileNotFoundError), Path(path).open("rb") as file:
        is_empty = not file.read(1)
        file.seek(0)
        if not is_empty and not (file.read(len(own)) == own if isinstance(own, bytes) else own(file)):
            raise FileExistsError(errno.EEXIST, f"expected an unused path or {what}, found another file", str(path))


def check_folder_of(path: Path) -> None:
    """Raise FileNotFoundError where the folder of a file or folder to write is missing."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"cannot be written: there is no folder {path.parent}", str(path))


@contextlib.contextmanager
def publish(path: str | os.PathLike[str], *, unused: bool = False) -> Iterator[IO[bytes]]:
    """Yield a file to write, which appears at `path` atomically; unused: raise FileExistsError if another is there.

    It is written under a temporary name in the same folder, flushed to disk, then renamed. On any error the temporary
    file is removed and an earlier file at `path` is unchanged; remove_left_behind removes the files of killed
    processes. Output starts at this line. Raises FileExistsError for a pipe or a device, which a file would replace,
    IsADirectoryError, FileNotFoundError without a folder, OSError.
    """
    final = check_place(path)
    temporary, descriptor, lock = _create(final)
    try:
        with os.fdopen(descriptor, "w+b", buffering=1 << 18) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        (_put_new if unused else Path.replace)(temporary, final)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        name_place(error, final)
        raise
    finally:
        if lock is not None:
            os.close(lock)
    sync_folder(final.parent)


def _put_new(temporary: Path, final: Path) -> None:
    """Rename a file, unless another one has the name: of two writers, one wins."""
    try:
        os.link(temporary, final)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links
        if final.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final)) from None
        temporary.replace(final)
    else:
        temporary.unlink()


@contextlib.contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Let other processes that hold the folder wait."""
    if sys.platform == "win32":
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def name_place(error: BaseException, place: object) -> None:
    """Set the file name of a system error that has none, such as that of a full disk."""
    if isinstance(error, OSError) and error.filename is None:
        error.filename = str(place)


def _create(final: Path) -> tuple[Path, int, int | None]:
    """Create a temporary file beside `final`; return it, its descriptor, and a descriptor that holds its lock."""
    while True:
        temporary = final.with_name(f".{final.name[:_MAX_NAME_LENGTH]}.{secrets.token_hex(4)}.tmp")
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            error.filename = str(final)  # the requested name
            raise
        locked = lock_descriptor(descriptor)
        if locked is not False and os.fstat(descriptor).st_nlink:
            # The second descriptor keeps the lock until the file has its name; Windows renames no open files.
            return temporary, descriptor, os.dup(descriptor) if locked else None
        os.close(descriptor)  # another process took it for abandoned and removed it before it was locked


def lock_descriptor(descriptor: int) -> bool | None:
    """Lock an open file; returns False where another process has locked it, None where files cannot be locked."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_left_behind(final: Path) -> None:
    """Remove the temporary files of killed processes that were writing to this path."""
    prefix = f".{final.name[:_MAX_NAME_LENGTH]}."
    with contextlib.suppress(OSError), os.scandir(final.parent) as children:
        for child in children:
            if child.name.startswith(prefix):
                remove_abandoned(child.path)


def remove_abandoned(path: str | os.PathLike[str]) -> bool:
    """Remove the temporary Shard file of a killed `publish`; False for any other file, which is not touched."""
    match = TEMPORARY.fullmatch(Path(path).name)
    if match is None or not (match[1].endswith(_SUFFIXES) or len(match[1]) == _MAX_NAME_LENGTH):
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        is_ours = regular and os.read(descriptor, len(MAGIC)) in _FIRST_BYTES and lock_descriptor(descriptor) is True
        if is_ours:
            os.unlink(path)  # noqa: PTH108  (a link to it would not have been opened)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return is_ours


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable, where the platform can."""
    with contextlib.suppress(OSError):  # Windows cannot open folders; the rename itself has already happened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
