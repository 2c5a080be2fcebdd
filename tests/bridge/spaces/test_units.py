"""Lanes in two units are found by their sizes, and nothing else is taken for one."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.spaces.units import find_unit
from embedders.units import RATIOS


def spreads(episodes):
    return [np.stack([x.min(0), x.max(0), x.mean(0), x.std(0)], axis=1).ravel().tolist() for x in episodes]


def walks(count, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(count, 50, channels)) / 9
    return [*rng.normal(2, 0.3, (count, 1, channels)) + np.cumsum(steps, axis=1)]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("others", [5, 20, 35])
def test_the_unit_of_some_episodes_is_found(ratio, others):
    episodes = [rows * ([ratio, ratio, 1] if n < others else 1) for n, rows in enumerate(walks(40))]
    unit = find_unit(spreads(episodes))
    assert unit.channels == (0, 1)
    assert unit.ratio == (ratio if others <= 20 else 1 / ratio)
    changed = [n for n, rows in enumerate(episodes) if unit.to_shared(rows) is not rows]
    assert changed == [*(range(others) if others <= 20 else range(others, 40))]


def test_a_spike_hides_no_unit_and_is_none():
    episodes = walks(40)
    episodes[0][7] = 1e6
    assert find_unit(spreads(episodes)) is None
    mixed = [rows * 1000 if n % 3 == 1 else rows for n, rows in enumerate(episodes)]
    assert find_unit(spreads(mixed)).ratio == 1000


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows * 3,  # another robot
        lambda rows: rows.mean(axis=0) + 0.001 * (rows - rows.mean(axis=0)),  # at rest
        lambda rows: rows + 1000,  # elsewhere
        lambda rows: rows * [300, 30, 10],
        lambda rows: rows * 0,
    ],
)
def test_what_differs_otherwise_is_no_unit(change):
    assert find_unit(spreads([change(rows) if n % 2 else rows for n, rows in enumerate(walks(40))])) is None


def test_joints_at_their_limits_are_in_no_other_unit():
    """A robot that lies still is calmer in all channels, in some by a factor that is that of a unit by chance."""
    calmer = [1, 0.1, 0.25, 0.001, 0.001, 0.15, 0.1, 0.01]
    episodes = [rows * (calmer if n < 5 else 1) for n, rows in enumerate(walks(60, 8))]
    assert find_unit(spreads(episodes)) is None
    in_mm = [rows * ([1, 1, 1, 0.001, 0.001, 1, 1, 1] if n < 5 else 1) for n, rows in enumerate(walks(60, 8))]
    assert find_unit(spreads(in_mm)).channels == (3, 4)


def test_few_episodes_show_no_unit():
    assert find_unit(spreads([rows * 1000 if n % 2 else rows for n, rows in enumerate(walks(6))])) is None
    assert find_unit([]) is None
    assert find_unit(spreads([np.ones((5, 2))] * 20)) is None


def test_channels_without_units_are_left_out():
    episodes = [rows * 1000 if n % 2 else rows for n, rows in enumerate(walks(40, 4))]
    assert find_unit(spreads(episodes), {1, 3}).channels == (0, 2)
