"""Sources are found by two groups of means and spreads, or by labels, and nothing else is taken for them."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.spaces.labelled_sources import find_labelled
from bridge.spaces.source_labels import source_labels
from bridge.spaces.sources import SampledLane
from bridge.spaces.unlabelled_sources import find_source
from wshard.core.episode.protocol import EpisodeAddress

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
    source = find_source(SampledLane(episodes))
    smaller = others if others.sum() <= 30 else ~others
    shared = [source.to_shared(rows) for rows in episodes]
    assert [after is not before for before, after in zip(episodes, shared, strict=True)] == smaller.tolist()
    expected = performances() if others.sum() <= 30 else [rows * SCALES + OFFSETS for rows in performances()]
    size = np.concatenate(expected).std(axis=0)
    assert max(np.abs((a - b) / size).max() for a, b in zip(shared, expected, strict=True)) < 0.2


@pytest.mark.parametrize("seed", range(5))
def test_episodes_of_one_source_show_none(seed):
    assert find_source(SampledLane(performances(seed=seed))) is None


def test_tasks_of_another_size_are_no_source():
    assert (
        find_source(SampledLane([rows * SCALES if n % 6 < 3 else rows for n, rows in enumerate(performances())]))
        is None
    )


def test_sizes_that_vary_freely_are_no_source():
    sizes = np.exp(np.random.default_rng(2).normal(size=60))
    assert find_source(SampledLane([rows * size for rows, size in zip(performances(), sizes, strict=True)])) is None


def test_few_episodes_or_channels_show_none():
    episodes, _ = mixed(0.5)
    assert find_source(SampledLane(episodes[:20])) is None
    assert find_source(SampledLane([rows[:, :2] for rows in episodes])) is None
    assert find_source(SampledLane([np.tile(rows, 17) for rows in episodes])) is None  # nor do very many
    assert find_source(SampledLane([np.zeros((9, 3))] * 30)) is None


def test_a_spike_hides_no_source():
    episodes, _ = mixed(0.5)
    episodes[7] = episodes[7].copy()
    episodes[7][3] = 1e5
    assert np.median(find_source(SampledLane(episodes)).ratios) == pytest.approx(3, rel=0.1)


def of_free_size(count=80):
    """Return performances of any size, which show no source by themselves."""
    sizes = np.exp(np.random.default_rng(2).normal(size=count))
    return [rows * size for rows, size in zip(performances(count), sizes, strict=True)]


def labelled(values, field="meta.robot"):
    return [{"env": "kitchen", field: value} for value in values]


def test_a_source_is_found_among_episodes_of_any_size():
    is_leg = np.random.default_rng(3).random(80) < 0.4
    episodes = [rows * SCALES + 9 if leg else rows for rows, leg in zip(of_free_size(), is_leg, strict=True)]
    found = find_source(SampledLane(episodes))
    np.testing.assert_allclose(found.ratios, SCALES, rtol=0.25)


def test_labels_tell_sources_of_episodes_of_any_size():
    plain, is_leg = of_free_size(), np.random.default_rng(3).random(80) < 0.4
    episodes = [rows * SCALES + 9 if leg else rows for rows, leg in zip(plain, is_leg, strict=True)]
    labels = labelled(np.where(is_leg, "leg", "arm").tolist())
    (source,) = find_labelled(SampledLane(episodes), labels)
    assert (source.field, source.labels, source.usual_labels) == ("meta.robot", ("leg",), ("arm",))
    for rows, before, label, leg in zip(episodes, plain, labels, is_leg, strict=True):
        shared = source.to_shared(rows, label)
        assert (shared is not rows) == leg
        assert np.abs(shared - before).max() < 0.3 * before.std() + 0.3


def test_folders_of_one_robot_have_one_scale():
    folders = np.random.default_rng(3).choice(["arm", "leg", "old arm", "old leg"], 80)
    large = np.isin(folders, ["leg", "old leg"])
    episodes = [rows * SCALES if leg else rows for rows, leg in zip(performances(80), large, strict=True)]
    (source,) = find_labelled(SampledLane(episodes), labelled(folders.tolist(), "folder"))
    assert {frozenset(source.labels), frozenset(source.usual_labels)} == {
        frozenset({"arm", "old arm"}),
        frozenset({"leg", "old leg"}),
    }


def test_each_of_three_robots_has_its_scale():
    plain, robots = performances(90), np.random.default_rng(4).integers(0, 3, 90)
    episodes = [rows * 4.0**robot + robot for rows, robot in zip(plain, robots, strict=True)]
    sources = find_labelled(SampledLane(episodes), labelled(map(str, robots)))
    usual = ({"0", "1", "2"} - {one.labels[0] for one in sources}).pop()
    for one in sources:
        power = int(one.labels[0]) - int(usual)
        np.testing.assert_allclose(one.ratios, 4.0**power, rtol=0.1)
    assert len(sources) == 2


@pytest.mark.parametrize(
    "label",
    [
        lambda number: number % 6,  # tasks
        lambda number: number % 6 < 3,
        lambda number: number % 6 == 1,
        lambda number: number // 20,  # days
        lambda number: number,
        lambda number: number < 60,
    ],
)
def test_labels_of_tasks_and_days_are_no_sources(label):
    for episodes in (performances(), [rows * SCALES if n % 6 < 3 else rows for n, rows in enumerate(performances())]):
        assert find_labelled(SampledLane(episodes), labelled(str(label(number)) for number in range(60))) == ()
    assert find_labelled(SampledLane(episodes), [{}] * 60) == ()


def test_labels_of_a_source_are_its_robot_place_environment_and_folders():
    metadata = {"task": "pick", "robot": {"name": "arm 3", "load": 2}, "robot_type": "b", "site": 7, "robots": "x"}
    labels = source_labels(metadata, "kitchen", EpisodeAddress("/data/lab/a/3.wshard"))
    assert labels == {
        "meta.robot.name": "arm 3",
        "meta.robot_type": "b",
        "meta.site": "7",
        "env": "kitchen",
        "folder": "a",
        "folder above": "lab",
        "folder above both": "data",
    }
    assert source_labels({}, "", EpisodeAddress("/lab/set.h5", "demo_1"))["folder"] == "set.h5"
    assert source_labels({}, "", None) == {}
