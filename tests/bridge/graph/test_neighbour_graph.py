"""The neighbour graph against dense algebra and literal readings of its definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.graph.neighbour_graph import build_graph, count_neighbours, join_graph, measure_groups


def make_groups(count=6, size=20, dim=12, seed=0, noise=0.3):
    """Return unit vectors of several groups, and the group of each."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.normal(size=(count, dim)), size, axis=0) + noise * rng.normal(size=(count * size, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows.astype(np.float32), np.repeat(np.arange(count), size)


def solve_densely(graph, start):
    """Return what the walk on the symmetric graph that returns to its start with probability .05 brings, scaled."""
    count = len(graph.episodes)
    one_way = np.zeros((count, count))
    for place, (near, shares) in enumerate(zip(graph.neighbours, graph.shares, strict=True)):
        one_way[place, near] += shares
    both = (one_way + one_way.T) / 2
    root = np.sqrt(both.sum(axis=1))
    return np.linalg.solve(np.eye(count) - 0.95 * both / root / root[:, None], start)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.booleans())
def test_what_spreads_is_the_solution_of_the_dense_equations(seed, signed):
    vectors, _ = make_groups(seed=seed)
    graph, start = build_graph(np.arange(len(vectors)) * 3 + 5, vectors), np.zeros(len(vectors))
    start[[3, 40]] = 1.0, -0.5 if signed else 0.25
    wanted = solve_densely(graph, start)
    np.testing.assert_allclose(graph.spread_far(start), wanted, atol=1e-3 * np.abs(wanted).max())
    if not signed:
        reached, values = graph.spread_near(np.array([3, 40]), np.array([1.0, 0.25]))
        alone = wanted[reached] / wanted.max()
        assert np.corrcoef(values, alone)[0, 1] > 0.99
        assert values.max() == 1.0


def test_seeds_reach_their_own_group_first():
    vectors, labels = make_groups()
    graph = build_graph(np.arange(len(vectors)), vectors)
    for place in range(0, len(vectors), 7):
        reached, values = graph.spread_near(np.array([place]), np.ones(1))
        best = reached[np.argsort(-values)[:20]]
        assert (labels[best] == labels[place]).mean() > 0.95


@pytest.mark.parametrize(("noise", "low", "high"), [(0.2, 0.45, 1.0), (100.0, 0.0, 0.37)])
def test_groups_differ_from_data_without_any(noise, low, high):
    vectors, _ = make_groups(noise=noise)
    graph = build_graph(np.arange(len(vectors)), vectors)
    assert low < graph.groups < high
    neighbours = graph.neighbours
    near = [set(row) for row in neighbours.tolist()]
    pairs = [(one, other) for row in near for one in row for other in row if one != other]
    share, chance = np.mean([other in near[one] for one, other in pairs]), neighbours.shape[1] / len(near)
    assert measure_groups(neighbours) == pytest.approx((share - chance) / (1 - chance))


@pytest.mark.parametrize(("count", "size"), [(16, 6), (6, 20)])
def test_small_groups_count_and_large_ones(count, size):
    vectors, _ = make_groups(count, size, noise=0.2)
    assert build_graph(np.arange(len(vectors)), vectors).has_groups


def test_small_archives_have_fewer_neighbours():
    assert [*map(count_neighbours, (32, 96, 140, 240, 400, 10**6))] == [6, 6, 7, 8, 10, 10]


def test_neighbours_are_the_nearest_for_how_dense_it_is_there():
    vectors, _ = make_groups(noise=0.5)
    graph, count = build_graph(np.arange(len(vectors)), vectors), len(vectors)
    k = count_neighbours(count)
    distances = 1 - vectors.astype(float) @ vectors.T.astype(float)
    np.fill_diagonal(distances, np.inf)
    spans = np.sort(distances, axis=1)[:, :k].mean(axis=1)
    scaled = distances / (spans[:, None] + spans + np.where(np.isinf(distances), 0, distances))
    agree = [len({*np.argsort(scaled[row])[:k]} & {*graph.neighbours[row]}) for row in range(count)]
    assert np.mean(agree) > 0.97 * k
    assert graph.shares.sum(axis=1) == pytest.approx(np.ones(count), abs=1e-5)


def test_new_episodes_join_and_removed_ones_are_left_out():
    vectors, labels = make_groups()
    ids = np.arange(len(vectors)) * 2
    before = build_graph(ids[5:], vectors[5:])
    remains = np.ones(len(ids), bool)
    remains[100:104] = False
    graph = join_graph(before, ids[remains], vectors[remains], (ids >= ids[5])[remains])
    assert graph.episodes.tolist() == ids[remains].tolist()
    assert not (graph.neighbours == np.arange(len(graph.episodes))[:, None])[graph.shares > 0].any()
    own = labels[remains]
    joined = graph.neighbours[:5][graph.shares[:5] > 0.01]
    assert (own[joined] == 0).all()
    stays = join_graph(before, ids[5:], vectors[5:], np.ones(len(ids) - 5, bool))
    assert np.array_equal(stays.neighbours, before.neighbours)
    assert np.array_equal(stays.shares, before.shares)


def test_copies_and_lonely_episodes_have_finite_values():
    vectors, _ = make_groups()
    vectors[:40], vectors[50] = vectors[0], -vectors[60]
    graph = build_graph(np.arange(len(vectors)), vectors)
    for place in (0, 50):
        _, values = graph.spread_near(np.array([place]), np.ones(1))
        assert np.isfinite(values).all()
        assert values.max() == 1.0


def test_neighbours_in_large_archives_are_among_the_nearest():
    vectors, _ = make_groups(count=170, size=100, dim=8)
    graph, some = build_graph(np.arange(len(vectors)), vectors), np.arange(0, len(vectors), 97)
    cosines = vectors[some] @ vectors.T
    cosines[np.arange(len(some)), some] = -1.0
    nearest = np.argpartition(-cosines, 30, axis=1)[:, :30]
    among = [np.isin(graph.neighbours[place], near).mean() for place, near in zip(some, nearest, strict=True)]
    assert np.mean(among) > 0.99
    assert graph.shares.sum(axis=1) == pytest.approx(np.ones(len(vectors)), abs=1e-5)
