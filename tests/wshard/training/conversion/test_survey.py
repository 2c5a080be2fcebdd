"""Formats that store the lanes of the first episode of all refuse others before they write any."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from sink_places import COLLECTIONS, make_episode

from wshard import FormatError, convert_location, open_source, save_wshard
from wshard.errors import EntryNotFoundError

_OPTIONAL = {"rewards": None, "terminations": None, "truncations": None, "timestamps_ns": None}


@pytest.fixture
def episodes(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        episode = make_episode(number)
        episode = replace(episode, timestamps_ns=np.arange(episode.length) * 50_000_000)
        if number % 2:
            state = {"state": episode.observations["state"]}
            episode = replace(episode, observations=state, **_OPTIONAL)
        save_wshard(episode, folder / f"{number}.wshard")
    return folder


@pytest.mark.parametrize("name", COLLECTIONS)
def test_no_sink_writes_half_of_episodes_with_different_lanes(name, episodes, tmp_path):
    out = tmp_path / COLLECTIONS[name]
    without = []
    if name not in ("robomimic", "shardpack"):  # each of whose episodes has its own lanes
        with pytest.raises(FormatError, match=r"signal/cam in 2 \(not in .*1\.wshard\)") as refused:
            convert_location(episodes, out, target_format=name)
        assert not out.exists()
        (advice,) = re.findall("`(.*)`", str(refused.value))
        without = [word for word in shlex.split(advice) if word != "--without"]
        assert {"signal/state", "action/action"}.isdisjoint(without)
    report = convert_location(episodes, out, target_format=name, without=without)
    assert (report.converted, report.failed) == (4, [])


def test_lanes_are_left_out_of_files_and_mistyped_ones_refused(episodes, tmp_path):
    whole = convert_location(episodes, tmp_path / "whole")
    report = convert_location(episodes, tmp_path / "out", without=["reward", "cam"])
    assert (whole.converted, report.converted, report.failed) == (4, 4, [])
    with open_source(tmp_path / "out" / "episode-0.wshard", "wshard") as source:
        episode = source.load(source.keys()[0])
    assert (episode.rewards, [*episode.observations]) == (None, ["state"])
    assert np.array_equal(episode["state"], make_episode(0)["state"])
    assert episode.terminations is not None
    with pytest.raises(EntryNotFoundError, match="no lane 'rewrd' to leave out; there are signal/state"):
        convert_location(episodes, tmp_path / "other", without=["rewrd"])


def test_episodes_without_a_lane_of_all_are_to_be_chosen(episodes, tmp_path):
    other = make_episode(5)
    state, torque = other.observations["state"], np.zeros((other.length, 11), np.float32)
    for lanes in ({"joints": torque}, {"state": state}):  # the second differs in its action only
        save_wshard(replace(other, observations=lanes, actions={"torque": torque}, **_OPTIONAL), episodes / "5.wshard")
        with pytest.raises(FormatError, match=r"found .*nothing was written: choose episodes of one robot"):
            convert_location(episodes, tmp_path / "set.zarr", target_format="zarr")
