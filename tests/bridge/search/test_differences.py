"""Differences along alignments are those of plain loops, whatever else is measured with them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bridge.alignment import align, numpy_kernel
from bridge.alignment.align import Pieces, Rule, align_all
from bridge.search.moments.refine import measure_differences


def slow_difference(query, rows, path, around, weights):
    """Return the mean over a path of differences, each averaged with up to `around` before and behind it."""
    pairs = [[a - b for a, b in zip(query[i], rows[j], strict=True)] for i, j in path]
    spent, length = [], 0
    for place, (i, j) in enumerate(path):
        near = pairs[max(0, place - around) : place + around + 1]
        means = [math.fsum(column) / len(near) for column in zip(*near, strict=True)]
        advanced = 2 if place == 0 else i - path[place - 1][0] + j - path[place - 1][1]
        spent.append(advanced * math.sqrt(math.fsum(w * mean**2 for w, mean in zip(weights[i], means, strict=True))))
        length += advanced
    return math.fsum(spent) / length


@pytest.mark.parametrize(("every", "around"), [(1, 2), (2, 1), (3, 0)])
def test_differences_are_those_of_loops(every, around):
    rng = np.random.default_rng(every)
    query, pieces = rng.normal(size=(9, 3)), [rng.normal(size=(size, 3)) for size in (7, 1, 12)]
    paths = align_all(query, Pieces.of(pieces), Rule(), traced=True).paths
    for weights in (None, rng.uniform(size=(9, 3))):
        used = np.full((9, 3), 1 / 3) if weights is None else weights
        expected = [
            slow_difference(query.tolist(), rows.tolist(), path.tolist(), around, used.tolist())
            for rows, path in zip(pieces, paths, strict=True)
        ]
        found = measure_differences(query, Pieces.of(pieces), paths, every, weights)
        assert found == pytest.approx(expected)


def test_both_kernels_are_equal_to_the_last_bit(monkeypatch):
    rng = np.random.default_rng(7)
    query, weights = rng.normal(size=(40, 14)), rng.uniform(size=(40, 14))
    pieces = Pieces.of([rng.normal(size=(size, 14)) for size in (60, 1, 25, *[33] * 30)])
    paths = align_all(query, pieces, Rule(), traced=True).paths
    for every, weighed in ((1, weights), (2, None), (3, weights)):
        compiled = measure_differences(query, pieces, paths, every, weighed)
        with monkeypatch.context() as patched:
            patched.setattr(align, "solver", lambda *_: numpy_kernel)
            assert np.array_equal(measure_differences(query, pieces, paths, every, weighed), compiled)


def test_equal_rows_cost_nothing_and_neighbours_change_nothing():
    rng = np.random.default_rng(4)
    query, other = rng.normal(size=(20, 2)), rng.normal(size=(15, 2))
    pieces = Pieces.of([other, query, np.repeat(query, 2, axis=0), other])
    costs = measure_differences(query, pieces, align_all(query, pieces, Rule(), traced=True).paths)
    assert (costs[1], costs[2]) == (0.0, 0.0)
    assert costs[0] == costs[3] > 0
