"""Iterations are independent: of those that were left, of others at the same time, of episodes that come later."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch

from wshard.data import (
    ClipLoader,
    ClipSampler,
    ConcatDataset,
    GoalDataset,
    ReplayBuffer,
    WindowDataset,
    collate,
    select_episodes,
)
from wshard.errors import DatasetError, NoClipsError


def make(*lengths: int, size=200):
    buffer = ReplayBuffer(size, seed=0)
    for number, length in enumerate(lengths):
        write(buffer, number, length)
    return buffer


def write(buffer, number, length):
    buffer.write_episode({"x": np.arange(length) + 1000 * number, "action": np.zeros((length, 1))})


def numbers(batch):
    return np.asarray(batch["x"]).ravel().tolist()


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iteration_after_one_that_was_left_begins_the_next_epoch(workers):
    loader = ClipLoader(make(12), 5, num_workers=workers, seed=3)
    epochs = [[numbers(batch) for batch in ClipLoader(make(12), 5, seed=3)]]
    assert [numbers(batch) for batch in islice(loader, 2)] == epochs[0][:2]
    left = loader.state_dict()
    again = [numbers(batch) for batch in loader]
    assert sorted(number for batch in again for number in batch) == [*range(12)]
    assert again[:2] != epochs[0][:2]
    resumed = ClipLoader(make(12), 5, seed=3)
    resumed.load_state_dict(left)
    assert [numbers(batch) for batch in resumed] == epochs[0][2:]
    assert [numbers(batch) for batch in resumed] == again


def test_iterations_at_the_same_time_have_positions_of_their_own():
    loader = ClipLoader(make(12), 5, shuffle=False)
    pairs = [(numbers(one), numbers(other)) for one, other in zip(loader, loader, strict=True)]
    assert pairs == [([*part], [*part]) for part in (range(5), range(5, 10), range(10, 12))]
    sampler = ClipSampler(make(4), shuffle=False)
    assert [*zip(sampler, sampler, strict=True)] == [(number, number) for number in range(4)]
    workers = ClipLoader(make(12), 5, num_workers=1)
    first = iter(workers)
    assert next(first)
    assert next(iter(workers))
    with pytest.raises(DatasetError, match="one iteration at a time with workers"):
        next(first)


def test_batches_are_drawn_from_the_episodes_that_a_buffer_has_then():
    buffer = make(10, size=60)
    loader, sampler = ClipLoader(buffer, 10, seed=1), ClipSampler(buffer, seed=1)
    assert max(numbers(next(iter(loader)))) < 10
    write(buffer, 1, 50)
    drawn = numbers(next(iter(loader)))
    assert np.mean(np.array(drawn) >= 1000) > 0.5
    assert sorted(sampler) == [*range(60)]
    batches = iter(loader)
    assert len(loader) == 6
    assert next(batches)
    write(buffer, 2, 60)  # which evicts both others
    assert {number // 1000 for batch in batches for number in numbers(batch)} == {2}
    buffer.clear()
    with pytest.raises(NoClipsError, match="there are no episodes"):
        next(iter(loader))


def test_workers_read_the_buffer_as_it_is_when_an_epoch_begins():
    buffer = make(10)
    loader = ClipLoader(buffer, 5, num_workers=2)
    assert sorted(number for batch in loader for number in numbers(batch)) == [*range(10)]
    write(buffer, 1, 5)
    assert sorted(number for batch in loader for number in numbers(batch)) == [*range(10), *range(1000, 1005)]


@pytest.mark.parametrize(
    "derive",
    [
        lambda data: GoalDataset(data, goal_keys={"x": "goal"}),
        lambda data: ConcatDataset([data, data]),
        WindowDataset,
        lambda data: select_episodes(data, [0]),
    ],
)
def test_sets_made_of_a_buffer_that_has_changed_are_refused(derive):
    buffer = make(10, 5)
    derived = derive(buffer)
    assert len(derived[0]) >= 2
    write(buffer, 2, 5)
    for read in (lambda: derived[0], lambda: derived.load_episode(0), lambda: derived.get_col_data("x")):
        with pytest.raises(DatasetError, match="make it anew after writing"):
            read()


@pytest.mark.parametrize("options", [{}, {"num_workers": 2}, {"num_workers": 2, "persistent_workers": True}])
def test_a_plain_loader_draws_other_goals_in_every_epoch(options):
    goals = GoalDataset(make(12, 9, 14), (0, 0, 1, 0), goal_keys={"x": "goal"}, seed=0)
    loader = torch.utils.data.DataLoader(goals, 8, **options)
    epochs = [torch.cat([batch["goal"] for batch in loader]).ravel() for _ in range(3)]
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert (epochs[one] == epochs[other]).float().mean() < 0.6


def test_goals_of_plain_loaders_in_one_process_are_the_same_in_every_run():
    drawn = []
    for _ in range(2):
        goals = GoalDataset(make(12, 9, 14), (0, 0, 1, 0), goal_keys={"x": "goal"}, seed=0)
        loader = torch.utils.data.DataLoader(goals, 8)
        drawn.append([[batch["goal"].tolist() for batch in loader] for _ in range(2)])
    assert drawn[0] == drawn[1]
    assert goals[3]["goal"][0] == goals.dataset.column_rows("x", *goals.goal_of(3), goals.goal_of(3)[1] + 1)[0]


def test_a_state_behind_workers_of_torch_needs_the_count_of_clips():
    buffer = make(200)
    sampler = ClipSampler(buffer, seed=0)
    loader = torch.utils.data.DataLoader(buffer, 5, sampler=sampler, collate_fn=collate, num_workers=2)
    got = [number for batch in islice(loader, 3) for number in numbers(batch)]
    with pytest.raises(DatasetError, match=r"worker processes are ahead .* state_dict\(clips=...\)"):
        sampler.state_dict()
    resumed = ClipSampler(buffer, seed=0)
    resumed.load_state_dict(sampler.state_dict(clips=len(got)))
    assert got + list(resumed) == list(ClipSampler(buffer, seed=0))
    plain = ClipSampler(buffer, seed=0)
    list(islice(torch.utils.data.DataLoader(buffer, 5, sampler=plain, collate_fn=collate), 3))
    assert plain.state_dict() == sampler.state_dict(clips=15)
