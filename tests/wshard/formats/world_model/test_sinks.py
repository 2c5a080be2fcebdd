"""What the Sinks write is what was given, is read by the libraries alone, and appears whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace

import h5py
import lance
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from world_model_sets import SETS, make_columns, write_folder, write_hdf5

from wshard import (
    Channel,
    Episode,
    FormatError,
    MemoryReader,
    Modality,
    detect_format,
    open_sink,
    open_source,
    save_wshard,
)
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import EpisodeError, RecordingStateError
from wshard.formats.open import open_location
from wshard.formats.sink_base import Sink
from wshard.media import VideoFrames
from wshard.testing import assert_same_episode, make_episode

PLACES = {"hdf5": "a.h5", "folder": "a", "video": "a", "lance": "a.lance", "lance_video": "D"}


def write(place, name, episodes, **options: object):
    with open_sink(place, name, **options) as sink:
        assert isinstance(sink, Sink)
        return [sink.write(ep) for ep in episodes]


def read(place, name):
    with open_source(place, name) as source:
        return [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)


def plain(ep, name):
    """Return what of an episode the formats hold: lanes, and texts of the metadata."""
    bare = replace(
        ep,
        id="x",
        env_id="",
        timebase=type(ep.timebase)(),
        metadata={k: v for k, v in ep.metadata.items() if k == "task"},
    )
    for channel in bare.lanes().values():
        channel.modality = None
    return bare


def test_tables_with_videos_are_in_a_folder_that_is_no_table(tmp_path):
    with pytest.raises(FormatError, match=r"expected a folder of tables, found the name of one: leave out \.lance"):
        write(tmp_path / "D.lance", "lance_video", [make_episode(0, T=4)])
    assert not any(tmp_path.iterdir())


DTYPES = ["f8", "f4", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?"]


@st.composite
def same_columns(draw):
    """Draw episodes with the same lanes: any dtype, up to three axes."""
    names = draw(
        st.lists(st.sampled_from(["state", "a.b", "deep/er", "pixels_x"]), min_size=1, max_size=3, unique=True)
    )
    kinds = [(draw(st.sampled_from(DTYPES)), draw(hnp.array_shapes(min_dims=0, max_dims=2, max_side=4))) for _ in names]
    rewards, truncations = draw(st.booleans()), draw(st.booleans())
    episodes = []
    for number, length in enumerate(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))):
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        lanes = {
            name: (
                rng.normal(size=(length, *shape)) if dtype[0] == "f" else rng.integers(0, 99, (length, *shape))
            ).astype(dtype)
            for name, (dtype, shape) in zip(names, kinds, strict=True)
        }
        episodes.append(
            Episode(
                f"e{number}",
                length=length,
                observations=lanes,
                actions={"action": rng.normal(size=(length, 2))},
                rewards=rng.normal(size=length) if rewards else None,
                truncations=rng.random(length) < 0.5 if truncations else None,
                metadata={"task": "push"},
            )
        )
    return episodes


@pytest.mark.parametrize("name", PLACES)
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(episodes=same_columns())
def test_lanes_come_back_with_dtype_shape_and_value(tmp_path_factory, name, episodes):
    place = tmp_path_factory.mktemp(name) / PLACES[name]
    assert write(place, name, episodes) == [str(number) for number in range(len(episodes))]
    for found, ep in zip(read(place, name), episodes, strict=True):
        expected = plain(ep, name)
        if name in ("folder", "video"):  # which have no place for names with "/"
            renamed = {key.replace("/", "."): lane for key, lane in expected.observations.items()}
            expected.observations = {key: Channel.of(key, lane.data) for key, lane in renamed.items()}
        assert_same_episode(replace(found, id="x"), expected)
        assert {k: v.dtype for k, v in found.lanes().items()} == {k: v.dtype for k, v in expected.lanes().items()}


@pytest.mark.parametrize("name", ["video", "lance_video"])  # the others run the contract
def test_appended_and_overwritten_sets_are_those_that_were_written(tmp_path, name):
    place = tmp_path / PLACES[name]
    first, second = [make_episode(seed) for seed in (0, 1)], [make_episode(2, T=7)]
    write(place, name, first)
    assert write(place, name, second) == ["2"]
    found = read(place, name)
    assert [ep.length for ep in found] == [20, 20, 7]
    assert all(np.array_equal(a["joint_pos"], b["joint_pos"]) for a, b in zip(found, first + second, strict=True))
    with pytest.raises(FileExistsError):
        write(place, name, first, mode="error")
    write(place, name, second, mode="overwrite")
    assert [ep.length for ep in read(place, name)] == [7]
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


@pytest.mark.parametrize("name", PLACES)
def test_sets_without_episodes_are_read(tmp_path, name):
    write(tmp_path / PLACES[name], name, [])
    assert read(tmp_path / PLACES[name], name) == []
    write(tmp_path / PLACES[name], name, [make_episode()])
    assert len(read(tmp_path / PLACES[name], name)) == 1


@pytest.mark.parametrize("name", PLACES)
def test_every_episode_is_compared_with_the_first(tmp_path, name):
    place, ep = tmp_path / PLACES[name], make_episode(image_size=16)
    write(place, name, [ep])
    before = [sorted(one.lanes()) for one in read(place, name)]

    def change(**lanes: object):
        return replace(ep, observations=ep.observations | {key: Channel.of(key, lane) for key, lane in lanes.items()})

    wrong = {
        "schema mismatch: Missing columns": replace(ep, observations={"gripper": ep.observations["gripper"]}),
        "unexpected columns: .'more'": change(more=np.zeros(20)),
        "(shape|dimension) mismatch: existing=.7,., incoming=.3,.": change(joint_pos=ep["joint_pos"][:, :3]),
        "dtype mismatch: existing=float32, incoming=float64": change(gripper=ep["gripper"].astype(np.float64)),
        "camera.*(shape|dimension) mismatch": change(**{"camera/rgb": np.zeros((20, 18, 16, 3), np.uint8)}),
    }
    for message, episode in wrong.items():
        with open_sink(place, name) as sink, pytest.raises(EpisodeError, match=message):
            sink.write(episode)
        with open_sink(place, name) as sink:
            sink.write(ep)
            with pytest.raises(EpisodeError, match=message):
                sink.write(episode)
    assert [sorted(one.lanes()) for one in read(place, name)] == before * 6


# ---- frames --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["folder", "lance"])
def test_jpeg_frames_are_passed_on_byte_for_byte(dataset_fixtures, tmp_path, name):
    with open_location(dataset_fixtures / "world_model" / SETS["lance"]) as source:
        episodes = [source.load(key) for key in ("0", "1")]
    write(tmp_path / PLACES[name], name, episodes)
    with open_source(tmp_path / PLACES[name], name) as source, source.open("1") as found:
        frames, original = found.encoded("signal/pixels"), episodes[1].observations["pixels"].encoded
        assert [bytes(frames.image(n)) for n in range(13)] == [bytes(original.image(n)) for n in range(13)]


@pytest.mark.parametrize("size", [(50, 50), (51, 33), (16, 64)])
def test_videos_have_the_size_of_their_frames(tmp_path, size):
    ramp = np.add.outer(np.arange(size[0]) * 2, np.arange(size[1])).astype(np.uint8)
    frames = np.stack([np.stack([ramp + step] * 3, -1) for step in range(6)])
    write(
        tmp_path / "a", "video", [Episode("e", observations={"pixels": frames}, actions={"action": np.zeros((6, 1))})]
    )
    found = read(tmp_path / "a", "video")[0]
    assert found["pixels"].shape == frames.shape
    assert np.abs(found["pixels"].astype(int) - frames).mean() < 4
    again = tmp_path / "b"
    write(again, "video", [found])
    assert (again / "pixels" / "ep_0.mp4").read_bytes() == (tmp_path / "a" / "pixels" / "ep_0.mp4").read_bytes()
    span = VideoFrames(tmp_path / "a" / "pixels" / "ep_0.mp4", first=2, count=3)
    part = Episode("p", observations={"pixels": span}, actions={"action": np.zeros((3, 1))})
    write(tmp_path / "c", "video", [part])
    assert np.abs(read(tmp_path / "c", "video")[0]["pixels"].astype(int) - frames[2:5]).mean() < 6


def test_invalid_image_by_its_declaration_is_stored_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    lanes = {
        "depth": Channel.of("depth", rng.integers(0, 255, (4, 8, 8, 1), np.uint8), modality=Modality.DEPTH),
        "rgba": rng.integers(0, 255, (4, 8, 8, 4), np.uint8),
        "points": rng.normal(size=(4, 5, 3)).astype(np.float32),
    }
    ep = Episode("e", observations=lanes, actions={"action": np.zeros((4, 1))})
    for name, place in PLACES.items():
        (tmp_path / name).mkdir()
        write(tmp_path / name / place, name, [ep])
        found = read(tmp_path / name / place, name)[0]
        assert all(np.array_equal(found[key], ep[key]) for key in lanes)


def test_losses_say_what_a_format_cannot_hold(tmp_path):
    ep = make_episode(image_size=8)
    with open_source(_saved(tmp_path, ep), "wshard") as source:
        info = source.info("")
    for name, frames in (("hdf5", []), ("lance", ["signal/camera/rgb: stored as jpeg"])):
        with open_sink(tmp_path / PLACES[name], name) as sink:
            losses = sink.losses(info)
        context = ["timebase: no place for a rate", "env_id: no place for an environment"]
        assert [loss for loss in losses if not loss.startswith("metadata")] == [
            *(f"{loss}, which changes values a little" for loss in frames),
            *context,
        ]
        assert any("metadata 'seed'" in loss for loss in losses)


@pytest.mark.parametrize("name", ["folder", "video", "lance_video"])
def test_cameras_with_dots_in_their_names_come_back_or_are_said_to_be_renamed(tmp_path, name):
    frames = np.random.default_rng(0).integers(0, 255, (6, 16, 16, 3), np.uint8)
    ep = Episode("e", observations={"observation.images.top": frames}, actions={"action": np.zeros((6, 1))})
    with open_sink(tmp_path / "a", name) as sink:
        sink.write(ep)
        losses = sink.losses(EpisodeInfo.of(MemoryReader(ep, "e")))
    renamed = [loss for loss in losses if "becomes" in loss]
    lanes = read(tmp_path / "a", detect_format(tmp_path / "a"))[0].lanes()
    if name == "lance_video":
        assert renamed == ["signal/observation.images.top: becomes signal/observation_images_top"]
        assert "signal/observation_images_top" in lanes
    else:
        assert not renamed
        assert "signal/observation.images.top" in lanes


def _saved(folder, ep):
    save_wshard(ep, folder / "one.wshard")
    return folder / "one.wshard"


# ---- the libraries alone read it -----------------------------------------------------------------------------------


def test_files_are_read_by_their_libraries_alone(tmp_path):
    columns = make_columns((4,), pixels=0)
    ep = Episode(
        "e", observations={"proprio": columns["proprio"], "count": columns["count"]},
        actions={"action": columns["action"]}, rewards=columns["reward"],
    )  # fmt: skip
    for name, place in PLACES.items():
        write(tmp_path / f"{name}_{place}", name, [ep, ep])
    with h5py.File(tmp_path / "hdf5_a.h5") as file:
        assert sorted(file) == ["action", "count", "ep_len", "ep_offset", "proprio", "reward"]
        assert (file["ep_len"][()].tolist(), file["ep_offset"][()].tolist()) == ([4, 4], [0, 4])
        assert (file["ep_len"].dtype, file["ep_offset"].dtype) == (np.int32, np.int64)
        assert file["count"][5] == columns["count"][1]
        assert file["action"].maxshape == (None, 2)
    with np.load(tmp_path / "folder_a" / "count.npz") as file:
        assert file["arr_0"].tolist() == columns["count"].tolist() * 2
    assert sorted(path.name for path in (tmp_path / "folder_a").iterdir()) == [
        f"{name}.npz" for name in ("action", "count", "ep_len", "ep_offset", "proprio", "reward")
    ]
    table = lance.dataset(tmp_path / "lance_a.lance").to_table()
    assert table.column_names[:2] == ["episode_idx", "step_idx"]
    assert table["episode_idx"].to_pylist() == [0] * 4 + [1] * 4
    assert table["count"].to_pylist() == [[value] for value in columns["count"].tolist() * 2]
    assert str(table.schema.field("action").type) == "fixed_size_list<item: float>[2]"


def files_of(place):
    return [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())


def test_overwriting_takes_only_what_is_the_formats_own(tmp_path):
    write_folder(tmp_path / "a", make_columns())
    notes = {"notes/own.txt": "a", "README.md": "b", "pixels/own.txt": "c"}
    for name, text in notes.items():
        (tmp_path / "a" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "a" / name).write_text(text)
    write(tmp_path / "a", "folder", [make_episode()], mode="overwrite")
    assert {name: (tmp_path / "a" / name).read_text() for name in notes} == notes
    assert not (tmp_path / "a" / "proprio.npz").exists()
    assert not list((tmp_path / "a" / "pixels").glob("*.jpeg"))
    assert len(read(tmp_path / "a", "folder")) == 1


# ---- whole or not at all -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("name", PLACES)
def test_an_error_leaves_what_was_there(tmp_path, name, mode, monkeypatch):
    place = tmp_path / PLACES[name]
    write(place, name, [make_episode(image_size=8)])
    files = snapshot(place)
    with pytest.raises(ZeroDivisionError):
        write(place, name, (make_episode(1 // seed, image_size=8) for seed in (1, 0)), mode=mode)
    assert snapshot(place) == files
    with open_sink(place, name, mode=mode) as sink:
        monkeypatch.setattr(sink, "_append", _full_disk)
        with pytest.raises(OSError, match="No space"):
            sink.write(make_episode(1, image_size=8))
        with pytest.raises(RecordingStateError):
            sink.write(make_episode(1, image_size=8))
    assert snapshot(place) == files
    assert [path.name for path in tmp_path.iterdir()] == [place.name]


@pytest.mark.parametrize("message", ["No space left on device", "write failed: errno = 28", "LanceError: os error 28"])
def test_libraries_errors_for_a_full_disk_become_those_of_the_system(tmp_path, message, monkeypatch):
    def fail(*_: object) -> None:
        raise ValueError(message)

    with open_sink(tmp_path / "a.h5", "hdf5") as sink:
        monkeypatch.setattr(sink, "_append", fail)
        with pytest.raises(OSError, match="No space") as raised:
            sink.write(make_episode(image_size=8))
    assert raised.value.filename == str(tmp_path / "a.h5")


def _full_disk(*_: object):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def snapshot(place):
    return {str(path): path.read_bytes() for path in files_of(place)}


def test_places_and_options_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FormatError, match=r"ends in \.lance"), open_sink(tmp_path / "a", "lance"):
        pass
    with pytest.raises(FormatError, match="compression: expected none"):
        open_sink(tmp_path / "a", "folder", compression="zstd")
    with pytest.raises(ValueError, match="write mode must be one of"):
        open_sink(tmp_path / "a", "folder", mode="w")
    ep = Episode("e", observations={"x": np.zeros(3), "a/b": np.zeros(3), "a.b": np.zeros(3)})
    with (
        open_sink(tmp_path / "b.h5", "hdf5") as sink,
        pytest.raises(EpisodeError, match=r"different column names.*'a.b'"),
    ):
        sink.write(ep)
    ep = Episode("e", observations={"ep_len": np.zeros(3)})
    with open_sink(tmp_path / "b.h5", "hdf5") as sink, pytest.raises(EpisodeError, match="'ep_len'"):
        sink.write(ep)


def test_a_torn_tail_of_a_file_is_written_over(tmp_path):
    write_hdf5(tmp_path / "a.h5", make_columns(pixels=0))
    with h5py.File(tmp_path / "a.h5", "r+") as file:
        file["action"].resize((20, 2))
    with open_source(tmp_path / "a.h5", "hdf5") as source:
        ep = source.load("1")
    write(tmp_path / "a.h5", "hdf5", [ep])
    found = read(tmp_path / "a.h5", "hdf5")
    assert np.array_equal(found[3]["action/action"], ep["action/action"])


def test_tables_of_the_original_are_appended_to_by_one_writer_at_a_time(dataset_fixtures, tmp_path):
    place = tmp_path / "a.lance"
    shutil.copytree(dataset_fixtures / "world_model" / "main.lance", place, copy_function=shutil.copyfile)
    for path in [place, *place.rglob("*")]:
        path.chmod(0o755)
    with open_source(place, "lance") as source:
        ep = source.load("1")
    assert write(place, "lance", [ep]) == ["5"]
    found = read(place, "lance")
    assert [one.length for one in found] == [7, 13, 22, 31, 40, 13]
    assert all(np.array_equal(found[5][name], ep[name]) for name in ep)
    sink = open_sink(place, "lance")
    sink.write(ep)
    write(place, "lance", [ep])
    with pytest.raises(EpisodeError, match="expected no other writer"):
        sink.close()
    assert [one.length for one in read(place, "lance")] == [7, 13, 22, 31, 40, 13, 13]
