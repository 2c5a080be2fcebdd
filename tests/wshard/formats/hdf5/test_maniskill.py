"""ManiSkill trajectories."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from hdf5_files import write_maniskill

from wshard import FormatError, detect_format
from wshard.formats.contract import SourceContract
from wshard.formats.hdf5.maniskill import ManiskillSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard import Episode

STEPS = {"traj_0": 4, "traj_3": 6, "traj_10": 5}


class TestManiskillSource(SourceContract):
    def make(self, tmp_path: Path) -> tuple[ManiskillSource, Mapping[str, Episode]]:
        expected = write_maniskill(tmp_path / "trajectory.rgb.pd_joint_pos.h5", STEPS)
        return ManiskillSource(tmp_path / "trajectory.rgb.pd_joint_pos.h5"), expected


@pytest.fixture
def path(tmp_path):
    write_maniskill(tmp_path / "trajectory.h5", STEPS)
    assert detect_format(tmp_path / "trajectory.h5") == "maniskill"
    return tmp_path / "trajectory.h5"


def test_without_the_json_the_data_say_whether_it_succeeded(path):
    path.with_suffix(".json").unlink()
    with ManiskillSource(path) as source:
        info = source.info("traj_3")
        assert (info.env_id, info.metadata["success"]) == ("", True)
        assert source.load("traj_3").length == 6


def test_the_json_belongs_to_the_fingerprint_and_states_the_rate(path):
    with ManiskillSource(path) as source:
        before = source.fingerprint("traj_0")
        assert source.info("traj_0").timebase.assumed
    about = json.loads(path.with_suffix(".json").read_text())
    about["env_info"]["env_kwargs"]["sim_config"] = {"control_freq": 20}
    path.with_suffix(".json").write_text(json.dumps(about))
    with ManiskillSource(path) as source:
        assert source.fingerprint("traj_0") != before
        assert source.info("traj_0").timebase.tick_hz == 20


@pytest.mark.parametrize("text", ["{", "[]", '{"env_info": 3}', '{"episodes": {}}'])
def test_json_that_is_none_is_refused(path, text):
    path.with_suffix(".json").write_text(text)
    with ManiskillSource(path) as source, pytest.raises(FormatError, match=r"trajectory\.json: expected"):
        source.info("traj_0")


def test_flat_observations_of_older_files(tmp_path):
    path = tmp_path / "trajectory.h5"
    with h5py.File(path, "w") as file:
        file["traj_0/obs"] = np.arange(12.0).reshape(4, 3)
        file["traj_0/env_states"] = np.arange(8.0).reshape(4, 2)
        file["traj_0/actions"] = np.zeros((3, 2))
        file["traj_0/dones"] = [False, False, True]
    with ManiskillSource(path) as source:
        episode = source.load("traj_0")
    assert np.array_equal(episode["obs"], np.arange(9.0).reshape(3, 3))
    assert episode.metadata["final_observation"] == {"obs": [9.0, 10.0, 11.0], "env_states": [6.0, 7.0]}
    assert episode.terminations.tolist() == [False, False, True]
    assert episode.rewards is None
