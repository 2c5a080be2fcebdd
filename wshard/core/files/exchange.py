"""Put a complete folder in the place of another one; files of others stay, also those that appear meanwhile."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wshard.errors import FormatError, RecordingStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

Stamp = tuple[int, int, int]
"""Inode, size and modification time (ns) of a file."""

_AT_FDCWD: Final = -100
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of renameat2
_MOST_LOOKS: Final = 1000


def stamp_files(place: Path, names: Iterable[str]) -> dict[str, Stamp]:
    """Return a stamp of each file that exists, by its name relative to a folder; "" is the place itself."""
    stamps = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            status = os.lstat(place / name if name else place)
            stamps[name] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return stamps


def stamp_owned(target: Path, owned: Iterable[str], mode: str) -> dict[str, Stamp]:
    """Return the stamps of the owned files of a folder, or of the target if it is a file.

    Raises FormatError for a folder with files of others alone, hidden ones excepted, for one with links to follow, and
    for a file to overwrite that is not owned: "".
    """
    if not target.is_dir():
        stamps = stamp_files(target, [""])
        if mode == "overwrite" and "" not in owned and stamps and target.stat().st_size:
            raise FormatError(
                f"{target}: expected an unused path or a data set of this format, found another file: "
                "choose another path"
            )
        return stamps
    stamps = stamp_files(target, owned)
    other = next((name for name in sorted(os.listdir(target)) if not name.startswith(".")), None)  # noqa: PTH208
    if other is not None and not stamps:
        raise FormatError(
            f"{target}: expected an empty or new folder, or a data set of this format, found {other!r}: "
            "choose another folder"
        )
    link = find_link(target, stamps, files=mode == "append")
    if link is not None:
        raise FormatError(
            f"{target / link}: expected no link in a data set to write to, as none is followed: write to a copy of the "
            f"folder (cp -rL {target} COPY)"
        )
    return stamps


def check_unchanged(place: Path, stamps: Mapping[str, Stamp]) -> None:
    """Raise RecordingStateError if a file with a stamp has changed, or if a file is there that was not."""
    found = stamp_files(place, [*stamps] if place.is_dir() else [""])
    changed = next((name for name in {**stamps, **found} if stamps.get(name) != found.get(name)), None)
    if changed is not None:
        raise RecordingStateError(
            f"{place / changed}: expected no other writer, found that it has changed: write again"
        )


def list_files(folder: Path) -> list[str]:
    """Return the names of all files and links below a folder, [""] for a file."""
    return [name for _, files, _ in _walk(folder) for name in files] if folder.is_dir() else [""]


def find_link(folder: Path, names: Iterable[str], *, files: bool) -> str | None:
    """Return the first of these names, or of the folders on the way to them, that is a symbolic link.

    files: whether a file itself may not be a link, too.
    """
    checked: set[str] = set()
    for name in names:
        parts = name.split("/")
        for depth in range(1, len(parts) + files):
            path = "/".join(parts[:depth])
            if path not in checked and (folder / path).is_symlink():
                return path
            checked.add(path)
    return None


def link_files(source: Path, target: Path, names: Iterable[str]) -> None:
    """Copy files of a folder into another one by hard links: they may be replaced there, but not changed."""
    for name in names:
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        link_file(source / name, copy)


def link_file(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Link a file at another place, or copy it on a disk without hard links; a symbolic link stays one."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        if not stat.S_ISREG(os.lstat(source).st_mode) and not Path(source).is_symlink():
            raise  # a pipe or a socket, which cannot be copied
        shutil.copy2(source, target, follow_symlinks=False)


def exchange_folders(
    new: Path, target: Path, owned: Collection[str], aside: Path, note: Callable[[bytes], None]
) -> None:
    """Replace the files of a folder named by `owned` by those of `new`, at once; all other files stay.

    The target keeps its mode, empty folders and links. aside: an unused path for systems that cannot swap folders.
    note: stores what finish_exchange needs if this process is killed. Raises FileExistsError if `new` has a file where
    the target has one that is not owned.
    """
    linked, folders = _take_others(target, new, owned)
    places = [os.path.relpath(place, target.parent) for place in (new, aside)]
    note(json.dumps([target.stat().st_ino, places, [*owned], linked, [*folders]]).encode())
    _swap(new, target, aside)
    _empty_replaced(new, target, owned, linked, folders)


def finish_exchange(note: bytes, target: Path) -> None:
    """Remove what an exchange has replaced whose process was killed, and keep what others have added there.

    Does nothing if it was killed before the folders were swapped.
    """
    try:
        inode, places, owned, linked, folders = json.loads(note)
    except ValueError:  # none, or killed while it was written
        return
    for place in (target.parent / name for name in places):
        if target.exists() and place.exists() and place.stat().st_ino == inode:
            _empty_replaced(place, target, {*owned}, linked, {*folders})


def _empty_replaced(old: Path, new: Path, owned: Collection[str], linked: dict[str, int], known: set[str]) -> None:
    for _ in range(_MOST_LOOKS):
        _remove_replaced(old, new, owned, linked, known)
        if not old.exists():
            return
    raise OSError(errno.ENOTEMPTY, f"{new}: files of others are added faster than they can be moved", str(old))


def _walk(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the relative name of each folder, its files and links, and its folders; parents come last."""
    for place, folders, files in os.walk(folder, topdown=False, onerror=_raise):
        relative = os.path.relpath(place, folder)
        prefix = "" if relative == "." else f"{Path(relative).as_posix()}/"
        links = [name for name in folders if Path(place, name).is_symlink()]
        inside = [f"{prefix}{name}" for name in folders if name not in links]
        yield prefix.removesuffix("/"), [f"{prefix}{name}" for name in (*files, *links)], inside


def _raise(error: OSError) -> None:
    raise error


def _take_others(target: Path, new: Path, owned: Collection[str]) -> tuple[dict[str, int], set[str]]:
    """Link what the target has of others into the new folder; return the inodes by name, and the target's folders."""
    linked: dict[str, int] = {}
    full, known = set[str](), set[str]()
    for folder, files, inside in _walk(target):
        known.add(folder)
        others = [name for name in files if name not in owned]
        is_kept = bool(others) or not (files or inside) or any(name in full for name in inside)
        if is_kept or (new / folder).is_dir():
            _make_folder(new / folder, target / folder, target)
        for name in others:
            _take_file(target / name, new / name)
            linked[name] = os.lstat(new / name).st_ino
        if is_kept:
            full.add(folder)
        if (new / folder).is_dir():
            _copy_state(target / folder, new / folder)
    return linked, known


def _make_folder(new: Path, old: Path, target: Path) -> None:
    try:
        new.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _in_the_way(old, target) from None


def _take_file(old: Path, new: Path) -> None:
    if os.path.lexists(new):
        raise _in_the_way(old, new)
    link_file(old, new)


def _in_the_way(old: Path, new: Path) -> FileExistsError:
    expected = "expected no file of others where the data set has one of its own: rename it, or choose another folder"
    return FileExistsError(errno.EEXIST, expected, str(old), None, str(new))


def _copy_state(old: Path, new: Path) -> None:
    shutil.copystat(old, new)
    with contextlib.suppress(OSError):  # only root may give files away
        status = old.stat()
        os.chown(new, status.st_uid, status.st_gid)


def _remove_replaced(old: Path, new: Path, owned: Collection[str], linked: dict[str, int], known: set[str]) -> None:
    """Remove the replaced files of the old folder, and move those to the new one that appeared meanwhile."""
    for folder, files, _ in _walk(old):
        for name in files:
            with contextlib.suppress(FileNotFoundError):  # its owner moved or removed it
                if name in owned or os.lstat(old / name).st_ino == linked.get(name):
                    (old / name).unlink()
                else:
                    _move_file(old / name, new / name, linked.get(name))
        if folder not in known and not (new / folder).exists():
            (new / folder).mkdir(parents=True)
        with contextlib.suppress(OSError):  # it has more files now
            (old / folder).rmdir()


def _move_file(old: Path, new: Path, inode: int | None) -> None:
    """Move a file of others, over the older one that was linked, or to an unused name beside a file that is newer."""
    new.parent.mkdir(parents=True, exist_ok=True)
    place, number = new, 1
    while os.path.lexists(place) and (place != new or os.lstat(place).st_ino != inode):
        place, number = new.with_name(f"{new.name}.{number}"), number + 1
    old.replace(place)


def _swap(first: Path, second: Path, aside: Path) -> None:
    """Swap two folders: atomically where the system can, else by renaming one after the other."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is not None and rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _EXCHANGE) == 0:
        return
    second.rename(aside)
    first.rename(second)
    aside.rename(first)
