"""Folders of disk copies: where they are, and the removal of those that nothing needs any more.

Archives may share an index folder, which may also have other content: only folders below an archive's own id, with a
name and only files listed here, are ever removed.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from typing import TYPE_CHECKING, Final

from bridge.index import derived_numbers
from bridge.index.embedded import lists_file
from bridge.support.file_lock import locked
from wshard.core.container.atomic_write import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

CURRENT: Final = "CURRENT"
LOCK: Final = "LOCK"
HEADER: Final = "header.json"
VECTORS: Final = "vectors.f32"
POINTS: Final = "points.i64"
LISTS: Final = "inverted_lists"
BUILDING: Final = "building-"
_SPACE_NAME: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile(f"({BUILDING})?[0-9a-f]{{12}}")
_OLDER_HEADER: Final = "generation.json"  # of copies before layout 7, whose lists lay in "lists"
_TOP: Final = (CURRENT, *derived_numbers.TOP_FILES)
_FILES: Final = derived_numbers.FILES | {VECTORS, POINTS, HEADER, _OLDER_HEADER}
_ABANDONED_S: Final = 3600.0  # an unfinished copy this old belongs to a killed process


def find_folder(index: Path, archive_id: str, fingerprint: str) -> Path:
    """Return the folder of a Space, which is unique to the archive."""
    return index / archive_id / fingerprint


def drop(folder: Path) -> None:
    """Remove what there is of a Space; a copy that another process is writing may still become current."""
    if folder.is_dir():
        with locked(folder / LOCK):
            for name in _TOP:
                (folder / name).unlink(missing_ok=True)
            clear_older(folder)


def clear_older(folder: Path, current: str | None = None) -> None:
    """Remove other copies; readers keep those that they have mapped."""
    with contextlib.suppress(OSError):
        for path in find_older(folder, current):
            if not path.name.startswith(BUILDING) or time.time() - path.stat().st_mtime >= _ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)


def sweep(index: Path, archive_id: str, living: Iterable[str]) -> None:
    """Remove the folders of the retired Spaces of an archive."""
    for path in find_retired(index, archive_id, living):
        shutil.rmtree(path, ignore_errors=True)


def discard(index: Path, archive_id: str) -> None:
    """Remove all copies of an archive, and folders that become empty."""
    sweep(index, archive_id, ())
    with contextlib.suppress(OSError):
        (index / archive_id).rmdir()
        index.rmdir()


def find_retired(index: Path, archive_id: str, living: Iterable[str]) -> list[Path]:
    """Return the folders of an archive's Spaces other than the living ones, if they contain only copies."""
    living_names = set(living)
    retired = [path for path in _folders(index / archive_id, _SPACE_NAME) if path.name not in living_names]
    retired += [path for path in _folders(index, _SPACE_NAME) if _read_older_owner(path).startswith(archive_id)]
    return [path for path in retired if _contains_only(path, {LOCK, *_TOP}, find_older(path))]


def _read_older_owner(folder: Path) -> str:
    """Return the archive id of a copy in a folder named by older software, "" for other folders."""
    try:
        stored = json.loads((folder / (folder / CURRENT).read_text("ascii") / _OLDER_HEADER).read_text("ascii"))
        return str(stored["about"]["archive_id"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ""


def find_older(folder: Path, current: str | None = None) -> list[Path]:
    """Return the copies of a Space other than the current one, also unfinished ones."""
    older = [path for path in _folders(folder, _NAME) if path.name != current]
    return [path for path in older if _contains_only(path, _FILES, _find_lists(path))]


def find_leftovers(index: Path, archive_id: str, living: Iterable[str]) -> list[Path]:
    """Return an archive's folders of retired Spaces, and of the living ones all but the current copies."""
    paths = find_retired(index, archive_id, fingerprints := sorted(living))
    for folder in (find_folder(index, archive_id, fingerprint) for fingerprint in fingerprints):
        try:
            current = (folder / CURRENT).read_text("ascii")
        except (OSError, ValueError):
            current = ""
        paths += find_older(folder, current)
        paths += (path for path in _children(folder) if (draft := TEMPORARY.fullmatch(path.name)) and draft[1] in _TOP)
    return paths


def _find_lists(folder: Path) -> list[Path]:
    paths = [folder / name for name in (LISTS, "lists")]
    return [path for path in paths if not path.is_symlink() and _contains_only(path, lists_file.FILES, [])]


def _contains_only(folder: Path, names: Collection[str], folders: Collection[Path]) -> bool:
    """Return whether the folder contains only files of these names, drafts of such files, and these folders."""
    for path in _children(folder):
        draft = TEMPORARY.fullmatch(path.name)
        if path not in folders and ((draft[1] if draft else path.name) not in names or path.is_dir()):
            return False
    return True


def _folders(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the folders with matching names in a folder, without links."""
    return [path for path in _children(folder) if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
