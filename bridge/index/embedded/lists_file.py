"""Inverted lists on disk, beside the vectors: the files of a folder `inverted_lists/`, memory-mapped.

All are little-endian. The checksum of a list is verified when it is first used.

    sketches.f32          float32 [n, 16]: the sketches, list after list, in each in the order of vectors.f32
    axes.f64              float64 [F, P, E]: the axes of the frames
    rows.i32              int32 [n]: the row of vectors.f32 for each of sketches.f32
    centroids.f32         float32 [L, E]
    radii.f32             float32 [L]: the least cosine of a list's vectors to the centroid
    sizes.i64             int64 [3, L]: number of vectors, frame, CRC32C of the sketches in sketches.f32
    inverted_lists.json   vectors at the last training, and a CRC32C over the copy's own and all files but sketches
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.embedded.checksums import Checksums
from bridge.index.embedded.inverted_lists import InvertedLists
from bridge.index.embedded.kmeans import fit_frames
from bridge.index.embedded.sketches import WIDTH, count_axes, sketch
from wshard.core.container.atomic_write import publish
from wshard.core.container.layout import checksum

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.kmeans import Clustering
    from bridge.index.embedded.sketches import Axes

_SKETCHES: Final = "sketches.f32"
_HEADER: Final = "inverted_lists.json"
_BATCH_ROWS: Final = 512  # rows sketched at a time, in float64
_VERIFIED_ARRAYS: Final = {
    "axes.f64": "<f8",
    "rows.i32": "<i4",
    "centroids.f32": "<f4",
    "radii.f32": "<f4",
    "sizes.i64": "<i8",
}
_OLDER_NAMES: Final = {
    *("list_sketches.i16", "sketches.i16", "residual_codes.i8", "steps.f32", "frames.u8", "checksums.i64"),
    *("listed.i16", "outlines.i16", "codes.i1", "lists.json", "frames.u1", "rims.f32", "sums.i64"),
    *("origin.f64", "lengths.f64", "spans.f64"),
}
FILES: Final = frozenset({_SKETCHES, _HEADER, *_VERIFIED_ARRAYS, *_OLDER_NAMES})
"""Names of all files of lists, also those written by older software."""


def read(folder: Path, copy_checksum: int, shape: tuple[int, ...], starts: Ids) -> InvertedLists | None:
    """Open the lists of a copy of vectors [n, E] with this checksum; None if damaged, or if there are none.

    shape: n, E. starts: the first row of each of the copy's episodes, and n.
    """
    try:
        return _open(folder, copy_checksum, shape, starts)
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def _open(folder: Path, copy_checksum: int, shape: tuple[int, ...], starts: Ids) -> InvertedLists:
    count, dim = shape
    stored = json.loads((folder / _HEADER).read_text("ascii"))
    arrays = {name: np.asarray(np.memmap(folder / name, kind, "r")) for name, kind in _VERIFIED_ARRAYS.items()}
    if stored["checksum"] != _checksum(copy_checksum, int(stored["trained"]), arrays):
        raise ValueError("expected the checksum of the lists")
    sizes, frame_of, sums = arrays["sizes.i64"].reshape(3, -1)
    axes = np.array(arrays["axes.f64"]).reshape(-1, count_axes(dim), dim)
    _check_values(arrays, shape, len(axes))
    rows = arrays["rows.i32"].reshape(count)
    sketches = np.asarray(np.memmap(folder / _SKETCHES, "<f4", "r")).reshape(count, WIDTH)
    starts_of_lists = np.concatenate(([0], np.cumsum(sizes)))
    centroids = arrays["centroids.f32"].reshape(-1, dim)
    midpoints = np.empty((len(sizes), WIDTH), np.float32)
    for frame in range(len(axes)):
        midpoints[frame_of == frame] = sketch(axes[frame], centroids[frame_of == frame])
    return InvertedLists(
        centroids=centroids,
        midpoints=midpoints,
        radii=arrays["radii.f32"].astype(np.float64),
        starts=starts_of_lists,
        frames=np.array(frame_of),
        rows=rows,
        owners=np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[rows],
        axes=axes,
        sketches=sketches,
        checksums=Checksums(sketches, starts_of_lists, np.array(sums), "lists of the search copy"),
        trained=int(stored["trained"]),
    )


def _check_values(arrays: dict[str, NDArray[Any]], shape: tuple[int, ...], frames: int) -> None:
    """Raise ValueError for numbers that do not belong together, or indices out of range."""
    count, dim = shape
    sizes, frame_of, _ = arrays["sizes.i64"].reshape(3, -1)
    lists = len(sizes)
    limits = ((sizes, count + 1), (frame_of, frames), (arrays["rows.i32"], count))
    if arrays["centroids.f32"].size != lists * dim or arrays["radii.f32"].size != lists:
        raise ValueError("expected as many numbers as there are lists")
    if any(numbers.min(initial=0) < 0 or numbers.max(initial=0) >= limit for numbers, limit in limits):
        raise ValueError("expected rows and frames that exist")
    if sizes.sum() != count:
        raise ValueError("expected every row in a list")


def write(folder: Path, copy_checksum: int, vectors: Vectors, clustering: Clustering) -> None:
    """Write the lists of vectors [n, E] of a copy with this checksum. Raises OSError."""
    folder.mkdir()
    axes, frame_of = fit_frames(vectors, clustering)
    order = np.argsort(clustering.labels, kind="stable").astype(np.int32)
    sizes = np.bincount(clustering.labels, minlength=len(clustering.centroids)).astype(np.int64)
    members = zip(np.split(order, np.cumsum(sizes)[:-1]), frame_of.tolist(), strict=True)
    sums = _write_sketches(folder / _SKETCHES, vectors, ((rows, axes[frame]) for rows, frame in members))
    arrays = {
        "axes.f64": axes,
        "rows.i32": order,
        "centroids.f32": clustering.centroids,
        "radii.f32": clustering.radii,
        "sizes.i64": np.stack([sizes, frame_of, sums]),
    }
    stored = {name: np.ascontiguousarray(array, _VERIFIED_ARRAYS[name]) for name, array in arrays.items()}
    for name, array in stored.items():
        with publish(folder / name) as file:
            file.write(array.data)
    total = _checksum(copy_checksum, clustering.trained, stored)
    header = {"trained": clustering.trained, "checksum": total}
    with publish(folder / _HEADER) as file:
        file.write(json.dumps(header).encode())


def _write_sketches(path: Path, vectors: Vectors, lists: Iterable[tuple[NDArray[np.int32], Axes]]) -> list[int]:
    """Write the sketches of lists, each of rows in a frame of axes; return the CRC32C of each list."""
    sums = []
    with publish(path) as file:
        for rows, axes in lists:
            total = 0
            for start in range(0, len(rows), _BATCH_ROWS):
                data = np.ascontiguousarray(sketch(axes, vectors[rows[start : start + _BATCH_ROWS]]), "<f4").data
                total = checksum(data, total)
                file.write(data)
            sums.append(total)
    return sums


def _checksum(copy_checksum: int, trained: int, arrays: dict[str, NDArray[np.generic]]) -> int:
    total = checksum(trained.to_bytes(8, "little"), copy_checksum)
    for array in arrays.values():
        total = checksum(array.data, total)
    return total
