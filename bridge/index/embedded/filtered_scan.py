"""Which rows of some episodes can be among the best: their outlines first, the codes of those that these leave.

Knows: the walk over the rows with numpy, and that another kernel may do it. Does not know: lists, ranking.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.candidates import Shortlist
from bridge.index.embedded.kernel_loader import kernel
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.embedded.arrays import Bounds, Ids
    from bridge.index.embedded.candidates import Aim, Narrow
    from bridge.index.embedded.inverted_lists import Lists
    from bridge.index.embedded.segment import Chosen, Segment

_FIRST: Final = 2048  # outlines: after so many there is a score to reach
_AT_ONCE: Final = 16_384
_WIDE: Final = 96  # numbers: from so many on codes are compared in less time than it takes to read the vectors


@dataclass(frozen=True, eq=False)
class Sifted:
    """Rows that can be among the best, None if too few were ruled out; how many outlines were read, and by what."""

    rows: Ids | None
    outlines: int
    kernel: str


def sift(segment: Segment, lists: Lists, aim: Aim, choice: Chosen, *, doubtful: bool = False) -> Sifted:
    """Return which rows of the episodes chosen, one or more, can be among the best. Raises ChecksumError.

    doubtful: outlines seem to rule out too little, so that it may be quicker to score all rows.
    """
    module = kernel().walked() if aim.sight is None else None
    if module is None and doubtful:
        return Sifted(None, 0, "numpy")
    lists.by_row.seals.check(choice.positions)
    if module is None:
        return _with_numpy(segment, lists, aim, rows_of(choice.starts, choice.stops))
    lists.codes.seals.check(choice.positions)
    rows, hopeless = module.near(
        (choice.starts, choice.stops, choice.rows),
        (lists.by_row.which, lists.by_row.axes, lists.by_row.outlines),
        (lists.codes.codes, lists.codes.steps, np.float32(lists.codes.off)),
        (aim.query, aim.top_k, np.float32(aim.slack), aim.distinct),
        aim.limit if doubtful and not outpaces(aim) else choice.rows,
    )
    return Sifted(None if hopeless else rows, choice.rows, "numba")


def outpaces(aim: Aim) -> bool:
    """Say whether to sift all rows is quicker than to score them, however few of them their outlines rule out."""
    return kernel().module is not None and aim.sight is None and len(aim.query) >= _WIDE


@one_blas_thread()
def _with_numpy(segment: Segment, lists: Lists, aim: Aim, rows: Ids) -> Sifted:
    sides, done = lists.by_row.sides(aim.query, rows), 0
    best = Shortlist(segment, aim, narrowing(segment, lists, aim, sides))
    while done < len(rows) and not best.hopeless:
        some = rows[done : done + (_AT_ONCE if done else _FIRST)]
        bounds: Bounds = lists.by_row.bounds(some, sides)
        if aim.sight is not None:
            bounds = aim.sight.most(bounds, aim.sight.lengths.by_row[some])
        good = (bounds >= best.threshold).nonzero()[0]
        best.offer(some[good], bounds[good])
        best.foresee((len(rows) - done - len(some)) / (done + len(some)))
        done += len(some)
    return Sifted(None if best.hopeless else best.rows, done, "numpy")


def narrowing(segment: Segment, lists: Lists, aim: Aim, sides: Vectors) -> Narrow:
    """Return what narrows bounds down: codes, or of vectors that are not of unit length the vectors themselves."""
    if aim.sight is None:
        return partial(lists.between, aim.query, sides)
    return partial(aim.sight.between, segment)


def rows_of(starts: Ids, stops: Ids) -> Ids:
    """Return the numbers in these ranges, one after another."""
    sizes = stops - starts
    ends = np.cumsum(sizes)
    rows: Ids = np.repeat(stops - ends, sizes) + np.arange(ends[-1])
    return rows
