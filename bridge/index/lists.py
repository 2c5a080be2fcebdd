"""Certified lists: a search that may stop with a proof that nothing better is left.

Knows: the best score that any member of a list can reach, and when to stop. Does not know: files, episodes' ids, SQL
(which owners count comes in as a mask).

The angle between a query and a member is at least the difference of their angles to the list's centroid. So a list
whose nearest possible member is too far away is not read at all; of any other list, whose members lie in the order of
their angle to the centroid, only the ring that can hold members near enough.

Rounding is accounted for: a float32 dot product of E terms is off by at most about E * 2**-24, and vectors count as
unit ones if their length is within 1e-5 of 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import acos
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge.index.base import Vectors
    from bridge.index.seals import Seals

Ids = NDArray[np.int64]
Owners = NDArray[np.int32]
Scores = NDArray[np.float64]

_FIRST: Final = 4  # lists read before the first look at what was found
_AT_ONCE: Final = 32
_HOPE: Final = 0.01  # of all rows: read before the bounds may be given up
_WORTH: Final = 0.85  # of all rows: when that many have to be read, one sequential pass is quicker


def rounding(dim: int) -> float:
    """Return what a float32 dot product of two unit vectors of this size may be off from their cosine."""
    return (dim + 8) * 2.0**-24 + 1e-5


@dataclass(frozen=True, eq=False)
class Lists:
    """List l holds places starts[l]:starts[l+1], in ascending cosine to its centroid, centroids float32 [L, E].

    At place p: row rows[p] of the Segment, of its episode number owners[p], cosine cosines[p], vector vectors[p].
    """

    centroids: Vectors
    starts: Ids
    rows: Owners
    owners: Owners
    cosines: NDArray[np.float32]
    vectors: Vectors
    seals: Seals
    rims: Scores  # of each list, the smallest cosine; what rounding may have added is taken off
    trained: int  # vectors at the time when the centroids were chosen

    @staticmethod
    def rims_of(starts: Ids, cosines: NDArray[np.float32], dim: int) -> Scores:
        """Return the smallest cosine of each list, less rounding; 1 for an empty list."""
        used = np.diff(starts) > 0
        rims = np.ones(len(starts) - 1)
        rims[used] = cosines[starts[:-1][used]] - rounding(dim)
        return np.clip(rims, -1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Aim:
    """What is looked for: the top_k rows, or owners by their best row, of a unit query float32 [E].

    slack: what a float32 product may be off from one that ranks as the metric does. allowed: bool per owner, None =
    all. worth: rows that another route would read; more are not read here. budget: as many rows as may be read once
    there are top_k.
    """

    query: Vectors
    slack: float
    top_k: int
    distinct: bool
    allowed: NDArray[np.bool_] | None
    worth: int
    budget: int | None = None


@dataclass(frozen=True, eq=False)
class Found:
    """Rows that can be among the best. proven: all of the best are; ended: the budget ended first.

    Neither: the bounds do not help with this query, and another route is better.
    """

    rows: Ids
    scored: int
    lists: int
    proven: bool
    ended: bool = False


def search(lists: Lists, aim: Aim) -> Found:
    """Visit lists by falling bound until none can hold anything better, or it is not worth it."""
    near, reach = _bounds(lists, aim.query)
    order = np.argsort(-reach, kind="stable")
    order = order[reach[order] >= -1.0]
    kept = _Kept(lists, aim)
    done = 0
    while done < len(order) and reach[order[done]] >= kept.threshold:
        batch = order[done : done + min(max(_FIRST, done // 2), _AT_ONCE)]
        batch = batch[reach[batch] >= kept.threshold]
        done += len(batch)
        kept.read(batch, near[batch])
        if aim.budget is not None and kept.scored >= aim.budget and kept.threshold > -np.inf:
            return Found(kept.rows(), kept.scored, done, proven=False, ended=True)
        if kept.scored > aim.worth or kept.hopeless(order[done:], reach):
            return Found(kept.rows(), kept.scored, done, proven=False)
    return Found(kept.rows(), kept.scored, done, proven=True)


def _bounds(lists: Lists, query: Vectors) -> tuple[Scores, Scores]:
    """Return the cosine of each centroid and the best that any member of each list can have; -2 for empty lists."""
    near = (lists.centroids @ query).astype(np.float64)
    closest = np.clip(near + rounding(len(query)), -1.0, 1.0)
    sines = np.sqrt((1 - closest * closest) * (1 - lists.rims * lists.rims))
    reach = np.where(closest >= lists.rims, 1.0, closest * lists.rims + sines)
    reach[lists.starts[1:] == lists.starts[:-1]] = -2.0
    return near, reach


class _Kept:
    """What one search has read so far: the places that can be among the best, and the score that this takes."""

    def __init__(self, lists: Lists, aim: Aim) -> None:
        self._lists = lists
        self._aim = aim
        self._slack = aim.slack
        self._places = np.zeros(0, np.int64)
        self._scores = np.zeros(0, np.float32)
        self.threshold = -np.inf
        self.scored = 0

    def read(self, batch: Ids, near: Scores) -> None:
        """Score the rings of these lists."""
        self._lists.seals.check(batch)
        spans = [span for span in self._rings(batch, near) if span[0] < span[1]]
        if not spans:
            return
        sizes = np.array([stop - start for start, stop in spans], np.int64)
        ends = np.cumsum(sizes)
        scores = np.empty(int(sizes.sum()), np.float32)
        for (start, stop), end in zip(spans, ends.tolist(), strict=True):
            np.dot(self._lists.vectors[start:stop], self._aim.query, out=scores[end - (stop - start) : end])
        self.scored += len(scores)
        hits = np.flatnonzero(scores >= self.threshold)
        if len(hits):
            firsts = np.array([start for start, _ in spans], np.int64)
            of = np.searchsorted(ends, hits, side="right")
            self._add(firsts[of] + hits - (ends - sizes)[of], scores[hits])

    def _rings(self, batch: Ids, near: Scores) -> list[tuple[int, int]]:
        """Return the places of each list whose angle to the centroid does not already say that they are too far."""
        starts, stops = self._lists.starts[batch].tolist(), self._lists.starts[batch + 1].tolist()
        if self.threshold < -1.0 + self._slack:
            return list(zip(starts, stops, strict=True))
        angle = acos(max(-1.0, min(self.threshold - self._slack, 1.0)))
        nearest, farthest = np.arccos(np.array([near + self._slack, near - self._slack]).clip(-1.0, 1.0))
        limits = np.empty((len(near), 2), np.float32)
        limits[:, 0] = np.cos(np.minimum(np.pi, farthest + angle)) - self._slack
        limits[:, 1] = np.cos(np.maximum(0.0, nearest - angle)) + self._slack
        rings = []
        for start, stop, limit in zip(starts, stops, limits, strict=True):
            first, last = self._lists.cosines[start:stop].searchsorted(limit).tolist()
            rings.append((start + first, start + last))
        return rings

    def _add(self, places: Ids, scores: NDArray[np.float32]) -> None:
        if self._aim.allowed is not None:
            passing = self._aim.allowed[self._lists.owners[places]]
            places, scores = places[passing], scores[passing]
        self._places = np.concatenate([self._places, places])
        self._scores = np.concatenate([self._scores, scores])
        tops = self._tops() if self._aim.distinct else self._scores
        if len(tops) >= self._aim.top_k:
            kth = float(np.partition(tops, len(tops) - self._aim.top_k)[len(tops) - self._aim.top_k])
            self.threshold = max(self.threshold, kth - 2 * self._slack)
            good = self._scores >= self.threshold
            self._places, self._scores = self._places[good], self._scores[good]

    def _tops(self) -> NDArray[np.float32]:
        """Keep of each owner only rows that can be its best, and return the best scores."""
        if not len(self._places):
            return self._scores
        owners = self._lists.owners[self._places]
        order = owners.argsort(kind="stable")
        places, scores, owners = self._places[order], self._scores[order], owners[order]
        begins = np.ones(len(owners), np.bool_)
        np.not_equal(owners[1:], owners[:-1], out=begins[1:])
        tops = np.maximum.reduceat(scores, begins.nonzero()[0])
        good = scores >= tops[begins.cumsum() - 1] - np.float32(2 * self._slack)
        self._places, self._scores = places[good], scores[good]
        return tops

    def hopeless(self, left: Ids, reach: Scores) -> bool:
        """Say whether nearly everything must be read: only where another route would read as much."""
        total = len(self._lists.rows)
        if self._aim.worth < _WORTH * total or self.scored < _HOPE * total:
            return False
        within = left[reach[left] >= self.threshold]
        sizes = self._lists.starts[within + 1] - self._lists.starts[within]
        return bool(self.scored + sizes.sum() > _WORTH * total)

    def rows(self) -> Ids:
        """Return the rows kept."""
        return self._lists.rows[self._places].astype(np.int64)
