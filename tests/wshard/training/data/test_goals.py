"""Goals are those of the original where one generator draws them, and else a function of seed, epoch and clip."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from world_model_sets import expected_values, make_columns, write_hdf5

from wshard.data import ClipLoader, ConcatDataset, GoalDataset, HDF5Dataset, MergeDataset, ReplayBuffer
from wshard.errors import DatasetError
from wshard.training.data.sampler import EpochIndex

ALL = (0.25, 0.25, 0.25, 0.25)


def test_goals_are_those_of_the_original(dataset_fixtures):
    place = dataset_fixtures / "world_model" / "main.h5"
    for case in expected_values(dataset_fixtures)["goal"]:
        data = HDF5Dataset(path=place, num_steps=case["num_steps"], frameskip=case["frameskip"])
        options = (tuple(case["goal_probabilities"]), case["gamma"])
        goals = GoalDataset(data, *options, seed=case["seed"], draws="sequence")
        same = GoalDataset(data, *options, seed=case["seed"], draws="sequence")
        assert (len(data), len(goals)) == (case["base_len"], case["len"])
        for number, *expected, pixels, proprio in case["items[index,ep,start,goal_ep,goal_step,pix_shape,prop_shape]"]:
            assert [*goals.clip_indices[number], *same.goal_of(number)] == expected
            item = goals[number]
            assert [list(item["goal_pixels"].shape), list(item["goal_proprio"].shape)] == [pixels, proprio]
            frame = data.load_chunk([expected[2]], [expected[3]], [expected[3] + 1])[0] if data.frameskip == 1 else None
            assert frame is None or torch.equal(item["goal_pixels"], frame["pixels"])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    place = tmp_path_factory.mktemp("goals") / "a.h5"
    write_hdf5(place, make_columns((12, 9, 14), pixels=0))
    return HDF5Dataset(path=place, num_steps=2, keys_to_load=["count", "action"])


def make(data, **options: object):
    return GoalDataset(data, ALL, 0.7, goal_keys={"count": "goal"}, **{"seed": 4} | options)


def test_workers_and_epochs_draw_other_goals_but_the_same_in_every_run(data):
    drawn = {}
    for workers in (0, 2):
        loader = ClipLoader(make(data), 8, shuffle=True, num_workers=workers)
        drawn[workers] = [[batch["goal"].tolist() for batch in loader] for _ in range(2)]
    assert drawn[0] == drawn[2]
    goals = [np.concatenate(epoch).ravel() for epoch in drawn[0]]
    assert np.mean(goals[0] == goals[1]) < 0.5


@pytest.mark.long
def test_a_plain_loader_with_workers_repeats_no_goals_and_set_epoch_does_it_without(data):
    goals = make(data)
    loader = torch.utils.data.DataLoader(goals, 8, num_workers=2)
    epochs = [torch.cat([batch["goal"] for batch in loader]).ravel() for _ in range(2)]
    assert (epochs[0] == epochs[1]).float().mean() < 0.5
    first = [goals.goal_of(number) for number in range(len(goals))]
    assert first == [goals.goal_of(number) for number in range(len(goals))]
    goals.set_epoch(1)
    assert first != [goals.goal_of(number) for number in range(len(goals))]
    assert goals.goal_of(EpochIndex.of(3, 0)) == first[3]


@given(kind=st.integers(0, 3), num_steps=st.integers(1, 3), frameskip=st.integers(1, 3), seed=st.integers(0, 99))
def test_goals_are_where_their_kind_is(kind, num_steps, frameskip, seed):
    data = ReplayBuffer(60, num_steps, frameskip)
    for length in (5, 9, 14):
        data.write_episode({"count": np.arange(length), "action": np.zeros((length, 2))})
    probabilities = tuple(float(number == kind) for number in range(4))
    goals = GoalDataset(data, probabilities, 0.6, seed=seed)
    for number in range(len(goals)):
        episode, start = goals.clip_indices[number]
        current = start + (num_steps - 1) * frameskip
        found, step = goals.goal_of(number)
        assert 0 <= step < data.lengths[found]
        if kind in (1, 2):
            assert found == episode
            assert step > current
            assert (step - current) % frameskip == 0
        elif kind == 3:
            assert (found, step) == (episode, current)


def test_columns_are_those_of_the_set_as_in_the_original(data):
    assert make(data).column_names == data.column_names
    assert make(data)[0].keys() > {*data.column_names}


def test_goals_over_concatenated_merged_and_replayed_sets(data):
    buffer = ReplayBuffer(100, 2)
    for episode in range(3):
        buffer.write_episode(
            {name: data.column_rows(name, episode, 0, int(data.lengths[episode])) for name in data.column_names}
        )
    first = make(data)
    expected = [first[number]["goal"].tolist() for number in range(10)]
    for other in (ConcatDataset([data]), MergeDataset([data]), buffer):
        found = make(other)
        assert [found[number]["goal"].tolist() for number in range(10)] == expected
    both = make(ConcatDataset([data, data]))
    assert len(both) == 2 * len(make(data))
    assert both[len(both) - 1].keys() == {"count", "action", "goal"}


def test_wrong_probabilities_are_refused_and_no_goals_change_nothing(data):
    for probabilities, message in (((1, 0, 0), "4-tuple"), ((1, 1, 0, 0), r"sum to 1.0")):
        with pytest.raises(ValueError, match=message):
            GoalDataset(data, probabilities)
    wrong = (({"counts": "goal"}, "expected columns of the data set, count"), (["count"], "expected a dict"))
    for keys, message in wrong:
        with pytest.raises(DatasetError, match=message):
            GoalDataset(data, goal_keys=keys)
    plain = GoalDataset(data, goal_keys={})
    assert plain[3].keys() == data[3].keys()
    place = data.episodes.sources[0]._place.uri
    renamed = HDF5Dataset(path=place, transform=lambda item: {"n": item["count"]})
    seen = GoalDataset(renamed, goal_keys={"n": "goal"}, seed=0)
    assert seen[0]["goal"].shape == (1,)
