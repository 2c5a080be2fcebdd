"""Demonstrations as robosuite itself collects them: the environment is an attribute of its own."""

from __future__ import annotations

import json

import h5py
import numpy as np

from wshard import open_episode


def test_environment_and_rate_of_robosuite_files(tmp_path):
    with h5py.File(tmp_path / "demo.hdf5", "w") as file:
        data = file.create_group("data")
        data.attrs["env"] = "Lift"
        data.attrs["env_info"] = json.dumps({"robots": "Panda", "control_freq": 20})
        data["demo_1/states"], data["demo_1/actions"] = np.zeros((5, 9)), np.zeros((5, 7))
    with open_episode(f"{tmp_path}/demo.hdf5#demo_1") as episode:
        assert (episode.env_id, episode.timebase.tick_hz, episode.length) == ("Lift", 20, 5)
