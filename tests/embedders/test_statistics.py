"""Moments merge to those of the whole, statistics and drift follow, also for hard numbers."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import Moments, Statistics, drift, merge
from embedders.standardise import standardise
from embedders.statistics import measure_moments, merge_spreads, spreads_of, statistics
from wshard.errors import EmbedderError


def exact_moments(column):
    """Count, mean and sum of squared deviations in exact arithmetic."""
    values = [Fraction(float(value)) for value in column]
    mean = sum(values) / len(values)
    return float(mean), float(sum((value - mean) ** 2 for value in values))


def assert_moments(found, rows):
    assert found.count == len(rows)
    for channel, column in enumerate(rows.T):
        mean, m2 = exact_moments(column)
        spread = np.ptp(column) + 1e-300
        # An offset of x leaves rounding of about 1e-16 x in every deviation, whatever the algorithm.
        blur = 1e-14 * (np.abs(column).max() + spread)
        assert abs(found.mean[channel] - mean) <= blur
        assert abs(math.sqrt(found.m2[channel] / len(rows)) - math.sqrt(m2 / len(rows))) <= 1e-9 * spread + blur
        assert (found.low[channel], found.high[channel]) == (column.min(), column.max())


@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 60), max_size=6),
    offset=st.sampled_from([0.0, -3.0, 1e9, -1e15]),
    scale=st.sampled_from([1e-3, 1.0, 1e6]),
)
def test_merged_parts_are_the_whole_in_any_order(seed, cuts, offset, scale):
    rows = offset + scale * np.random.default_rng(seed).normal(size=(60, 3))
    parts = [Moments.of(part) for part in np.split(rows, sorted(cuts))]
    assert_moments(merge(parts), rows)
    random.Random(seed).shuffle(parts)
    assert_moments(merge(parts), rows)
    assert_moments(merge([merge(parts[:2]), *parts[2:]]), rows)
    assert_moments(Moments.of(rows), rows)


@pytest.mark.long
def test_more_parts_than_are_merged_at_once_come_as_a_stream():
    rows = np.random.default_rng(1).normal(1e9, 1.0, size=(20_000, 2))
    assert_moments(merge(Moments.of(part) for part in np.split(rows, 10_000)), rows)


@pytest.mark.parametrize("parts", [1, 3, 20_000])
def test_a_large_offset_costs_no_more_than_the_last_bit_of_the_mean(parts):
    offset = 1234567891.2345  # with a full mantissa: sums of it lose bits at every step
    rows = np.random.default_rng(6).normal(offset, 3e-6, size=(100_000, 3))
    found = merge(Moments.of(part) for part in np.array_split(rows, parts))
    apart = (rows - offset).T  # exact: the numbers are neighbours
    means = [math.fsum(column) / len(rows) for column in apart]
    stds = [math.sqrt(math.fsum((column - mean) ** 2) / len(rows)) for column, mean in zip(apart, means, strict=True)]
    np.testing.assert_allclose(found.mean - offset, means, rtol=0, atol=np.spacing(offset))
    np.testing.assert_allclose(np.sqrt(found.m2 / len(rows)), stds, rtol=2e-3)


def test_each_timestep_of_a_lane_is_flattened():
    lane = np.random.default_rng(2).integers(0, 255, size=(9, 2, 3)).astype(np.uint8)
    assert_moments(Moments.of(lane), lane.reshape(9, 6).astype(float))
    scalar = np.array([True, False, True])
    assert_moments(Moments.of(scalar), scalar[:, None].astype(float))


def test_a_lane_without_timesteps_changes_nothing():
    nothing = Moments.of(np.zeros((0, 2, 2), np.float32))
    assert (nothing.count, nothing.mean.shape) == (0, (4,))
    rows = np.random.default_rng(3).normal(size=(5, 4))
    assert_moments(merge([nothing, Moments.of(rows), nothing]), rows)
    still_nothing = merge([nothing, nothing])
    assert (still_nothing.count, still_nothing.mean.tolist()) == (0, [0.0] * 4)


@given(seed=st.integers(0, 2**32 - 1), lengths=st.lists(st.integers(1, 4), min_size=1), channels=st.integers(1, 5))
def test_parts_can_be_given_by_their_spreads(seed, lengths, channels):
    rng = np.random.default_rng(seed)
    parts = [Moments.of(rng.normal(rng.normal() * 100, size=(length, channels))) for length in lengths]
    spreads = [spreads_of(part.table[None], part.count) for part in parts]
    assert spreads[0].shape == (1, channels, 4)
    found = merge_spreads((part.count, one.ravel().tolist()) for part, one in zip(parts, spreads, strict=True))
    expected = merge(parts)
    assert found.count == expected.count
    for name in ("mean", "m2", "low", "high"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12, abs=1e-12)


def test_spreads_are_low_high_mean_and_standard_deviation():
    tables, _ = measure_moments(np.array([[[1.0, 5.0]], [[2.0, 2.0]]]))
    assert spreads_of(tables, 2).tolist() == [[[1.0, 5.0, 3.0, 2.0]], [[2.0, 2.0, 2.0, 0.0]]]


@pytest.mark.parametrize(
    "parts",
    [
        [(1, [1.0, 2.0, 3.0])],
        [(0, [0.0] * 4)],
        [(3, [0.0] * 4), (-1, [0.0] * 4)],
        [(1, [0.0] * 4), (1, [0.0] * 8)],
    ],
)
def test_numbers_that_are_not_spreads_are_refused(parts):
    with pytest.raises(EmbedderError, match="moments to merge: expected 4 numbers per channel and timesteps"):
        merge_spreads(parts)


def test_channels_of_many_episodes_have_the_moments_of_each_alone():
    columns = np.random.default_rng(0).normal(size=(9, 6, 40)).cumsum(axis=-1)
    columns[2, 4, 7], columns[3, 0, 0], columns[4, 5, 39] = np.nan, -np.inf, 1e39
    tables, usable = measure_moments(columns)
    assert np.argwhere(~usable).tolist() == [[2, 4], [3, 0], [4, 5]]
    for episode, table, fine in zip(columns, tables, usable, strict=True):
        assert (table[:, fine] == Moments.of(episode[fine].T).table).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_no_vector_can_hold_are_refused_with_their_place(value):
    lane = np.zeros((5, 2, 2))
    lane[3, 1, 0] = value
    with pytest.raises(EmbedderError, match="timestep 3, channel 2"):
        Moments.of(lane)


@pytest.mark.parametrize("lane", [np.array(["1"]), np.array([1j]), np.array([None]), np.array(3.0)])
def test_lanes_that_are_not_numbers_are_refused(lane):
    with pytest.raises(EmbedderError, match=r"expected real numbers \[T, \.\.\.\]"):
        Moments.of(lane)


def test_the_largest_float32_do_not_overflow():
    largest = float(np.finfo(np.float32).max)
    rows = np.array([[largest], [-largest]], np.float32)
    found = statistics([merge([Moments.of(rows)] * 3)])
    assert (found.mean.tolist(), found.std.tolist()) == ([0.0], [largest])


def test_statistics_put_lanes_side_by_side():
    rng = np.random.default_rng(4)
    state, reward = rng.normal(size=(50, 3)), rng.normal(size=50)
    found = statistics([Moments.of(state), Moments.of(reward)])
    together = np.hstack([state, reward[:, None]])
    assert found.count == 50
    np.testing.assert_allclose(found.mean, together.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.std, together.std(axis=0), rtol=1e-12)


def test_statistics_of_nothing_or_of_unlike_lanes_are_refused():
    empty, short, long = (Moments.of(np.zeros((length, 1))) for length in (0, 3, 4))
    for lanes in ([], [empty], [short, long]):
        with pytest.raises(EmbedderError, match="expected lanes of one count"):
            statistics(lanes)


def test_parts_that_cannot_be_merged_are_refused():
    with pytest.raises(EmbedderError, match="found none"):
        merge([])
    with pytest.raises(EmbedderError, match=r"one number of channels, found \[1, 2\]"):
        merge([Moments.of(np.zeros((3, 1))), Moments.of(np.zeros((3, 2)))])


@pytest.mark.parametrize(
    ("mean", "std", "expected"),
    [
        ([0.0, 5.0], [2.0, 0.0], 0.0),
        ([1.0, 5.0], [2.0, 0.0], 0.5),
        ([0.0, 4.0], [2.0, 0.0], 1.0),  # a constant channel moves by units of 1
        ([0.0, 5.0], [4.0, 0.0], math.log(2)),
        ([0.0, 5.0], [0.5, 0.0], math.log(4)),
        ([0.0, 5.0], [2.0, 1e-7], 0.0),  # both below the floor
        ([0.0, 5.0], [0.0, 3.0], math.log(3)),  # one channel stopped moving, another began to
    ],
)
def test_drift(mean, std, expected):
    frozen = Statistics(9, [0.0, 5.0], [2.0, 0.0])
    assert drift(frozen, Statistics(99, mean, std)) == pytest.approx(expected)


def test_drift_between_unlike_channels_is_refused():
    with pytest.raises(EmbedderError, match="2 channels, found 1"):
        drift(Statistics(1, [0.0, 0.0], [1.0, 1.0]), Statistics(1, [0.0], [1.0]))


def test_z_scores_are_clipped_and_constant_channels_are_not_divided():
    frozen = Statistics(9, [1.0, 5.0, 0.0], [2.0, 0.0, 9e-7])
    rows = np.array([[2.0, 5.5, 3.0], [100.0, -100.0, 0.0]])
    assert standardise(rows, frozen).tolist() == [[0.5, 0.5, 3.0], [5.0, -5.0, 0.0]]


@pytest.mark.parametrize("unit", [1e-3, 1e-9, 1e-20])
def test_where_all_is_small_scores_do_not_depend_on_the_unit(unit):
    rows, std = np.array([[1.0, -2.0, 0.0]]), np.array([0.5, 1.0, 0.0])
    frozen = Statistics(3, np.zeros(3), std)
    small = Statistics(3, np.zeros(3), std * unit)
    assert standardise(rows * unit, small) == pytest.approx(standardise(rows, frozen))
    noise = Statistics(3, np.ones(3), np.full(3, 1e-8))  # of rounding, around a number
    assert standardise(np.ones((1, 3)) + 1e-8, noise) == pytest.approx(0, abs=1e-7)
