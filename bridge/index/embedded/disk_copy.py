"""Disk copies: flat copies of one Space's vectors, memory-mapped and disposable.

`CURRENT` in `<index>/<archive id>/<fingerprint>/`, the folder of a Space, names the newest copy; in the copy's are:

    vectors.f32       float32 [n, E], little-endian, episode after episode
    points.i64        int64 [4, episodes], little-endian: episode, ledger number, number of vectors, CRC32C of these
    header.json       origin of the copy (CopyHeader), a CRC32C over that and points.i64, and whether it has lists
    inverted_lists/   inverted lists of the vectors, with sketches (lists_file.py), in a large copy
    ledger.json       totals of the ledger; beside CURRENT, also without a copy: derived.json, graph.bin, timesteps.bin

Vectors are verified by their checksums when they are first used, so that opening reads little. `LOCK` is held while
CURRENT changes and older copies are removed, so that no writer removes a copy that another has just made current.
Archives may share an index folder, which may also have other content: only folders below an archive's own id, with a
name and only files listed here, are ever removed.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shutil
import time
from array import array
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index import derived_numbers
from bridge.index.embedded import lists_file
from bridge.index.embedded.kmeans import leave_for_later
from bridge.index.embedded.segment import Segment
from bridge.support.blas_threads import one_blas_thread
from bridge.support.file_lock import locked
from wshard.core.container.atomic_write import TEMPORARY, publish, sync_folder
from wshard.core.container.layout import checksum
from wshard.core.files.regular import needs_local_disk
from wshard.errors import VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Point, Vectors
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.kmeans import Clustering

    Recluster = Callable[[Vectors], Clustering | None]

_CURRENT: Final = "CURRENT"
_LOCK: Final = "LOCK"
_HEADER: Final = "header.json"
_VECTORS: Final = "vectors.f32"
_POINTS: Final = "points.i64"
LISTS: Final = "inverted_lists"
_BUILDING: Final = "building-"
_LAYOUT: Final = 7
_LISTED: Final = "has_sketched_lists"
_SPACE_NAME: Final = re.compile("[0-9a-f]{64}")
_NAME: Final = re.compile(f"({_BUILDING})?[0-9a-f]{{12}}")
_OLDER_HEADER: Final = "generation.json"  # of copies before layout 7, whose lists lay in "lists"
_TOP: Final = (_CURRENT, derived_numbers.FILE, derived_numbers.GRAPH_FILE, derived_numbers.TIMESTEPS_FILE)
_FILES: Final = derived_numbers.FILES | {_VECTORS, _POINTS, _HEADER, _OLDER_HEADER}
_ABANDONED_S: Final = 3600.0  # an unfinished copy this old belongs to a killed process


@dataclass(frozen=True)
class CopyHeader:
    """Origin of a disk copy: edition of the archive, Space, size, last ledger number, and number of vectors.

    layout: version of the files; others are not read.
    """

    edition: str
    fingerprint: str
    dim: int
    seq: int
    vectors: int
    layout: int = _LAYOUT

    def to_json(self) -> str:
        """Return the text with which the checksum starts."""
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True, eq=False)
class OpenCopy:
    """A disk copy that can be searched; `home` is its folder, whose name is never reused.

    lists: None if there are none; lists_damaged: written, but damaged; lists_pending: to be written later, or again.
    """

    home: Path
    header: CopyHeader
    segment: Segment
    lists: InvertedLists | None
    lists_damaged: bool
    lists_pending: bool


def find_folder(index: Path, archive_id: str, fingerprint: str) -> Path:
    """Return the folder of a Space, which is unique to the archive."""
    return index / archive_id / fingerprint


def read(folder: Path, edition: str, fingerprint: str, last_seq: int) -> OpenCopy | None:
    """Open the current copy; None if there is none, or if it is of another edition or Space, or newer than last_seq.

    Also None if its small files are damaged; damaged lists are None. Both can be made again.
    """
    try:
        home = folder / (folder / _CURRENT).read_text("ascii")
        stored = json.loads((home / _HEADER).read_text("ascii"))
        header = CopyHeader(**stored["header"])
        if (header.edition, header.fingerprint) != (edition, fingerprint) or header.seq > last_seq:
            return None
        points = np.fromfile(home / _POINTS, "<i8")
        if header.layout != _LAYOUT or stored["checksum"] != _checksum(header, points):
            return None
        episodes, seqs, sizes, sums = points.astype(np.int64).reshape(4, -1)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        vectors = np.asarray(np.memmap(home / _VECTORS, "<f4", "r")).reshape(header.vectors, header.dim)
        lists = lists_file.read(home / LISTS, stored["checksum"], vectors.shape, starts)
        segment = Segment(episodes, seqs, starts, vectors, sums)
        is_pending = "listless" in stored or stored.get("has_lists", False)  # older ones, with codes, are not read
        return OpenCopy(home, header, segment, lists, lists is None and stored.get(_LISTED, False), is_pending)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def _checksum(header: CopyHeader, points: NDArray[np.int64]) -> int:
    return checksum(np.ascontiguousarray(points, "<i8").data, checksum(header.to_json().encode()))


def write(folder: Path, header: CopyHeader, points: Iterable[Point], recluster: Recluster | None = None) -> None:
    """Write a copy of these points and make it current; without points nothing is written.

    header.vectors: approximate number of vectors, as replaced ones may be missing. recluster: returns the groups of
    vectors [n, E] for inverted lists, or is leave_for_later; None = no lists.
    The copy is built under a temporary name and flushed before CURRENT names it; a crash in between leaves a folder
    that a later build removes. Of several processes that write at once the last one wins. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(6)
    building = folder / f"{_BUILDING}{name}"
    building.mkdir()
    try:
        if not _fill(building, header, points, recluster):
            building.rmdir()
            return
        with locked(folder / _LOCK):
            building.rename(folder / name)
            sync_folder(folder)
            with publish(folder / _CURRENT) as file:
                file.write(name.encode())
            _clear(folder, name)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise


def write_or_explain(
    folder: Path, header: CopyHeader, points: Iterable[Point], recluster: Recluster | None = None
) -> None:
    """Write a copy as `write` does; raises VectorIndexError if the disk refuses it."""
    try:
        write(folder, header, points, recluster)
    except OSError as error:
        raise VectorIndexError(
            f"cannot write the search copy of {header.vectors} vectors in {folder.parent.parent}: {error}; "
            f"the vectors themselves are safe in the catalog, and search works without the copy"
        ) from error


@one_blas_thread()  # k-means takes seconds, and runs beside searches with one thread each
def _fill(building: Path, header: CopyHeader, points: Iterable[Point], recluster: Recluster | None) -> bool:
    """Write the files of a copy; returns whether there are any points."""
    rows = array("q")
    # Written, not mapped, so that a full disk raises OSError here instead of killing the process by a signal.
    with publish(building / _VECTORS) as file:
        for point in points:
            data = np.ascontiguousarray(point.vectors, "<f4").data
            rows.extend((point.episode, point.seq, len(point.vectors), checksum(data)))
            file.write(data)
    if not rows:
        (building / _VECTORS).unlink()
        return False
    table = np.array(rows, "<i8").reshape(-1, 4).T.copy()
    header = replace(header, vectors=int(table[2].sum()))
    copy_checksum = _checksum(header, table)
    with publish(building / _POINTS) as file:
        file.write(table.data)
    clustering = None
    if recluster is not None:
        with needs_local_disk("memory maps", building):
            mapped = np.memmap(building / _VECTORS, "<f4", "r")
        vectors = np.asarray(mapped).reshape(header.vectors, header.dim)
        if (clustering := recluster(vectors)) is not None:
            lists_file.write(building / LISTS, copy_checksum, vectors, clustering)
    stored = {"header": asdict(header), "checksum": copy_checksum, _LISTED: clustering is not None}
    with publish(building / _HEADER) as file:
        file.write(json.dumps(stored | {"listless": True} if recluster is leave_for_later else stored).encode())
    return True


def drop(folder: Path) -> None:
    """Remove what there is of a Space; a copy that another process is writing may still become current."""
    if folder.is_dir():
        with locked(folder / _LOCK):
            for name in _TOP:
                (folder / name).unlink(missing_ok=True)
            _clear(folder)


def _clear(folder: Path, current: str | None = None) -> None:
    """Remove other copies; readers keep those that they have mapped."""
    with contextlib.suppress(OSError):
        for path in find_older(folder, current):
            if not path.name.startswith(_BUILDING) or time.time() - path.stat().st_mtime >= _ABANDONED_S:
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
    return [path for path in retired if _contains_only(path, {_LOCK, *_TOP}, find_older(path))]


def _read_older_owner(folder: Path) -> str:
    """Return the archive id of a copy in a folder named by older software, "" for other folders."""
    try:
        stored = json.loads((folder / (folder / _CURRENT).read_text("ascii") / _OLDER_HEADER).read_text("ascii"))
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
            current = (folder / _CURRENT).read_text("ascii")
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
