"""Inverted lists on disk, beside the vectors: the files of a folder `inverted_lists/`, memory-mapped.

All are little-endian. The checksum of a list, or of an episode's sketches or codes, is verified when it is first used.

    list_sketches.i16     int16 [n, 16]: the sketches, list after list, in each in the order of vectors.f32
    sketches.i16          int16 [n, 16]: the sketches in the order of vectors.f32
    residual_codes.i8     int8 [n, E]: the residual codes in the same order
    steps.f32             float32 [n]: the steps of the codes
    frames.u8             uint8 [n]: the frame of each of these
    axes.f64              float64 [F, P, E]: the axes of the frames
    rows.i32              int32 [n]: the row of vectors.f32 for each of list_sketches.i16
    centroids.f32         float32 [L, E]
    radii.f32             float32 [L]: the least cosine of a list's vectors to the centroid
    sizes.i64             int64 [3, L]: number of vectors, frame, CRC32C of the sketches in list_sketches.i16
    checksums.i64         int64 [2, episodes]: CRC32C of each episode's sketches in sketches.i16, and of its codes
    inverted_lists.json   vectors at the last training, and a CRC32C over the copy's own and all files but sketches
                          and codes
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.embedded.checksums import Checksums
from bridge.index.embedded.inverted_lists import InvertedLists
from bridge.index.embedded.kmeans import fit_frames
from bridge.index.embedded.residual_codes import ResidualCodes, encode
from bridge.index.embedded.sketches import WIDTH, Sketches, count_axes, iterate_sketches
from wshard.container.atomic_write import publish
from wshard.container.layout import checksum

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Vectors
    from bridge.index.embedded.kmeans import Clustering
    from bridge.index.embedded.sketches import Axes, Frames, Rounded

_LIST_SKETCHES: Final = "list_sketches.i16"
_SKETCHES: Final = "sketches.i16"
_CODES: Final = "residual_codes.i8"
_HEADER: Final = "inverted_lists.json"
_VERIFIED_ARRAYS: Final = {
    "frames.u8": "u1",
    "axes.f64": "<f8",
    "rows.i32": "<i4",
    "centroids.f32": "<f4",
    "radii.f32": "<f4",
    "sizes.i64": "<i8",
    "checksums.i64": "<i8",
    "steps.f32": "<f4",
}
_OLDER_NAMES: Final = {
    *("listed.i16", "outlines.i16", "codes.i1", "lists.json", "frames.u1", "rims.f32", "sums.i64"),
    *("origin.f64", "lengths.f64", "spans.f64"),
}
FILES: Final = frozenset({_LIST_SKETCHES, _SKETCHES, _CODES, _HEADER, *_VERIFIED_ARRAYS, *_OLDER_NAMES})
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
    axes = arrays["axes.f64"].reshape(-1, count_axes(dim), dim)
    _check_values(arrays, shape, len(starts) - 1, len(axes))
    rows = arrays["rows.i32"].reshape(count)
    maps = [np.asarray(np.memmap(folder / name, "<i2", "r")) for name in (_LIST_SKETCHES, _SKETCHES)]
    list_sketches, sketches = (numbers.reshape(count, WIDTH) for numbers in maps)
    codes = np.asarray(np.memmap(folder / _CODES, "i1", "r")).reshape(count, dim)
    sketch_sums, code_sums = arrays["checksums.i64"].reshape(2, -1).copy()
    starts_of_lists = np.concatenate(([0], np.cumsum(sizes)))
    centroids = arrays["centroids.f32"].reshape(-1, dim)
    return InvertedLists(
        centroids=centroids,
        midpoints=np.concatenate([midpoints for midpoints, _ in iterate_sketches(centroids, axes, frame_of)]),
        radii=arrays["radii.f32"].astype(np.float64),
        starts=starts_of_lists,
        frames=np.array(frame_of),
        rows=rows,
        owners=np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[rows],
        list_sketches=list_sketches,
        checksums=Checksums(list_sketches, starts_of_lists, np.array(sums), "lists of the search copy"),
        sketches=Sketches(
            np.array(axes),
            arrays["frames.u8"].reshape(count),
            sketches,
            Checksums(sketches, starts, sketch_sums, "sketches of the search copy"),
        ),
        residual_codes=ResidualCodes(
            codes, arrays["steps.f32"], Checksums(codes, starts, code_sums, "codes of the search copy")
        ),
        trained=int(stored["trained"]),
    )


def _check_values(arrays: dict[str, NDArray[Any]], shape: tuple[int, ...], episodes: int, axes: int) -> None:
    """Raise ValueError for indices out of range, which a compiled search would not check."""
    count, dim = shape
    sizes, frame_of, _ = arrays["sizes.i64"].reshape(3, -1)
    lists = len(sizes)
    counts = {
        "frames.u8": count,
        "centroids.f32": lists * dim,
        "radii.f32": lists,
        "checksums.i64": 2 * episodes,
        "steps.f32": count,
    }
    limits = ((sizes, count + 1), (frame_of, axes), (arrays["frames.u8"], axes), (arrays["rows.i32"], count))
    if any(arrays[name].size != size for name, size in counts.items()):
        raise ValueError("expected as many numbers as there are rows, lists and episodes")
    if any(numbers.min(initial=0) < 0 or numbers.max(initial=0) >= limit for numbers, limit in limits):
        raise ValueError("expected rows and frames that exist")
    if sizes.sum() != count:
        raise ValueError("expected every row in a list")


def write(folder: Path, copy_checksum: int, vectors: Vectors, starts: Ids, clustering: Clustering) -> None:
    """Write the lists of vectors [n, E] of a copy with this checksum. Raises OSError.

    starts: the first row of each of the copy's episodes, and n.
    """
    folder.mkdir()
    axes, frame_of = fit_frames(vectors, clustering)
    frames_of_rows = frame_of[clustering.labels]
    steps = _write_rows(folder, vectors, axes, frames_of_rows)
    sketches = np.asarray(np.memmap(folder / _SKETCHES, "<i2", "r")).reshape(len(vectors), -1)
    codes = np.asarray(np.memmap(folder / _CODES, "i1", "r")).reshape(vectors.shape)
    order = np.argsort(clustering.labels, kind="stable").astype(np.int32)
    sizes = np.bincount(clustering.labels, minlength=len(clustering.centroids)).astype(np.int64)
    arrays = {
        "frames.u8": frames_of_rows,
        "axes.f64": axes,
        "rows.i32": order,
        "centroids.f32": clustering.centroids,
        "radii.f32": clustering.radii,
        "sizes.i64": np.stack([sizes, frame_of, _write_lists(folder / _LIST_SKETCHES, sketches, order, sizes)]),
        "checksums.i64": np.array([_sum_episodes(part, starts) for part in (sketches, codes)]),
        "steps.f32": steps,
    }
    stored = {name: np.ascontiguousarray(array, _VERIFIED_ARRAYS[name]) for name, array in arrays.items()}
    for name, array in stored.items():
        with publish(folder / name) as file:
            file.write(array.data)
    total = _checksum(copy_checksum, clustering.trained, stored)
    header = {"trained": clustering.trained, "checksum": total}
    with publish(folder / _HEADER) as file:
        file.write(json.dumps(header).encode())


def _sum_episodes(part: NDArray[np.generic], starts: Ids) -> list[int]:
    return [checksum(part[a:b].data) for a, b in pairwise(starts.tolist())]


def _write_rows(folder: Path, vectors: Vectors, axes: Axes, which: Frames) -> Vectors:
    """Write sketches and codes in the order of the vectors; return the codes' steps."""
    steps = [np.zeros(0, np.float32)]
    with publish(folder / _SKETCHES) as sketches, publish(folder / _CODES) as codes:
        for batch, residuals in iterate_sketches(vectors, axes, which):
            sketches.write(np.ascontiguousarray(batch, "<i2").data)
            encoded, step = encode(residuals)
            codes.write(encoded.data)
            steps.append(step)
    return np.concatenate(steps)


def _write_lists(path: Path, sketches: Rounded, order: NDArray[np.int32], sizes: Ids) -> Ids:
    """Write the sketches list by list, and return the CRC32C of each."""
    sums = np.zeros_like(sizes)
    done = 0
    with publish(path) as file:
        for number, size in enumerate(sizes.tolist()):
            data = sketches.take(order[done : done + size], axis=0).data
            sums[number] = checksum(data)
            file.write(data)
            done += size
    return sums


def _checksum(copy_checksum: int, trained: int, arrays: dict[str, NDArray[np.generic]]) -> int:
    total = checksum(trained.to_bytes(8, "little"), copy_checksum)
    for array in arrays.values():
        total = checksum(array.data, total)
    return total
