"""robomimic files that are written here: what is in them, by h5py, and what comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hdf5_files import write_robomimic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wshard import (
    Channel,
    Episode,
    FormatError,
    MemoryReader,
    TimebaseSpec,
    load_wshard,
    open_episode,
    open_sink,
    open_source,
    save_wshard,
)
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import CodecError, EpisodeError, MissingFileError
from wshard.formats.hdf5.robomimic_sink import RobomimicSink
from wshard.testing import assert_same_episode, make_episode

STEPS = {"demo_0": 4, "demo_3": 7, "demo_10": 5}


def read(path):
    with open_source(path, "robomimic") as source:
        return {key: source.load(key) for key in source.keys()}  # noqa: SIM118  (a Source is no mapping)


def write(path, *episodes: Episode, mode="append"):
    with open_sink(path, "robomimic", mode=mode) as sink:
        return [sink.write(ep) for ep in episodes]


def saved(ep):
    """Return what of an episode the format holds."""
    args = {"env_name": ep.env_id, "env_kwargs": {"control_freq": ep.timebase.tick_hz}}
    metadata = {"operator": "me", "env_args": args}
    return replace(ep, metadata=metadata, truncations=None, timestamps_ns=None, ticks=None, omens={}, uncerts={},
                   residuals={}, blocks={}, timebase=TimebaseSpec(tick_hz=ep.timebase.tick_hz))  # fmt: skip


def test_demonstrations_come_back_as_they_were(tmp_path):
    write_robomimic(tmp_path / "in.hdf5", STEPS)
    before = read(tmp_path / "in.hdf5")
    assert write(tmp_path / "out.hdf5", *before.values()) == [*STEPS]
    after = read(tmp_path / "out.hdf5")
    for key in STEPS:
        assert_same_episode(after[key], before[key])
    with h5py.File(tmp_path / "in.hdf5") as one, h5py.File(tmp_path / "out.hdf5") as other:
        assert other["data"].attrs["total"] == sum(STEPS.values())
        assert json.loads(other["data"].attrs["env_args"]) == json.loads(one["data"].attrs["env_args"])
        assert [*other["mask/train"][()]] == [b"demo_0", b"demo_10"]
        for key, count in STEPS.items():
            found = other["data"][key]
            assert found.attrs["num_samples"] == count
            for name in ("actions", "actions_abs", "rewards", "dones", "states", "obs/object", "obs/agentview_image"):
                assert found[name].dtype == one["data"][key][name].dtype
                assert np.array_equal(found[name], one["data"][key][name])
            assert np.array_equal(found["next_obs/robot0_eef_pos"], one["data"][key]["next_obs/robot0_eef_pos"])
            assert {*found["next_obs"]} == {"robot0_eef_pos"}


@pytest.mark.parametrize("lanes", [["action"], ["ctrl"], ["actions", "action", "ctrl", "actions_abs"]])
def test_lanes_of_actions_that_come_back_by_another_name_are_listed(tmp_path, lanes):
    rows = np.zeros((3, 2), np.float32)
    episode = Episode("demo_0", "Lift", 3, observations={"x": rows}, actions=dict.fromkeys(lanes, rows))
    write(tmp_path / "a.hdf5", episode)
    (back,) = read(tmp_path / "a.hdf5").values()
    with RobomimicSink(tmp_path / "b.hdf5") as sink:
        losses = sink.losses(EpisodeInfo.of(MemoryReader(episode, "ep")))
    renamed = {line.partition(": becomes action/")[2] for line in losses if line.startswith("action/")}
    assert {*back.actions} == renamed | ({*lanes} & {*back.actions})
    assert len(renamed) == len({*lanes} - {*back.actions})


dtypes = st.sampled_from(["f4", "f8", "f2", "i8", "i4", "u1", "u2", "?"])
names = st.text("ab_./é0", min_size=1, max_size=6).filter(
    lambda name: all(part not in ("", ".") for part in name.split("/"))
)


@st.composite
def episodes(draw):
    count = draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 99)))

    def array(kind):
        shape = (count, *draw(st.sampled_from([(), (3,), (2, 2)])))
        return rng.integers(0, 2, shape).astype(kind)

    found = draw(st.dictionaries(names, dtypes, min_size=1, max_size=3))
    found = {name: kind for name, kind in found.items() if not any(other.startswith(f"{name}/") for other in found)}
    return Episode(
        draw(st.sampled_from(["demo_4", "x", "../up", "ü"])), "Lift", count, TimebaseSpec(tick_hz=20.0),
        {name: Channel.of(name, array(kind)) for name, kind in found.items()},
        {"actions": Channel.of("actions", array("f8")), "actions_abs": Channel.of("actions_abs", array("f4"))},
        rewards=draw(st.sampled_from([None, rng.random(count)])),
        terminations=rng.integers(0, 2, count).astype(bool),
        metadata={"operator": "me"},
    )  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ep=episodes())
def test_round_trips_keep_all_that_the_format_holds(tmp_path, ep):
    path = tmp_path / "a.hdf5"
    (key,) = write(path, ep, mode="overwrite")
    assert_same_episode(read(path)[key], saved(ep))
    with RobomimicSink(path) as sink:
        assert sink.losses(EpisodeInfo.of(MemoryReader(ep, "ep"))) == []


def test_of_other_episodes_it_says_what_is_lost(tmp_path):
    ep = make_episode()
    about = EpisodeInfo.of(MemoryReader(ep, "ep"))
    sink = RobomimicSink(tmp_path / "a.hdf5")
    lost = {sentence.partition(":")[0] for sentence in sink.losses(about)}
    sink.close()
    stored = {block for block in about.lanes if block.startswith(("signal/", "action/")) or block in ("reward", "done")}
    assert lost - {"metadata"} == {*about.lanes} - stored | {"action/ctrl"}
    write(tmp_path / "a.hdf5", ep)
    (found,) = read(tmp_path / "a.hdf5").values()
    assert {*found.lanes()} == {block.replace("ctrl", "actions") for block in stored if "/" in block}
    assert found.id == ep.id
    assert not (tmp_path / "a.hdf5").with_name("nothing").exists()


def test_model_and_environment_survive_a_conversion_there_and_back(tmp_path):
    write_robomimic(tmp_path / "a.hdf5", {"demo_0": 4})
    model = "<mujoco/>" * 20_000  # more than the 64 KiB of an attribute that is no text
    with h5py.File(tmp_path / "a.hdf5", "r+") as file:
        file["data/demo_0"].attrs["model_file"] = model
        expected = dict(file["data"].attrs) | dict(file["data/demo_0"].attrs)
    with open_episode(f"{tmp_path}/a.hdf5#demo_0") as episode:
        save_wshard(episode.load(), tmp_path / "a.wshard")
    with RobomimicSink(tmp_path / "b.hdf5") as sink:
        sink.write(load_wshard(tmp_path / "a.wshard"))
    with h5py.File(tmp_path / "b.hdf5") as file:
        found = dict(file["data"].attrs) | dict(file["data/demo_0"].attrs)
    assert found["model_file"] == model
    assert json.loads(found["env_args"]) == json.loads(expected["env_args"])
    assert {**expected, "env_args": 0, "total": 0} == {**found, "env_args": 0, "total": 0}


def test_what_cannot_be_read_is_reported_as_it_is(tmp_path):
    def fail(*_: object) -> None:
        raise MissingFileError("camera: expected the video, found no file")

    with open_sink(tmp_path / "a.hdf5", "robomimic") as sink:
        sink._fill = fail
        with pytest.raises(MissingFileError, match="camera: expected the video"):
            sink.write(make_episode())


def test_more_is_appended_and_numbers_go_on(tmp_path):
    path, ep = tmp_path / "a.hdf5", make_episode()
    assert write(path, replace(ep, id="demo_7"), replace(ep, id="b")) == ["demo_7", "demo_8"]
    with open_sink(path, "robomimic") as sink:
        assert [sink.has(id_) for id_ in ("demo_7", "b", "demo_8")] == [True, True, False]
        with pytest.raises(EpisodeError, match="no episode 'b' there yet"):
            sink.write(replace(ep, id="b"))
        assert sink.write(replace(ep, id="c")) == "demo_9"
    assert [found.id for found in read(path).values()] == ["demo_7", "b", "c"]
    with pytest.raises(FileExistsError):
        open_sink(path, "robomimic", mode="error")
    write(path, replace(ep, id="d"), mode="overwrite")
    assert [found.id for found in read(path).values()] == ["d"]


def test_a_refused_episode_and_an_error_change_nothing(tmp_path):
    path, ep = tmp_path / "a.hdf5", make_episode()
    write(path, ep)
    before = path.read_bytes()
    refused = [
        replace(ep, id="x", length=3), replace(ep, id="x", env_id="other"), replace(ep, id="x", actions={}),
        replace(ep, id="x", timebase=TimebaseSpec(tick_hz=7.0)),
        replace(ep, id="x", observations={"a//b": Channel.of("a//b", np.zeros(ep.length))}),
        replace(ep, id="x", observations={name: Channel.of(name, np.zeros(ep.length)) for name in ("a", "a/b")}),
    ]  # fmt: skip
    with open_sink(path, "robomimic") as sink:
        for one in refused:
            with pytest.raises(EpisodeError):
                sink.write(one)
        with pytest.raises(EpisodeError, match=r"control_freq = .*, found 49\.79; .*: rate = 50"):
            sink.write(replace(ep, id="x", timebase=TimebaseSpec(tick_hz=49.79)))
    assert path.read_bytes() == before
    with pytest.raises(ZeroDivisionError), open_sink(path, "robomimic") as sink:
        sink.write(replace(ep, id=f"y{1 / len(sink.write(replace(ep, id='z'))[:0])}"))
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["a.hdf5"]
    write(tmp_path / "b.hdf5")
    assert not (tmp_path / "b.hdf5").exists()


def test_invalid_robomimic_file_stays_as_it_is(tmp_path):
    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = 3
    (tmp_path / "text.hdf5").write_text("no HDF5")
    with h5py.File(tmp_path / "link.hdf5", "w") as file:
        file["data"] = h5py.ExternalLink("other.hdf5", "/")
    for name in ("other.hdf5", "text.hdf5", "link.hdf5"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(FormatError), open_sink(tmp_path / name, "robomimic") as sink:
            sink.write(make_episode())
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(CodecError, match="expected none"):
        open_sink(tmp_path / "z.hdf5", "robomimic", compression="zstd")
