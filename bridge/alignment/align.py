"""Align a query with a piece of an episode: which steps meet, where the match begins and ends, and what it costs.

Knows: dynamic time warping with free ends (subsequence DTW), its step patterns, its band and its penalty for ends.
Does not know: lanes, files, scores. Two modules do the arithmetic, `compiled` where numba is installed and `plain`
otherwise; their results are equal to the last bit.

A path is a series of pairs (query step, row) that starts at query step 0 and ends at the last one. Every pair costs the
root of the weighted squares of the differences, times the steps that it advances in both (2 for its first). The cost
of an alignment is the sum divided by the lengths of query and match, so that alignments of all lengths compare; it is
exactly 0 where all pairs are equal. Among equal costs the match nearest to the query's length wins, then the earliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wshard.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Sequence

Rows = NDArray[np.float64]
Ints = NDArray[np.int64]

FREE: Final = ((1, 1), (1, 0), (0, 1))
"""Steps of any slope: pauses in the query or in the episode cost nothing but their own differences."""

LIMITED: Final = ((1, 1), (1, 2), (2, 1))
"""Steps of half to twice the speed; no row meets two query steps."""

_NARROWEST: Final = 4  # rows to each side of the expected diagonal: rounding alone needs some


@dataclass(frozen=True)
class Rule:
    """How to align.

    steps: (query steps, rows) that a path may advance at once, FREE or LIMITED. detour: what steps off the diagonal
    cost more, as a factor. band: how far a path may stray from the expected diagonal, as a share of the expected
    match; None = anywhere. end_penalty: what every row costs by which start or stop differ from the expected ones.
    row_gain: what every matched row is worth; without it a match shrinks to its cheapest part, with the mean cost as
    gain it takes in whatever is not dearer than the rest. The last two choose among alignments, and are not part of
    the cost told.
    """

    steps: tuple[tuple[int, int], ...] = FREE
    detour: float = 1.0
    band: float | None = None
    end_penalty: float = 0.0
    row_gain: float = 0.0

    def costs(self) -> Rows:
        """Return [steps, 4]: query steps, rows, what the pair reached costs per unit of difference, what it gains."""
        prices = [(a, b, (a + b) * (1.0 if a == b else self.detour), b * self.row_gain) for a, b in self.steps]
        return np.array(prices, np.float64)


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows [T, D] in which to look; the match is expected at [start, stop) of them."""

    rows: Rows
    start: int
    stop: int

    @staticmethod
    def whole(rows: Rows) -> Piece:
        """Return rows of which nothing is known: only a rule without band and penalty is of use."""
        return Piece(rows, 0, len(rows))


@dataclass(frozen=True, eq=False)
class Alignment:
    """Rows [start, stop) matched. cost: mean difference >= 0. path: int64 [P, 2], (query step, row), rising."""

    start: int
    stop: int
    cost: float
    path: Ints


def align(query: Rows, piece: Piece, rule: Rule, weights: Rows | None = None) -> Alignment | None:
    """Return the best alignment of query [n, D] with rows of the piece; None where the rule's steps cannot make one.

    weights: [n, D] >= 0, how much each channel counts at each query step; None = 1 / D, so that a pair costs the root
    of the mean square. Raises QueryError for arrays of other shapes, without rows or with NaN.
    """
    return align_all(query, [piece], rule, weights)[0]


def align_all(query: Rows, pieces: Sequence[Piece], rule: Rule, weights: Rows | None = None) -> list[Alignment | None]:
    """Align the query with every piece (see align)."""
    asked = _checked(query, "query", None)
    heavy = np.full(asked.shape, 1.0 / asked.shape[1]) if weights is None else _checked(weights, "weights", asked)
    ready = [_checked(piece.rows, "rows", asked) for piece in pieces]
    bounds = [_bounds(len(asked), len(rows), piece, rule) for rows, piece in zip(ready, pieces, strict=True)]
    expected = [(piece.start, piece.stop) for piece in pieces]
    costs = rule.costs()
    solved: list[tuple[float, Ints] | None] = solver().solve_all(
        asked, heavy, ready, bounds, (costs, float(rule.end_penalty), float(rule.row_gain), expected)
    )
    return [None if found is None else _alignment(*found) for found in solved]


@cache
def solver() -> Any:
    """Return the module that does the arithmetic: the compiled one where numba is installed."""
    try:
        return import_module("bridge.alignment.compiled")
    except ImportError:
        return import_module("bridge.alignment.plain")


def _alignment(cost: float, path: Ints) -> Alignment:
    return Alignment(int(path[0, 1]), int(path[-1, 1]) + 1, cost, path)


def _checked(array: Rows, what: str, query: Rows | None) -> Rows:
    rows = np.ascontiguousarray(array, np.float64)
    fits = rows.ndim == 2 and rows.size and (query is None or rows.shape[1] == query.shape[1])
    if what == "weights" and query is not None and rows.shape != query.shape:
        fits = False
    if not fits or not np.isfinite(rows).all():
        told = "" if query is None else f", a query of {list(query.shape)}"
        raise QueryError(f"alignment: expected {what} of finite numbers [T, D]{told}, found {list(rows.shape)}")
    return rows


def _bounds(asked: int, held: int, piece: Piece, rule: Rule) -> Ints:
    """Return [n, 2]: the rows [low, high) that each query step may meet."""
    if rule.band is None:
        return np.tile(np.array([0, held], np.int64), (asked, 1))
    slope = (piece.stop - piece.start) / asked
    radius = max(rule.band * (piece.stop - piece.start), slope, _NARROWEST)
    middle = piece.start + slope * (np.arange(asked) + 0.5) - 0.5
    bounds = np.empty((asked, 2), np.int64)
    bounds[:, 0] = np.minimum(np.maximum(np.ceil(middle - radius), 0), held - 1)
    bounds[:, 1] = np.maximum(np.minimum(np.floor(middle + radius) + 1, held), bounds[:, 0] + 1)
    return bounds
