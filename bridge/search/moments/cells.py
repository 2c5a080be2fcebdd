"""Cells: the blocks of all episodes, or the changes between these, grouped by what they are like.

A cell has a centre, and its members lie in the order of their distance from it. So of a cell that is not near a query
no member need be read, and of another one only those far enough from its centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.search.moments.blocks import CHANGE, count_blocks, with_squares
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bridge.alignment.arrays import Ints
    from bridge.index.array_files import Part
    from bridge.search.moments.blocks import Floats

    Labels = NDArray[np.uint16]
    Numbers = NDArray[np.int32]

PARTS: Final = 8
"""Of a cell, each with its farthest member's distance from the centre."""

_MEMBERS: Final = 128  # of a cell, about
_SAMPLED: Final = 16  # members of a cell that its centre is chosen by
_ROUNDS: Final = 4
_PRODUCTS: Final = 1 << 18  # distances at once, while they fit in the CPU cache


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of the first rows of some values, which are blocks or changes.

    centres [k, D + 1]: with their squared length; reaches [k, PARTS]: the largest distance from it in each part; sizes
    [k]; members [n]: rows, farthest first in each cell; values [n, D + 1]: theirs, with their squared length.
    apart: places from one row to the next; places: how many the rows have together.
    """

    centres: Floats
    reaches: Floats
    sizes: Ints
    members: Numbers
    values: Floats
    apart: int
    places: int

    @staticmethod
    def of(part: Part, apart: int, places: int) -> Cells:
        """Return the cells that `divide` yields, one below the other."""
        heads, sizes, members, values = part
        return Cells(
            np.ascontiguousarray(heads[:, :-PARTS]),
            np.ascontiguousarray(heads[:, -PARTS:]),
            sizes[:, 0].astype(np.int64),
            members[:, 0],
            values,
            apart,
            places,
        )

    @cached_property
    def columns(self) -> Floats:
        """The centres [D + 1, k], as they are multiplied faster."""
        return np.ascontiguousarray(self.centres.T)

    @cached_property
    def edges(self) -> Ints:
        """Where the members of each cell begin [k]."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def farthest(self) -> Floats:
        """The distance of the farthest member of each cell from its centre [k]."""
        return np.ascontiguousarray(self.reaches[:, 0])

    @cached_property
    def largest(self) -> float:
        """The largest squared length of a centre."""
        return float(self.centres[:, -1].max(initial=0))

    def find_far(self, cells: Ints, distances: Floats) -> Ints:
        """Return the numbers of the members that are so far from the centres of some cells, and of few others."""
        parts = (self.reaches.take(cells, axis=0) >= distances[:, None]).sum(axis=1)
        counts = parts * self.sizes[cells] // PARTS
        ends = np.cumsum(counts)
        places: Ints = np.repeat(self.edges[cells] - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        return places


def list_blocks(lengths: Ints) -> Numbers:
    """Return which of the stored blocks of episodes of these lengths are none repeated."""
    counts, stored = count_blocks(lengths)
    return _list_first(counts, stored)


def list_changes(lengths: Ints) -> Numbers:
    """Return which of the stored changes are between blocks of one episode, and none repeated."""
    counts, stored = count_blocks(lengths)
    return _list_first(np.maximum(0, (counts - 1) // CHANGE), stored // CHANGE)


def _list_first(counts: Ints, stored: Ints) -> Numbers:
    """Return the first `counts` of each `stored` rows."""
    skipped = np.cumsum(stored - counts) - (stored - counts)
    rows = np.repeat(skipped.astype(np.int32), counts)
    rows += np.arange(len(rows), dtype=np.int32)
    return rows


def divide(values: Floats, rows: Numbers, width: int) -> Iterator[Part]:
    """Yield the cells of these rows of values [n, >= width], some at a time: the arrays that `Cells.of` takes.

    Equal values give equal cells: the seed is fixed.
    """
    if not len(rows):
        return
    random = np.random.default_rng(0)
    count = isqrt(max(1, len(rows) // _MEMBERS))
    sampled = np.sort(random.choice(rows, min(len(rows), _SAMPLED * _SAMPLED * count), replace=False))
    with one_blas_thread():
        centres = _train(values[sampled, :width], count, random)
        parts = [_sort_by_label(values, part, centres) for part in np.array_split(rows, max(1, len(rows) // _PRODUCTS))]
        for label in range(count):
            members = np.concatenate([part[edges[label] : edges[label + 1]] for part, edges in parts])
            if len(members):
                yield _divide_group(np.ascontiguousarray(values[members, :width]), members, random)


def _sort_by_label(values: Floats, rows: Numbers, centres: Floats) -> tuple[Numbers, Ints]:
    """Return rows by the nearest centre of each [n], and where those of each centre begin [k + 1]."""
    labels = _label(values[rows, : centres.shape[1]], centres)
    order = np.argsort(labels, kind="stable")
    return rows[order], labels[order].searchsorted(np.arange(len(centres) + 1))


def _divide_group(values: Floats, members: Numbers, random: np.random.Generator) -> Part:
    """Return the cells of similar values."""
    count = max(1, len(values) // _MEMBERS)
    sampled = random.choice(len(values), min(len(values), _SAMPLED * count), replace=False)
    centres = _train(values[np.sort(sampled)], count, random)
    labels = _label(values, centres)
    distances = np.sqrt(((values - centres[labels]) ** 2).sum(axis=1))
    order = np.lexsort((-distances, labels))
    sizes = np.bincount(labels, minlength=count)
    edges = np.cumsum(sizes) - sizes
    used = sizes > 0
    firsts = edges[used, None] + np.arange(PARTS) * sizes[used, None] // PARTS
    heads = np.concatenate([with_squares(centres[used]), distances[order][firsts]], axis=1)
    rows = with_squares(values[order])
    return heads.astype(np.float32), sizes[used, None].astype(np.int32), members[order, None], rows


def _train(sample: Floats, count: int, random: np.random.Generator) -> Floats:
    """Return `count` centres of a sample by k-means; those without members stay."""
    centres = sample[np.sort(random.choice(len(sample), count, replace=False))].copy()
    for _ in range(_ROUNDS if count > 1 else 1):
        labels = _label(sample, centres)
        order = np.argsort(labels, kind="stable")
        used, firsts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
        centres[used] = np.add.reduceat(sample[order], firsts, axis=0) / sizes[:, None]
    return centres


def _label(values: Floats, centres: Floats) -> Labels:
    """Return the nearest centre of each."""
    labels = np.empty(len(values), np.uint16)
    weights, lengths = -2 * centres.T, (centres**2).sum(axis=1)
    size = max(1, _PRODUCTS // len(centres))
    for start in range(0, len(values), size):
        products = values[start : start + size] @ weights
        products += lengths
        labels[start : start + size] = products.argmin(axis=1)
    return labels
