"""robomimic files, and those of programs with its layout."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import h5py
import numpy as np
import pytest
from hdf5_files import write_robomimic

from wshard import FormatError, detect_format, list_episodes, open_episode, open_source
from wshard.errors import EntryNotFoundError
from wshard.formats.contract import SourceContract
from wshard.formats.hdf5.robomimic import RobomimicSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wshard import Episode

STEPS = {"demo_0": 4, "demo_3": 7, "demo_10": 5}  # gaps, and 10 after 3


class TestRobomimicSource(SourceContract):
    def make(self, tmp_path: Path) -> tuple[RobomimicSource, Mapping[str, Episode]]:
        expected = write_robomimic(tmp_path / "low_dim.hdf5", STEPS)
        return RobomimicSource(tmp_path / "low_dim.hdf5"), expected


@pytest.fixture
def path(tmp_path):
    write_robomimic(tmp_path / "demos.hdf5", STEPS)
    return tmp_path / "demos.hdf5"


def test_the_file_is_known_by_its_groups(path, tmp_path):
    path.rename(tmp_path / "any.bin")
    assert detect_format(tmp_path / "any.bin") == "robomimic"
    assert [str(address) for address, _ in list_episodes(tmp_path / "any.bin")] == [
        f"{tmp_path}/any.bin#{name}" for name in STEPS
    ]


def test_a_span_of_a_lane_is_read_and_long_texts_are_not_metadata(path):
    with h5py.File(path) as file, open_episode(f"{path}#demo_3") as episode:
        assert np.array_equal(episode["robot0_eef_pos"][2:5], file["data/demo_3/obs/robot0_eef_pos"][2:5])
        assert episode.timebase.tick_hz == 20
        assert not episode.timebase.assumed
        assert "model_file" not in episode.metadata
        assert "num_samples" not in episode.metadata


def _libero(data, demo):
    data.attrs["problem_info"] = json.dumps({"problem_name": "x", "language_instruction": ["open", " ", "it"]})


def _libero_text(data, demo):
    data.attrs["problem_info"] = json.dumps({"language_instruction": "open it"})


def _robocasa(data, demo):
    demo.attrs["ep_meta"] = json.dumps({"lang": "open it", "layout_id": 3})


def _own(data, demo):
    demo.attrs["language_instruction"] = "open it"


def _env(data, demo):
    data.attrs["env_args"] = json.dumps({"env_name": "Lift", "language_instruction": "open it"})


@pytest.mark.parametrize("write", [_libero, _libero_text, _robocasa, _own, _env])
def test_the_task_is_what_the_data_say(path, write):
    with h5py.File(path, "r+") as file:
        write(file["data"], file["data/demo_0"])
    with RobomimicSource(path) as source:
        assert source.info("demo_0").metadata["task"] == "open it"


def test_no_task_is_made_up(path):
    with RobomimicSource(path) as source:
        assert "task" not in source.info("demo_0").metadata


def test_lanes_of_equal_names_are_distinguished(path):
    with h5py.File(path, "r+") as file:
        group = file["data/demo_0"]
        group["obs/states"] = np.arange(4.0)
        group["obs/robot0/joint.pos"] = np.arange(8.0).reshape(4, 2)
        group["language"] = np.array([b"a", b"b", b"a", b"a"])
        group["user"] = np.array([b"me"] * 4)
        group["big"] = np.zeros((3, 100))
        group["goal"] = np.arange(3.0)
    with RobomimicSource(path) as source:
        episode, metadata = source.load("demo_0"), source.info("demo_0").metadata
    assert np.array_equal(episode.observations["obs/states"].data, np.arange(4.0))
    assert episode.observations["states"].data.shape == (4, 11)
    assert np.array_equal(episode.observations["robot0/joint.pos"].data, np.arange(8.0).reshape(4, 2))
    assert (metadata["language"], metadata["user"], metadata["goal"]) == (["a", "b"], "me", [0.0, 1.0, 2.0])
    assert episode.blocks["aux/text/language"] == np.array([0, 1, 0, 0], "<i4").tobytes()
    assert metadata["left_out"] == {"big": "float64 [3, 100]"}


def test_one_bad_demonstration_leaves_the_others(path):
    with h5py.File(path, "r+") as file:
        file["data/demo_0"].attrs["num_samples"] = 5
        del file["data/demo_3/actions"]
    with open_source(path, "robomimic") as source:
        with pytest.raises(FormatError, match=r"demos.hdf5#demo_0: num_samples: expected 5 actions, found 4"):
            source.info("demo_0")
        with pytest.raises(FormatError, match="expected a dataset 'actions', found none"):
            source.load("demo_3")
        assert source.load("demo_10").length == 5
        with pytest.raises(EntryNotFoundError, match="demo_1"):
            source.info("demo_1")


def test_json_that_is_none_is_refused(path):
    with h5py.File(path, "r+") as file:
        file["data"].attrs["env_args"] = "{'python': 1}"
    with RobomimicSource(path) as source, pytest.raises(FormatError, match="attribute 'env_args': expected JSON"):
        source.info("demo_0")
