"""Declared kinds of channels, by every way that an episode takes, and how they are shown."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bridge_episodes import command
from hypothesis import given
from hypothesis import strategies as st

from wshard import WShardStreamWriter, load_wshard, open_episode, open_wshard, recover, save_wshard
from wshard.core.channel_kinds import ChannelKind, declared_kinds
from wshard.core.episode.meta_reader import read_description
from wshard.errors import EpisodeError, LayoutError, WShardError
from wshard.formats.base import open_source
from wshard.types import Channel, Episode

POSE = ("3:number", "4:quaternion-xyzw")
RUNS = st.builds(
    lambda count, kind: f"{4 if kind.is_quaternion else count}:{kind}", st.integers(1, 99), st.sampled_from(ChannelKind)
)


def make_episode(kinds=(), shape=(7,)):
    data = np.random.default_rng(0).normal(size=(40, *shape)).cumsum(0).astype(np.float32)
    return Episode("e", observations={"pose": Channel.of("pose", data, kinds=kinds)})


@given(st.lists(RUNS, max_size=5))
def test_kinds_come_back(tmp_path_factory, kinds):
    path = tmp_path_factory.mktemp("a") / "a.wshard"
    ep = make_episode(kinds)
    save_wshard(ep, path)
    found = load_wshard(path)
    assert found == ep
    assert found.observations["pose"].kinds == tuple(kinds)
    assert found.observations["pose"].part(2, 5).kinds == found.clone().observations["pose"].kinds == tuple(kinds)


def test_an_episode_without_kinds_states_none(tmp_path):
    save_wshard(make_episode(), tmp_path / "a.wshard")
    assert b'"kinds"' not in (tmp_path / "a.wshard").read_bytes()


@pytest.mark.parametrize(
    "stated", ["angle", 3, {"a": 0}, [7], ["7:cube"], ["0:angle"], ["angle"], ["7:quaternion"], None]
)
def test_kinds_of_another_form_count_as_not_stated(stated):
    row = {"id": "pose", "shape": [7], "kinds": stated, "more": 1}
    lane = read_description({"meta/channels": json.dumps({"channels": [row]}).encode()}, "a").declared["signal/pose"]
    assert lane.kinds == ()


@pytest.mark.parametrize(
    "kinds", ["7:angle", [7], ["7:cube"], ["-1:angle"], ["angle"], ["3:quaternion"], ["9" * 99 + ":angle"]]
)
def test_a_program_that_gives_no_kinds_is_refused(kinds):
    with pytest.raises(EpisodeError, match="channel 'pose': kinds: expected"):
        make_episode(kinds)
    with pytest.raises(EpisodeError, match="channel 'pose': kinds: expected"):
        make_episode().observations["pose"].kinds = kinds


@pytest.mark.parametrize(
    ("kinds", "shape", "count"),
    [
        (POSE, (7,), 7),
        (POSE, (2, 7), 14),
        (("14:angle",), (2, 7), 14),
        (POSE, (6,), 0),
        (("1:angle",), (), 1),
        ((), (7,), 0),
    ],
)
def test_counts_are_those_of_the_last_axis_or_of_all(kinds, shape, count):
    lane = make_episode(kinds, shape).observations["pose"]
    assert sum(run.channels for run in declared_kinds(lane)) == count


def test_recordings_and_recovered_ones_have_kinds(tmp_path):
    channel = {"id": "signal/pose", "shape": [7], "kinds": list(POSE)}
    with WShardStreamWriter(tmp_path / "a.wshard", "a", [channel]) as writer:
        writer.begin_episode()
        for _ in range(3):
            writer.write_timestep({"pose": np.zeros(7, np.float32)})
        writer.flush()
        shutil.copy(tmp_path / "a.wshard.partial", tmp_path / "b.wshard.partial")
    recover(tmp_path / "b.wshard.partial")
    for name in "ab":
        with open_wshard(tmp_path / f"{name}.wshard") as file:
            assert file.lanes()["signal/pose"].kinds == file.slice(1, 2).observations["pose"].kinds == POSE


def test_layouts_declare_kinds_and_refuse_those_of_another_number(tmp_path):
    np.savez(tmp_path / "a.npz", pose=make_episode()["pose"], u=np.zeros((40, 2)))

    def described(kinds):
        pose = f'pose = {{is = "observation", kinds = {json.dumps(kinds)}}}'
        text = f'layout = 1\ncontainer = "npz"\n[arrays]\n{pose}\nu = "action"\n'
        (tmp_path / "own.toml").write_text(text)
        with open_source(tmp_path / "a.npz", f"layout:{tmp_path / 'own.toml'}") as source:
            return source.info(next(iter(source.keys()))).lanes["signal/pose"].kinds

    assert described(POSE) == POSE
    with pytest.raises(LayoutError, match=r"pose: kinds: expected COUNT:KIND with one of number, .*found 'cube'"):
        described(["cube"])
    with pytest.raises(WShardError, match=r"'pose': kinds: expected one for each channel, found \('3:number',\)"):
        described(["3:number"])


def test_inspect_shows_declared_and_found_kinds(tmp_path):
    ep = make_episode(POSE)
    flags = np.stack([np.arange(40) % 2, np.zeros(40)], axis=1)
    ep.observations |= {"flags": Channel.of("flags", flags), "plain": replace(ep.observations["pose"], kinds=())}
    save_wshard(ep, tmp_path / "a.wshard")
    text = command("inspect", "a.wshard", folder=tmp_path).stdout
    assert "3:number, 4:quaternion-xyzw (declared)" in text
    assert "1:binary, 1:padding" in text
    assert "7:number" not in text
    blocks = json.loads(command("inspect", "a.wshard", "--json", folder=tmp_path).stdout)["blocks"]
    found = {block["block"]: (block.get("kinds"), block.get("kinds_declared")) for block in blocks}
    assert found["signal/pose"] == ([*POSE], True)
    assert found["signal/flags"] == (["1:binary", "1:padding"], None)
    assert found["signal/plain"] == (["7:number"], None)
    assert found["reward"] == (None, None)
    with open_episode(tmp_path / "a.wshard") as episode:
        assert episode.lanes()["signal/pose"].kinds == POSE
