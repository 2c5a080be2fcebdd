"""Files that other labs write much as robomimic, ALOHA and Minari do: each is read by what it has, not by its names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
import pytest

from wshard import list_episodes, open_episode
from wshard.formats.detect import detect_format

if TYPE_CHECKING:
    from pathlib import Path

STATES, ACTIONS = np.arange(42.0).reshape(6, 7), np.arange(12.0, dtype=np.float32).reshape(6, 2)

VARIANTS = {
    "demo_{}/observations/qpos, demo_{}/actions": ("layout:demo-groups", "signal/qpos", "action/actions"),
    "episode_{}/observations/qpos, episode_{}/actions": ("layout:demo-groups", "signal/qpos", "action/actions"),
    "traj_{}/observation/qpos, traj_{}/action": ("layout:demo-groups", "signal/qpos", "action/action"),
    "demo_{}/states, demo_{}/actions": ("layout:demo-groups", "signal/states", "action/actions"),
    "data/episode_{}/obs/qpos, data/episode_{}/actions": ("robomimic", "signal/qpos", "action/actions"),
    "data/demo_{}/obs/qpos, data/demo_{}/action": ("robomimic", "signal/qpos", "action/action"),
    "observations/qpos, actions": ("aloha", "signal/qpos", "action/actions"),
    "observations/qpos, action/joints": ("aloha", "signal/qpos", "action/action/joints"),
}


@pytest.mark.parametrize("paths", VARIANTS)
def test_files_are_read_by_what_they_have(tmp_path: Path, paths: str) -> None:
    states, actions = paths.split(", ")
    numbers = (0, 1, 10) if "{}" in paths else (0,)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for number in numbers:
            file[states.format(number)], file[actions.format(number)] = STATES + number, ACTIONS
    name, state_lane, action_lane = VARIANTS[paths]
    assert detect_format(tmp_path / "a.hdf5") == name
    found: list[Any] = [address for address, _ in list_episodes(tmp_path / "a.hdf5")]
    for address, number in zip(found, numbers, strict=True):
        with open_episode(address) as episode:
            assert np.array_equal(episode.lane(state_lane), STATES + number)
            assert np.array_equal(episode.lane(action_lane), ACTIONS)
