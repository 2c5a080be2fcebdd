"""Episodes in files: what is saved comes back bit for bit, and what cannot be saved or read is refused."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest
import wshard_plain
from hypothesis import given
from hypothesis import strategies as st
from wshard_files import saved, with_json

from wshard import Channel, Episode, Format, Residual, TimebaseSpec, TimebaseType, load_wshard, open_wshard, save_wshard
from wshard.errors import (
    ChecksumError,
    EntryNotFoundError,
    MissingExtraError,
)
from wshard.testing import assert_same_episode, episodes, make_episode

CODECS = ["none", "zstd", "lz4", {"signal/*": "zstd:1", "*": "lz4"}]


# ---- round trip ----------------------------------------------------------------------------------------------------


@given(episodes(), st.sampled_from(CODECS))
def test_load_returns_what_save_was_given(ep, compression):
    """E-8, E-20 to E-26: all dtypes, shapes, byte orders, predictions, residuals, blocks, metadata."""
    data = saved(ep, compression)
    found = load_wshard(data)
    assert found.source_format is Format.WSHARD
    assert_same_episode(ep, found)
    assert saved(found, compression) == data


@given(episodes())
def test_equal_episodes_give_equal_strictly_written_bytes(ep):
    """C-20 to C-26, E-28: whatever byte order or strides the arrays have."""
    twin = copy.deepcopy(ep)
    for channel in twin.lanes().values():
        channel.data = np.ascontiguousarray(channel.data).astype(channel.dtype.numpy_dtype, copy=True)
    data = saved(ep)
    assert saved(twin) == data
    role, blocks = wshard_plain.read_strict(data)
    assert role == 5
    assert list(blocks) == sorted(blocks)
    assert {"meta/wshard", "meta/episode", "meta/channels", "reward", "done", "time/ticks"} <= set(blocks)
    for name, block in blocks.items():
        assert block["content"] == (2 if name in ("meta/wshard", "meta/episode", "meta/channels") else 0)


def test_bytes_do_not_depend_on_the_process(tmp_path):
    """C-26: hash randomisation and the like play no role."""
    program = (
        "import sys; from wshard.testing import make_episode; from wshard.core.episode.file import save_wshard; "
        "save_wshard(make_episode(3), sys.argv[1])"
    )
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", program, tmp_path / seed], check=True, env=environment, timeout=60)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes() == saved(make_episode(3))


def test_a_rate_that_no_one_gave_is_reported():
    """E-4: the number is that of the reference; other readers ignore the member beside it."""
    lanes = {"observations": make_episode().observations, "length": 20}
    given = [Episode("e", **lanes, timebase=TimebaseSpec(tick_hz=30.0)), Episode("e", **lanes)]
    given[1].timebase.tick_hz = 30.0
    for ep in given:
        assert not load_wshard(saved(ep)).timebase.assumed
        assert b"assumed" not in saved(ep)
    ep = Episode("e", **lanes)
    with open_wshard(saved(ep)) as file:
        message = json.loads(bytes(file.shard.read_entry("meta/episode")))["timebase"]
    assert message == {"type": "ticks", "tick_hz": 30.0, "dt_ns": 33333333, "assumed": True}
    assert saved(load_wshard(saved(ep))) == saved(ep)
    for twin in (ep, load_wshard(saved(ep)), ep.clone(), pickle.loads(pickle.dumps(ep))):  # noqa: S301  (our own)
        assert twin.timebase.assumed
        assert twin.timebase == given[0].timebase
    for timebase, assumed in (({}, True), ({"dt_ns": 33333333}, False), ({"tick_hz": 5, "assumed": True}, True)):
        assert load_wshard(with_json(saved(ep), "meta/episode", timebase=timebase)).timebase.assumed == assumed


@pytest.mark.parametrize("rate", [30.0, 60.0, 29.97, 1000.0, 0.5, 1e9 / 3, 23.976023976023978])
def test_rates_come_back_exactly(rate):
    """E-4, E-29."""
    ep = make_episode(tick_hz=rate)
    ep.timebase.epoch_ns = 1_700_000_000_000_000_001
    ep.timebase.type = TimebaseType.TIMESTAMPS_US
    assert load_wshard(saved(ep)).timebase == ep.timebase


@pytest.mark.parametrize("rate", [30.0, 60.0, 29.97, 1000.0, 0.5, 20.0, 50.0, 44100.0, 48000.0, 10.0, 59.94])
@pytest.mark.parametrize("rounding", [round, int])
def test_rates_of_files_that_state_only_dt_ns_are_restored(rate, rounding):
    """E-4: some writers truncate 1e9 / rate, others round it."""
    data = with_json(saved(make_episode(2)), "meta/episode", timebase={"type": "ticks", "dt_ns": rounding(1e9 / rate)})
    assert load_wshard(data).timebase.tick_hz == rate


def test_small_reads_touch_only_what_is_requested(tmp_path):
    """A damaged lane hinders nobody who does not ask for it."""
    ep = make_episode(1, image_size=8)
    save_wshard(ep, tmp_path / "a.wshard")
    data = bytearray((tmp_path / "a.wshard").read_bytes())
    with open_wshard(bytes(data)) as file:
        data[file.shard.entry("signal/camera/rgb").data_offset + 5] ^= 1
    with open_wshard(bytes(data)) as file:
        np.testing.assert_array_equal(file.lane("joint_pos"), ep.observations["joint_pos"].data)
        assert file.total_reward() == ep.rewards.sum(dtype=np.float64)
        with pytest.raises(ChecksumError, match="'signal/camera/rgb': Checksum mismatch"):
            file.lane("camera/rgb")
    assert list(load_wshard(bytes(data), channels=["joint_pos"]).observations) == ["joint_pos"]


def test_lanes_are_read_only_views_that_outlive_the_file(tmp_path):
    save_wshard(make_episode(1, 2000, image_size=16), tmp_path / "a.wshard")
    with open_wshard(tmp_path / "a.wshard") as file:
        lane = file.lane("camera/rgb")
    assert not lane.flags.writeable
    assert not lane.flags.owndata
    assert lane[-1].sum() == make_episode(1, 2000, image_size=16).observations["camera/rgb"].data[-1].sum()


# ---- the channel filter --------------------------------------------------------------------------------------------


def predicted() -> Episode:
    ep = make_episode(5, 6)
    lane = np.zeros((6, 7), np.float32)
    ep.observations["joint_pos/raw"] = Channel.of("joint_pos/raw", lane)
    ep.omens = {"joint_pos": {"dreamer": Channel.of("joint_pos/dreamer", lane)}}
    ep.omens["gripper"] = {"dreamer": Channel.of("gripper/dreamer", lane)}
    ep.uncerts = {"joint_pos/dreamer/std": Channel.of("joint_pos/dreamer/std", lane)}
    ep.residuals = {"joint_pos": Residual("joint_pos", "sign2nddiff", np.zeros(1, np.uint8))}
    return ep


@pytest.mark.parametrize("channels", [["joint_pos"], ["signal/joint_pos"], "joint_pos", ("joint_pos", "joint_pos")])
def test_filter_keeps_a_channel_its_predictions_and_the_rewards(channels):
    """E-14."""
    found = load_wshard(saved(predicted()), channels=channels)
    assert list(found.lanes()) == ["signal/joint_pos"]
    assert sorted(found.predictions()) == ["omen/joint_pos/dreamer", "uncert/joint_pos/dreamer/std"]
    assert list(found.residuals) == ["joint_pos"]
    np.testing.assert_array_equal(found.rewards, predicted().rewards)


def test_filter_takes_actions_and_single_predictions_by_block_name():
    found = load_wshard(saved(predicted()), channels=["action/ctrl", "omen/gripper/dreamer"])
    assert list(found.lanes()) == ["action/ctrl"]
    assert sorted(found.predictions()) == ["omen/gripper/dreamer"]
    assert load_wshard(saved(predicted()), channels=[]).lanes() == {}


@pytest.mark.parametrize("name", ["joint", "joint_pos/", "signal/", "", "camera/rgb"])
def test_unknown_channels_are_refused_with_the_known_ones(name):
    with pytest.raises(EntryNotFoundError, match=re.escape("it has ctrl, gripper, joint_pos, joint_pos/raw")):
        load_wshard(saved(predicted()), channels=[name])


@pytest.mark.parametrize("name", ["nothing", "signal/nothing"])
def test_unknown_lanes_are_refused_with_the_known_ones(name):
    with (
        open_wshard(saved(make_episode())) as file,
        pytest.raises(KeyError, match=f"no lane '{name}'; it has signal/joint_pos, signal/gripper, action/ctrl"),
    ):
        file.lane(name)


# ---- what is not recorded ------------------------------------------------------------------------------------------


def test_fields_that_were_not_recorded_come_back_as_none_though_other_readers_find_them():
    """E-21."""
    ep = Episode("bare", length=3, observations={"s": Channel.of("s", np.zeros(3, np.float32))})
    data = saved(ep)
    found = load_wshard(data)
    assert (found.rewards, found.terminations, found.ticks, found.truncations) == (None, None, None, None)
    with open_wshard(data) as file:
        assert [file.has(name) for name in ("reward", "done", "signal/s", "signal/t")] == [False, False, True, False]
        assert file.total_reward() is None
        assert file.lane("reward").tolist() == [0, 0, 0]
        assert file.lane("time/ticks").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("rewards", "total"), [([1.7e308, 1.7e308], "inf"), ([np.inf, -np.inf], "nan"), ([np.nan, 1], "nan")]
)
def test_a_sum_of_rewards_that_is_not_a_number_is_given_without_a_warning(rewards, total):
    ep = make_episode(T=2)
    ep.rewards = np.array(rewards)
    with warnings.catch_warnings(), open_wshard(saved(ep)) as file:
        warnings.simplefilter("error")
        assert str(file.total_reward()) == total


# ---- the testing tools themselves ----------------------------------------------------------------------------------


BROKEN = {
    "id": lambda ep: setattr(ep, "id", "other"),
    "length": lambda ep: setattr(ep, "length", 21),
    "rate": lambda ep: setattr(ep.timebase, "tick_hz", 21.0),
    "metadata": lambda ep: ep.metadata.update(task="other"),
    "reward dtype": lambda ep: setattr(ep, "rewards", ep.rewards.astype(np.float64)),
    "one reward": lambda ep: ep.rewards.__setitem__(3, 9.0),
    "no done": lambda ep: setattr(ep, "terminations", None),
    "lane gone": lambda ep: ep.observations.pop("gripper"),
    "one value": lambda ep: ep.actions["ctrl"].data.__setitem__((0, 0), np.nan),
    "lane shape": lambda ep: setattr(ep.actions["ctrl"], "shape", [2, 2]),
    "semantics": lambda ep: setattr(ep.actions["ctrl"], "semantics", "volts"),
    "ticks": lambda ep: setattr(ep, "ticks", np.arange(20)),
    "block": lambda ep: ep.blocks.update(x=b"1"),
    "residual": lambda ep: ep.residuals.update(a=Residual("a", "t", np.zeros(1, np.uint8))),
}


@pytest.mark.parametrize("case", BROKEN)
def test_comparison_of_episodes_notices_every_difference(case):
    left, right = make_episode(1), make_episode(1)
    assert_same_episode(left, right)
    BROKEN[case](right)
    with pytest.raises(AssertionError):
        assert_same_episode(left, right)


def test_made_episodes_are_valid_repeatable_and_different():
    for seed in range(3):
        make_episode(seed, 1).validate()
        assert_same_episode(make_episode(seed, image_size=4), make_episode(seed, image_size=4))
    assert not np.array_equal(make_episode(0).rewards, make_episode(1).rewards)
    rewards = make_episode(0, 50).rewards
    assert rewards[-1] > rewards[0]


def test_strategy_without_hypothesis_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(MissingExtraError, match="pip install 'wshard"):
        episodes()


def test_plain_arrays_become_channels_and_report_the_length():
    state, control = np.arange(12.0).reshape(4, 3), np.zeros((4, 2), np.float32)
    observations = {"state": state, "grip": Channel.of("grip", np.ones(4))}
    ep = Episode("e", observations=observations, actions={"ctrl": control})
    assert ep.length == 4
    assert observations["state"] is state, "the caller's dict stays as it is"
    assert ep.observations["state"] == Channel.of("state", state)
    np.testing.assert_array_equal(ep["state"], state)
    np.testing.assert_array_equal(ep["action/ctrl"], control)
    assert list(ep) == ["signal/state", "signal/grip", "action/ctrl"]
    assert "state" in ep
    assert "action/ctrl" in ep
    assert "ctrl" not in ep
    with pytest.raises(EntryNotFoundError, match="no lane 'none'; it has signal/state"):
        ep["none"]
    assert Episode("e", length=3, observations={"state": state}).length == 3, "a given length is checked when saved"
    assert Episode("e").length == 0
