"""Data sets made of others: transforms, weights and columns reach their items; wrong arguments are named."""

from __future__ import annotations

import numpy as np
import pytest
from world_model_sets import make_columns, write_hdf5

from wshard.data import (
    ClipLoader,
    ClipSampler,
    ConcatDataset,
    Dataset,
    GoalDataset,
    HDF5Dataset,
    MergeDataset,
    SpanDataset,
    WindowDataset,
    column_normalizer,
    select_episodes,
    split_episodes,
)
from wshard.errors import DatasetError, EntryNotFoundError, NoClipsError, StepError


@pytest.fixture
def place(tmp_path):
    write_hdf5(tmp_path / "a.h5", make_columns())
    return tmp_path / "a.h5"


def negate(item):
    assert item["action"].shape[-1] == 2  # before the actions of skipped timesteps stand side by side
    return {**item, "action": -item["action"]}


MADE = {
    "concat": lambda data: ConcatDataset([data, data]),
    "merge": lambda data: MergeDataset([data, data]),
    "span": lambda data: SpanDataset(data, [(1, 0, None), (0, 1, None)]),
    "split": lambda data: split_episodes(data, {"all": 1.0})["all"],
    "goal": lambda data: GoalDataset(data, goal_keys={"action": "goal"}, seed=0),
    "all": lambda data: GoalDataset(select_episodes(ConcatDataset([data]), [1, 0]), goal_keys={}, seed=0),
}


@pytest.mark.parametrize("name", MADE)
def test_a_transform_is_applied_wherever_it_is_set(place, name):
    data = HDF5Dataset(path=place, num_steps=2, frameskip=2)
    plain = [MADE[name](data), MADE[name](HDF5Dataset(path=place, num_steps=2, frameskip=2))]
    expected = [one["action"] for one in plain[0]]
    whole = plain[0].load_episode(0)["action"]
    inside = MADE[name](HDF5Dataset(path=place, num_steps=2, frameskip=2, transform=negate))
    outside, twice = plain[1], MADE[name](HDF5Dataset(path=place, num_steps=2, frameskip=2, transform=negate))
    outside.transform = twice.transform = negate
    for found, sign in ((inside, -1), (outside, -1), (twice, 1)):
        assert all((one["action"] == sign * row).all() for one, row in zip(found, expected, strict=True))
        assert (found.load_episode(0)["action"] == sign * whole).all()
        if "goal" in found[0]:
            found.set_epoch(0), plain[0].set_epoch(0)
            goals = zip(found, plain[0], strict=True)
            assert all((one["goal"] == sign * other["goal"]).all() for one, other in goals)


def test_a_window_is_transformed_and_so_are_normalized_columns_of_several_sets(place):
    windows = WindowDataset(HDF5Dataset(path=place), chunk=3)
    expected = windows[0]["action"]
    windows.transform = negate
    assert (windows[0]["action"] == -expected).all()
    both = ConcatDataset([HDF5Dataset(path=place), HDF5Dataset(path=place)])
    both.transform = column_normalizer(both, "action", "action")
    found = np.concatenate([np.asarray(item["action"]) for item in both])
    assert np.allclose(found.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(found.std(axis=0), 1, atol=1e-5)


@pytest.mark.parametrize("name", ["concat", "span", "split", "all"])
def test_windows_stay_windows(place, name):
    windows = WindowDataset(HDF5Dataset(path=place), history=2, chunk=3)
    found = MADE[name](windows)
    assert found[0].keys() == windows[0].keys()
    assert found[0]["action"].shape == (3, 2)
    assert found[0]["action_is_pad"].shape == (3,)
    first = int(windows.lengths[0]) if name in ("span", "all") else 0
    assert (found[0]["action"] == windows[first]["action"]).all()
    assert next(iter(ClipLoader(found, 2)))["action"].shape == (2, 3, 2)


def test_columns_of_transforms_and_windows_can_be_merged(place):
    data = HDF5Dataset(path=place, transform=lambda item: {**item, "n": item["action"] * 2})
    merged = MergeDataset([data, WindowDataset(HDF5Dataset(path=place), chunk=2)], [["n"], ["action", "action_is_pad"]])
    assert merged[0].keys() == {"n", "action", "action_is_pad"}
    assert (merged[0]["n"] == 2 * merged[0]["action"][:1]).all()


def test_goals_are_made_last(place):
    goals = GoalDataset(HDF5Dataset(path=place), goal_keys={"action": "goal"}, seed=0)
    for make in MADE.values():
        with pytest.raises(DatasetError, match="without goals: make the GoalDataset last"):
            make(goals)
    with pytest.raises(DatasetError, match="make the GoalDataset last"):
        WindowDataset(goals)


def test_a_transform_that_returns_no_item_is_named(place):
    data = HDF5Dataset(path=place, transform=dict.clear)
    with pytest.raises(DatasetError, match="transform: expected it to return an item, a dict of columns, found None"):
        data[0]


def test_weights_of_spans_reach_every_set_that_is_made_of_them(place):
    data = HDF5Dataset(path=place, num_steps=2)
    spans = SpanDataset(data, [(0, 0, None), (1, 0, None)], weights=[0.0, 2.0])
    first = len(select_episodes(data, [0]))
    made = [MADE[name](spans) for name in ("merge", "goal", "split")] + [WindowDataset(spans)]
    for one in (*made, select_episodes(spans, [0, 1])):
        assert set(one.clip_weights) == {0.0, 2.0}
        assert len(one.clip_weights) == len(one)
        assert min(ClipSampler(one, seed=0)) >= np.flatnonzero(one.clip_weights)[0] > 0
    both = ConcatDataset([spans, data])
    assert both.clip_weights.tolist() == [*spans.clip_weights, *[1.0] * len(data)]
    assert both.clip_weights[:first].tolist() == [0.0] * first
    assert ConcatDataset([data, data]).clip_weights is None


def test_what_has_no_clips_says_why(place):
    data = HDF5Dataset(path=place, num_steps=10**20)
    longest = int(data.lengths.max())
    with pytest.raises(StepError, match=f"clip 0: no clips of 1{'0' * 20} timesteps: the longest .* has {longest}"):
        data[0]
    with pytest.raises(NoClipsError, match=r"no clips of 10{20} timesteps \(num_steps 10{20} \* frameskip 1\)"):
        ClipLoader(data, 4)
    goals = GoalDataset(HDF5Dataset(path=place), (0, 0, 0, 1), current_goal_offset=999, goal_keys={})
    with pytest.raises(NoClipsError, match=f"no clips of 999 timesteps: the longest of .* has {longest}"):
        ClipLoader(goals)
    with pytest.raises(DatasetError, match=r"expected a Dataset \(see load_dataset\), found"):
        ClipLoader("a.h5")


def test_a_state_belongs_to_its_clips(place):
    data = HDF5Dataset(path=place, num_steps=2)
    state = ClipLoader(data, 4).state_dict()
    ClipLoader(HDF5Dataset(path=place, num_steps=2), 4).load_state_dict(state)
    for other in (select_episodes(data, [2, 1, 0]), MergeDataset([data])):
        assert len(other) == len(data)
        with pytest.raises(DatasetError, match="state: clips: expected"):
            ClipLoader(other, 4).load_state_dict(state)
    with pytest.raises(DatasetError, match="state: clips: expected"):
        ClipLoader(data, 4, weights=np.ones(len(data))).load_state_dict(state)
    for wrong in ({"position": -1}, {"position": "a"}, {"position": len(data) + 1}, {"epoch": None}):
        with pytest.raises(DatasetError, match="epoch and position >= 0"):
            ClipLoader(data, 4).load_state_dict(state | wrong)
    with pytest.raises(DatasetError, match="state: expected that of state_dict, found None"):
        ClipLoader(data, 4).load_state_dict(None)


def test_wrong_arguments_are_named(place):
    data: Dataset = HDF5Dataset(path=place)
    wrong = (
        (lambda: GoalDataset(data, goal_keys={"action": "action"}), "expected a new name for the goal of 'action'"),
        (lambda: GoalDataset(data, goal_keys={"action": None}), "expected a new name for the goal of 'action'"),
        (lambda: GoalDataset(data, (2, -1, 0, 0)), "must be >= 0 and sum to 1.0"),
        (lambda: GoalDataset(data, gamma=2), "gamma: expected 0 to 1, found 2"),
        (lambda: GoalDataset(data, current_goal_offset=-1), "current_goal_offset must be positive"),
        (lambda: GoalDataset(data, draws="none"), "draws: expected 'index' or 'sequence', found 'none'"),
        (lambda: GoalDataset(data, seed=-1), "seed: expected at least 0"),
        (lambda: GoalDataset(data, seed=0).set_epoch(1.5), "epoch: expected a whole number"),
        (lambda: WindowDataset(data, n_step=1.5), "n_step: expected a whole number, found 1.5"),
        (lambda: WindowDataset(data, discount=None), "discount: expected a finite number, found None"),
        (lambda: SpanDataset(data, [(99, 0, None)]), r"expected \(episode, start, stop\) with an episode below"),
        (lambda: SpanDataset(data, [(0, 0)]), r"expected \(episode, start, stop\)"),
        (lambda: SpanDataset(data, [(0, 0.5, 2)]), "expected 0 <= start <= stop"),
        (lambda: SpanDataset(data, [(0, 0, 1)], ["a"]), "weights: expected 1 number >= 0"),
        (lambda: SpanDataset(data, [(0, 0, 1)], [np.nan]), "weights: expected finite numbers >= 0, .* found nan"),
        (lambda: select_episodes(data, [-1]), "with an episode below"),
        (lambda: select_episodes(data, ["0"]), "episodes: expected a whole number, found '0'"),
        (lambda: split_episodes(data, {"a": "x"}), "parts: 'a': expected a finite number, found 'x'"),
        (lambda: split_episodes(data, {"a": 1}, seed=-1), "seed: expected at least 0"),
        (lambda: ClipSampler(data, rank="0"), "rank: expected a whole number, found '0'"),
        (lambda: ClipSampler(data, seed=None), "seed: expected a whole number, found None"),
        (lambda: ClipSampler(-5), "clips: expected at least 0, found -5"),
        (lambda: ConcatDataset([data, 3]), "datasets: expected a list of data sets"),
        (lambda: MergeDataset([data, data], [["action"]]), "keys_from_dataset: expected the columns of each of 2"),
        (lambda: MergeDataset([data, data], ["action", "reward"]), "keys_from_dataset: expected the columns of each"),
    )
    for call, message in wrong:
        with pytest.raises(DatasetError, match=message):
            call()
    wrong = (
        (lambda: data.load_chunk([0], [0.5], [2]), "load_chunk: expected a whole number, found 0.5"),
        (lambda: data.load_episode("0"), "expected an episode below 3, found '0'"),
        (lambda: data.read_episode(-1), "expected an episode below 3, found -1"),
        (lambda: data.get_row_data([1.5]), "expected whole numbers of rows, found"),
        (lambda: data.column_rows("action", 0, 0, 99), "episode 0: expected 0 <= start <= stop <= 3, found 0 and 99"),
        (lambda: data.column_rows("action", 3, 0, 1), "expected an episode below 3, found 3"),
    )
    for call, message in wrong:
        with pytest.raises(StepError, match=message):
            call()
    with pytest.raises(EntryNotFoundError, match="no column 'nope'"):
        MergeDataset([data, data], [["action"], ["nope"]])
