"""The state of one search: the rows that can be among the best, and the score that a row needs for that."""

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

    BoundProducts = Callable[[Ids, Ids, Vectors], tuple[Vectors, Vectors]]

_FIRST_BATCH: Final = 64  # codes compared before the rest is filtered for the first time
ENOUGH_COMPARED: Final = 1000  # codes, after which their total can be extrapolated
_MAX_BATCH: Final = 4096  # codes copied at a time, about a megabyte
_LENGTH_ERROR: Final = 2e-5  # maximum error of |v| ** 2 / 2
_MIN_LENGTH: Final = 1e-3  # below it the direction of a query is not reliable


@dataclass(frozen=True, eq=False)
class SearchTarget:
    """What to search for: the top_k rows, or owners by their best row, of a unit query float32 [E].

    slack: maximum error of a float32 product, or bound, relative to one that ranks as the metric does. limit: maximum
    number of rows whose codes are compared; if more are needed, another route is quicker.
    """

    query: Vectors
    slack: float
    top_k: int
    distinct: bool
    limit: int


def make_target(query: Vectors, metric: str, request: Request, limit: int) -> SearchTarget | None:
    """Return the target for vectors whose length is within 1e-5 of 1; None for a query of length 0.

    Products with a unit query rank such vectors as every metric does; the error of distances due to 1e-5 in |v| is
    divided by |q| as an error of products.
    """
    length, dim = measure_length(query), len(query)
    if length < _MIN_LENGTH:
        return None
    distance_error = _LENGTH_ERROR + bound_distance_error(dim, 1 + length) if metric == L2 else 0.0
    slack = bound_rounding(dim) + distance_error / length
    return SearchTarget(query / np.float32(length), slack, request.top_k, request.distinct, limit)


class Shortlist:
    """Rows of the segment that can be among the best of all rows offered.

    bound_products: returns from rows, their owners and their bounds, [n] each, lower and upper bounds of their
    products. threshold: a row or list with a lower bound than this cannot be, or have, one of the best. compared:
    number of rows whose codes were compared. exceeds_limit: these are, or will be, more than the target's limit; rows
    are missing.
    """

    def __init__(self, segment: Segment, target: SearchTarget, bound_products: BoundProducts) -> None:
        self._segment = segment
        self._bound_products = bound_products
        self.target = target
        self._owners = np.zeros(0, np.int64)
        self._lower = np.zeros(0, np.float32)
        self._upper = np.zeros(0, np.float32)
        self.rows = np.zeros(0, np.int64)
        self.threshold = -np.inf
        self.compared = 0
        self.exceeds_limit = False

    def offer(self, rows: Ids, bounds: Vectors) -> None:
        """Add these rows [n] with their bounds [n], those with the greatest bounds first. Raises ChecksumError."""
        batch = min(max(_FIRST_BATCH, 2 * self.target.top_k), _MAX_BATCH)
        while len(rows) and not self.exceeds_limit:
            if len(rows) > batch:
                order = np.argpartition(bounds, len(rows) - batch)
                self._compare(rows[order[-batch:]], bounds[order[-batch:]])
                rows, bounds = rows[order[:-batch]], bounds[order[:-batch]]
                is_near = bounds >= self.threshold
                rows, bounds = rows[is_near], bounds[is_near]
                self.exceeds_limit = self.compared + len(rows) > self.target.limit
                batch = min(4 * batch, _MAX_BATCH)
            else:
                self._compare(rows, bounds)
                return

    def expect_more(self, factor: float) -> None:
        """Set exceeds_limit if the limit will be exceeded by the rows to come, `factor` times those so far."""
        if self.compared >= ENOUGH_COMPARED:
            self.exceeds_limit = self.exceeds_limit or self.compared * (1 + factor) > self.target.limit

    def _compare(self, rows: Ids, bounds: Vectors) -> None:
        order = rows.argsort()  # adjacent rows are read faster
        rows, bounds = rows[order], bounds[order]
        owners = self._segment.find_owners(rows)
        lower, upper = self._bound_products(rows, owners, bounds)
        self.compared += len(rows)
        is_near = upper >= self.threshold
        self.rows = np.concatenate([self.rows, rows[is_near]])
        self._owners = np.concatenate([self._owners, owners[is_near]])
        self._lower = np.concatenate([self._lower, lower[is_near]])
        self._upper = np.concatenate([self._upper, upper[is_near]])
        tops = self._keep_tops() if self.target.distinct else self._lower
        if len(tops) >= self.target.top_k:
            kth = float(np.partition(tops, len(tops) - self.target.top_k)[len(tops) - self.target.top_k])
            self.threshold = max(self.threshold, kth - 2 * self.target.slack)
            self._filter(self._upper >= self.threshold)

    def _keep_tops(self) -> NDArray[np.float32]:
        """Keep only rows that can be the best of their owner; return a lower bound of the best score of each owner."""
        order = self._owners.argsort(kind="stable")
        owners, lower = self._owners[order], self._lower[order]
        if not len(owners):
            return lower
        is_first = np.ones(len(owners), np.bool_)
        np.not_equal(owners[1:], owners[:-1], out=is_first[1:])
        tops = np.maximum.reduceat(lower, is_first.nonzero()[0])
        is_near = self._upper[order] >= tops[is_first.cumsum() - 1] - np.float32(2 * self.target.slack)
        self._filter(order[is_near])
        return tops

    def _filter(self, selected: NDArray[np.bool_] | Ids) -> None:
        self.rows, self._owners = self.rows[selected], self._owners[selected]
        self._lower, self._upper = self._lower[selected], self._upper[selected]
