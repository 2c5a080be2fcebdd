"""Damaged episodes end an epoch, or are left out of it and counted."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

from wshard import WShardError, save_wshard
from wshard.data import ClipLoader, ReplayBuffer, WindowDataset, load_dataset, split_episodes
from wshard.errors import DatasetError, NoClipsWarning, SkippedEpisodeWarning, StaleEpisodeError
from wshard.testing import make_episode


def damaged(folder, count=4, broken=(1,)):
    folder.mkdir()
    for seed in range(count):
        save_wshard(make_episode(seed, T=10), folder / f"{seed}.wshard", compression="zstd")
    data = load_dataset(folder, num_steps=2)
    for seed in broken:
        path = folder / f"{seed}.wshard"
        content = bytearray(path.read_bytes())
        content[len(content) // 3 :] = bytes(len(content) - len(content) // 3)
        path.write_bytes(content)
    return data


@pytest.mark.parametrize("workers", [0, 2])
def test_clips_of_a_damaged_episode_are_left_out_and_counted(tmp_path, workers):
    data = damaged(tmp_path / "files")
    with pytest.raises((WShardError, OSError)):
        list(ClipLoader(data, 7))
    loader = ClipLoader(data, 7, seed=1, num_workers=workers, on_error="skip")
    with pytest.warns(SkippedEpisodeWarning, match=r"left out of training: .*1\.wshard") as caught:
        sizes = [len(batch["action"]) for batch in loader]
    assert sum(warning.category is SkippedEpisodeWarning for warning in caught) == 1
    assert sum(sizes) == 27
    assert sum(loader.skipped.values()) == 9
    with warnings.catch_warnings():
        warnings.simplefilter("error", SkippedEpisodeWarning)
        assert sum(len(batch["action"]) for batch in loader) == 27
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (2, 0)


@pytest.mark.parametrize("reads", [lambda data: data, copy.deepcopy], ids=["here", "by a worker"])
@pytest.mark.parametrize("steps", [6, 30])
def test_an_episode_of_another_length_than_before_is_stale(tmp_path, steps, reads):
    data = reads(damaged(tmp_path / "files", broken=()))
    save_wshard(make_episode(9, T=steps), tmp_path / "files" / "1.wshard")
    message = rf"1\.wshard: expected 10 timesteps as when the data set was made, found {steps}: make the data set anew"
    for read in (
        lambda: data.get_col_data("action"),
        lambda: list(WindowDataset(data)),
        lambda: list(ClipLoader(data)),
    ):
        with pytest.raises(StaleEpisodeError, match=message):
            read()
    with pytest.warns(SkippedEpisodeWarning, match=message):
        assert sum(len(batch["action"]) for batch in ClipLoader(data, 7, on_error="skip")) == 27


def test_an_episode_without_a_lane_of_the_first_is_refused_with_advice(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for seed in range(2):
        episode = make_episode(seed, T=10)
        if seed:
            episode.observations.pop("joint_pos")
        save_wshard(episode, folder / f"{seed}.wshard")
    with pytest.raises(DatasetError, match=r"1\.wshard: expected a lane 'signal/joint_pos' .* by keys_to_load, or"):
        list(ClipLoader(load_dataset(folder, num_steps=2)))


def test_an_epoch_without_anything_to_read_is_an_error(tmp_path):
    data = damaged(tmp_path / "files", 2, (0, 1))
    with pytest.warns(SkippedEpisodeWarning), pytest.raises(DatasetError, match="expected clips that can be read"):
        list(ClipLoader(data, 4, on_error="skip"))
    with pytest.raises(DatasetError, match="on_error: expected 'raise' or 'skip', found 'ignore'"):
        ClipLoader(data, 4, on_error="ignore")


def test_whole_batches_of_damaged_clips_are_passed_over(tmp_path):
    data = damaged(tmp_path / "files", 3, (1,))
    loader = ClipLoader(data, 9, shuffle=False, on_error="skip")
    with pytest.warns(SkippedEpisodeWarning):
        batches = list(loader)
    assert [len(np.asarray(batch["action"])) for batch in batches] == [9, 9]


def test_parts_of_a_split_without_episodes_are_named():
    buffer = ReplayBuffer(30)
    for _ in range(3):
        buffer.write_episode({"x": np.arange(4), "action": np.zeros((4, 1))})
    with pytest.warns(NoClipsWarning, match="parts: no episodes for 'test': found 3 episodes in 3 groups"):
        parts = split_episodes(buffer, {"train": 0.9, "test": 0.1, "none": 0.0})
    assert [len(part.lengths) for part in parts.values()] == [3, 0, 0]
    with pytest.warns(NoClipsWarning, match="no episodes for 'val': found 3 episodes in 1 group"):
        split_episodes(buffer, {"train": 0.8, "val": 0.2}, groups=["a"] * 3)
