"""Formats that hold names of channels keep them; others lose them and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sink_places import COLLECTIONS, make_episode
from topic_logs import JOINTS, robot_messages, write_ros2

from wshard import open_episode
from wshard.core.array_fields import DType
from wshard.formats.base import open_sink, open_source
from wshard.formats.lane_map import MappedSource, encode_lane_map
from wshard.formats.lerobot.dataset_info import Feature
from wshard.formats.lerobot.features import declare_numbers
from wshard.training.conversion.location import convert_location

HOLD_NAMES = {"lerobot", "lerobot_v21", "shardpack", "wshard"}
PLACES = {"wshard": "a.wshard"} | COLLECTIONS
NAMES = ("shoulder", "elbow", "wrist")


def named_episode():
    ep = make_episode(0)
    state = replace(ep.observations["state"], names=NAMES)
    return replace(ep, observations=ep.observations | {"state": state})


@pytest.mark.parametrize("name", PLACES)
def test_each_format_keeps_names_or_only_loses_them(tmp_path, name):
    ep = named_episode()
    with open_sink(tmp_path / PLACES[name], name) as sink:
        sink.write(ep)
    with open_source(tmp_path / PLACES[name], name.removesuffix("_v21")) as source:
        (key,) = source.keys()
        (block,) = [block for block in source.info(key).lanes if block.endswith("state")]
        lane = source.load(key).lanes()[block]
        declared = source.info(key).lanes[block].names
    assert lane.names == declared == (NAMES if name in HOLD_NAMES else ())
    assert np.array_equal(lane.data, ep.observations["state"].data)


def test_conversions_to_and_fro_and_lane_maps_keep_names(tmp_path):
    with open_sink(tmp_path / "a", "lerobot") as sink:
        sink.write(named_episode())
    convert_location(tmp_path / "a", tmp_path / "b.shardpack")
    convert_location(tmp_path / "b.shardpack", tmp_path / "c", target_format="lerobot")
    with open_source(tmp_path / "c", "lerobot") as source:
        (lane,) = [lane for block, lane in source.info("0").lanes.items() if block.endswith("state")]
        assert lane.names == NAMES
        mapped = MappedSource(source, encode_lane_map({lane.id: "joints"}))
        assert mapped.info("0").lanes["signal/joints"].names == NAMES
        assert mapped.load("0").observations["joints"].names == NAMES


@pytest.mark.parametrize(
    ("stated", "names"),
    [
        ([*NAMES], NAMES),
        ({"motors": [*NAMES]}, NAMES),
        ({"wrist": 2, "elbow": 1, "shoulder": 0}, NAMES),
        ({"motors": ["shoulder"]}, ()),
        (["motors"], ()),
        ([["a", 1], None], ()),
        (None, ()),
    ],
)
def test_names_of_features_are_read_in_every_form(stated, names):
    lane = declare_numbers(Feature("observation.state", "float32", (3,), stated), DType.FLOAT32)
    assert lane.names == names


def test_arrays_of_messages_are_named_by_their_messages(tmp_path):
    path = write_ros2(tmp_path / "run.mcap", robot_messages(cameras=False))
    with open_episode(path) as episode:
        lanes = episode.lanes()
    assert lanes["signal/joint_states/position"].names == (*JOINTS,)
    assert lanes["action/cmd_vel/linear/x"].names == ()
