"""What one search has found so far: the rows that can be among the best, and the score that this takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.sketches import bound_rounding
from bridge.index.metric import L2, bound_distance_error, measure_length

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.embedded.segment import Segment

    Narrow = Callable[[Ids, Ids, Vectors], tuple[Vectors, Vectors]]

_FIRST: Final = 64  # codes compared before the first look at what that leaves
ENOUGH_COMPARED: Final = 1000  # codes: from then on their share tells how many it will be
_AT_ONCE: Final = 4096  # codes copied at a time: a megabyte
_UNIT: Final = 2e-5  # what |v| ** 2 / 2 may differ by
_SHORT: Final = 1e-3  # a query of this length has no direction that could be trusted


@dataclass(frozen=True, eq=False)
class SearchTarget:
    """What is looked for: the top_k rows, or owners by their best row, of a unit query float32 [E].

    slack: what a float32 product, or a bound, may be off from one that ranks as the metric does. limit: of so many rows
    the codes may be compared; where more are needed, another way is quicker.
    """

    query: Vectors
    slack: float
    top_k: int
    distinct: bool
    limit: int


def make_target(query: Vectors, metric: str, request: Request, limit: int) -> SearchTarget | None:
    """Return what to look for among vectors of unit length, within 1e-5; None for a query of length 0.

    Their products with a query of unit length rank them as every metric does: a distance that differs by what 1e-5 in
    |v| makes is a product that differs by so much over |q|.
    """
    length, dim = measure_length(query), len(query)
    if length < _SHORT:
        return None
    further = _UNIT + bound_distance_error(dim, 1 + length) if metric == L2 else 0.0
    slack = bound_rounding(dim) + further / length
    return SearchTarget(query / np.float32(length), slack, request.top_k, request.distinct, limit)


class Shortlist:
    """Rows of the segment that can be among the best of all that were offered.

    narrow: tells from rows, their owners and their bounds, [n] each, the least and the most that their products can be.
    threshold: a row or list whose bound is below cannot hold one of the best. compared: how many rows were narrowed.
    hopeless: these are, or will be, more than the target's limit; rows have been left out.
    """

    def __init__(self, segment: Segment, target: SearchTarget, narrow: Narrow) -> None:
        self._segment = segment
        self._narrow = narrow
        self.target = target
        self._owners = np.zeros(0, np.int64)
        self._least = np.zeros(0, np.float32)
        self._most = np.zeros(0, np.float32)
        self.rows = np.zeros(0, np.int64)
        self.threshold = -np.inf
        self.compared = 0
        self.hopeless = False

    def offer(self, rows: Ids, bounds: Vectors) -> None:
        """Take in these rows [n] with their bounds [n], those of the greatest bounds first. Raises ChecksumError."""
        some = min(max(_FIRST, 2 * self.target.top_k), _AT_ONCE)
        while len(rows) and not self.hopeless:
            if len(rows) > some:
                order = np.argpartition(bounds, len(rows) - some)
                self._compare(rows[order[-some:]], bounds[order[-some:]])
                rows, bounds = rows[order[:-some]], bounds[order[:-some]]
                good = bounds >= self.threshold
                rows, bounds = rows[good], bounds[good]
                self.hopeless = self.compared + len(rows) > self.target.limit
                some = min(4 * some, _AT_ONCE)
            else:
                self._compare(rows, bounds)
                return

    def expect_more(self, times: float) -> None:
        """Take in that so many times as many rows are still to come."""
        if self.compared >= ENOUGH_COMPARED:
            self.hopeless = self.hopeless or self.compared * (1 + times) > self.target.limit

    def _compare(self, rows: Ids, bounds: Vectors) -> None:
        order = rows.argsort()  # rows near each other are read faster
        rows, bounds = rows[order], bounds[order]
        owners = self._segment.find_owners(rows)
        least, most = self._narrow(rows, owners, bounds)
        self.compared += len(rows)
        near = most >= self.threshold
        self.rows = np.concatenate([self.rows, rows[near]])
        self._owners = np.concatenate([self._owners, owners[near]])
        self._least = np.concatenate([self._least, least[near]])
        self._most = np.concatenate([self._most, most[near]])
        tops = self._keep_tops() if self.target.distinct else self._least
        if len(tops) >= self.target.top_k:
            kth = float(np.partition(tops, len(tops) - self.target.top_k)[len(tops) - self.target.top_k])
            self.threshold = max(self.threshold, kth - 2 * self.target.slack)
            self._filter(self._most >= self.threshold)

    def _keep_tops(self) -> NDArray[np.float32]:
        """Keep of each owner only rows that can be its best, and return the least that each owner's best can be."""
        order = self._owners.argsort(kind="stable")
        owners, least = self._owners[order], self._least[order]
        if not len(owners):
            return least
        begins = np.ones(len(owners), np.bool_)
        np.not_equal(owners[1:], owners[:-1], out=begins[1:])
        tops = np.maximum.reduceat(least, begins.nonzero()[0])
        good = self._most[order] >= tops[begins.cumsum() - 1] - np.float32(2 * self.target.slack)
        self._filter(order[good])
        return tops

    def _filter(self, which: NDArray[np.bool_] | Ids) -> None:
        self.rows, self._owners = self.rows[which], self._owners[which]
        self._least, self._most = self._least[which], self._most[which]
