"""Order and resumption: a function of seed, epoch and rank; windows, returns, splits and spans."""

from __future__ import annotations

import gc
import time
from itertools import islice
from multiprocessing import active_children

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from world_model_sets import make_columns, write_lance

from wshard.data import (
    ClipLoader,
    ClipSampler,
    GoalDataset,
    LanceDataset,
    ReplayBuffer,
    SpanDataset,
    WindowDataset,
    select_episodes,
    split_episodes,
)
from wshard.errors import DatasetError, NoClipsError


def make(lengths=(6, 4, 9), num_steps=2):
    data = ReplayBuffer(500, num_steps)
    for number, length in enumerate(lengths):
        rows = np.arange(length) + 100 * number
        data.write_episode({"x": rows, "action": rows[:, None] * [1.0, 2.0], "reward": rows % 5 + 1.0})
    return data


def batches(loader, epochs):
    return [[batch["x"].tolist() for batch in loader] for _ in range(epochs)]


@given(
    size=st.integers(1, 7),
    stop=st.integers(0, 20),
    options=st.fixed_dictionaries(
        {"seed": st.integers(0, 9), "shuffle": st.booleans(), "drop_last": st.booleans(), "rank": st.integers(0, 1)}
    ),
    weighted=st.booleans(),
)
def test_resuming_anywhere_equals_no_interruption(size, stop, options, weighted):
    data = make()
    options |= {"world_size": 2} | ({"weights": np.arange(1, len(data) + 1)} if weighted else {})
    whole = [batch for epoch in batches(ClipLoader(data, size, **options), 3) for batch in epoch]
    loader, seen = ClipLoader(data, size, **options), []
    stop = min(stop, len(whole))
    while len(seen) < stop:
        seen += [batch["x"].tolist() for batch in islice(iter(loader), stop - len(seen))]
    again = ClipLoader(data, size, **options)
    again.load_state_dict(loader.state_dict())
    while len(seen) < len(whole):
        seen += [batch["x"].tolist() for batch in again]
    assert seen[: len(whole)] == whole


def test_an_epoch_has_every_clip_once_and_every_epoch_its_order():
    data = make()
    for world in (1, 2, 3):
        samplers = [ClipSampler(data, seed=3, rank=rank, world_size=world) for rank in range(world)]
        epochs = [[list(sampler) for sampler in samplers] for _ in range(2)]
        assert len({len(numbers) for epoch in epochs for numbers in epoch}) == 1
        for epoch in epochs:
            assert {number for numbers in epoch for number in numbers} == set(range(len(data)))
        assert epochs[0] != epochs[1]
        assert [list(sampler) for sampler in samplers] != epochs[1]
    assert list(ClipSampler(data, shuffle=False)) == list(range(len(data)))


def test_fewer_clips_than_a_batch_that_is_dropped_are_an_error():
    data = make()
    assert len(ClipLoader(data, len(data), drop_last=True)) == 1
    with pytest.raises(NoClipsError, match=rf"a whole batch of {len(data) + 1}, .* found {len(data)} clips"):
        ClipLoader(data, len(data) + 1, drop_last=True)


def test_workers_change_nothing_and_state_counts_what_was_yielded():
    data = make()
    plain, workers = ClipLoader(data, 3, seed=1), ClipLoader(data, 3, seed=1, num_workers=2)
    assert batches(plain, 2) == batches(workers, 2)
    _ = list(islice(iter(plain), 2)), list(islice(iter(workers), 2))
    assert plain.state_dict() == workers.state_dict()
    assert batches(plain, 1) == batches(workers, 1)


def goals_of(loader):
    return [(batch["x"].tolist(), batch["goal"].tolist()) for batch in loader]


def make_goals():
    return GoalDataset(make((9, 8, 12), num_steps=1), goal_keys={"x": "goal"}, seed=5)


def test_goals_differ_between_epochs():
    goals = make_goals()
    loader = ClipLoader(goals, 5, seed=3)
    epochs = [goals_of(loader) for _ in range(3)]
    drawn = [dict(zip(*(np.concatenate(one).ravel().tolist() for one in zip(*epoch, strict=True)), strict=True))
             for epoch in epochs]  # fmt: skip
    for one, other in ((0, 1), (1, 2), (0, 2)):  # the goal of each clip: half of them are drawn from very few timesteps
        assert sum(drawn[one][clip] != drawn[other][clip] for clip in drawn[one]) > len(goals) / 2


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_goals_anywhere_equals_no_interruption(workers):
    goals, options = make_goals(), {"batch_size": 5, "seed": 3}
    plain = ClipLoader(goals, **options)
    begin, whole = plain.state_dict(), [batch for _ in range(4) for batch in goals_of(plain)]
    loader, again = (
        ClipLoader(goals, num_workers=workers, **options) for _ in range(2)
    )  # whose workers are used again

    @settings(max_examples=12)
    @given(stop=st.integers(0, 13), resumed=st.integers(0, 7))
    def resume(stop, resumed):
        loader.load_state_dict(begin)
        seen = []
        while len(seen) < stop:
            seen += goals_of(islice(iter(loader), stop - len(seen)))
        again.load_state_dict(loader.state_dict())
        while len(seen) < stop + resumed:
            seen += goals_of(islice(iter(again), stop + resumed - len(seen)))
        assert seen == whole[: len(seen)]

    resume()


def test_a_sampler_resumes_in_a_loader_of_torch():
    data = make()
    whole = ClipSampler(data, seed=2)
    numbers = [*whole, *whole]
    sampler = ClipSampler(data, seed=2)
    seen = list(islice(iter(sampler), 5))
    again = ClipSampler(data, seed=2)
    again.load_state_dict(sampler.state_dict())
    assert seen + list(again) + list(again) == numbers
    items = torch.utils.data.DataLoader(data, 4, sampler=ClipSampler(data, seed=2))
    assert torch.cat([batch["x"] for batch in items]).tolist() == [
        data[number]["x"].tolist() for number in numbers[: len(data)]
    ]


def test_states_of_other_orders_are_refused():
    loader = ClipLoader(make(), 3, seed=1)
    state = loader.state_dict()
    for wrong, message in (
        ({"seed": 2}, "seed: expected 1"), ({"batch_size": 4}, "batch_size: expected 3"), ({"length": 9}, "length"),
        ({"epoch": -1}, "epoch and position >= 0"), ({"position": None, "epoch": "x"}, "expected epoch"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=message):
            loader.load_state_dict(state | wrong)
    for options, message in (
        ({"weights": [1.0]}, "expected 16 numbers"), ({"weights": np.zeros(16)}, "above 0"), ({"rank": 1}, "rank"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=message):
            ClipSampler(make(), **options)


def test_clips_of_a_table_are_read_by_workers_that_are_not_forked(tmp_path):
    write_lance(tmp_path / "a.lance", make_columns(pixels=8))
    data = LanceDataset(tmp_path / "a.lance", num_steps=2)
    assert not data.fork_safe
    plain, workers = ClipLoader(data, 4), ClipLoader(data, 4, num_workers=1)
    for one, other in zip(plain, workers, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


# ---- spans and splits ----------------------------------------------------------------------------------------------


def test_spans_have_the_clips_within_them_and_their_weights():
    data = make()
    spans = SpanDataset(data, [(2, 3, 7), (0, 0, None), (1, 1, 2)], weights=[2.0, 0.5, 9.0])
    assert [item["x"].tolist() for item in spans][:3] == [[203, 204], [204, 205], [205, 206]]
    assert spans.clip_weights.tolist() == [2.0] * 3 + [0.5] * 5
    drawn = np.bincount(ClipSampler(spans, seed=0).order(0), minlength=8)
    many = np.sum([np.bincount(ClipSampler(spans, seed=seed).order(0), minlength=8) for seed in range(300)], axis=0)
    assert drawn.sum() == 8
    assert np.allclose(many / many.sum(), np.array([2.0] * 3 + [0.5] * 5) / 8.5, atol=0.03)
    for wrong, message in (([(0, 3, 9)], "expected 0 <= start"), ([(0, 0, 1), (0, 0, 1)], "weights: expected 2")):
        with pytest.raises(DatasetError, match=message):
            SpanDataset(data, wrong, weights=[1.0])
    with pytest.raises(DatasetError, match=r"parts: expected names and shares, .*, found \[0.8, 0.2\]"):
        split_episodes(data, [0.8, 0.2])


@pytest.mark.filterwarnings("ignore:parts.* no episodes")
@given(count=st.integers(1, 30), seed=st.integers(0, 5), share=st.sampled_from([0.0, 0.1, 0.5, 0.8]))
def test_a_split_has_every_episode_once_and_groups_together(count, seed, share):
    data = make([3] * count)
    groups = [number // 2 for number in range(count)]
    parts = split_episodes(data, {"train": share, "val": 1 - share}, seed=seed, groups=groups)
    firsts = {
        name: [int(part.column_rows("x", n, 0, 1)[0]) // 100 for n in range(len(part.lengths))]
        for name, part in parts.items()
    }
    assert sorted(firsts["train"] + firsts["val"]) == list(range(count))
    assert not {n // 2 for n in firsts["train"]} & {n // 2 for n in firsts["val"]}
    assert abs(len(firsts["train"]) - share * count) <= 2
    again = split_episodes(data, {"train": share, "val": 1 - share}, seed=seed, groups=groups)
    assert [part.lengths.tolist() for part in again.values()] == [part.lengths.tolist() for part in parts.values()]
    assert [item["x"][0] for item in select_episodes(data, [0])] == [0, 1]


# ---- windows -------------------------------------------------------------------------------------------------------


def brute_window(rows, step, history, chunk):
    past = [(max(one, 0), one < 0) for one in range(step - history + 1, step + 1)]
    coming = [(min(one, len(rows) - 1), one >= len(rows)) for one in range(step, step + chunk)]
    return [[(rows[place], pad) for place, pad in steps] for steps in (past, coming)]


@given(history=st.integers(1, 4), chunk=st.integers(1, 5), padding=st.sampled_from(["edge", "zero"]))
def test_windows_are_padded_at_the_ends_of_episodes(history, chunk, padding):
    data = make()
    windows = WindowDataset(data, history=history, chunk=chunk, padding=padding)
    assert len(windows) == 19
    number = 0
    for episode in data.episodes():
        for step in range(len(episode["x"])):
            item, (past, coming) = windows[number], brute_window(episode["x"], step, history, chunk)
            assert item["x_is_pad"].tolist() == [pad for _, pad in past]
            assert item["action_is_pad"].tolist() == [pad for _, pad in coming]
            assert item["x"].tolist() == [0 if pad and padding == "zero" else value for value, pad in past]
            actions = [0 if pad and padding == "zero" else value for value, pad in coming]
            assert item["action"][:, 0].tolist() == actions
            number += 1


@given(n_step=st.integers(1, 5), end=st.integers(0, 8), discount=st.sampled_from([0.0, 0.5, 1.0]))
def test_returns_end_with_the_episode(n_step, end, discount):
    data = ReplayBuffer(50)
    rewards, ends = np.arange(1.0, 10.0), np.arange(9) == end
    data.write_episode({"x": np.arange(9), "reward": rewards, "terminated": ends, "action": np.zeros((9, 1))})
    windows = WindowDataset(data, n_step=n_step, discount=discount)
    for step in range(9):
        total, factor = 0.0, 1.0
        for later in range(step, min(step + n_step, 9)):
            total += factor * rewards[later]
            factor *= discount
            if ends[later]:
                factor = 0.0
                break
        item = windows[step]
        assert item["return"] == pytest.approx(total)
        assert item["discount"] == pytest.approx(factor)
        assert item["next_x"].tolist() == [min(step + n_step, 8)]
        assert item["next_x_is_pad"].tolist() == [step + n_step > 8]


def test_wrong_windows_are_refused():
    for options, message in (
        ({"padding": "wrap"}, "'edge' or 'zero'"), ({"history": 0}, "must be positive"), ({"discount": 2}, "0 to 1"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=message):
            WindowDataset(make(), **options)
    data = ReplayBuffer(5)
    data.write_episode({"x": [1]})
    with pytest.raises(DatasetError, match="expected a column 'reward', found x"):
        WindowDataset(data, n_step=1)


@pytest.mark.parametrize("in_a_circle", [False, True])
def test_a_loader_that_is_dropped_in_the_middle_ends_its_workers_at_once(monkeypatch, in_a_circle):
    # Where torch gives up waiting for a worker: after so long that no load of the machine is mistaken for it.
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 60)
    others = active_children()
    loader = ClipLoader(make((40,)), 2, num_workers=2)
    next(batch := iter(loader))
    if in_a_circle:
        circle = [loader, batch]
        circle.append(circle)
        del circle
    workers = [worker for worker in active_children() if worker not in others]
    assert len(workers) == 2
    begun = time.monotonic()
    del loader, batch
    gc.collect()
    assert time.monotonic() - begun < 50
    assert [worker.exitcode for worker in workers] == [0, 0]  # they ended by themselves


def test_batches_of_workers_stay_what_they_are_however_long_they_are_used():
    data = make((40,))
    expected = [batch["x"].tolist() for batch in ClipLoader(data, 2)]
    loader = ClipLoader(data, 2, num_workers=2)
    for batch in loader:  # batches that workers have prefetched are never read
        first = batch
        break
    loader.load_state_dict(ClipLoader(data, 2).state_dict())
    batches = list(loader)  # more than there are slots
    assert [batch["x"].tolist() for batch in batches] == expected
    assert first["x"].tolist() == expected[0]
    loader.load_state_dict(ClipLoader(data, 2).state_dict())
    assert [batch["x"].tolist() for batch in loader] == expected


def test_wrong_numbers_of_workers_are_refused():
    for wrong in (-1, 1.5):
        with pytest.raises(DatasetError, match="num_workers"):
            ClipLoader(make(), num_workers=wrong)
