"""Generations: flat copies of one Space's vectors on disk, memory-mapped, disposable.

Knows: `<folder>/CURRENT`, which names the newest generation, and what is in a generation's folder:

    vectors.f32       float32 [n, E], little-endian
    points.i64        int64 [3, episodes], little-endian: episode, ledger number, number of vectors
    generation.json   whose copy it is (About), with one CRC32C over that and both files

Does not know: where the vectors come from, or how they are searched.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.segment import Segment
from wshard.layout import checksum
from wshard.writer import publish, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bridge.index.base import Point

_CURRENT: Final = "CURRENT"
_ABOUT: Final = "generation.json"
_VECTORS: Final = "vectors.f32"
_POINTS: Final = "points.i64"
_BUILDING: Final = "building-"
_ABANDONED_S: Final = 3600.0  # what was not finished for so long belongs to a process that was killed


@dataclass(frozen=True)
class About:
    """What a generation holds: of which archive and Space, up to which ledger number, how many vectors."""

    archive_id: str
    fingerprint: str
    dim: int
    seq: int
    vectors: int

    def to_json(self) -> str:
        """Return the text that the checksum begins with."""
        return json.dumps(asdict(self), sort_keys=True)


def read(folder: Path, archive_id: str, fingerprint: str, last_seq: int) -> tuple[About, Segment] | None:
    """Open the current generation; None if there is none, or if it is of another archive, Space or future.

    A damaged generation reads as None too: it is a copy, and the ledger can make another.
    """
    try:
        home = folder / (folder / _CURRENT).read_text("ascii")
        stored = json.loads((home / _ABOUT).read_text("ascii"))
        about = About(**stored["about"])
        if (about.archive_id, about.fingerprint) != (archive_id, fingerprint) or about.seq > last_seq:
            return None
        vectors = np.memmap(home / _VECTORS, "<f4", "r")
        points = np.fromfile(home / _POINTS, "<i8")
        # All of it is read once here: a search without filter would read it anyway, and must not trust rotten bytes.
        if stored["checksum"] != checksum(vectors.data, checksum(points.data, checksum(about.to_json().encode()))):
            return None
        episodes, seqs, sizes = points.astype(np.int64).reshape(3, -1)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        return about, Segment(episodes, seqs, starts, np.asarray(vectors).reshape(about.vectors, about.dim))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None


def write(folder: Path, about: About, points: Iterable[Point]) -> None:
    """Write a generation of these points (one or more, about.vectors vectors in all) and make it current.

    It is built under a temporary name and flushed before CURRENT names it; a crash in between leaves a folder that a
    later build removes. Several processes may write at once: the last one's counts. Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(6)
    building = folder / f"{_BUILDING}{name}"
    building.mkdir()
    try:
        _fill(building, about, points)
        building.rename(folder / name)
        sync_folder(folder)
        with publish(folder / _CURRENT) as file:
            file.write(name.encode())
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    _clear(folder)


def _fill(building: Path, about: About, points: Iterable[Point]) -> None:
    held = list(points)
    table = np.array([(point.episode, point.seq, len(point.vectors)) for point in held], "<i8").T.copy()
    crc = checksum(table.data, checksum(about.to_json().encode()))
    with publish(building / _POINTS) as file:
        file.write(table.data)
    # Written, not mapped: a full disk is then an OSError here and not a signal that kills the process.
    with publish(building / _VECTORS) as file:
        for point in held:
            rows = np.ascontiguousarray(point.vectors, "<f4").data
            crc = checksum(rows, crc)
            file.write(rows)
    with publish(building / _ABOUT) as file:
        file.write(json.dumps({"about": asdict(about), "checksum": crc}).encode())


def _clear(folder: Path) -> None:
    """Remove older generations; a reader that maps one keeps its mapping, and one that comes too late does without."""
    with contextlib.suppress(OSError):
        current = (folder / _CURRENT).read_text("ascii")
        for path in _folders(folder):
            fresh = path.name.startswith(_BUILDING) and time.time() - path.stat().st_mtime < _ABANDONED_S
            if path.name != current and not fresh:
                shutil.rmtree(path, ignore_errors=True)


def sweep(index: Path, living: Iterable[str]) -> None:
    """Remove the folders of Spaces that are no more."""
    kept = set(living)
    with contextlib.suppress(OSError):
        for path in _folders(index):
            if path.name not in kept:
                shutil.rmtree(path, ignore_errors=True)


def _folders(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_dir())
