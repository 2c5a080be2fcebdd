"""What is computed from vectors alone, against slow literal readings of the definitions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.curation.duplicates import connect
from bridge.curation.importance import bandwidth, importance
from bridge.curation.labels import doubt_labels
from bridge.curation.neighbours import find_near_pairs
from bridge.curation.outliers import apart_by_length, score_outliers
from bridge.curation.pair_rows import find_main_direction
from bridge.curation.subset import select_facility_location, select_k_center
from bridge.curation.time_shift import find_shift, is_comparable
from bridge.graph import nearest
from bridge.graph.nearest import find_nearest


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(count, seed=0, dim=8, clusters=6, spread=0.3):
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, dim))
    return unit(centres[rng.integers(clusters, size=count)] + spread * rng.normal(size=(count, dim)))


def apart(left, right):
    return np.sqrt(((left[:, None].astype(np.float64) - right[None]) ** 2).sum(axis=-1))


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a few vectors need many blocks."""
    monkeypatch.setattr(nearest, "_BLOCK", 1000)


@pytest.mark.parametrize("seed", range(4))
def test_nearest_equals_all_distances_sorted(small_blocks, seed):
    vectors, others = clustered(150, seed), clustered(90, seed + 1)
    vectors[3] = vectors[5] = vectors[7]
    every = apart(vectors, vectors)
    np.fill_diagonal(every, np.inf)
    for found, distances in (
        (find_nearest(vectors, 6), every),
        (find_nearest(vectors, 6, among=others), apart(vectors, others)),
    ):
        np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :6], atol=1e-12)
        np.testing.assert_allclose(np.take_along_axis(distances, found.rows, 1), found.distances, atol=1e-12)
        assert all(len(set(row)) == 6 for row in found.rows.tolist())


@pytest.mark.parametrize("apart_by", [1e-5, 1e-7])
def test_nearly_equal_vectors_are_ranked_by_their_exact_distance(small_blocks, apart_by):
    rng = np.random.default_rng(3)
    vectors = clustered(40)
    vectors[:8] = unit(vectors[0] + apart_by * rng.normal(size=(8, 8)))
    every = apart(vectors, vectors)
    np.fill_diagonal(every, np.inf)
    np.testing.assert_allclose(find_nearest(vectors, 3).distances, np.sort(every, axis=1)[:, :3], atol=1e-15)


def test_vectors_of_one_owner_are_not_neighbours(small_blocks):
    vectors, others = clustered(60, 1), clustered(50, 2)
    owners = np.arange(60) // 6, np.arange(50) // 4
    distances = apart(vectors, others)
    distances[owners[0][:, None] == owners[1]] = np.inf
    found = find_nearest(vectors, 5, among=others, owners=owners)
    np.testing.assert_allclose(found.distances, np.sort(distances, axis=1)[:, :5], atol=1e-12)
    alone = find_nearest(vectors, 2, among=others, owners=(np.zeros(60, int), np.zeros(50, int)))
    assert np.isinf(alone.distances).all()


def test_near_pairs_are_found_from_either_side(small_blocks):
    left, right = clustered(40, 1), clustered(30, 1)
    distances = apart(left, right)
    found, pairs = find_near_pairs(left, right, 3, 0.5)
    np.testing.assert_allclose(distances[tuple(pairs.T)], found, atol=1e-12)
    own, theirs = np.argsort(distances, axis=1)[:, :3], np.argsort(distances, axis=0)[:3].T
    wanted = {(row, place) for row, places in enumerate(own.tolist()) for place in places}
    wanted |= {(place, row) for row, places in enumerate(theirs.tolist()) for place in places}
    assert set(map(tuple, pairs.tolist())) == {pair for pair in wanted if distances[pair] <= 0.5}


def test_nearest_of_few():
    assert find_nearest(clustered(1), 5).rows.shape == (1, 0)
    assert find_nearest(np.zeros((0, 8), np.float32), 5).rows.shape == (0, 0)
    assert find_nearest(clustered(3), 5).rows.shape == (3, 2)
    assert find_nearest(clustered(3), 5, among=clustered(1)).rows.tolist() == [[0]] * 3


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=40))
def test_groups_are_what_pairs_connect(count, pairs):
    pairs = [(left % count, right % count) for left, right in pairs]
    groups = [{number} for number in range(count)]
    for left, right in pairs:
        joined = groups[left] | groups[right]
        for number in joined:
            groups[number] = joined
    left, right = np.array(pairs, np.int64).reshape(-1, 2).T
    assert connect(count, left, right).tolist() == [min(groups[number]) for number in range(count)]


def test_the_main_direction_of_wide_vectors_needs_no_square_matrix():
    rng = np.random.default_rng(0)
    rows = unit(rng.normal(size=(200, 8)) * np.array([5, 1, 1, 1, 1, 1, 1, 1]) + 1)
    axis = np.linalg.svd(rows - rows.mean(axis=0))[2][0]
    assert abs(find_main_direction(rows) @ axis) == pytest.approx(1, abs=1e-3)
    wide = unit(rng.normal(size=(3, 100_000)))  # their square would take 80 GB
    assert np.linalg.norm(find_main_direction(wide)) == pytest.approx(1, abs=1e-5)
    assert not find_main_direction(wide[[0, 0]]).any()
    assert not find_main_direction(wide[:0]).any()


def test_an_outlier_is_far_from_the_others_of_its_length():
    rng = np.random.default_rng(0)
    vectors = unit(np.array([1.0] + [0.0] * 7) + 0.05 * rng.normal(size=(300, 8)))
    vectors[17] = unit(rng.normal(size=(1, 8)))[0]
    found = score_outliers(vectors, rng.integers(20, 200, 300))
    assert found.argmax() == 17
    assert found[17] > 10
    assert np.median(np.abs(found)) < 1
    assert score_outliers(vectors[:1], np.array([5])).tolist() == [0]


def test_scores_do_not_read_the_length():
    rng = np.random.default_rng(1)
    lengths = rng.integers(10, 1000, 2000)
    values = np.log(lengths) * (1 + 0.1 * rng.normal(size=2000))
    assert abs(np.corrcoef(values, lengths)[0, 1]) > 0.7
    assert abs(np.corrcoef(apart_by_length(values, lengths), lengths)[0, 1]) < 0.1


def test_k_center_covers_within_twice_the_best_radius():
    vectors = clustered(14, 3)
    found = select_k_center(vectors, 3)
    distances = apart(vectors, vectors)
    best = min(distances[list(chosen)].min(axis=0).max() for chosen in combinations(range(14), 3))
    reached = [distances[found.rows[: n + 1]].min(axis=0).max() for n in range(3)]
    np.testing.assert_allclose(found.reached, reached, atol=2e-3)
    assert reached[2] <= 2 * best + 1e-6
    assert select_k_center(vectors, 99).rows.shape == (14,)
    assert sorted(select_k_center(vectors, 99).rows.tolist()) == list(range(14))


def test_facility_location_is_the_plain_greedy():
    vectors = clustered(70, 4)
    cosines = vectors.astype(np.float64) @ vectors.T
    best, chosen, reached = np.full(70, -1.0), [], []
    for _ in range(8):
        sums = np.maximum(cosines, best).sum(axis=1)
        sums[chosen] = -np.inf
        chosen.append(int(sums.argmax()))
        best = np.maximum(best, cosines[chosen[-1]])
        reached.append(best.mean())
    found = select_facility_location(vectors, 8)
    assert found.rows.tolist() == chosen
    np.testing.assert_allclose(found.reached, reached, atol=1e-5)
    assert sorted(select_facility_location(vectors, 70).rows.tolist()) == list(range(70))


def test_weights_are_the_ratio_of_two_kernel_densities():
    prior, target = clustered(50, 5), clustered(9, 6)
    width = bandwidth(prior)
    own = np.sort(apart(prior, prior), axis=1)[:, 1:]
    assert width == pytest.approx(np.median(own[:, 6]), rel=1e-5)

    def density(data):
        return np.exp(-(apart(prior, data) ** 2) / (2 * width**2)).mean(axis=1)

    ratio = density(target) / density(prior)
    cut = np.minimum(ratio / ratio.mean(), 2.5)
    np.testing.assert_allclose(importance(prior, target, clip=2.5), cut / cut.mean(), rtol=1e-3)
    np.testing.assert_allclose(importance(prior, prior), 1.0, rtol=1e-4)
    assert importance(prior[:1], target).tolist() == [1]


def test_weights_lead_to_the_target():
    prior = np.concatenate([clustered(90, 7, clusters=1), clustered(30, 8, clusters=1)])
    weights = importance(prior, clustered(20, 8, clusters=1))
    assert weights[90:].mean() > 3
    assert weights[:90].mean() < 0.2
    assert weights.mean() == pytest.approx(1)


def test_a_swapped_label_is_doubted_and_the_right_one_suggested():
    vectors = clustered(200, 9, spread=0.1)
    right = ["a" if cosine > 0.9 else "b" for cosine in vectors @ vectors[0]]
    given = right.copy()
    given[11] = "b" if right[11] == "a" else "a"
    found = doubt_labels(vectors, given)
    assert found.doubt[11] > 0.9
    assert found.names[found.suggested[11]] == right[11]
    assert ((found.doubt >= 0) & (found.doubt <= 1)).all()
    assert doubt_labels(vectors[:3], ["x", "x", "x"]).doubt.tolist() == [0, 0, 0]
    alone = doubt_labels(vectors[:1], ["x"])
    assert (alone.doubt.tolist(), alone.suggested.tolist()) == ([0.5], [0])


def path(steps, seed=0):
    return np.random.default_rng(seed).normal(size=(steps, 3)).cumsum(axis=0).astype(np.float32)


@given(st.integers(1, 60), st.integers(0, 9), st.integers(0, 9))
def test_a_cut_recording_is_found_at_its_offset(steps, front, back):
    rows = path(steps)
    front, back = min(front, int(0.07 * steps)), min(back, int(0.07 * steps))
    cut = rows[front : steps - back]
    found = find_shift(rows, cut)
    assert (found.steps, found.apart) == (front, 0)
    assert (find_shift(cut, rows).steps, find_shift(cut, rows).apart) == (-front, 0)


def test_recordings_that_fit_at_any_offset_are_not_moved():
    still = np.ones((100, 3), np.float32)
    assert (find_shift(still, still.copy()).steps, find_shift(still, still[:90]).steps) == (0, 0)


def test_noise_cancels_and_strangers_are_far():
    rows = path(800)
    noise = np.random.default_rng(5).normal(size=(797, 3)).astype(np.float32)
    found = find_shift(rows, rows[3:] + np.float32(0.01) * noise)
    assert found.steps == 3
    assert found.apart == pytest.approx(0.01 / 8**0.5, rel=0.15)
    offset = find_shift(rows, rows[3:] + np.float32(0.01))
    assert (offset.steps, offset.apart) == (3, pytest.approx(0.01, rel=1e-3))
    assert find_shift(rows, path(800, seed=9)).apart > 0.5
    assert find_shift(rows, rows[:600]) is None
    assert not is_comparable(80, 60)
    assert is_comparable(80, 76)


@pytest.mark.parametrize("neighbours", [1, 5, 10])
def test_what_lies_beside_copies_is_not_an_outlier_for_that(neighbours):
    vectors, lengths = clustered(200), np.arange(200) + 50
    alone = score_outliers(vectors, lengths, neighbours=neighbours)
    found = score_outliers(
        np.concatenate([vectors, np.repeat(vectors[7:8], 15, axis=0)]),
        np.concatenate([lengths, np.repeat(lengths[7:8], 15)]),
        neighbours=neighbours,
    )
    np.testing.assert_allclose(found, [*alone, *[alone[7]] * 15], atol=1e-6)


@pytest.mark.parametrize("copies", [0, 100, 200])
def test_copies_do_not_make_outliers_of_all_others(copies):
    rows = np.random.default_rng(0).normal(size=(300, 8))
    rows[:copies] = rows[0]
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    found = score_outliers(vectors, np.full(300, 50))
    assert np.median(np.abs(found[copies:])) < 2.5
