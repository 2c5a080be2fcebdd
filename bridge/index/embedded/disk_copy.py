"""Disk copies: flat copies of one Space's vectors, memory-mapped and disposable.

`CURRENT` in `<index>/<archive id>/<fingerprint>/`, the folder of a Space, names the newest copy; in the copy's are:

    vectors.f32       float32 [n, E], little-endian, episode after episode; list after list if these have one each
    points.i64        int64 [4, episodes], little-endian: episode, ledger number, number of vectors, CRC32C of these
    header.json       origin of the copy (CopyHeader), a CRC32C over that and points.i64, and whether it has lists
    inverted_lists/   inverted lists of the vectors, with sketches (lists_file.py), in a large copy
    ledger.json       totals of the ledger; beside CURRENT, also without a copy: derived.json, graph.bin, timesteps*

Vectors are verified by their checksums when they are first used, so that opening reads little. `LOCK` is held while
CURRENT changes and older copies are removed, so that no writer removes a copy that another has just made current.
"""

from __future__ import annotations

import json
import secrets
import shutil
from array import array
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded import lists_file
from bridge.index.embedded.copy_folders import BUILDING, CURRENT, HEADER, LISTS, LOCK, POINTS, VECTORS, clear_older
from bridge.index.embedded.kmeans import leave_for_later
from bridge.index.embedded.segment import Segment
from bridge.support.blas_threads import one_blas_thread
from bridge.support.file_lock import locked
from wshard.core.container.atomic_write import publish, sync_folder
from wshard.core.container.layout import checksum
from wshard.core.files.regular import needs_local_disk
from wshard.errors import VectorIndexError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Point, Vectors
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.kmeans import Clustering

    Recluster = Callable[[Vectors], Clustering | None]

_LAYOUT: Final = 7
_LISTED: Final = "has_sketched_lists"
_BATCH_ROWS: Final = 512  # vectors copied at a time


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


def read(folder: Path, edition: str, fingerprint: str, last_seq: int) -> OpenCopy | None:
    """Open the current copy; None if there is none, or if it is of another edition or Space, or newer than last_seq.

    Also None if its small files are damaged; damaged lists are None. Both can be made again.
    """
    try:
        home = folder / (folder / CURRENT).read_text("ascii")
        stored = json.loads((home / HEADER).read_text("ascii"))
        header = CopyHeader(**stored["header"])
        if (header.edition, header.fingerprint) != (edition, fingerprint) or header.seq > last_seq:
            return None
        points = np.asarray(np.memmap(home / POINTS, "<i8", "r"))
        if header.layout != _LAYOUT or stored["checksum"] != _checksum(header, points):
            return None
        episodes, seqs, sizes, sums = points.astype(np.int64, copy=False).reshape(4, -1)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        vectors = np.asarray(np.memmap(home / VECTORS, "<f4", "r")).reshape(header.vectors, header.dim)
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
    building = folder / f"{BUILDING}{name}"
    building.mkdir()
    try:
        if not _fill(building, header, points, recluster):
            building.rmdir()
            return
        with locked(folder / LOCK):
            building.rename(folder / name)
            sync_folder(folder)
            with publish(folder / CURRENT) as file:
                file.write(name.encode())
            clear_older(folder, name)
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
    table = _write_vectors(building / VECTORS, points)
    header, clustering = replace(header, vectors=int(table[2].sum())), None
    if not header.vectors:
        (building / VECTORS).unlink()
        return False
    if recluster is not None:
        vectors = _map(building, header)
        clustering = recluster(vectors)
        if clustering is not None and len(vectors) == table.shape[1]:
            table, clustering = _sort_by_list(building / VECTORS, vectors, table, clustering)
    copy_checksum = _checksum(header, table)
    with publish(building / POINTS) as file:
        file.write(np.ascontiguousarray(table).data)
    if clustering is not None:
        lists_file.write(building / LISTS, copy_checksum, _map(building, header), clustering)
    stored = {"header": asdict(header), "checksum": copy_checksum, _LISTED: clustering is not None}
    with publish(building / HEADER) as file:
        file.write(json.dumps(stored | {"listless": True} if recluster is leave_for_later else stored).encode())
    return True


def _write_vectors(path: Path, points: Iterable[Point]) -> NDArray[np.int64]:
    """Write the vectors, and return the table of the points [4, episodes]."""
    rows = array("q")
    # Written, not mapped, so that a full disk raises OSError here instead of killing the process by a signal.
    with publish(path) as file:
        for point in points:
            data = np.ascontiguousarray(point.vectors, "<f4").data
            rows.extend((point.episode, point.seq, len(point.vectors), checksum(data)))
            file.write(data)
    return np.frombuffer(rows, np.int64).reshape(-1, 4).T.astype("<i8", order="C")


def _map(building: Path, header: CopyHeader) -> Vectors:
    with needs_local_disk("memory maps", building):
        mapped = np.memmap(building / VECTORS, "<f4", "r")
    return np.asarray(mapped).reshape(header.vectors, header.dim)


def _sort_by_list(
    path: Path, vectors: Vectors, table: NDArray[np.int64], clustering: Clustering
) -> tuple[NDArray[np.int64], Clustering]:
    """Write vectors, one of each episode, list after list, so that a list is read as one piece; return theirs."""
    order = np.argsort(clustering.labels, kind="stable")
    with publish(path) as file:
        for start in range(0, len(order), _BATCH_ROWS):
            file.write(vectors.take(order[start : start + _BATCH_ROWS], axis=0).data)
    return table[:, order], replace(clustering, labels=clustering.labels[order])
