"""The alignment kernel compiled by numba (extra "align"): compiled once per machine, then read from numba's cache.

Knows: the recursion that bridge/alignment/align.py describes, cell by cell. Its results are those of `plain`.
Imported only where numba is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.alignment.align import Ints, Rows


def solve_all(
    query: Rows,
    weights: Rows,
    pieces: Sequence[Rows],
    bounds: Sequence[Ints],
    rule: tuple[Rows, float, float, Sequence[tuple[int, int]]],
) -> list[tuple[float, Ints] | None]:
    """Return cost and path of the best alignment with every piece, None where there is no path.

    rule: what Rule.costs returns, the penalty of ends, the gain of a row, and where each match is expected.
    """
    costs, penalty, gain, expected = rule
    solved: list[tuple[float, Ints] | None] = []
    for rows, low_high, (start, stop) in zip(pieces, bounds, expected, strict=True):
        cost, path = _solve(query, weights, rows, low_high, costs, penalty, gain, start, stop)
        solved.append((cost, path) if len(path) else None)
    return solved


@numba.njit(cache=True, nogil=True)
def _solve(query, weights, rows, bounds, costs, penalty, gain, start, stop):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, C901, PLR0912, PLR0913, PLR0917  (numba types it; one loop nest, so that no cell costs a call)
    asked, held, channels = len(query), len(rows), query.shape[1]
    reached = np.full((3, held), np.inf)  # no step advances more than two query steps: rows i % 3
    begun = np.full((3, held), -1, np.int64)
    taken = np.full((asked, np.max(bounds[:, 1] - bounds[:, 0])), -1, np.int8)
    for i in range(asked):
        here = i % 3
        reached[here, :] = np.inf
        begun[here, :] = -1
        low, high = bounds[i, 0], bounds[i, 1]
        for j in range(low, high):
            total = 0.0
            for channel in range(channels):
                apart = query[i, channel] - rows[j, channel]
                total += weights[i, channel] * (apart * apart)
            local = np.sqrt(total)
            best, origin, by = np.inf, -1, -1
            if i == 0:
                best, origin = penalty * abs(j - start) + 2.0 * local - gain, j
            for number in range(len(costs)):
                a, b = i - int(costs[number, 0]), j - int(costs[number, 1])
                if a < 0 or b < 0 or begun[a % 3, b] < 0:
                    continue
                cost = reached[a % 3, b] + costs[number, 2] * local - costs[number, 3]
                if cost < best:
                    best, origin, by = cost, begun[a % 3, b], number
            reached[here, j], begun[here, j], taken[i, j - low] = best, origin, by
    last = (asked - 1) % 3
    end, least, nearest = -1, np.inf, 0
    for j in range(held):
        if begun[last, j] < 0:
            continue
        matched = j - begun[last, j] + 1
        mean = (reached[last, j] + gain * matched + penalty * abs(j + 1 - stop)) / (asked + matched)
        if mean < least or (mean == least and abs(matched - asked) < nearest):
            end, least, nearest = j, mean, abs(matched - asked)
    if end < 0:
        return np.inf, np.zeros((0, 2), np.int64)
    path = np.empty((asked + held, 2), np.int64)
    length, i, j, spent = 0, asked - 1, end, 0.0
    while True:
        path[length, 0], path[length, 1] = i, j
        length += 1
        total = 0.0
        for channel in range(channels):
            apart = query[i, channel] - rows[j, channel]
            total += weights[i, channel] * (apart * apart)
        by = taken[i, j - bounds[i, 0]]
        if by < 0:
            spent += 2.0 * np.sqrt(total)
            break
        spent += costs[by, 2] * np.sqrt(total)
        i, j = i - int(costs[by, 0]), j - int(costs[by, 1])
    matched = end - begun[last, end] + 1
    return spent / (asked + matched), path[:length][::-1].copy()
