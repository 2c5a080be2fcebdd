"""Certified lists on disk, beside the vectors: which of these are near each other, outlines and codes, memory-mapped.

Knows: the files of a folder `lists/`, all little-endian:

    listed.i16      int16 [n, 16]: the outlines, list after list, in each in the order of lengths.f64, if there is
                    such a file, and of vectors.f32
    outlines.i16    int16 [n, 16]: the outlines in the order of vectors.f32
    codes.i1        int8 [n, E]: the codes in the same order; not, as the next, of vectors that are not of unit length
    steps.f32       float32 [n]: the steps of the codes
    frames.u1       uint8 [n]: in which frame each of these is
    axes.f64        float64 [F, P, E]: the axes of the frames
    rows.i32        int32 [n]: which row of vectors.f32 each of listed.i16 is
    centroids.f32   float32 [L, E]
    rims.f32        float32 [L]: the least cosine of a list's vectors to the centroid
    sizes.i64       int64 [3, L]: number of vectors, frame, CRC32C of the outlines in listed.i16
    sums.i64        int64 [1 or 2, episodes]: CRC32C of each episode's outlines in outlines.i16, of its codes, if any
    origin.f64      float64 [E]: all of this is of directions as seen from there. With the next two, in lists of vectors
                    that are not of unit length
    lengths.f64     float64 [2, n]: the distance to there of each row of vectors.f32, and of each row of listed.i16
    spans.f64       float64 [2, L]: the shortest and the longest of these in each list
    lists.json      vectors at the last training, and a CRC32C over the generation's own and all files but outlines
                    and codes

Does not know: how vectors are grouped, outlined or searched. The checksum of a list, or of an episode's outlines or
codes, is compared when it is first used.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.index.embedded.arrays import WIDTH
from bridge.index.embedded.checksums import Seals
from bridge.index.embedded.inverted_lists import Lists
from bridge.index.embedded.kmeans import Grouping, frames
from bridge.index.embedded.norm_bounds import Directions, Lengths, seen
from bridge.index.embedded.residual_codes import Codes, code
from bridge.index.embedded.sketches import Outlines, outlined, terms
from wshard.container.atomic_write import publish
from wshard.container.layout import checksum

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.index.base import Vectors
    from bridge.index.embedded.arrays import Axes, Ids, Numbers, Rounded

_LISTED: Final = "listed.i16"
_OUTLINES: Final = "outlines.i16"
_CODES: Final = "codes.i1"
_ABOUT: Final = "lists.json"
_SMALL: Final = {
    "frames.u1": "u1",
    "axes.f64": "<f8",
    "rows.i32": "<i4",
    "centroids.f32": "<f4",
    "rims.f32": "<f4",
    "sizes.i64": "<i8",
    "sums.i64": "<i8",
}
_CODED: Final = {"steps.f32": "<f4"}
_POLAR: Final = {"origin.f64": "<f8", "lengths.f64": "<f8", "spans.f64": "<f8"}
FILES: Final = frozenset({_LISTED, _OUTLINES, _CODES, _ABOUT, *_SMALL, *_CODED, *_POLAR})


def read(folder: Path, seal: int, shape: tuple[int, ...], starts: Ids) -> Lists | None:
    """Open the lists of a generation of `shape` [n, E] whose checksum is `seal`; None if damaged, or if there are none.

    starts: the first row of each of the generation's episodes, and n.
    """
    count, dim = shape
    try:
        stored = json.loads((folder / _ABOUT).read_text("ascii"))
        kinds = _SMALL | (_POLAR if stored["polar"] else _CODED)
        small = {name: np.asarray(np.memmap(folder / name, kind, "r")) for name, kind in kinds.items()}
        if stored["checksum"] != _checksum(seal, int(stored["trained"]), small):
            return None
        sizes, frame_of, sums = small["sizes.i64"].reshape(3, -1)
        rows, axes = small["rows.i32"].reshape(count), small["axes.f64"].reshape(-1, terms(dim), dim)
        listed, outlines = (
            np.asarray(np.memmap(folder / name, "<i2", "r")).reshape(count, WIDTH) for name in (_LISTED, _OUTLINES)
        )
        _check_numbers(small, shape, len(starts) - 1, len(axes))
        whole, *rest = small["sums.i64"].reshape(-1, len(starts) - 1).copy()
        codes = _codes(folder, small["steps.f32"], dim, starts, rest[0]) if rest else Codes.none(dim)
        lengths = _lengths(small, count) if stored["polar"] else None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None
    begins = np.concatenate(([0], np.cumsum(sizes)))
    centroids = small["centroids.f32"].reshape(-1, dim)
    return Lists(
        centroids=centroids,
        middles=np.concatenate([middles for middles, _ in outlined(centroids, axes, frame_of)]),
        rims=small["rims.f32"].astype(np.float64),
        starts=begins,
        frames=np.array(frame_of),
        rows=rows,
        owners=np.repeat(np.arange(len(starts) - 1, dtype=np.int32), np.diff(starts))[rows],
        listed=listed,
        seals=Seals(listed, begins, np.array(sums), "lists of the search copy"),
        by_row=Outlines(
            np.array(axes),
            small["frames.u1"].reshape(count),
            outlines,
            Seals(outlines, starts, whole, "outlines of the search copy"),
        ),
        codes=codes,
        trained=int(stored["trained"]),
        lengths=lengths,
    )


def _check_numbers(small: dict[str, NDArray[Any]], shape: tuple[int, ...], episodes: int, axes: int) -> None:
    """Raise ValueError for numbers that lead out of their files: a compiled search would follow them."""
    count, dim = shape
    sizes, frame_of, _ = small["sizes.i64"].reshape(3, -1)
    lists = len(sizes)
    counts = {
        "frames.u1": count,
        "centroids.f32": lists * dim,
        "rims.f32": lists,
        "sums.i64": (2 if "steps.f32" in small else 1) * episodes,
        "steps.f32": count,
        "origin.f64": dim,
        "spans.f64": 2 * lists,
    }
    limits = ((sizes, count + 1), (frame_of, axes), (small["frames.u1"], axes), (small["rows.i32"], count))
    if any(small[name].size != size for name, size in counts.items() if name in small):
        raise ValueError("expected as many numbers as there are rows, lists and episodes")
    if any(numbers.min(initial=0) < 0 or numbers.max(initial=0) >= limit for numbers, limit in limits):
        raise ValueError("expected rows and frames that exist")
    if sizes.sum() != count:
        raise ValueError("expected every row in a list")


def _codes(folder: Path, steps: Vectors, dim: int, starts: Ids, sums: Ids) -> Codes:
    codes = np.asarray(np.memmap(folder / _CODES, "i1", "r")).reshape(len(steps), dim)
    return Codes(codes, steps, Seals(codes, starts, sums, "codes of the search copy"))


def _lengths(small: dict[str, NDArray[np.generic]], count: int) -> Lengths:
    origin, lengths, spans = (np.asarray(small[name], np.float64) for name in _POLAR)
    by_row, by_place = lengths.reshape(2, count)
    return Lengths(origin, by_row, by_place, spans.reshape(2, -1))


def grouping_of(lists: Lists) -> Grouping:
    """Return what the lists were made from, by row of vectors.f32."""
    labels = np.empty(len(lists.rows), np.int32)
    labels[lists.rows] = np.repeat(np.arange(len(lists.starts) - 1, dtype=np.int32), np.diff(lists.starts))
    origin = None if lists.lengths is None else lists.lengths.origin
    return Grouping(lists.centroids, labels, lists.rims.astype(np.float32), lists.trained, origin)


def write(folder: Path, seal: int, vectors: Vectors, starts: Ids, grouping: Grouping) -> None:
    """Write the lists of vectors [n, E], of a generation whose checksum is `seal`. Raises OSError.

    starts: the first row of each of the generation's episodes, and n.
    """
    folder.mkdir()
    rows = seen(vectors, grouping.origin)
    axes, frame_of = frames(rows, grouping)
    which = frame_of[grouping.labels]
    steps = _rows(folder, rows, axes, which)
    outlines = np.asarray(np.memmap(folder / _OUTLINES, "<i2", "r")).reshape(len(vectors), -1)
    parts: list[NDArray[np.generic]] = [outlines]
    if not isinstance(rows, Directions):
        parts.append(np.asarray(np.memmap(folder / _CODES, "i1", "r")).reshape(vectors.shape))
    keys = (rows.lengths, grouping.labels) if isinstance(rows, Directions) else (grouping.labels,)
    order = np.lexsort(keys).astype(np.int32)
    sizes = np.bincount(grouping.labels, minlength=len(grouping.centroids)).astype(np.int64)
    small = {
        "frames.u1": which,
        "axes.f64": axes,
        "rows.i32": order,
        "centroids.f32": grouping.centroids,
        "rims.f32": grouping.rims,
        "sizes.i64": np.stack([sizes, frame_of, _listed(folder / _LISTED, outlines, order, sizes)]),
        "sums.i64": np.array([[checksum(part[a:b].data) for a, b in pairwise(starts.tolist())] for part in parts]),
    }
    small |= _polar(rows, order, sizes) if isinstance(rows, Directions) else {"steps.f32": steps}
    kinds = _SMALL | _CODED | _POLAR
    stored = {name: np.ascontiguousarray(array, kinds[name]) for name, array in small.items()}
    for name, array in stored.items():
        with publish(folder / name) as file:
            file.write(array.data)
    total = _checksum(seal, grouping.trained, stored)
    about = {"trained": grouping.trained, "polar": grouping.origin is not None, "checksum": total}
    with publish(folder / _ABOUT) as file:
        file.write(json.dumps(about).encode())


def _polar(rows: Directions, order: NDArray[np.int32], sizes: Ids) -> dict[str, NDArray[np.float64]]:
    by_place = rows.lengths[order]
    ends, spans, some = np.cumsum(sizes), np.zeros((2, len(sizes))), sizes > 0
    spans[:, some] = by_place[(ends - sizes)[some]], by_place[ends[some] - 1]
    return {"origin.f64": rows.origin, "lengths.f64": np.stack([rows.lengths, by_place]), "spans.f64": spans}


def _rows(folder: Path, vectors: Vectors | Directions, axes: Axes, which: Numbers) -> Vectors:
    """Write outlines in the order of the vectors, and codes, but not of directions; return the codes' steps."""
    steps = [np.zeros(0, np.float32)]
    coded = nullcontext() if isinstance(vectors, Directions) else publish(folder / _CODES)
    with publish(folder / _OUTLINES) as outlines, coded as codes:
        for some, left in outlined(vectors, axes, which):
            outlines.write(np.ascontiguousarray(some, "<i2").data)
            if codes is not None:
                found, step = code(left)
                codes.write(found.data)
                steps.append(step)
    return np.concatenate(steps)


def _listed(path: Path, outlines: Rounded, order: NDArray[np.int32], sizes: Ids) -> Ids:
    """Write the outlines list by list, and return the CRC32C of each."""
    sums = np.zeros_like(sizes)
    done = 0
    with publish(path) as file:
        for number, size in enumerate(sizes.tolist()):
            data = outlines.take(order[done : done + size], axis=0).data
            sums[number] = checksum(data)
            file.write(data)
            done += size
    return sums


def _checksum(seal: int, trained: int, small: dict[str, NDArray[np.generic]]) -> int:
    total = checksum(trained.to_bytes(8, "little"), seal)
    for array in small.values():
        total = checksum(array.data, total)
    return total
