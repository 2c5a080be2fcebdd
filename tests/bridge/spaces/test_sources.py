"""Two sources are found by episodes that do the same in two scales, and nothing else is taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.spaces.sources import find_source

SCALES, OFFSETS = np.array([3.0, 2.5, 3.0, 3.5]), np.array([1.0, -2.0, 0.0, 4.0])


def performances(count=60, tasks=6, seed=0):
    """Return noisy performances of several tasks, at different speeds."""
    rng = np.random.default_rng(seed)
    turns, phases = rng.uniform(0.5, 2, (tasks, 4)), rng.uniform(0, 6, (tasks, 4))
    found = []
    for number in range(count):
        clock = np.linspace(0, 1, 40)[:, None] ** rng.uniform(0.9, 1.1)
        rows = np.sin(6 * turns[number % tasks] * clock + phases[number % tasks]) * (1 + number % tasks)
        found.append(rows + 0.05 * rng.normal(size=rows.shape) + 0.1 * rng.normal(size=4))
    return found


def mixed(share):
    others = np.random.default_rng(1).random(60) < share
    rows = [rows * SCALES + OFFSETS if other else rows for rows, other in zip(performances(), others, strict=True)]
    return rows, others


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_the_smaller_source_is_found_and_converted(share):
    episodes, others = mixed(share)
    source = find_source(episodes)
    smaller = others if others.sum() <= 30 else ~others
    shared = [source.to_shared(rows) for rows in episodes]
    assert [after is not before for before, after in zip(episodes, shared, strict=True)] == smaller.tolist()
    expected = performances() if others.sum() <= 30 else [rows * SCALES + OFFSETS for rows in performances()]
    size = np.concatenate(expected).std(axis=0)
    assert max(np.abs((a - b) / size).max() for a, b in zip(shared, expected, strict=True)) < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_episodes_of_one_source_show_none(seed):
    assert find_source(performances(seed=seed)) is None


def test_tasks_of_another_size_are_no_source():
    assert find_source([rows * SCALES if n % 6 < 3 else rows for n, rows in enumerate(performances())]) is None


def test_sizes_that_vary_freely_are_no_source():
    sizes = np.exp(np.random.default_rng(2).normal(size=60))
    assert find_source([rows * size for rows, size in zip(performances(), sizes, strict=True)]) is None


def test_few_episodes_or_channels_show_none():
    episodes, _ = mixed(0.5)
    assert find_source(episodes[:20]) is None
    assert find_source([rows[:, :1] for rows in episodes]) is None
    assert find_source([np.tile(rows, 17) for rows in episodes]) is None  # nor do very many
    assert find_source([np.zeros((9, 3))] * 30) is None


def test_a_spike_hides_no_source():
    episodes, _ = mixed(0.5)
    episodes[7] = episodes[7].copy()
    episodes[7][3] = 1e5
    assert np.median(find_source(episodes).ratios) == pytest.approx(3, rel=0.1)
