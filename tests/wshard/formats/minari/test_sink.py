"""Minari data sets that are written here, and what comes back; `make peers` has Minari read them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wshard import Channel, Episode, FormatError, MemoryReader, TimebaseSpec, detect_format, open_sink, open_source
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import EpisodeError
from wshard.formats.minari.sink import MinariSink
from wshard.media import ImageFrames, encode_image
from wshard.testing import assert_same_episode, make_episode


def read(folder):
    with open_source(folder, "minari") as source:
        return [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def write(folder, *episodes: Episode, mode="append"):
    with open_sink(folder, "minari", mode=mode) as sink:
        return [sink.write(ep) for ep in episodes]


def without_place(ep: Episode):
    """Return an episode without the final frames and the name of its data set."""
    metadata = {name: value for name, value in ep.metadata.items() if name not in ("dataset_id", "final_observation")}
    return replace(ep, metadata=metadata, timebase=TimebaseSpec())


@pytest.mark.parametrize("storage", ["hdf5", "arrow", "parquet"])
def test_episodes_of_minari_come_back_as_they_were(dataset_fixtures, tmp_path, storage):
    before = read(dataset_fixtures / "other" / f"minari_{storage}" / "toy" / f"{storage}-v0")
    folder = tmp_path / "toy" / "copy-v3"
    folder.parent.mkdir()
    assert write(folder, *before) == ["0", "1"]
    after = read(folder)
    for one, other in zip(after, before, strict=True):
        assert one.metadata["final_observation"] == other.metadata["final_observation"]
        assert_same_episode(without_place(one), without_place(other))
    about = json.loads((folder / "data" / "metadata.json").read_text())
    original = json.loads((dataset_fixtures / "other/minari_hdf5/toy/hdf5-v0/data/metadata.json").read_text())
    assert (about["dataset_id"], about["total_episodes"], about["total_steps"]) == ("toy/copy-v3", 2, 14)
    assert (about["jpeg_encoding"], about["algorithm_name"]) == (True, "none")
    spaces = json.loads(about["observation_space"])["subspaces"]
    assert spaces["img"] == json.loads(original["observation_space"])["subspaces"]["img"]
    with (
        h5py.File(folder / "data" / "main_data.hdf5") as file,
        h5py.File(dataset_fixtures / "other/minari_hdf5/toy/hdf5-v0/data/main_data.hdf5") as other,
    ):
        for name in ("state", "img"):
            rows = file[f"episode_1/observations/{name}"]
            assert len(rows) == 10
            assert all(np.array_equal(rows[step], other[f"episode_1/observations/{name}"][step]) for step in range(9))
        assert (file["episode_1"].attrs["id"], file["episode_1"].attrs["seed"]) == (1, 101)
        assert file["episode_1/infos/tag"][()].tolist() == list(range(10))


dtypes = st.sampled_from(["f4", "f8", "i8", "i4", "u1", "?"])
parts = st.text("ab_é0", min_size=1, max_size=4)


@st.composite
def episodes(draw):
    count = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    names = draw(
        st.sampled_from([["observations"], ["state", "a/b", "a/c.d"], ["_index_0", "_index_1"], ["x", "infos/tag"]])
    )

    def array(kind):
        return rng.integers(0, 2, (count, *draw(st.sampled_from([(), (3,), (2, 2)])))).astype(kind)

    return Episode(
        draw(st.sampled_from(["episode_0", "x", "../up"])), draw(st.sampled_from(["", "Lift-v0", "my/Env"])), count,
        observations={name: Channel.of(name, array(draw(dtypes))) for name in names},
        actions={name: Channel.of(name, array("f4")) for name in draw(st.sampled_from([["actions"], ["arm", "hand"]]))},
        rewards=rng.random(count),
        terminations=rng.integers(0, 2, count).astype(bool),
        truncations=rng.integers(0, 2, count).astype(bool),
        metadata={"task": draw(parts), "success": True, "seed": 3, "options": {"x": 1.5, "deep": {"y": "z"}}},
    )  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ep=episodes())
def test_round_trips_keep_all_that_the_format_holds(tmp_path, ep):
    folder = tmp_path / "set-v0"
    write(folder, ep, mode="overwrite")
    (found,) = read(folder)
    assert found.metadata["dataset_id"].endswith("/set-v0") or found.metadata["dataset_id"] == "set-v0"
    assert {*found.metadata["final_observation"]} == {*ep.observations}
    assert_same_episode(without_place(found), ep)
    with open_sink(folder, "minari") as sink:
        assert sink.losses(EpisodeInfo.of(MemoryReader(ep, "ep"))) == []


def _with_images(ep: Episode, *encodings: str) -> Episode:
    """Return an episode with a camera for each encoding, "" for raw frames."""
    rng = np.random.default_rng(0)
    cameras = {}
    for number, encoding in enumerate(encodings):
        frames = rng.integers(0, 256, (ep.length, 32, 40, 3), np.uint8)
        images = [encode_image(frame, encoding) for frame in frames] if encoding else []
        cameras[f"cam{number}"] = Channel.of(f"cam{number}", ImageFrames(encoding, images) if encoding else frames)
    state = Channel.of("state", np.zeros((ep.length, 2), np.float32))
    return replace(ep, observations={"state": state, **cameras}, env_id="", metadata={})


@pytest.mark.parametrize(
    ("encodings", "jpeg"),
    [(["jpeg"], True), (["jpeg", "jpeg"], True), ([""], False), (["jpeg", ""], False), (["png"], False)],
)
def test_images_stay_what_they_are(tmp_path, encodings, jpeg):
    ep = _with_images(make_episode(T=5), *encodings)
    write(tmp_path / "cams-v0", ep)
    (found,) = read(tmp_path / "cams-v0")
    assert json.loads((tmp_path / "cams-v0/data/metadata.json").read_text())["jpeg_encoding"] is jpeg
    for name, channel in ep.observations.items():
        assert np.array_equal(found.observations[name].data, channel.data)
        if jpeg and name != "state":
            one, other = found.observations[name].encoded, channel.encoded
            assert [bytes(one.image(step)) for step in range(5)] == [bytes(other.image(step)) for step in range(5)]
    if jpeg:
        with open_sink(tmp_path / "cams-v0", "minari") as sink, pytest.raises(EpisodeError, match="jpeg_encoding"):
            sink.write(replace(_with_images(make_episode(T=5), *[""] * len(encodings)), id="raw"))


def test_more_is_appended_to_what_minari_wrote(dataset_fixtures, tmp_path):
    folder = tmp_path / "hdf5-v0"
    shutil.copytree(dataset_fixtures / "other" / "minari_hdf5" / "toy" / "hdf5-v0", folder)
    (folder / "data" / "notes.txt").write_text("own")
    before = read(folder)
    saved = tmp_path / "saved.hdf5"
    saved.hardlink_to(folder / "data" / "main_data.hdf5")
    content = saved.read_bytes()
    assert write(folder, replace(before[0], id="more")) == ["2"]
    assert saved.read_bytes() == content
    after = read(folder)
    assert after[:2] == before
    assert (after[2].id, after[2].length) == ("more", 5)
    assert json.loads((folder / "data/metadata.json").read_text())["total_steps"] == 19
    assert (folder / "data" / "notes.txt").read_text() == "own"
    with pytest.raises(FileExistsError):
        open_sink(folder, "minari", mode="error")


def test_a_refused_episode_and_an_error_change_nothing(dataset_fixtures, tmp_path):
    folder = tmp_path / "hdf5-v0"
    shutil.copytree(dataset_fixtures / "other" / "minari_hdf5" / "toy" / "hdf5-v0", folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    ep = replace(read(folder)[0], id="x")
    state = {"state": Channel.of("state", np.zeros((5, 4), np.float32))}
    refused = [
        replace(ep, observations=ep.observations | state), replace(ep, env_id="Other-v0"), replace(ep, actions={}),
        replace(ep, id="episode_1"), replace(ep, length=3),
    ]  # fmt: skip
    with MinariSink(folder) as sink:
        for one in refused:
            with pytest.raises(EpisodeError):
                sink.write(one)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    with pytest.raises(EpisodeError, match="as Gymnasium names them"):
        write(tmp_path / "new-v0", replace(ep, env_id="no name"))
    assert [path.name for path in tmp_path.iterdir()] == ["hdf5-v0"]
    arrow = dataset_fixtures / "other" / "minari_arrow" / "toy" / "arrow-v0"
    with pytest.raises(FormatError, match="expected a data set with HDF5 storage"):
        MinariSink(shutil.copytree(arrow, tmp_path / "arrow-v0"))


def test_what_is_lost_is_stated_and_what_minari_needs_is_filled_in(tmp_path):
    ep = replace(make_episode(), rewards=None, truncations=None, env_id="")
    about = EpisodeInfo.of(MemoryReader(ep, "ep"))
    with open_sink(tmp_path / "set-v0", "minari") as sink:
        lost = {sentence.partition(":")[0] for sentence in sink.losses(about)}
        sink.write(ep)
    stored = {block for block in about.lanes if block.startswith(("signal/", "action/")) or block == "done"}
    assert lost - {"metadata"} == {*about.lanes} - stored | {"timebase", "reward", "aux/truncations"}
    assert detect_format(tmp_path / "set-v0") == "minari"
    (found,) = read(tmp_path / "set-v0")
    assert np.isnan(found.rewards).all()
    assert not found.truncations.any()
