"""Aligns a query with pieces of episodes: which timesteps correspond, where the match starts and stops, and its cost.

Two modules do the arithmetic: `numpy_kernel`, and `numba_kernel` once that is loaded, where numba is installed. Their
results are equal to the last bit.

A path is a series of pairs (query step, row) that starts at query step 0 and ends at the last one. The cost of a pair
is its weighted Euclidean distance, times the number of steps by which it advances in query and rows together (2 for the
first pair). The cost of an alignment is the sum over its pairs divided by the lengths of query and match, so that costs
of alignments of different lengths are comparable; it is exactly 0 if all pairs are equal. Of equal costs the match
whose length is nearest to the query's wins, then the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.alignment import numpy_kernel
from bridge.alignment.arrays import Paths
from bridge.alignment.kernel_loader import KernelLoader
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.arrays import Ints, Rows


FREE: Final = ((1, 1), (1, 0), (0, 1))
"""Steps of any slope: a pause in the query or in the episode costs no more than the differences of its pairs. A path
always exists, also within a band."""


LIMITED: Final = ((1, 1), (1, 2), (2, 1))
"""Steps of half to twice the speed; no row is paired with two query steps."""


_LOAD_AFTER: Final = (
    0.6  # seconds spent in the numpy kernel before the compiled one is loaded, which takes about as long
)
_PER_DIAGONAL: Final = 5e-5  # seconds in the numpy kernel
_PER_PAIR: Final = 1.2e-8  # seconds for each channel of a query step and a row within its bounds
_PAIR_OVERHEAD: Final = 10  # the work per pair besides its channels, in units of channels
_MIN_RADIUS: Final = 4  # rows to each side of the expected diagonal: rounding alone needs some


@dataclass(frozen=True)
class Rule:
    """How to align.

    steps: (query steps, rows) by which a path may advance at once, FREE or LIMITED. detour: factor on the cost of steps
    off the diagonal. band: maximum distance of a path from the expected diagonal, as a share of the length of the
    expected match; None = unlimited. end_penalty: cost of each row by which start or stop differ from the expected
    ones. row_gain: reward of each matched row; without it a match shrinks to its cheapest part, and with the mean cost
    as gain it includes all rows that cost no more than the others. The last two are in units of Pieces.worth; they
    choose among alignments and are not part of the reported cost.
    """

    steps: tuple[tuple[int, int], ...] = FREE
    detour: float = 1.0
    band: float | None = None
    end_penalty: float = 0.0
    row_gain: float = 0.0

    def prices(self) -> Rows:
        """Return [steps]: the cost of a pair that is reached by each step, per unit of distance."""
        return np.array([(a + b) * (1.0 if a == b else self.detour) for a, b in self.steps])


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows of m pieces of episodes, to which a query is aligned.

    rows: float64 [total, D], all pieces concatenated; edges: int64 [m + 1], the bounds of the pieces in them; expected:
    int64 [m, 2], the rows [start, stop) of each piece where its match is expected; worth: [m], the unit of the rule's
    penalty and gain.
    """

    rows: Rows
    edges: Ints
    expected: Ints
    worth: Rows

    @staticmethod
    def of(rows: Sequence[Rows], expected: Ints | None = None, worth: Rows | None = None) -> Pieces:
        """Return pieces [T, D], at least one; by default matches are expected anywhere, and worth is 1 each."""
        edges = np.cumsum([0, *map(len, rows)])
        if expected is None:
            expected = np.stack([np.zeros(len(rows), np.int64), np.diff(edges)], axis=1)
        return Pieces(np.concatenate(rows), edges, expected, np.ones(len(rows)) if worth is None else worth)

    def worthy(self, worth: Rows) -> Pieces:
        """Return the same pieces with other units of penalty and gain."""
        return replace(self, worth=worth)


@dataclass(frozen=True, eq=False)
class Alignments:
    """How a query aligns with each of m pieces.

    costs: [m], mean distances >= 0, infinite where the rule's steps allow no path; spans: int64 [m, 2], the matched
    rows [start, stop); paths: one for each piece, none unless traced.
    """

    costs: Rows
    spans: Ints
    paths: Paths


def align_all(
    query: Rows, pieces: Pieces, rule: Rule, weights: Rows | None = None, *, traced: bool = False
) -> Alignments:
    """Return the best alignment of query [n, D] with each of the pieces; traced: with the paths.

    weights: [n, D] >= 0, the weight of each channel at each query step; None = 1 / D, so that the distance of a pair is
    the root mean square of its differences. Raises QueryError for arrays of other shapes, without rows or with NaN.
    """
    query = _check_array(query, "query", (None, None))
    channels = query.shape[1]
    step_weights = (
        np.full(query.shape, 1.0 / channels) if weights is None else _check_array(weights, "weights", query.shape)
    )
    rows = _check_array(pieces.rows, "rows", (None, channels))
    lengths = np.diff(pieces.edges)
    if lengths.min() < 1:
        raise QueryError("alignment: expected rows in every piece, found a piece without")
    steps = (np.array(rule.steps, np.int64), rule.prices())
    penalty_and_gain = (rule.end_penalty * pieces.worth, rule.row_gain * pieces.worth)
    parts = (rows, pieces.edges, pieces.expected)
    bounds = _bounds(len(query), pieces, rule)
    diagonals, pairs = len(query) + int(lengths.max()), int((bounds[..., 1] - bounds[..., 0]).sum())
    kernel = solver(_PER_DIAGONAL * diagonals + _PER_PAIR * pairs * (channels + _PAIR_OVERHEAD))
    costs, spans, pairs, ends = kernel.solve(query, step_weights, parts, bounds, (*steps, *penalty_and_gain), traced)
    return Alignments(costs, spans, Paths(pairs, ends if traced else ends[:0]))


def measure_all(query: Rows, pieces: Pieces, paths: Paths, weights: Rows | None, around: int) -> Rows:
    """Return the mean distance [m] of the pairs of each path, weighted by the steps that each pair advances.

    The differences of a pair are first averaged with those of up to `around` pairs on each side. weights: as for
    align_all.
    """
    step_weights = np.full(query.shape, 1.0 / query.shape[1]) if weights is None else weights
    parts = ((pieces.rows, pieces.edges[:-1]), (paths.pairs, paths.ends))
    means: Rows = solver().measure(query, step_weights, *parts, around)
    return means


@cache
def get_kernel() -> KernelLoader:
    """Return the loader of the alignment kernel compiled by numba."""
    return KernelLoader("bridge.alignment.numba_kernel", _LOAD_AFTER)


def solver(seconds: float = 0.0) -> Any:
    """Return the kernel module: the compiled one once it is loaded, else numpy_kernel.

    seconds: estimated time of the numpy kernel, and the longest time to wait for the compiled one while it is loading.
    """
    return get_kernel().use(seconds, max_wait_s=seconds) or numpy_kernel


def _check_array(array: Rows, what: str, shape: tuple[int | None, int | None]) -> Rows:
    rows = np.ascontiguousarray(array, np.float64)
    is_valid = rows.ndim == 2 and rows.size and all(b in (None, a) for a, b in zip(rows.shape, shape, strict=True))
    if not is_valid or not np.isfinite(rows).all():
        expected = ", ".join(letter if size is None else str(size) for letter, size in zip("TD", shape, strict=True))
        raise QueryError(f"alignment: expected {what} of finite numbers [{expected}], found {list(rows.shape)}")
    return rows


def _bounds(steps: int, pieces: Pieces, rule: Rule) -> Ints:
    """Return [m, n, 2]: the rows [low, high) of each piece with which each query step may be paired."""
    lengths = np.diff(pieces.edges)[:, None]
    bounds = np.zeros((len(lengths), steps, 2), np.int64)
    if rule.band is None:
        bounds[..., 1] = lengths
        return bounds
    start, stop = pieces.expected[:, :1], pieces.expected[:, 1:]
    slope = (stop - start) / steps
    radius = np.maximum(np.maximum(rule.band * (stop - start), slope), _MIN_RADIUS)
    middle = start + slope * (np.arange(steps) + 0.5) - 0.5
    bounds[..., 0] = np.minimum(np.maximum(np.ceil(middle - radius), 0), lengths - 1)
    bounds[..., 1] = np.maximum(np.minimum(np.floor(middle + radius) + 1, lengths), bounds[..., 0] + 1)
    return bounds
