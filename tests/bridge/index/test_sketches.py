"""Sketches bound every product from above, tightly where vectors lie near few axes; a shortlist loses no best row."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge import Point
from bridge.index.embedded.candidates import SearchTarget, Shortlist
from bridge.index.embedded.segment import Segment
from bridge.index.embedded.sketches import (
    SKETCH_ERROR,
    STEPS,
    WIDTH,
    bound_rounding,
    fit_axes,
    pick_sample,
    sketch,
    sketch_query,
)


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def near_a_plane(rng, count, dim, noise):
    """Return unit vectors near a plane of 4 axes."""
    axes = np.linalg.qr(rng.normal(size=(dim, min(4, dim))))[0].T
    return unit(rng.normal(size=(count, len(axes))) @ axes + noise * rng.normal(size=(count, dim)) / np.sqrt(dim))


def bound_products(vectors, axes, query):
    """Return the bounds of the products of vectors with a query, from their sketches in a frame."""
    return sketch(axes, vectors) @ sketch_query(axes[None], query)[0] + np.float32(SKETCH_ERROR)


@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 15, 16, 40, 300]), st.sampled_from([0.0, 1e-4, 0.1, 1.0, 9.0])
)
def test_no_product_is_above_its_bound(seed, dim, noise):
    rng = np.random.default_rng(seed)
    vectors = near_a_plane(rng, 60, dim, noise)
    vectors[:5] = vectors[0]
    frames = np.stack([fit_axes(vectors[:30]), fit_axes(rng.normal(size=(3, dim)).astype(np.float32))])
    for query in (vectors[0], -vectors[1], unit(vectors[2] + 0.1 * rng.normal(size=dim)), unit(rng.normal(size=dim))):
        exact = vectors.astype(np.float64) @ query.astype(np.float64)
        both = sketch_query(frames, query)
        for axes, query_sketch in zip(frames, both, strict=True):
            bounds = bound_products(vectors, axes, query)
            assert (exact <= bounds + (WIDTH + 8) * 2.0**-24).all()
            assert query_sketch == pytest.approx(sketch_query(axes[None], query)[0], rel=1e-5, abs=1e-12)


def test_bounds_are_tight_where_the_axes_hold_nearly_all():
    rng = np.random.default_rng(0)
    vectors = near_a_plane(rng, 2000, 256, 0.03)
    axes = fit_axes(vectors[:500])
    query = unit(vectors[7] + 0.03 * rng.normal(size=256) / 16)
    loose = bound_products(vectors, axes, query) - vectors @ query
    assert np.median(loose) < 0.03 * 0.03
    assert np.median(sketch(axes, vectors)[:, -1]) < 0.03 * STEPS


def test_the_worst_rounding_is_what_bounds_allow_for():
    """All coordinates half a step off, and a query along that: nothing much less than SKETCH_ERROR would do."""
    steps = np.random.default_rng(1).integers(0, 6000, WIDTH - 1) + 0.49
    steps[0] = np.sqrt(STEPS**2 - (steps[1:] ** 2).sum())
    vector, up = steps / STEPS, np.where(steps % 1 < 0.5, 1.0, -1.0)
    query = up / np.linalg.norm(up)
    bound = bound_products(vector[None].astype(np.float32), np.eye(WIDTH - 1), query.astype(np.float32))[0]
    assert 0 < bound - float(vector @ query) < 0.2 * SKETCH_ERROR


def test_the_length_of_the_residual_is_rounded_up():
    vectors = unit(np.random.default_rng(5).normal(size=(50, 30)))
    axes = fit_axes(vectors)
    sketches = sketch(axes, vectors)
    lengths = np.linalg.norm(vectors - sketches[:, :-1] / STEPS @ axes, axis=1) * STEPS
    assert (lengths <= sketches[:, -1]).all()
    assert (lengths > sketches[:, -1] - 1.01).all()


def test_axes_are_orthonormal_even_of_hardly_any_vectors():
    for sample in (np.zeros((0, 40)), np.zeros((3, 40)), np.ones((50, 40)), np.eye(40)[:2], np.eye(8)):
        axes = fit_axes(sample.astype(np.float32))
        assert axes.shape == (min(WIDTH - 1, sample.shape[1]), sample.shape[1])
        assert axes @ axes.T == pytest.approx(np.eye(len(axes)), abs=1e-12)


def test_a_frame_is_made_from_a_sample_of_its_rows():
    members = np.arange(0, 9000, 3)
    some = pick_sample(members)
    assert len(some) == 1024
    assert len(set(some.tolist()) & set(members.tolist())) == 1024
    assert np.array_equal(pick_sample(members[:10]), members[:10])


# ---- the shortlist ---------------------------------------------------------------------------------------------------


def target(query, top_k=10, *, distinct=False, limit=10**6):
    return SearchTarget(query, bound_rounding(len(query)), top_k, distinct, limit)


def shortlist_of(vectors, goal):
    """Return a shortlist for vectors in one list, ten of each episode."""
    points = [Point(n, n, vectors[n * 10 : n * 10 + 10]) for n in range(len(vectors) // 10)]
    rows = np.arange(len(vectors), dtype=np.int32)
    lists = SimpleNamespace(rows=rows, owners=rows // 10)  # all that a shortlist needs of them
    return Shortlist(Segment.from_points(points, vectors.shape[1]), lists, goal)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("loose", [0.0, 0.01, 0.3, 3.0])
def test_a_shortlist_holds_all_of_the_best_however_loose_the_bounds(loose, distinct):
    rng = np.random.default_rng(3)
    vectors = near_a_plane(rng, 3000, 24, 0.2)
    query = vectors[4]
    exact = vectors @ query
    bounds = (exact + loose * rng.random(3000) + 1e-5).astype(np.float32)
    best = shortlist_of(vectors, target(query, distinct=distinct))
    for rows in np.array_split(rng.permutation(3000), 5):
        best.offer(rows, bounds[rows])
    tops = exact.reshape(300, 10).max(axis=1) if distinct else exact
    expected = np.flatnonzero(exact >= np.sort(tops)[-10])
    if distinct:
        expected = np.array([row for row in expected if exact[row] == tops[row // 10]])
    assert set(expected.tolist()) <= set(best.rows.tolist())
    assert len(set(best.rows.tolist())) == len(best.rows)
    assert not best.exceeds_limit
    assert best.compared < (500 if loose <= 0.01 else 3001)


def test_a_shortlist_gives_up_where_too_many_vectors_would_have_to_be_read():
    vectors = unit(np.random.default_rng(4).normal(size=(3000, 24)))
    best = shortlist_of(vectors, target(vectors[0], limit=1500))
    best.offer(np.arange(3000), np.ones(3000, np.float32))
    assert best.exceeds_limit
    assert best.compared == 64
    foreseen = shortlist_of(vectors, target(vectors[0], limit=1500))
    foreseen.offer(np.arange(1000), np.ones(1000, np.float32))
    foreseen.expect_more(0.4)
    assert not foreseen.exceeds_limit
    foreseen.expect_more(0.6)
    assert foreseen.exceeds_limit
