"""Write a file or folder beside its target and put it there when it is complete: all of it or nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from wshard.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

WriteMode = Literal["append", "overwrite", "error"]
WRITE_MODES: Final = ("append", "overwrite", "error")

_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of renameat2


def check_mode(mode: str) -> None:
    """Raise FormatError for what is no write mode."""
    if mode not in WRITE_MODES:
        raise FormatError(f"write mode must be one of {', '.join(WRITE_MODES)}, found {mode!r}")


class Draft:
    """A file or folder that takes the place of its target when it is published.

    mode "append": the draft begins as a copy of the target, of a folder by hard links, so that files in it may be
    replaced but never changed in place. "overwrite": it begins empty. "error": the target must not exist. Until
    `publish`, and after a crash, the target is what it was.
    """

    def __init__(self, target: str | os.PathLike[str], mode: WriteMode = "error", *, folder: bool) -> None:
        check_mode(mode)
        self.target = Path(os.path.realpath(target))
        self.existed = self.target.exists()
        if self.existed and mode == "error":
            raise FileExistsError(errno.EEXIST, "expected nothing there (mode 'error')", str(self.target))
        if self.existed and self.target.is_dir() != folder:
            wanted = "a folder" if folder else "a file"
            raise FormatError(f"{self.target}: expected {wanted} or nothing there, found the other")
        self._folder = folder
        self.path = self.target.with_name(f".{self.target.name[:40]}.{secrets.token_hex(4)}.draft")
        try:
            if folder:
                self.path.mkdir()
            if mode == "append" and self.existed:
                self._copy_target()
        except BaseException:
            self.discard()
            raise

    def _copy_target(self) -> None:
        if self._folder:
            shutil.copytree(self.target, self.path, symlinks=True, copy_function=_link, dirs_exist_ok=True)
        else:
            shutil.copy2(self.target, self.path)

    def publish(self, is_own: Callable[[str], bool] = lambda _: True) -> None:
        """Put the draft where the target is. The target's files that are not the format's own stay there.

        is_own: of a path below the target, "/" between its parts, whether the format wrote it.
        """
        _flush(self.path)
        if self._folder and self.target.exists():
            if self.existed:
                self._take_over(is_own)
            _exchange(self.path, self.target)
            shutil.rmtree(self.path)
        else:
            self.path.replace(self.target)
        _flush_folder(self.target.parent)

    def _take_over(self, is_own: Callable[[str], bool]) -> None:
        for place, _, names in os.walk(self.target):
            for name in names:
                source = Path(place, name)
                relative = source.relative_to(self.target)
                copy = self.path / relative
                if not is_own(relative.as_posix()) and not copy.exists():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    _link(source, copy)

    def discard(self) -> None:
        """Remove the draft; the target stays as it is."""
        if self._folder:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            self.path.unlink(missing_ok=True)


def _link(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a disk without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def _flush(path: Path) -> None:
    """Put what was written on the disk, so that the new name never stands for less."""
    if path.is_dir():
        for place, _, names in os.walk(path):
            for name in names:
                if not Path(place, name).is_symlink():
                    _flush_file(Path(place, name))
            _flush_folder(Path(place))
    else:
        _flush_file(path)


def _flush_file(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _flush_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    """Let two folders change places: at once where the system can, else by renaming one after the other."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is not None and rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE) == 0:
        return
    aside = one.with_name(f"{one.name}.old")
    other.rename(aside)
    one.rename(other)
    aside.rename(one)
