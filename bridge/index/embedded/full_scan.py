"""The exhaustive search of a segment: every vector of the episodes that pass is scored in float32.

    metric    score              ranked by, in float32         off by at most, for terms E and lengths |v| <= V
    cosine    v.q / |v| |q|      v.q / |q|, as |v| is 1        E 2**-24 + what 1e-5 in |v| makes
    dot       v.q                v.q / |q|                     E 2**-24 V
    l2        -|v - q|           (v.q - |v|**2 / 2) / s        (E 2**-24 (V |q| + V**2) + E 2**-54 (V + |q|)**2) / s

with s = max(V, |q|), so that no number leaves the range of float32; the last term is what float64 distances are off by,
which exceeds the error of float32 products only if the query is far away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.index.base import find_kth
from bridge.index.embedded.sketches import bound_rounding
from bridge.index.metric import COSINE, DOT, bound_distance_error, measure_length
from bridge.index.stored_rows import expand_ranges
from bridge.support.blas_threads import one_blas_thread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bridge.index.base import Ids, Request, Vectors
    from bridge.index.embedded.segment import RowSelection, Segment

_ALL_FROM_SHARE: Final = 0.5  # of the rows; from here on one sequential pass is quicker than many small ones
_GATHER_BELOW: Final = 16  # rows per range; copying shorter ranges is quicker than one call for each
_LOWEST: Final = float(np.finfo(np.float32).min)


@dataclass(frozen=True, eq=False)
class ScanQuery:
    """A prepared query: the score of a row is vectors @ query, minus its entry of `halves`, if any.

    slack: maximum error of a score relative to one that ranks exactly as the metric does.
    """

    query: Vectors
    halves: NDArray[np.float32] | None
    slack: float


def covers_most(segment: Segment, selection: RowSelection) -> bool:
    """Return whether so many rows are selected that one pass over all rows is quicker."""
    return selection.rows >= _ALL_FROM_SHARE * len(segment.vectors)


@one_blas_thread()
def scan(segment: Segment, query: Vectors, *, metric: str, selection: RowSelection, request: Request) -> Ids:
    """Score all selected rows and return those that can be among the best. Raises ChecksumError."""
    prepared = _prepare(segment, query, metric)
    if covers_most(segment, selection):
        return _scan_all(segment, prepared, selection.positions, request)
    segment.checksums.check(selection.positions)
    starts, stops = selection.starts, selection.stops
    scores = _multiply(segment.vectors, prepared.query, starts, stops)
    if prepared.halves is not None:
        scores -= np.concatenate([prepared.halves[start:stop] for start, stop in zip(starts, stops, strict=True)])
    firsts = np.cumsum(stops - starts) - (stops - starts)
    picked = _pick(scores, firsts, request, prepared.slack)
    owner = np.searchsorted(firsts, picked, side="right") - 1
    rows: Ids = starts[owner] + picked - firsts[owner]
    return rows


def _prepare(segment: Segment, query: Vectors, metric: str) -> ScanQuery:
    """Return the query prepared for the rows of this segment. Raises ChecksumError."""
    length, dim = measure_length(query), len(query)
    if metric == COSINE:
        return ScanQuery((query / (length or 1.0)).astype(np.float32), None, bound_rounding(dim))
    halves, longest = segment.lengths
    unit = (dim + 8) * 2.0**-24
    if metric == DOT:
        return ScanQuery((query / (length or 1.0)).astype(np.float32), None, unit * longest)
    scale = max(longest, length) or 1.0
    slack = unit * (longest * length + longest * longest) + bound_distance_error(dim, longest + length)
    return ScanQuery((query / scale).astype(np.float32), halves * np.float32(longest / scale), slack / scale)


def _multiply(vectors: Vectors, query: Vectors, starts: Ids, stops: Ids) -> Vectors:
    """Return the dot products of the rows in these ranges, concatenated."""
    total = int((stops - starts).sum())
    breaks = np.flatnonzero(starts[1:] != stops[:-1])
    if total < _GATHER_BELOW * (len(breaks) + 1):
        gathered: Vectors = vectors.take(expand_ranges(starts, stops), axis=0) @ query
        return gathered
    scores = np.empty(total, np.float32)
    done = 0
    firsts, lasts = starts[np.append(0, breaks + 1)].tolist(), stops[np.append(breaks, len(stops) - 1)].tolist()
    for start, stop in zip(firsts, lasts, strict=True):
        np.dot(vectors[start:stop], query, out=scores[done : done + stop - start])
        done += stop - start
    return scores


def _scan_all(segment: Segment, prepared: ScanQuery, positions: Ids, request: Request) -> Ids:
    segment.checksums.check()
    scores = segment.multiply(prepared.query)
    if prepared.halves is not None:
        scores = scores - prepared.halves
    if len(positions) < len(segment.episodes):
        is_excluded = np.ones(len(segment.episodes), np.bool_)
        is_excluded[positions] = False
        scores = scores.copy()
        for position in np.flatnonzero(is_excluded).tolist():
            scores[segment.starts[position] : segment.starts[position + 1]] = -np.inf
    return _pick(scores, segment.starts[:-1], request, prepared.slack)


def _pick(scores: Vectors, firsts: Ids, request: Request, slack: float) -> Ids:
    """Return the places of scores that can be among the best; those of episode i start at firsts[i], -inf is ignored.

    The k-th best episode is at most as good as the k-th best row, which leaves few rows. If only the best row of each
    episode counts, rows well below it are dropped too.
    """
    is_alone = len(firsts) == len(scores)  # each episode has one row
    tops = scores if is_alone else np.maximum.reduceat(scores, firsts)
    places = np.flatnonzero(scores >= max(find_kth(tops, request.top_k) - 2 * slack, _LOWEST))
    near_scores = scores[places]
    owners = places if is_alone else np.searchsorted(firsts, places, side="right") - 1
    threshold = tops[owners] if request.distinct else find_kth(near_scores, request.top_k)
    return places[near_scores >= threshold - 2 * slack]
