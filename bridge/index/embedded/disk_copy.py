"""Generations: flat copies of one Space's vectors on disk, memory-mapped, disposable.

Knows: `<index>/<archive>/<fingerprint>/`, the folder of a Space, `CURRENT` in it, which names the newest generation,
and what is in a generation's folder:

    vectors.f32       float32 [n, E], little-endian, episode after episode
    points.i64        int64 [4, episodes], little-endian: episode, ledger number, number of vectors, CRC32C of these
    generation.json   whose copy it is (About), with one CRC32C over that and points.i64; whether there are lists
    lists/            certified lists of the vectors, their outlines and codes (lists_file.py), in a large generation

`LOCK` is held while CURRENT changes and older generations are removed, so that of several writers none removes what
another has just made current. Archives may share an index folder, and it may hold anything else: only what lies below
an archive's own id, has a name that is given here, and holds nothing but such names, is ever removed.

Does not know: where the vectors come from, or how they are searched. The vectors' checksums are compared when they are
first used, so that opening reads little.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded import lists_file
from bridge.index.embedded.segment import Segment
from bridge.support.file_lock import locked
from wshard.container.atomic_write import TEMPORARY, publish, sync_folder
from wshard.container.layout import checksum
from wshard.container.open_file import needs_local_disk

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Point, Vectors
    from bridge.index.embedded.kmeans import Grouping

    Regroup = Callable[[Vectors], Grouping | None]

_CURRENT: Final = "CURRENT"
_LOCK: Final = "LOCK"
_ABOUT: Final = "generation.json"
_VECTORS: Final = "vectors.f32"
_POINTS: Final = "points.i64"
_LISTS: Final = "lists"
_BUILDING: Final = "building-"
_LAYOUT: Final = 6
_SPACE_NAME: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile(f"({_BUILDING})?[0-9a-f]{{12}}")
_FILES: Final = frozenset({_VECTORS, _POINTS, _ABOUT})
_ABANDONED_S: Final = 3600.0  # what was not finished for so long belongs to a process that was killed


@dataclass(frozen=True)
class About:
    """What a generation holds: of which edition of an archive and Space, up to which ledger number, how many vectors.

    layout: of the files; others are not read.
    """

    edition: str
    fingerprint: str
    dim: int
    seq: int
    vectors: int
    layout: int = _LAYOUT

    def to_json(self) -> str:
        """Return the text that the checksum begins with."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, eq=False)
class Opened:
    """A generation that can be searched; `home` is its folder, which no other generation will ever have.

    broken: its lists were written, but are damaged.
    """

    home: Path
    about: About
    segment: Segment
    broken: bool


def place(index: Path, archive_id: str, fingerprint: str) -> Path:
    """Return the folder of a Space: no two archives have the same."""
    return index / archive_id / fingerprint


def read(folder: Path, edition: str, fingerprint: str, last_seq: int) -> Opened | None:
    """Open the current generation; None if there is none, or if it is of another edition, Space or future.

    One that is damaged where it can be seen at once reads as None too: it is a copy, and the ledger can make another.
    Damaged lists read as none.
    """
    try:
        home = folder / (folder / _CURRENT).read_text("ascii")
        stored = json.loads((home / _ABOUT).read_text("ascii"))
        about = About(**stored["about"])
        if (about.edition, about.fingerprint) != (edition, fingerprint) or about.seq > last_seq:
            return None
        points = np.fromfile(home / _POINTS, "<i8")
        if about.layout != _LAYOUT or stored["checksum"] != _checksum(about, points):
            return None
        episodes, seqs, sizes, sums = points.astype(np.int64).reshape(4, -1)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        vectors = np.asarray(np.memmap(home / _VECTORS, "<f4", "r")).reshape(about.vectors, about.dim)
        lists = lists_file.read(home / _LISTS, stored["checksum"], vectors.shape, starts)
        segment = Segment(episodes, seqs, starts, vectors, sums, lists)
        return Opened(home, about, segment, broken=bool(stored["listed"]) and lists is None)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _checksum(about: About, points: NDArray[np.int64]) -> int:
    return checksum(np.ascontiguousarray(points, "<i8").data, checksum(about.to_json().encode()))


def write(folder: Path, about: About, points: Iterable[Point], regroup: Regroup | None = None) -> None:
    """Write a generation of these points (one or more, about.vectors vectors in all) and make it current.

    regroup: makes the groups of vectors [n, E] for certified lists; without it there are none.
    It is built under a temporary name and flushed before CURRENT names it; a crash in between leaves a folder that a
    later build removes. Several processes may write at once: the last one's counts. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(6)
    building = folder / f"{_BUILDING}{name}"
    building.mkdir()
    try:
        _fill(building, about, points, regroup)
        with locked(folder / _LOCK):
            building.rename(folder / name)
            sync_folder(folder)
            with publish(folder / _CURRENT) as file:
                file.write(name.encode())
            _clear(folder, name)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _fill(building: Path, about: About, points: Iterable[Point], regroup: Regroup | None) -> None:
    rows: list[tuple[int, int, int, int]] = []
    # Written, not mapped: a full disk is then an OSError here and not a signal that kills the process.
    with publish(building / _VECTORS) as file:
        for point in points:
            data = np.ascontiguousarray(point.vectors, "<f4").data
            rows.append((point.episode, point.seq, len(point.vectors), checksum(data)))
            file.write(data)
    table = np.array(rows, "<i8").T.copy()
    seal = _checksum(about, table)
    with publish(building / _POINTS) as file:
        file.write(table.data)
    grouping = None
    if regroup is not None:
        with needs_local_disk("memory maps", building):
            mapped = np.memmap(building / _VECTORS, "<f4", "r")
        vectors = np.asarray(mapped).reshape(about.vectors, about.dim)
        grouping = regroup(vectors)
        if grouping is not None:
            starts = np.concatenate(([0], np.cumsum(table[2])))
            lists_file.write(building / _LISTS, seal, vectors, starts, grouping)
    with publish(building / _ABOUT) as file:
        stored = {"about": asdict(about), "checksum": seal, "listed": grouping is not None}
        file.write(json.dumps(stored).encode())


def drop(folder: Path) -> None:
    """Remove the generations of a Space; one that is being written by another process may still become current."""
    if folder.is_dir():
        with locked(folder / _LOCK):
            (folder / _CURRENT).unlink(missing_ok=True)
            _clear(folder)


def _clear(folder: Path, current: str | None = None) -> None:
    """Remove other generations; a reader that maps one keeps its mapping, and one that comes too late does without."""
    with contextlib.suppress(OSError):
        for path in older(folder, current):
            fresh = path.name.startswith(_BUILDING) and time.time() - path.stat().st_mtime < _ABANDONED_S
            if not fresh:
                shutil.rmtree(path, ignore_errors=True)


def sweep(index: Path, archive_id: str, living: Iterable[str]) -> None:
    """Remove the folders of an archive's Spaces that are no more."""
    for path in retired(index, archive_id, living):
        shutil.rmtree(path, ignore_errors=True)


def discard(index: Path, archive_id: str) -> None:
    """Remove all copies of an archive, and the folders that are empty then."""
    sweep(index, archive_id, ())
    with contextlib.suppress(OSError):
        (index / archive_id).rmdir()
        index.rmdir()


def retired(index: Path, archive_id: str, living: Iterable[str]) -> list[Path]:
    """Return the folders of an archive's Spaces other than the living, if they hold nothing but generations."""
    kept = set(living)
    found = [path for path in _folders(index / archive_id, _SPACE_NAME) if path.name not in kept]
    found += [path for path in _folders(index, _SPACE_NAME) if _older_layout(path).startswith(archive_id)]
    return [path for path in found if _holds_only(path, {_CURRENT, _LOCK}, older(path))]


def _older_layout(folder: Path) -> str:
    """Return whose copy lies in a folder as older software named it, "" for another folder."""
    try:
        stored = json.loads((folder / (folder / _CURRENT).read_text("ascii") / _ABOUT).read_text("ascii"))
        return str(stored["about"]["archive_id"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return ""


def older(folder: Path, current: str | None = None) -> list[Path]:
    """Return the generations of a Space other than the current one, unfinished ones too."""
    found = [path for path in _folders(folder, _NAME) if path.name != current]
    return [path for path in found if _holds_only(path, _FILES, [path / _LISTS] if _are_lists(path / _LISTS) else [])]


def leftovers(folder: Path) -> list[Path]:
    """Return the generations of a Space that are not the current one, and drafts of its name."""
    try:
        current = (folder / _CURRENT).read_text("ascii")
    except (OSError, ValueError):
        current = ""
    drafts = ((path, TEMPORARY.fullmatch(path.name)) for path in _children(folder))
    return [*older(folder, current), *(path for path, named in drafts if named is not None and named[1] == _CURRENT)]


def _are_lists(folder: Path) -> bool:
    return not folder.is_symlink() and _holds_only(folder, lists_file.FILES, [])


def _holds_only(folder: Path, names: Collection[str], folders: Collection[Path]) -> bool:
    """Say whether there is nothing in the folder but files of these names, drafts of such files, and these folders."""
    for path in _children(folder):
        draft = TEMPORARY.fullmatch(path.name)
        if path not in folders and ((draft[1] if draft else path.name) not in names or path.is_dir()):
            return False
    return True


def _folders(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Return the folders of such names in a folder, but no links."""
    return [path for path in _children(folder) if name.fullmatch(path.name) and path.is_dir() and not path.is_symlink()]


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
