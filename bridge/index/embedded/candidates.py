"""The state of one search: the rows that can be among the best, and the score that a row needs for that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.embedded.sketches import bound_rounding
from bridge.index.metric import L2, bound_distance_error, measure_length
from bridge.support.scratch import scratch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.embedded.inverted_lists import InvertedLists
    from bridge.index.embedded.segment import Segment

_FIRST_BATCH: Final = 64  # vectors compared before the rest is filtered for the first time
ENOUGH_COMPARED: Final = 1000  # vectors, after which their total can be extrapolated
_BATCH_NUMBERS: Final = 1 << 17  # numbers copied at a time
_WHOLE_FACTOR: Final = 4  # so many batches are compared at once
_MAX_BATCH: Final = 1024  # vectors copied at a time, about a megabyte
_LENGTH_ERROR: Final = 2e-5  # maximum error of |v| ** 2 / 2
_MIN_LENGTH: Final = 1e-3  # below it the direction of a query is not reliable


@dataclass(frozen=True, eq=False)
class SearchTarget:
    """What to search for: the top_k rows, or owners by their best row, of a unit query float32 [E].

    slack: maximum error of a float32 product, or bound, relative to one that ranks as the metric does. limit: maximum
    number of rows whose vectors are compared; if more are needed, a scan is quicker.
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
    """Members of lists that can be among the best of all offered.

    threshold: a row or list with a lower bound than this cannot be, or have, one of the best. compared: number of rows
    whose vectors were compared. exceeds_limit: these are, or will be, more than the target's limit; rows are missing.
    """

    def __init__(self, segment: Segment, lists: InvertedLists, target: SearchTarget) -> None:
        self._segment = segment
        self._lists = lists
        self.target = target
        self._counts_once = target.distinct and len(segment.vectors) > len(segment.episodes)
        self._owners = np.zeros(0, np.int32)
        self._products = np.zeros(0, np.float32)
        self.rows = np.zeros(0, np.int32)
        self.threshold = -np.inf
        self.compared = 0
        self.exceeds_limit = False

    def offer(self, places: Ids, bounds: Vectors) -> None:
        """Add members at these places [n] with the bounds [n] of their products. Raises ChecksumError."""
        batch = min(max(_FIRST_BATCH, 2 * self.target.top_k), _MAX_BATCH)
        while len(places) > _WHOLE_FACTOR * batch:  # those with the greatest bounds first
            order = np.argpartition(bounds, len(places) - batch)
            self._compare(places[order[-batch:]])
            places, bounds = places[order[:-batch]], bounds[order[:-batch]]
            is_near = bounds >= self.threshold
            places, bounds = places[is_near], bounds[is_near]
            self.exceeds_limit = self.compared + len(places) > self.target.limit
            if self.exceeds_limit:
                return
            batch = min(4 * batch, _MAX_BATCH)
        if len(places):
            self._compare(places)

    def expect_more(self, factor: float) -> None:
        """Set exceeds_limit if the limit will be exceeded by the rows to come, `factor` times those so far."""
        self.exceeds_limit = self.exceeds_limit or self.compared * (1 + factor) > self.target.limit

    def _compare(self, places: Ids) -> None:
        places = np.sort(places)  # adjacent rows are read faster
        self.add(places, self._multiply(self._lists.rows.take(places)))

    def add(self, places: Ids, products: Vectors) -> None:
        """Add members at these places [n] with their products [n]. Raises ChecksumError."""
        rows, owners = self._lists.rows.take(places), self._lists.owners.take(places)
        self._segment.checksums.check(owners)
        self.compared += len(rows)
        if len(self.rows):
            is_near = products >= self.threshold
            rows = np.concatenate([self.rows, rows[is_near]])
            owners = np.concatenate([self._owners, owners[is_near]])
            products = np.concatenate([self._products, products[is_near]])
        tops, is_near = products, np.ones(len(products), np.bool_)
        if self._counts_once:
            tops, is_near = _find_tops(owners, products, 2 * self.target.slack)
        if len(tops) >= self.target.top_k:
            kth = float(np.partition(tops, len(tops) - self.target.top_k)[len(tops) - self.target.top_k])
            self.threshold = max(self.threshold, kth - 2 * self.target.slack)
            is_near &= products >= self.threshold
        self.rows, self._owners, self._products = rows[is_near], owners[is_near], products[is_near]

    def _multiply(self, rows: NDArray[np.int32]) -> Vectors:
        """Return the products of these rows with the query; rows are copied to memory that is in the CPU cache."""
        query, products = self.target.query, np.empty(len(rows), np.float32)
        batch = min(len(rows), max(1, _BATCH_NUMBERS // len(query)))
        copied = scratch(batch, len(query)).view(np.float32).reshape(-1, len(query))
        for start in range(0, len(rows), batch):
            part = rows[start : start + batch]
            own = self._segment.vectors.take(part, axis=0, out=copied[: len(part)], mode="clip")  # "raise" copies twice
            np.dot(own, query, out=products[start : start + batch])
        return products


def _find_tops(
    owners: NDArray[np.int32], products: Vectors, slack: float
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the best product of each owner, and a mask of the rows that can be the best of their owner."""
    order = owners.argsort(kind="stable")
    in_order, ranked = owners[order], products[order]
    is_first = np.ones(len(owners), np.bool_)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    tops = np.maximum.reduceat(ranked, is_first.nonzero()[0])
    can_be_top = np.empty(len(owners), np.bool_)
    can_be_top[order] = ranked >= tops[is_first.cumsum() - 1] - np.float32(slack)
    return tops, can_be_top
