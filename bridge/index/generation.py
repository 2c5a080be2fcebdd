"""Generations: flat copies of one Space's vectors on disk, memory-mapped, disposable.

Knows: `<folder>/<space>/<generation>/` with vectors, episodes and starts as .npy, and CURRENT, which names the newest.
Does not know: where the vectors come from, or how they are searched.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import shutil
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.segment import Segment
from wshard.container import publish, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bridge.index.base import Point

_CURRENT: Final = "CURRENT"
_ABOUT: Final = "generation.json"
_BUILDING: Final = "building-"


@dataclass(frozen=True)
class About:
    """What a generation holds: of which archive and Space, up to which ledger seq."""

    archive_id: str
    fingerprint: str
    dim: int
    seq: int
    vectors: int


def read(folder: Path, archive_id: str, fingerprint: str, last_seq: int) -> tuple[About, Segment] | None:
    """Open the current generation; None if there is none, or if it is of another archive, Space or future.

    A damaged generation reads as None too: it is a copy, and the ledger can make another.
    """
    try:
        home = folder / (folder / _CURRENT).read_text().strip()
        about = About(**json.loads((home / _ABOUT).read_text()))
        if (about.archive_id, about.fingerprint) != (archive_id, fingerprint) or about.seq > last_seq:
            return None
        vectors = np.load(home / "vectors.npy", mmap_mode="r", allow_pickle=False)
        episodes, starts = (np.load(home / f"{name}.npy", allow_pickle=False) for name in ("episodes", "starts"))
    except (OSError, ValueError, TypeError, EOFError):
        return None
    whole = vectors.shape == (about.vectors, about.dim) and vectors.dtype == np.float32
    if not whole or len(starts) != len(episodes) + 1 or int(starts[-1]) != about.vectors:
        return None
    return about, Segment(episodes, starts, np.asarray(vectors))


def write(folder: Path, about: About, points: Iterable[Point]) -> None:
    """Write a generation of these points (about.vectors vectors in all) and make it current.

    It is built under a temporary name and flushed before CURRENT names it; a crash in between leaves a folder that the
    next build removes. Raises OSError.
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
    for old in _others(folder, name):
        shutil.rmtree(old, ignore_errors=True)  # readers that map it keep their mapping


def _fill(building: Path, about: About, points: Iterable[Point]) -> None:
    episodes: list[int] = []
    sizes: list[int] = []
    header = {"descr": "<f4", "fortran_order": False, "shape": (about.vectors, about.dim)}
    # Written, not mapped: a full disk is then an OSError here and not a signal that kills the process.
    with publish(building / "vectors.npy") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for point in points:
            file.write(np.ascontiguousarray(point.vectors, "<f4").data)
            episodes.append(point.episode)
            sizes.append(len(point.vectors))
    if sum(sizes) != about.vectors:
        raise ValueError(f"expected {about.vectors} vectors to write, found {sum(sizes)}")
    _save(building / "episodes.npy", np.array(episodes, "<i8"))
    _save(building / "starts.npy", np.concatenate(([0], np.cumsum(sizes, dtype="<i8"))).astype("<i8"))
    with publish(building / _ABOUT) as file:
        file.write(json.dumps(asdict(about)).encode())


def _save(path: Path, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    with publish(path) as file:
        np.save(file, array, allow_pickle=False)


def _others(folder: Path, current: str) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and path.name != current:
                yield path


def sweep(index: Path, living: Iterable[str]) -> None:
    """Remove the folders of Spaces that are no more."""
    kept = set(living)
    for path in _others(index, ""):
        if path.name not in kept:
            shutil.rmtree(path, ignore_errors=True)
