"""Which members of certified lists can be among the best: visited by the compiled kernel, or by numpy.

Knows: what each of the two needs, and that what the compiled one has read is checked before anybody uses what it found.
Does not know: when lists are worth a look, ranking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.index.embedded.candidates import TELLING, Shortlist
from bridge.index.embedded.filtered_scan import narrowing
from bridge.index.embedded.inverted_lists import Found, search
from bridge.index.embedded.kernel_loader import kernel
from bridge.index.metric import rounding
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from bridge.index.embedded.arrays import Ids
    from bridge.index.embedded.candidates import Aim
    from bridge.index.embedded.inverted_lists import Limits, Lists
    from bridge.index.embedded.segment import Segment

_EVERY = np.zeros(0, np.bool_)
_WITHOUT_BUDGET = -1


@dataclass(frozen=True, eq=False)
class Visited:
    """Rows that can be among the best, as far as lists were read; what was read; and by what.

    hopeless: too many rows to compare, here or wherever else outlines decide.
    """

    rows: Ids
    found: Found
    hopeless: bool
    kernel: str


def visit(segment: Segment, lists: Lists, aim: Aim, limits: Limits) -> Visited:
    """Visit lists until none can hold anything better, or it is not worth it. Raises ChecksumError."""
    module = kernel().walked() if aim.sight is None else None
    if module is not None:
        return _compiled(module, segment, lists, aim, limits)
    return _with_numpy(segment, lists, aim, limits)


@one_blas_thread()
def _with_numpy(segment: Segment, lists: Lists, aim: Aim, limits: Limits) -> Visited:
    """Return what numpy finds. Raises ChecksumError."""
    sides = lists.by_row.sides(aim.query)
    best = Shortlist(segment, aim, narrowing(segment, lists, aim, sides))
    found = search(lists, sides, best, limits)
    return Visited(best.rows, found, best.hopeless, "numpy")


def _compiled(module: Any, segment: Segment, lists: Lists, aim: Aim, limits: Limits) -> Visited:
    """Return what the compiled kernel finds. Raises ChecksumError."""
    budget = _WITHOUT_BUDGET if limits.budget is None else int(min(max(limits.budget, 0), len(segment.vectors)))
    met = np.zeros(len(lists.rims), np.bool_), np.zeros(len(segment.episodes), np.bool_)
    rows, scored, end = module.visit(
        (lists.middles, lists.rims, lists.starts, lists.frames, rounding(segment.vectors.shape[1])),
        (lists.rows, lists.owners, lists.listed),
        lists.by_row.axes,
        (lists.codes.codes, lists.codes.steps, np.float32(lists.codes.off)),
        met,
        (aim.query, aim.top_k, np.float32(aim.slack), aim.distinct),
        (
            _EVERY if limits.allowed is None else limits.allowed,
            (limits.worth, budget, aim.limit, TELLING),
        ),
    )
    for seals, parts in zip((lists.seals, lists.codes.seals), met, strict=True):
        seals.check(parts.nonzero()[0])
    found = Found(scored, int(np.count_nonzero(met[0])), proven=end == module.PROVEN, ended=end == module.ENDED)
    return Visited(rows, found, end == module.HOPELESS, "numba")
