"""The alignment kernel compiled by numba (extra "align"): compiled once per machine, then read from numba's cache.

Its results are those of `numpy_kernel`. Imported only where numba is installed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba.core.event import Listener, install_listener

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numba.core.event import Event


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere may this user write a cache: compiled once per process then
        return numba.njit(nogil=True)(function)


class _CompilationListener(Listener):
    """Calls `notify` when numba begins to compile, once."""

    def __init__(self, notify: Callable[[], object]) -> None:
        self._notify, self._done = notify, False

    def on_start(self, event: Event) -> None:  # noqa: ARG002  (numba's signature)
        if not self._done:
            self._done = True
            self._notify()

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def watch_compilation(notify: Callable[[], object]) -> Iterator[None]:
    """Call `notify` when something is compiled inside, which takes seconds."""
    with install_listener("numba:compile", _CompilationListener(notify)):
        yield


@_compiled
def solve(query, weights, pieces, bounds, rule, traced):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201  (numba types it and takes no keywords)
    """Return costs [m], spans [m, 2], all paths one behind the other [P, 2] and where each ends [m].

    pieces: rows [T, D] of all, their edges [m + 1], where each match is expected [m, 2]; bounds: [m, n, 2], the rows
    that each step may meet; rule: steps [s, 2], what each costs [s], the penalty [m] and the gain [m] of a row.
    Without `traced` paths are empty; where there is no path, the cost is infinite.
    """
    rows, edges, expected = pieces
    steps, prices, penalties, gains = rule
    count, asked, longest = len(edges) - 1, len(query), np.max(edges[1:] - edges[:-1])
    costs, spans, ends = np.full(count, np.inf), np.zeros((count, 2), np.int64), np.zeros(count, np.int64)
    paths = np.empty((count * (asked + longest) if traced else 0, 2), np.int64)
    taken = np.empty((asked if traced else 0, longest), np.int8)
    used = 0
    for number in range(count):
        columns = rows[edges[number] : edges[number + 1]].T.copy()
        about = (expected[number, 0], expected[number, 1], penalties[number], gains[number])
        costs[number], start, stop = _fill(query, weights, columns, bounds[number], (steps, prices), about, taken)
        spans[number] = start, stop
        if traced and stop:
            length = _trace(taken, steps, stop - 1, paths[used:])
            used += length
        ends[number] = used
    return costs, spans, paths[:used], ends


@_compiled
def _fill(query, weights, columns, bounds, steps, about, taken):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0913, PLR0917
    """Return cost, start and stop of the best path; its steps by cell in `taken`, where that has room."""
    advances, prices = steps
    start, _, penalty, gain = about
    asked, width = len(query), columns.shape[1]
    local, by = np.empty(width), np.empty(width, np.int8)
    # No step advances more than two query steps: three rows are enough.
    reached, spent, begun = np.full((3, width), np.inf), np.zeros((3, width)), np.zeros((3, width), np.int64)
    for i in range(asked):
        # Unsigned, so that no place can mean one from the end: only then many cells are done at once.
        here, low, high = i % 3, np.uint64(bounds[i, 0]), np.uint64(bounds[i, 1])
        _differences(query[i], weights[i], columns, low, high, local)
        reached[here, :] = np.inf
        by[:] = -1
        if i == 0:
            for j in range(low, high):
                spent[here, j], begun[here, j] = 2.0 * local[j], j
                reached[here, j] = penalty * abs(np.int64(j) - start) + 2.0 * local[j] - gain
        for number in range(len(prices)):
            back, along = i - advances[number, 0], np.uint64(advances[number, 1])
            if back >= 0:
                step = (back % 3, here, along, prices[number], gain * advances[number, 1], number)
                _advance(step, max(low, along), high, local, (reached, spent, begun, by))
        if len(taken):
            for j in range(low, high):
                taken[i, j] = by[j]
    return _end(reached[(asked - 1) % 3], spent[(asked - 1) % 3], begun[(asked - 1) % 3], asked, about)


@_compiled
def _advance(step, first, high, local, table):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Take one step to those of rows [first, high) where it is cheaper than what led there so far."""
    before, here, along, price, gained, number = step
    reached, spent, begun, by = table
    for j in range(first, high):
        paid = price * local[j]
        cost = reached[before, j - along] + (paid - gained)
        if cost < reached[here, j]:
            reached[here, j], by[j] = cost, number
            spent[here, j], begun[here, j] = spent[before, j - along] + paid, begun[before, j - along]


@_compiled
def _differences(step, heed, columns, low, high, local):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the weighted distance of one query step to rows [low, high)."""
    for j in range(low, high):
        local[j] = 0.0
    for channel in range(len(columns)):
        asked, weight = step[channel], heed[channel]
        for j in range(low, high):
            apart = asked - columns[channel, j]
            local[j] += weight * (apart * apart)
    for j in range(low, high):
        local[j] = np.sqrt(local[j])


@_compiled
def _end(reached, spent, begun, asked, about):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    _, stop, penalty, _ = about
    end, least, nearest = -1, np.inf, 0
    for j in range(len(reached)):
        if reached[j] == np.inf:
            continue
        matched = j - begun[j] + 1
        mean = (reached[j] + penalty * abs(j + 1 - stop)) / (asked + matched)
        if mean < least or (mean == least and abs(matched - asked) < nearest):
            end, least, nearest = j, mean, abs(matched - asked)
    if end < 0:
        return np.inf, 0, 0
    return spent[end] / (asked + end - begun[end] + 1), begun[end], end + 1


@_compiled
def _trace(taken, advances, end, path):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the pairs of the path to row `end`, first to last; return how many."""
    length, i, j = 0, len(taken) - 1, end
    while True:
        path[length, 0], path[length, 1] = i, j
        length += 1
        by = taken[i, j]
        if by < 0:
            break
        i, j = i - advances[by, 0], j - advances[by, 1]
    for place in range(length // 2):
        for side in range(2):
            first, last = path[place, side], path[length - 1 - place, side]
            path[place, side], path[length - 1 - place, side] = last, first
    return length


@_compiled
def measure(query, weights, pieces, paths, around):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return the mean difference [m] along each path: of every pair averaged with up to `around` to each side of it.

    pieces: rows [T, D] of all, and where each begins [m]; paths: the pairs [P, 2] of all, and where each ends [m].
    """
    rows, edges = pieces
    pairs, ends = paths
    found, begin = np.empty(len(ends)), 0
    for number in range(len(ends)):
        path, edge = pairs[begin : ends[number]], edges[number]
        begin, length = ends[number], len(path)
        squares, apart, total = np.zeros(length), np.zeros(length + 2 * around), np.empty(length)
        for channel in range(query.shape[1]):
            for place in range(length):
                apart[around + place] = query[path[place, 0], channel] - rows[edge + path[place, 1], channel]
            total[:] = apart[around : around + length]
            for away in range(1, around + 1):
                for place in range(length):
                    total[place] = (total[place] + apart[around + place - away]) + apart[around + place + away]
            for place in range(length):
                squares[place] += weights[path[place, 0], channel] * (total[place] * total[place])
        spent, advanced, before = 0.0, 0, -2
        for place in range(length):
            after = path[place, 0] + path[place, 1]
            steps = 2 if place == 0 else after - before
            count = min(place, around) + min(length - 1 - place, around) + 1
            spent += steps * (np.sqrt(squares[place]) / count)
            advanced, before = advanced + steps, after
        found[number] = spent / advanced
    return found
