"""Vectors of any length, each as a direction and a length seen from one origin, and the most that a score can be.

Knows: inner products and distances. Certified lists and outlines bound the cosine of two directions; with the lengths,
in float64, such a bound becomes one of the score. Does not know: lists, outlines, files.

With x = origin + r u, q = origin + t v, both u and v of length 1, and u.v <= c:

    metric    origin                    score
    dot       0                         x.q = r t u.v <= r t c
    l2        amid the vectors          -|x - q| = -sqrt((r - t)**2 + 2 r t (1 - u.v)) <= the same with c

Distances do not depend on the origin; seen from amid the vectors, directions tell them apart best.

Rounding is accounted for: directions are rounded to float32, and with them what outlines say of a cosine is off by at
most _OFF; that is much more than what float64 adds to lengths and products, except to what is near 0 beside lengths
that are not, which _WIDER is for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bridge.index.embedded.arrays import WIDTH, Bounds
from bridge.index.metric import DOT, scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bridge.index.base import Vectors
    from bridge.index.embedded.segment import Segment


Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Rows = slice | Ids
_ENOUGH: Final = 4096  # vectors, to see amid which place the others are
_AT_ONCE: Final = 2048  # rows that are widened to float64 at a time
_SCORED_AT_ONCE: Final = 128  # what fits into the processor's caches is scored twice as fast
_OFF: Final = (WIDTH + 12) * 2.0**-24
_WIDER: Final = 2.0**-36


def origin_of(sample: Vectors, metric: str) -> Floats:
    """Return from where the sampled vectors [n, E] are best seen, float64 [E].

    The median, not the mean, which a few vectors of another magnitude would carry off.
    """
    if metric == DOT:
        return np.zeros(sample.shape[1])
    middle: Floats = np.median(sample[:: 1 + len(sample) // _ENOUGH], axis=0).astype(np.float64)
    return middle


@dataclass(frozen=True, eq=False)
class Directions:
    """The directions of vectors [N, E] as seen from origin float64 [E]: indexed by rows, float32 [n, E] of length 1.

    Of a vector at the origin it is that of the first axis.
    """

    vectors: Vectors
    origin: Floats

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, rows: Rows) -> Vectors:
        some = self.vectors[rows]
        found = np.empty_like(some, np.float32)
        for part, shifted in self._shifted(some):
            lengths = _length(shifted)
            nowhere = lengths == 0
            shifted[nowhere, 0] = lengths[nowhere] = 1.0
            with np.errstate(invalid="ignore"):  # of what is not finite, and has no direction
                found[part] = shifted / lengths[:, None]
        return found

    def _shifted(self, vectors: Vectors) -> Iterator[tuple[slice, Floats]]:
        """Yield these vectors as seen from the origin, some at a time, and which they are."""
        for start in range(0, len(vectors), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            with np.errstate(invalid="ignore"):
                shifted: Floats = vectors[part].astype(np.float64) - self.origin
            yield part, shifted

    @cached_property
    def lengths(self) -> Floats:
        """The distance of each vector from the origin, [N]; reads every vector once."""
        found = np.empty(len(self.vectors))
        for part, shifted in self._shifted(self.vectors):
            found[part] = _length(shifted)
        return found


def seen(vectors: Vectors, origin: Floats | None) -> Vectors | Directions:
    """Return the vectors as lists take them: as they are, or as directions from the origin, if there is one."""
    return vectors if origin is None else Directions(vectors, origin)


def _length(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return lengths


@dataclass(frozen=True, eq=False)
class Lengths:
    """The lengths [N] of vectors seen from origin float64 [E], by row and by place in the lists, growing in each list.

    spans [2, L]: the least and the greatest of each list.
    """

    origin: Floats
    by_row: Floats
    by_place: Floats
    spans: Floats

    def of(self, starts: Ids, stops: Ids) -> Floats:
        """Return the lengths at these ranges of places."""
        return np.concatenate([self.by_place[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])


@dataclass(frozen=True, eq=False)
class Sight:
    """A query [E], seen from where the vectors are: `length` in the direction of `query`, float64 [E] of length 1."""

    lengths: Lengths
    asked: Floats
    query: Floats
    length: float
    metric: str

    @staticmethod
    def of(asked: Vectors, lengths: Lengths, metric: str) -> Sight:
        """Return the query `asked` as seen from there."""
        wide = asked.astype(np.float64)
        shifted = wide - lengths.origin
        length = float(np.sqrt(shifted @ shifted))
        return Sight(lengths, wide, shifted / length if length else np.eye(1, len(wide))[0], length, metric)

    @property
    def tells(self) -> bool:
        """Say whether scores differ at all."""
        return self.metric != DOT or self.length > 0

    def between(self, segment: Segment, rows: Ids, owners: Ids, _bounds: Bounds) -> tuple[Floats, Floats]:
        """Return the scores of these rows, as the least and as the most that they can be. Raises ChecksumError."""
        segment.seals.check(owners)
        found = self.scores(segment.vectors.take(rows, axis=0))
        return found, found

    def scores(self, vectors: Vectors) -> Floats:
        """Return the scores of vectors [n, E], exactly those that the ranking gives."""
        parts = (vectors[start : start + _SCORED_AT_ONCE] for start in range(0, len(vectors), _SCORED_AT_ONCE))
        found = [scores(self.metric, part.astype(np.float64), self.asked) for part in parts]
        return np.concatenate([np.zeros(0), *found])

    def most(self, cosines: Bounds, lengths: Floats) -> Floats:
        """Return the most that scores [n] can be, of vectors of these lengths whose cosines outlines bound so."""
        return self._at(np.add(cosines, _OFF, dtype=np.float64), lengths)

    def reach(self, cosines: Floats) -> Floats:
        """Return the most that scores of each list's members can be, whose cosines are no more than these [L]."""
        low, high = self.lengths.spans[0] * (1 - _WIDER), self.lengths.spans[1] * (1 + _WIDER)
        if self.metric == DOT:
            return self._at(cosines, np.where(cosines > 0, high, low))
        return self._at(cosines, np.clip(self.length * cosines, low, high))

    def within(self, starts: Ids, stops: Ids, cosines: Floats, score: float) -> tuple[Ids, Ids]:
        """Return which parts of these ranges of places, of one list each, are of lengths that reach this score."""
        begins, ends = starts.copy(), stops.copy()
        low, high = self.span(cosines, score)
        for number, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            lengths = self.lengths.by_place[start:stop]
            begins[number] = start + lengths.searchsorted(low[number], "left")
            ends[number] = max(start + lengths.searchsorted(high[number], "right"), begins[number])
        return begins, ends

    def span(self, cosines: Floats, score: float) -> tuple[Floats, Floats]:
        """Return between which lengths vectors are that reach this score, whose cosines are no more than these [n].

        Some can: the cosines are above 0 where the score is, and the metric the inner product.
        """
        if self.metric == DOT:
            low = score / (self.length * cosines) if score > 0 else np.zeros(len(cosines))
            return low * (1 - _WIDER), np.full(len(cosines), np.inf)
        apart = np.square(self.length) * ((1 - cosines) * (1 + cosines) - _WIDER)
        around = np.sqrt(np.maximum((1 + _WIDER) * np.square(score) - apart, 0.0)) + _WIDER * self.length
        return self.length * cosines - around, self.length * cosines + around

    def _at(self, cosines: Floats, lengths: Floats) -> Floats:
        if self.metric == DOT:
            return (self.length * lengths) * cosines
        apart = np.square(lengths - self.length) + (2 * self.length * lengths) * (1 - cosines)
        found: Floats = np.sqrt(np.maximum(apart, 0.0)) * (_WIDER - 1)
        return found
