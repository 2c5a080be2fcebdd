"""Write a file or folder beside its target and put it there when it is complete: all of it or nothing.

A lock file beside each draft names its target; another process can lock it only after the owner has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from wshard.core.container.atomic_write import check_folder_of, hold_folder, lock_descriptor, sync_folder
from wshard.core.files.exchange import check_unchanged, exchange_folders, finish_exchange, link_files, stamp_owned
from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wshard.core.files.exchange import Stamp

WriteMode = Literal["append", "overwrite", "error"]
WRITE_MODES: Final = ("append", "overwrite", "error")

DRAFT_LOCK: Final = re.compile(r"\.(.{1,40})\.[0-9a-f]{8}\.draft\.lock", re.DOTALL)
"""The names of the lock files of drafts."""

_LOCK_SUFFIX: Final = ".lock"
_OLD_SUFFIX: Final = ".old"
_LOCK_MAGIC: Final = b"wshard draft of "
_END_OF_NAME: Final = b"\0"  # before what was noted
_MAX_NAME_LENGTH: Final = 40
_MAX_LOCK_SIZE: Final = 4096


def check_mode(mode: str) -> None:
    """Raise FormatError for an unknown write mode."""
    if mode not in WRITE_MODES:
        raise FormatError(f"write mode must be one of {', '.join(WRITE_MODES)}, found {mode!r}")


class Draft:
    """A file or folder that takes the place of its target when it is published.

    owned: the names of the files below a target folder that belong to the data set there, "" for a target file of the
    right kind; only these are replaced.
    mode "append": the draft begins as a copy of them by hard links, so that they may be replaced but never changed in
    place; of a file, it is a copy. "overwrite": it begins empty. "error": the target must not exist. Until `publish`,
    and after a crash, the target is what it was; the next draft of it removes what a killed process left. Raises what
    stamp_owned raises.
    """

    def __init__(
        self, target: str | os.PathLike[str], mode: WriteMode = "error", *, folder: bool, owned: Iterable[str] = ()
    ) -> None:
        check_mode(mode)
        self.target = Path(os.path.realpath(target))
        remove_dead_drafts(self.target)
        self.existed = self.target.exists()
        if mode == "error":
            _check_unused(self.target)
        if self.existed and not (self.target.is_dir() if folder else self.target.is_file()):
            expected = "a folder" if folder else "a file"
            raise FormatError(f"{self.target}: expected {expected} or an unused path, found something else")
        self._mode = mode
        self._stamps = stamp_owned(self.target, owned, mode)
        self._lock = DraftLock(self.target)
        self.path = self._lock.draft
        try:
            if folder:
                self.path.mkdir()
            if mode == "append" and self.existed:
                link_files(self.target, self.path, self._stamps) if folder else shutil.copy2(self.target, self.path)
        except BaseException:
            self.discard()
            raise

    def publish(self) -> None:
        """Replace the owned files of the target by the draft; files of others there are kept.

        Raises FileExistsError in mode "error", if the target has been created meanwhile, and where a file of others has
        the name of a new one; RecordingStateError if another program has changed an owned file.
        """
        put_in_place(self.path, self.target, self._stamps, self._lock, unused=self._mode == "error")
        self._lock.release()

    def discard(self) -> None:
        """Remove the draft; the target stays as it is."""
        self._lock.discard()


def _check_unused(target: Path) -> None:
    if target.exists():
        raise FileExistsError(errno.EEXIST, "expected an unused path (mode 'error')", str(target))


def put_in_place(
    path: Path, target: Path, stamps: Mapping[str, Stamp], lock: DraftLock, *, unused: bool = False
) -> None:
    """Replace the target by a complete draft. stamps: what stamp_owned returned before writing.

    unused: raise FileExistsError if the target exists; checked after flushing, which takes long for a large draft.
    Raises RecordingStateError if a file with a stamp has changed.
    """
    _flush(path)
    with hold_folder(target.parent):  # of two writers, the later one sees what the other did
        if unused:
            _check_unused(target)
        check_unchanged(target, stamps)
        if path.is_dir() and target.exists():
            exchange_folders(path, target, stamps, aside_of(lock.draft), lock.note)
        else:
            if target.exists():
                shutil.copymode(target, path)
            path.replace(target)
    sync_folder(target.parent)


def _flush(path: Path) -> None:
    """Flush all files to disk before the rename, so that the target is never incomplete, even after a power failure."""
    if path.is_dir():
        for folder, _, names in os.walk(path):
            for name in names:
                if not Path(folder, name).is_symlink():
                    _flush_file(Path(folder, name))
            sync_folder(Path(folder))
    else:
        _flush_file(path)


def _flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


# ---- ownership of drafts ---------------------------------------------------------------------------------------------


class DraftLock:
    """The name of a new draft beside its target, and the lock that is held while this process lives.

    wanted: decides whether the draft of an ended process is continued; adopted: True if one is.
    """

    def __init__(self, target: Path, wanted: Callable[[Path], bool] | None = None) -> None:
        self._target = target
        self.adopted = wanted is not None and self._adopt(target, wanted)
        if self.adopted:
            return
        check_folder_of(target)
        while True:
            self.draft = target.with_name(f".{target.name[:_MAX_NAME_LENGTH]}.{secrets.token_hex(4)}.draft")
            self._path = target.with_name(f"{self.draft.name}{_LOCK_SUFFIX}")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
            self._descriptor = os.open(self._path, flags, 0o666)
            if lock_descriptor(self._descriptor) is not False and os.fstat(self._descriptor).st_nlink:
                break
            self._path.unlink(missing_ok=True)  # another process locked it first
            os.close(self._descriptor)
        os.write(self._descriptor, _LOCK_MAGIC + os.fsencode(target.name))

    def _adopt(self, target: Path, wanted: Callable[[Path], bool]) -> bool:
        for lock in _locks_of(target):
            self.draft, self._path = lock.with_name(lock.name.removesuffix(_LOCK_SUFFIX)), lock
            self._descriptor = _open_lock(lock)
            if self._descriptor >= 0:
                is_dead = _target_of(self._descriptor) == target.name and os.fstat(self._descriptor).st_nlink
                if is_dead and wanted(self.draft):
                    return True
                os.close(self._descriptor)
        return False

    def release(self, *, keep: bool = False) -> None:
        """Release the lock of a draft that was published or discarded; keep: the draft is continued later."""
        if self._descriptor >= 0:
            if not keep:
                self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = -1

    def note(self, content: bytes) -> None:
        """Store what finish_exchange needs if this process is killed."""
        with self._path.open("ab") as file:
            file.write(_END_OF_NAME + content)
            file.flush()
            os.fsync(file.fileno())

    def discard(self) -> None:
        """Remove the draft; if that fails, the next draft of the target does it."""
        removed = False
        with contextlib.suppress(OSError):
            _remove_draft(self._path, self._target)
            removed = True
        self.release(keep=not removed)


def aside_of(draft: Path) -> Path:
    """Return the path of the old data while a draft replaces them, on systems that cannot swap folders."""
    return draft.with_name(f"{draft.name}{_OLD_SUFFIX}")


def remove_dead_drafts(target: Path) -> None:
    """Remove the drafts of this target that killed processes left behind."""
    for lock in _locks_of(target):
        remove_dead_draft(lock)


def _locks_of(target: Path) -> list[Path]:
    """Return the lock files that may belong to drafts of a target, going by their names."""
    prefix = f".{target.name[:_MAX_NAME_LENGTH]}."
    try:
        with os.scandir(target.parent) as children:
            names = [child.name for child in children if child.name.startswith(prefix)]
    except OSError:
        return []
    return [target.with_name(name) for name in sorted(names) if DRAFT_LOCK.fullmatch(name)]


def is_dead_draft(lock: Path) -> bool:
    """Return True if a file is the lock of a draft whose process has ended."""
    with _dead(lock) as target:
        return target is not None


def remove_dead_draft(lock: Path) -> bool:
    """Remove the draft of a lock file; False if its process is alive, or if the file is not such a lock.

    Data that were put aside for the draft, and never came back, are put back.
    """
    with _dead(lock) as target, contextlib.suppress(OSError):
        if target is not None:
            _remove_draft(lock, lock.with_name(target) if target else None)
            lock.unlink(missing_ok=True)
            return True
    return False


@contextlib.contextmanager
def _dead(lock: Path) -> Iterator[str | None]:
    """Yield the name of the target of a locked draft, "" if it is not stated; None if it is not a dead draft."""
    descriptor = _open_lock(lock)
    if descriptor < 0:
        yield None
        return
    try:
        yield _target_of(descriptor)
    finally:
        os.close(descriptor)


def _open_lock(lock: Path) -> int:
    """Open a lock file; returns -1 for any other file."""
    try:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        return os.open(lock, flags) if DRAFT_LOCK.fullmatch(lock.name) else -1
    except OSError:
        return -1


def _target_of(descriptor: int) -> str | None:
    try:
        content = os.read(descriptor, _MAX_LOCK_SIZE)
    except OSError:
        return None
    target = os.fsdecode(content.removeprefix(_LOCK_MAGIC).partition(_END_OF_NAME)[0])
    is_ours = not content or (content.startswith(_LOCK_MAGIC) and Path(target).name == target != "")
    return target if is_ours and lock_descriptor(descriptor) is True else None


def _remove_draft(lock: Path, target: Path | None) -> None:
    draft = lock.with_name(lock.name.removesuffix(_LOCK_SUFFIX))
    aside = aside_of(draft)
    if target is not None:
        if aside.exists() and not target.exists():
            aside.rename(target)
        finish_exchange(lock.read_bytes().rpartition(_END_OF_NAME)[2], target)
    for path in (draft, aside):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
