"""Certified lists on disk: a second copy of a generation's vectors, list by list, memory-mapped.

Knows: the files of a folder `lists/`, all little-endian:

    listed.f32      float32 [n, E]: the vectors, list after list, in each by ascending cosine to its centroid
    cosines.f32     float32 [n]: these cosines
    rows.i32        int32 [n]: which row of vectors.f32 each is
    centroids.f32   float32 [L, E]
    sizes.i64       int64 [2, L]: number of vectors, and their CRC32C
    lists.json      vectors at the last training, and one CRC32C over the generation's own and all files but listed.f32

Does not know: how vectors are grouped or searched. The checksum of a list is compared when it is first visited.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.grouping import Grouping
from bridge.index.lists import Lists
from bridge.index.seals import Seals
from wshard.layout import checksum
from wshard.writer import publish

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Vectors

_LISTED: Final = "listed.f32"
_ABOUT: Final = "lists.json"
_SMALL: Final = {"cosines.f32": "<f4", "rows.i32": "<i4", "centroids.f32": "<f4", "sizes.i64": "<i8"}


def read(folder: Path, seal: int, shape: tuple[int, ...], starts: NDArray[np.int64]) -> Lists | None:
    """Open the lists of a generation of `shape` [n, E] whose checksum is `seal`; None if damaged, or if there are none.

    starts: the first row of each of the generation's episodes.
    """
    count, dim = shape
    try:
        stored = json.loads((folder / _ABOUT).read_text("ascii"))
        small = {name: np.asarray(np.memmap(folder / name, kind, "r")) for name, kind in _SMALL.items()}
        if stored["checksum"] != _checksum(seal, int(stored["trained"]), small):
            return None
        sizes, sums = small["sizes.i64"].reshape(2, -1)
        begins = np.concatenate(([0], np.cumsum(sizes)))
        rows, cosines = small["rows.i32"].reshape(count), small["cosines.f32"].reshape(count)
        vectors = np.asarray(np.memmap(folder / _LISTED, "<f4", "r")).reshape(count, dim)
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    owners = np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[rows]
    return Lists(
        centroids=np.array(small["centroids.f32"].reshape(-1, dim)),
        starts=begins,
        rows=rows,
        owners=owners,
        cosines=cosines,
        vectors=vectors,
        seals=Seals(vectors, begins, np.array(sums), "lists of the search copy"),
        rims=Lists.rims_of(begins, cosines, dim),
        trained=int(stored["trained"]),
    )


def grouping_of(lists: Lists) -> Grouping:
    """Return what the lists were made from, by row of vectors.f32."""
    labels = np.empty(len(lists.rows), np.int32)
    labels[lists.rows] = np.repeat(np.arange(len(lists.starts) - 1, dtype=np.int32), np.diff(lists.starts))
    cosines = np.empty(len(lists.rows), np.float32)
    cosines[lists.rows] = lists.cosines
    return Grouping(lists.centroids, labels, cosines, lists.trained)


def write(folder: Path, seal: int, vectors: Vectors, grouping: Grouping) -> None:
    """Write the lists of vectors [n, E], of a generation whose checksum is `seal`. Raises OSError."""
    folder.mkdir()
    order = np.lexsort((grouping.cosines, grouping.labels)).astype(np.int32)
    sizes = np.bincount(grouping.labels, minlength=len(grouping.centroids)).astype(np.int64)
    sums = np.zeros_like(sizes)
    done = 0
    with publish(folder / _LISTED) as file:
        for number, size in enumerate(sizes.tolist()):
            data = np.ascontiguousarray(vectors[order[done : done + size]], "<f4").data
            sums[number] = checksum(data)
            file.write(data)
            done += size
    small = {
        "cosines.f32": grouping.cosines[order],
        "rows.i32": order,
        "centroids.f32": grouping.centroids,
        "sizes.i64": np.stack([sizes, sums]),
    }
    stored = {name: np.ascontiguousarray(small[name], kind) for name, kind in _SMALL.items()}
    for name, array in stored.items():
        with publish(folder / name) as file:
            file.write(array.data)
    about = {"trained": grouping.trained, "checksum": _checksum(seal, grouping.trained, stored)}
    with publish(folder / _ABOUT) as file:
        file.write(json.dumps(about).encode())


def _checksum(seal: int, trained: int, small: dict[str, NDArray[np.generic]]) -> int:
    total = checksum(trained.to_bytes(8, "little"), seal)
    for name in _SMALL:
        total = checksum(small[name].data, total)
    return total
