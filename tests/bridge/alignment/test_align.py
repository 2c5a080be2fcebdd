"""Alignment: against a slow literal reading of its definition, by both kernels; ties, warps, stalls, refusals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.alignment import align as alignment
from bridge.alignment import numba_kernel, numpy_kernel
from bridge.alignment.align import FREE, LIMITED, Pieces, Rule, align_all
from bridge.alignment.kernel_loader import KernelLoader
from wshard.errors import QueryError

BOTH = (numpy_kernel, numba_kernel)
RULES = [
    Rule(),
    Rule(LIMITED),
    Rule(LIMITED, detour=1.5, end_penalty=0.25),
    Rule(band=0.2),
    Rule(FREE, 1.25, 0.1, 1.0),
    Rule(LIMITED, 1.25, row_gain=0.5),
    Rule(band=0.4, end_penalty=0.1, row_gain=1.0),
]


@pytest.fixture(params=BOTH, ids=["numpy", "numba"])
def kernel(request, monkeypatch):
    monkeypatch.setattr(alignment, "solver", lambda *_: request.param)
    return request.param


@dataclass
class Found:
    cost: float
    start: int
    stop: int
    path: np.ndarray


def align(query, rows, rule, weights=None, expected=None):
    """Return how a query aligns with one piece, None where it cannot."""
    expected = None if expected is None else np.array([expected])
    found = align_all(query, Pieces.of([rows], expected), rule, weights, traced=True)
    untraced = align_all(query, Pieces.of([rows], expected), rule, weights)
    assert np.array_equal(found.costs, untraced.costs)
    assert np.array_equal(found.spans, untraced.spans)
    assert len(untraced.paths) == 0
    return Found(float(found.costs[0]), *found.spans[0].tolist(), found.paths[0]) if len(found.paths[0]) else None


def slow(query, rows, rule, start, stop, weights=None):
    """Return (cost, path) by the definition: every cell as a list of all that could lead there."""
    n, channels = query.shape
    weights = np.full(query.shape, 1 / channels) if weights is None else weights
    slope = (stop - start) / n
    radius = math.inf if rule.band is None else max(rule.band * (stop - start), slope, 4)
    best = {}  # cell -> (total, start, what the pairs cost, path)
    for i in range(n):
        for j in range(len(rows)):
            low = min(max(math.ceil(start + slope * (i + 0.5) - 0.5 - radius), 0), len(rows) - 1) if rule.band else 0
            middle = start + slope * (i + 0.5) - 0.5
            if rule.band and not low <= j < max(min(math.floor(middle + radius) + 1, len(rows)), low + 1):
                continue
            apart = math.sqrt(sum(weights[i, d] * (query[i, d] - rows[j, d]) ** 2 for d in range(channels)))
            begin = rule.end_penalty * abs(j - start) + 2 * apart - rule.row_gain
            ways = [(begin, j, 2 * apart, [(i, j)])] if i == 0 else []
            for a, b in rule.steps:
                if (i - a, j - b) in best:
                    total, began, spent, path = best[i - a, j - b]
                    price = (a + b) * (1 if a == b else rule.detour) * apart
                    ways.append((total + price - rule.row_gain * b, began, spent + price, [*path, (i, j)]))
            if ways:
                best[i, j] = min(ways, key=lambda way: way[0])
    ends = []
    for j in range(len(rows)):
        if (n - 1, j) in best:
            total, began, spent, path = best[n - 1, j]
            matched = j - began + 1
            mean = (total + rule.end_penalty * abs(j + 1 - stop)) / (n + matched)
            ends.append((mean, abs(matched - n), j, spent, matched, path))
    if not ends:
        return None
    _, _, _, spent, matched, path = min(ends)
    return spent / (n + matched), path


@given(
    n=st.integers(1, 12),
    m=st.integers(1, 16),
    channels=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    grid=st.booleans(),
    rule=st.sampled_from(RULES),
)
def test_both_kernels_equal_a_slow_reading_of_the_definition(n, m, channels, seed, grid, rule):
    rng = np.random.default_rng(seed)
    query, rows = rng.normal(size=(n, channels)), rng.normal(size=(m, channels))
    if grid:  # many ties
        query, rows = np.round(query), np.round(rows)
    start = int(rng.integers(0, m))
    stop = int(rng.integers(start + 1, m + 1))
    weights = rng.uniform(0, 1, query.shape) if seed % 2 else None
    expected = slow(query, rows, rule, start, stop, weights)
    found = []
    for module in BOTH:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(alignment, "solver", lambda *_, module=module: module)
            found.append(align(query, rows, rule, weights, (start, stop)))
    if expected is None:
        assert found == [None, None]
        return
    one, other = found
    assert one.cost == other.cost
    assert np.array_equal(one.path, other.path)
    assert (one.start, one.stop) == (one.path[0, 1], one.path[-1, 1] + 1)
    if not grid:  # among equal totals rounding decides which path the slow one finds
        assert one.cost == pytest.approx(expected[0], rel=1e-12, abs=1e-12)
        assert one.path.tolist() == [list(pair) for pair in expected[1]]


def test_pieces_of_many_lengths_at_once_are_as_each_alone(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    query = rng.normal(size=(20, 3))
    pieces = [rng.normal(size=(length, 3)) for length in (5, 40, 1, 33, 20)]
    monkeypatch.setattr(numpy_kernel, "_MAX_CELLS", 1500)
    together = align_all(query, Pieces.of(pieces), Rule(band=0.3), traced=True)
    for number, rows in enumerate(pieces):
        alone = align(query, rows, Rule(band=0.3))
        assert together.costs[number] == alone.cost
        assert together.spans[number].tolist() == [alone.start, alone.stop]
        assert np.array_equal(together.paths[number], alone.path)


def test_each_piece_counts_penalty_and_gain_in_its_own_unit(kernel):
    rng = np.random.default_rng(3)
    query, rows, worth = rng.normal(size=(12, 2)), rng.normal(size=(3, 30, 2)), np.array([0.1, 1.0, 4.0])
    expected, rule = np.array([[4, 20]] * 3), Rule(end_penalty=0.3, row_gain=0.5)
    together = align_all(query, Pieces.of(list(rows), expected, worth), rule)
    for number, unit in enumerate(worth.tolist()):
        alone = align(query, rows[number], Rule(end_penalty=0.3 * unit, row_gain=0.5 * unit), None, (4, 20))
        assert together.costs[number] == pytest.approx(alone.cost, rel=1e-12)
        assert together.spans[number].tolist() == [alone.start, alone.stop]


def walk(length, seed=0, channels=3):
    return np.random.default_rng(seed).normal(size=(length, channels)).cumsum(axis=0)


@given(start=st.integers(0, 60), length=st.integers(1, 60), rule=st.sampled_from([Rule(), Rule(LIMITED)]))
def test_a_piece_of_the_rows_is_found_where_it_is_at_no_cost(start, length, rule):
    rows = walk(120)
    found = align(rows[start : start + length], rows, rule)
    assert (found.start, found.stop, found.cost) == (start, start + length, 0.0)
    assert found.path.tolist() == [[i, start + i] for i in range(length)]


def test_of_exact_duplicates_the_first_wins_and_large_offsets_do_no_harm(kernel):
    once = walk(30) + 1e8
    rows = np.concatenate([walk(10, 1), once, walk(7, 2), once])
    found = align(once, rows, Rule())
    assert (found.start, found.stop, found.cost) == (10, 40, 0.0)


def test_a_query_that_stands_still_at_its_ends_keeps_its_bounds(kernel):
    rows = np.concatenate([walk(10, 1), np.repeat(walk(1, 2), 9, axis=0), walk(10, 3)])
    found = align(rows[4:16], rows, Rule())
    assert (found.start, found.stop, found.cost) == (4, 16, 0.0)


@given(st.lists(st.integers(1, 4), min_size=2, max_size=25), st.integers(0, 10), st.booleans())
def test_any_warp_and_any_stall_of_either_side_cost_nothing(counts, start, of_query):
    rows = walk(40)
    moment = rows[start : start + len(counts)]
    replayed = np.repeat(moment, counts, axis=0)
    if of_query:
        found = align(replayed, rows, Rule())
        assert (found.start, found.stop, found.cost) == (start, start + len(counts), 0.0)
    else:
        around = np.concatenate([rows[:start], replayed, rows[start + len(counts) :]])
        found = align(moment, around, Rule())
        assert found.cost == 0.0
        assert start <= found.start < start + counts[0]
        assert start + len(replayed) - counts[-1] < found.stop <= start + len(replayed)


def test_pauses_and_a_third_of_the_speed_cost_nothing(kernel):
    rows = walk(80)
    moment = rows[20:50]
    paused = np.concatenate([moment[:12], np.repeat(moment[12:13], 25, axis=0), moment[12:]])
    for query in (paused, np.repeat(moment, 3, axis=0)):
        found = align(query, rows, Rule())
        assert (found.start, found.stop, found.cost) == (20, 50, 0.0)
    for steps in (FREE, LIMITED):
        slower = align(moment, np.repeat(rows, 2, axis=0), Rule(steps))
        assert slower.cost == 0.0
        assert 20 <= slower.start // 2 <= 21
        assert 48 <= (slower.stop - 1) // 2 <= 50
    fast = align(moment, np.repeat(rows, 3, axis=0), Rule())
    assert fast.cost == 0.0
    assert align(moment, rows[:5], Rule(LIMITED)) is None


def test_a_query_longer_than_the_rows_a_single_step_and_constant_channels(kernel):
    rows = walk(25)
    longer = align(np.concatenate([rows[:1], np.repeat(rows, 4, axis=0)]), rows, Rule())
    assert (longer.start, longer.stop, longer.cost) == (0, 25, 0.0)
    assert align(np.concatenate([walk(30, 5) + 50, rows]), rows, Rule()).cost > 1
    single = align(rows[7:8], rows, Rule())
    assert (single.start, single.stop, single.cost) == (7, 8, 0.0)
    assert align(rows, rows[:1], Rule()).path[:, 1].tolist() == [0] * 25
    still = align(np.zeros((5, 2)), np.zeros((12, 2)), Rule())
    assert (still.start, still.stop, still.cost) == (0, 5, 0.0)
    assert align(np.zeros((5, 2)), np.zeros((12, 2)), Rule(end_penalty=0.1), None, (4, 9)).start == 4


def test_penalty_and_band_keep_a_match_near_where_it_is_expected(kernel):
    rows = np.tile(walk(20), (4, 1))
    query = rows[:20] + 0.01 * walk(20, 9)
    for rule in (Rule(end_penalty=0.5), Rule(band=0.2)):
        found = align(query, rows, rule, None, (40, 60))
        assert abs(found.start - 40) + abs(found.stop - 60) <= 8
    free = align(query, rows, Rule())
    assert free.stop <= 21


def test_weights_say_what_counts(kernel):
    rows = walk(60)
    query = rows[10:30].copy()
    query[:, 2] = 100.0
    weights = np.ones((20, 3))
    weights[:, 2] = 0.0
    found = align(query, rows, Rule(), weights)
    assert (found.start, found.stop, found.cost) == (10, 30, 0.0)
    assert align(query, rows, Rule()).cost > 1


def test_a_gain_per_row_keeps_a_match_from_shrinking(kernel):
    rows = walk(60)
    query = rows[15:45] + np.linspace(2, 0, 30)[:, None]  # begins elsewhere, ends the same
    shrunk = align(query, rows, Rule(), None, (15, 45))
    full = align(query, rows, Rule(row_gain=3 * shrunk.cost), None, (15, 45))
    assert full.stop - full.start > shrunk.stop - shrunk.start
    assert full.cost > shrunk.cost


@pytest.mark.parametrize(
    ("query", "rows", "weights"),
    [
        (np.full((3, 2), np.nan), np.zeros((4, 2)), None),
        (np.zeros((3, 2)), np.full((4, 2), np.inf), None),
        (np.zeros((0, 2)), np.zeros((4, 2)), None),
        (np.zeros((3, 2)), np.zeros((0, 2)), None),
        (np.zeros((3, 2)), np.zeros((4, 3)), None),
        (np.zeros(3), np.zeros((4, 3)), None),
        (np.zeros((3, 2)), np.zeros((4, 2)), np.ones((2, 2))),
    ],
)
def test_what_cannot_be_aligned_is_refused(query, rows, weights):
    with pytest.raises(QueryError, match="expected"):
        align(query, rows, Rule(), weights)


def test_the_compiled_kernel_takes_arrays_of_any_order_and_compiles_nothing_more():
    rng = np.random.default_rng(3)
    query, rows = np.asfortranarray(rng.normal(size=(9, 4))), rng.normal(size=(30, 8))[:, ::2]
    frozen, pairs = rng.normal(size=(9, 4)), np.repeat(np.arange(9)[:, None], 2, axis=1)
    frozen.flags.writeable = False
    edges, expected = np.array([0, 0, 30])[1:], np.array([[0, 30], [0, 0]]).T[:1]
    rule = (np.array(FREE), np.ones(3), np.zeros(1), np.zeros(1))
    bounds = np.broadcast_to(np.array([0, 30]), (1, 9, 2))
    measured = []
    for weights in (frozen**2, np.abs(frozen)):
        weights.flags.writeable = False
        solved = [one.solve(query, weights, (rows, edges, expected), bounds, rule, True) for one in BOTH]
        assert all(np.array_equal(one, other) for one, other in zip(*solved, strict=True))
        paths = pairs[::-1][::-1], np.array([9])
        measured += [one.measure(frozen, weights, (rows, edges[:-1]), paths, 2) for one in BOTH]
    assert np.array_equal(measured[0], measured[1])
    assert [len(one.signatures) for one in (numba_kernel._solve, numba_kernel._measure)] == [1, 1]


def test_numpy_aligns_until_the_compiled_kernel_is_loaded(monkeypatch):
    loader = KernelLoader("bridge.alignment.numba_kernel", 1.0)
    monkeypatch.setattr(alignment, "get_kernel", lambda: loader)
    assert [alignment.solver(seconds) for seconds in (0.4, 0.4, 0.0)] == [numpy_kernel] * 3
    assert alignment.solver(0.2) in BOTH  # loading has begun
    assert alignment.solver(100.0) is numba_kernel  # what would take longer waits for it
    assert alignment.solver() is numba_kernel


def test_a_large_alignment_waits_for_the_compiled_kernel_at_once(monkeypatch):
    monkeypatch.setattr(alignment, "get_kernel", cache(lambda: KernelLoader("bridge.alignment.numba_kernel", 0.5)))
    monkeypatch.setattr(numpy_kernel, "solve", None)
    rows = np.random.default_rng(0).normal(size=(3000, 20))
    assert align_all(rows[:1000:2], Pieces.of([rows] * 3), Rule()).costs.tolist()[0] >= 0
