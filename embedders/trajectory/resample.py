"""Resample windows to a fixed number of rows, evenly in time or along the path, and smooth them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from embedders.numeric import Rows

    Spans = NDArray[np.int64]


def resample(rows: Rows, spans: Spans, length: int) -> NDArray[np.float64]:
    """Return [N, length, D]: of each window rows[start:stop] `length` >= 2 rows, evenly in time; linear in between."""
    return _read_at(rows, spans[:, 0], even_places(spans, length))


def arc_resample(rows: Rows, spans: Spans, length: int, *, path: Rows, epsilon: float) -> NDArray[np.float64]:
    """Return [N, length, D]: of each window rows[start:stop] `length` >= 2 rows, evenly along the `path` [R, P].

    rows: [R, D]; spans: [N, 2], start < stop. Every step adds `epsilon` > 0 to the arc: a stall has next to no length,
    and a window that never moves is resampled in time. All columns are read at the same places. What comes of a window
    depends on its rows and its path alone, to the last bit.
    """
    steps = path[1:] - path[:-1]
    paces = np.sqrt(np.einsum("td,td->t", steps, steps)) + epsilon
    return _read_at(rows, spans[:, 0], arc_places(paces, spans, length))


def even_places(spans: Spans, length: int) -> NDArray[np.float64]:
    """Return [N, length]: row numbers, evenly in time, counted from the start of each window and with fractions."""
    places: NDArray[np.float64] = np.arange(length) * (spans[:, 1:] - spans[:, :1] - 1) / (length - 1)
    return places


def arc_places(paces: NDArray[np.float64], spans: Spans, length: int) -> NDArray[np.float64]:
    """Return [N, length]: row numbers, evenly along the path; paces: how long each step from row to row is."""
    starts, sizes = spans[:, 0], spans[:, 1] - spans[:, 0]
    order = np.argsort(sizes, kind="stable")
    places = np.empty((len(spans), length))
    places[order] = _places(_arcs(paces, starts[order], sizes[order]), sizes[order], length)
    return places


def spectral_weights(places: NDArray[np.float64], most: int, basis: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return [N, K, most]: what times the rows of a window is `basis` [K, L] times its rows at L places.

    most: rows of the longest window. Costs less than reading wide rows at many places.
    """
    below = places.astype(np.intp)
    beyond = (places - below)[:, None] * basis
    bins = (np.arange(len(places))[:, None] * len(basis) + np.arange(len(basis)))[..., None] * (most + 1)
    at = (bins + below[:, None]).ravel()
    size = len(places) * len(basis) * (most + 1)
    shares: Any = np.bincount(at, (basis - beyond).ravel(), size) + np.bincount(at + 1, beyond.ravel(), size + 1)[:size]
    weights: NDArray[np.float64] = shares.reshape(len(places), len(basis), most + 1)[..., :most]
    return weights


def joined(windows: Sequence[Rows]) -> tuple[Rows, Spans]:
    """Return windows one below the other, and where each of them lies."""
    stops = np.cumsum([len(window) for window in windows])
    return np.concatenate(windows), np.stack([stops - [len(window) for window in windows], stops], axis=1)


def _read_at(rows: Rows, starts: Spans, places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Read `rows` at fractional row numbers [N, L], counted from each of N starts, linear between neighbours."""
    below = places.astype(np.intp)
    rises = np.zeros_like(rows)
    np.subtract(rows[1:], rows[:-1], out=rises[:-1])
    at = below + starts[:, None]
    found = rows.take(at, axis=0)  # several times faster than an index
    between = rises.take(at, axis=0)
    between *= (places - below)[..., None]
    found += between
    return found


def _arcs(paces: NDArray[np.float64], starts: Spans, sizes: Spans) -> NDArray[np.float64]:
    """Return how far along its path each row of each window lies, from 0 to 1: the windows one after the other.

    The windows come by size: those of one size are walked together.
    """
    blocks = []
    found, begins = np.unique(sizes, return_index=True)
    for size, begin, end in zip(found.tolist(), begins, [*begins[1:], len(sizes)], strict=True):
        block = np.zeros((end - begin, size))
        if size > 1:
            steps = starts[begin:end, None] + np.arange(size - 1)
            np.cumsum(paces.take(steps), axis=1, out=block[:, 1:])
            block /= block[:, -1:]
        blocks.append(block.ravel())
    return np.concatenate(blocks)


def _places(arcs: NDArray[np.float64], sizes: Spans, length: int) -> NDArray[np.float64]:
    """Return at which rows of its window, counted from 0 and with fractions, `length` even places along it lie."""
    wanted = np.arange(length) / (length - 1)
    reached = np.ceil(arcs * (length - 1)).astype(np.intp)  # but for rounding, the first place not before the row
    reached -= (wanted.take(reached - 1) >= arcs) & (reached > 0)
    reached += wanted.take(reached) < arcs
    windows = np.repeat(np.arange(len(sizes)) * length, sizes)
    passed = np.bincount(windows + reached, minlength=len(sizes) * length).reshape(-1, length)
    row = np.cumsum(passed, axis=1) - 1
    ends = np.cumsum(sizes)[:, None]
    here = ends - sizes[:, None] + row
    before = arcs.take(here)
    gaps = arcs.take(np.minimum(here + 1, ends - 1)) - before
    beyond = np.where(gaps > 0, wanted - before, 0.0)
    places: NDArray[np.float64] = 1.0 / np.where(gaps > 0, gaps, 1.0) * beyond + row
    return places


def smooth(rows: Rows, count: int, spans: Spans | None = None) -> Rows:
    """Return rows [T, D], each the mean of `count` (odd) rows around it, fewer at the ends, to remove jitter.

    spans: windows of the rows one after the other [N, 2], each smoothed by itself, to the last bit; None: one.
    """
    most, numbers = count // 2, np.arange(len(rows))
    if spans is None or len(spans) == 1:
        counts = np.minimum(numbers, most) + np.minimum(numbers[::-1], most) + 1
        alone: Rows = _sum_around(rows, most) / counts[:, None]
        return alone
    sizes = spans[:, 1] - spans[:, 0]
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    # Zeros between the windows add nothing.
    places = numbers + np.repeat(np.arange(len(sizes)) * most, sizes)
    apart = np.zeros((len(rows) + len(sizes) * most, rows.shape[1]))
    apart[places] = rows
    before = numbers - starts
    counts = np.minimum(before, most) + np.minimum(np.repeat(sizes, sizes) - 1 - before, most) + 1
    found: Rows = _sum_around(apart, most).take(places, axis=0)
    found /= counts[:, None]
    return found


def _sum_around(rows: Rows, most: int) -> Rows:
    """Return the sum of each row and of up to so many on each side, in one order for every row: equal ones stay so."""
    total: Rows = rows.astype(np.float64)
    for step in range(1, most + 1):
        total[step:] += rows[:-step]
        total[:-step] += rows[step:]
    return total
