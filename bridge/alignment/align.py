"""Aligns a query with pieces of episodes: which steps meet, where the match begins and ends, and what it costs.

Two modules do the arithmetic: `numpy_kernel`, and `numba_kernel` once that is loaded, where numba is installed. Their
results are equal to the last bit.

A path is a series of pairs (query step, row) that starts at query step 0 and ends at the last one. Every pair costs the
root of the weighted squares of the differences, times the steps that it advances in both (2 for its first). The cost
of an alignment is the sum divided by the lengths of query and match, so that alignments of all lengths compare; it is
exactly 0 where all pairs are equal. Among equal costs the match nearest to the query's length wins, then the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.alignment import numpy_kernel
from bridge.support.kernel_loader import KernelLoader
from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.arrays import Ints, Rows


FREE: Final = ((1, 1), (1, 0), (0, 1))
"""Steps of any slope: pauses in the query or in the episode cost nothing but their own differences. There always is a
path of them, also within a band."""


LIMITED: Final = ((1, 1), (1, 2), (2, 1))
"""Steps of half to twice the speed; no row meets two query steps."""


_WORTH_IT: Final = 0.25  # seconds of numpy; with all else that it does, as long as it takes to load the compiled kernel
_PER_DIAGONAL: Final = 5e-5  # seconds of numpy
_PER_PAIR: Final = 1.2e-8  # for a query step and a row that it may meet, for each channel
_BESIDE: Final = 10  # channels that take as long as the rest of a pair
_NARROWEST: Final = 4  # rows to each side of the expected diagonal: rounding alone needs some


@dataclass(frozen=True)
class Rule:
    """How to align.

    steps: (query steps, rows) that a path may advance at once, FREE or LIMITED. detour: what steps off the diagonal
    cost more, as a factor. band: how far a path may stray from the expected diagonal, as a share of the expected
    match; None = anywhere. end_penalty: what every row costs by which start or stop differ from the expected ones.
    row_gain: what every matched row is worth; without it a match shrinks to its cheapest part, with the mean cost as
    gain it takes in whatever is not dearer than the rest. The last two are in units of Pieces.worth; they choose among
    alignments, and are not part of the reported cost.
    """

    steps: tuple[tuple[int, int], ...] = FREE
    detour: float = 1.0
    band: float | None = None
    end_penalty: float = 0.0
    row_gain: float = 0.0

    def prices(self) -> Rows:
        """Return [steps]: what a pair costs that such a step reaches, per unit of difference."""
        return np.array([(a + b) * (1.0 if a == b else self.detour) for a, b in self.steps])


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows in which to look, of many pieces at once.

    rows: float64 [total, D], one piece behind the other; edges: int64 [m + 1], where each begins and ends; expected:
    int64 [m, 2], the rows [start, stop) of each where its match is expected; worth: [m], what one unit of the rule's
    penalty and gain is.
    """

    rows: Rows
    edges: Ints
    expected: Ints
    worth: Rows

    @staticmethod
    def of(rows: Sequence[Rows], expected: Ints | None = None, worth: Rows | None = None) -> Pieces:
        """Return pieces [T, D], at least one; of matches nothing is known, or what is expected; worth: 1 each."""
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

    costs: [m], mean differences >= 0, infinite where the rule's steps cannot make a path; spans: int64 [m, 2], the rows
    [start, stop) that matched; paths: of each int64 [P, 2], (query step, row), rising; none unless they were asked for.
    """

    costs: Rows
    spans: Ints
    paths: Sequence[Ints]


def align_all(
    query: Rows, pieces: Pieces, rule: Rule, weights: Rows | None = None, *, traced: bool = False
) -> Alignments:
    """Return the best alignment of query [n, D] with each of the pieces; traced: with their paths.

    weights: [n, D] >= 0, how much each channel counts at each query step; None = 1 / D, so that a pair costs the root
    of the mean square. Raises QueryError for arrays of other shapes, without rows or with NaN.
    """
    query = _check_array(query, "query", (None, None))
    channels = query.shape[1]
    heed = np.full(query.shape, 1.0 / channels) if weights is None else _check_array(weights, "weights", query.shape)
    rows = _check_array(pieces.rows, "rows", (None, channels))
    if (np.diff(pieces.edges) < 1).any():
        raise QueryError("alignment: expected rows in every piece, found a piece without")
    steps = (np.array(rule.steps, np.int64), rule.prices())
    rates = (rule.end_penalty * pieces.worth, rule.row_gain * pieces.worth)
    parts = (rows, pieces.edges, pieces.expected)
    bounds = _bounds(len(query), pieces, rule)
    diagonals, pairs = len(query) + int(np.diff(pieces.edges).max()), int(np.diff(bounds).sum())
    kernel = solver(_PER_DIAGONAL * diagonals + _PER_PAIR * pairs * (channels + _BESIDE))
    costs, spans, paths, ends = kernel.solve(query, heed, parts, bounds, (*steps, *rates), traced)
    edges = [0, *ends.tolist()]
    return Alignments(costs, spans, [paths[begin:end] for begin, end in pairwise(edges)] if traced else ())


def measure_all(query: Rows, pieces: Pieces, paths: Sequence[Ints], weights: Rows | None, around: int) -> Rows:
    """Return the mean difference [m] of the pairs of each path, each as often as it advances.

    Differences are averaged with those of up to `around` pairs to each side first. weights: as of align_all.
    """
    heed = np.full(query.shape, 1.0 / query.shape[1]) if weights is None else weights
    placed = np.concatenate(paths), np.cumsum([*map(len, paths)])
    found: Rows = solver().measure(query, heed, (pieces.rows, pieces.edges[:-1]), placed, around)
    return found


@cache
def get_kernel() -> KernelLoader:
    """Return the loader of the alignment compiled by numba."""
    return KernelLoader("bridge.alignment.numba_kernel", _WORTH_IT)


def solver(seconds: float = 0.0) -> Any:
    """Return the module that does the arithmetic: the compiled one once it is loaded.

    seconds: what numpy would take; as long it is waited for where it is being loaded.
    """
    return get_kernel().use(seconds, patience=seconds) or numpy_kernel


def _check_array(array: Rows, what: str, shape: tuple[int | None, int | None]) -> Rows:
    rows = np.ascontiguousarray(array, np.float64)
    fits = rows.ndim == 2 and rows.size and all(b in (None, a) for a, b in zip(rows.shape, shape, strict=True))
    if not fits or not np.isfinite(rows).all():
        expected = ", ".join(letter if size is None else str(size) for letter, size in zip("TD", shape, strict=True))
        raise QueryError(f"alignment: expected {what} of finite numbers [{expected}], found {list(rows.shape)}")
    return rows


def _bounds(steps: int, pieces: Pieces, rule: Rule) -> Ints:
    """Return [m, n, 2]: the rows [low, high) of each piece that each query step may meet."""
    lengths = np.diff(pieces.edges)[:, None]
    bounds = np.zeros((len(lengths), steps, 2), np.int64)
    if rule.band is None:
        bounds[..., 1] = lengths
        return bounds
    start, stop = pieces.expected[:, :1], pieces.expected[:, 1:]
    slope = (stop - start) / steps
    radius = np.maximum(np.maximum(rule.band * (stop - start), slope), _NARROWEST)
    middle = start + slope * (np.arange(steps) + 0.5) - 0.5
    bounds[..., 0] = np.minimum(np.maximum(np.ceil(middle - radius), 0), lengths - 1)
    bounds[..., 1] = np.maximum(np.minimum(np.floor(middle + radius) + 1, lengths), bounds[..., 0] + 1)
    return bounds
