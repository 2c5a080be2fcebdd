"""Lance tables with videos beside them are read by their folder and by their table, frames as they are decoded."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from world_model_sets import LENGTHS, make_columns, write_folder, write_lance_video

from wshard import FormatError, open_sink
from wshard.data import LanceVideoDataset, VideoDataset, detect_format, load_dataset
from wshard.formats import detect
from wshard.formats.open import open_location
from wshard.formats.world_model.lance_video import LanceVideoSource
from wshard.media import VideoFrames
from wshard.testing import make_episode


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("video")
    columns = make_columns(pixels=32)
    write_lance_video(folder / "D", columns)
    write_folder(folder / "same", columns, video=True)
    return folder


@pytest.mark.parametrize("name", ["D", "D/D.lance"])
def test_frames_are_those_of_the_videos(made, name):
    assert detect.detect_format(made / name) == "lance_video"
    assert detect_format(made / name).name == "lance_video"
    with open_location(made / name) as source, open_location(made / "same") as same, source.open("1") as episode:
        assert source.keys() == ["0", "1", "2"]
        assert [source.info(key).length for key in source.keys()] == list(LENGTHS)  # noqa: SIM118
        assert isinstance(episode.encoded("pixels"), VideoFrames)
        expected = same.lane("1", "signal/pixels")
        assert np.array_equal(episode["pixels"][1:4], expected[1:4])
        again = pickle.loads(pickle.dumps(source))  # noqa: S301  (our own)
        assert np.array_equal(again.lane("1", "signal/pixels"), expected)
        assert again.open("1").digest() == episode.digest()


def test_clips_are_those_of_the_same_videos_in_a_folder(made):
    clips, same = (
        load_dataset(made / "D", num_steps=2, frameskip=2),
        VideoDataset(path=made / "same", num_steps=2, frameskip=2),
    )
    assert isinstance(clips, LanceVideoDataset)
    assert len(clips) == len(same)
    for one, other in zip(clips.__getitems__([0, 2]), same.__getitems__([0, 2]), strict=True):
        assert np.array_equal(one["pixels"], other["pixels"])
        assert np.array_equal(one["action"], other["action"])
    assert "pixels" not in LanceVideoDataset(made / "D", video_keys=[]).column_names


def test_a_missing_or_empty_video_is_named(tmp_path):
    write_lance_video(tmp_path / "D", make_columns(pixels=16))
    blob = pa.field("video_bytes", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([pa.field("episode_idx", pa.int32()), pa.field("video_key", pa.string()), blob])
    table = pa.table([pa.array([1], pa.int32()), ["pixels"], pa.array([b""], pa.large_binary())], schema=schema)
    lance.write_dataset(table, tmp_path / "D" / "D_videos.lance", mode="overwrite")
    with LanceVideoSource(tmp_path / "D") as source:
        with pytest.raises(FormatError, match="expected a video of the episode, found none"):
            source.info("0")
        with pytest.raises(FormatError):
            source.info("1")


def test_two_tables_of_videos_are_not_one(tmp_path):
    write_lance_video(tmp_path / "D", make_columns(pixels=16))
    (tmp_path / "D" / "E_videos.lance").mkdir()
    with LanceVideoSource(tmp_path / "D") as source, pytest.raises(FormatError, match="expected one table of videos"):
        source.keys()


def _overwrite_lengths(path):
    data = path.read_bytes()
    path.write_bytes(data[:-1000] + b"\xff" * 32 + data[-968:])


@pytest.mark.parametrize(
    "damage", [lambda path: os.truncate(path, path.stat().st_size - 50), Path.unlink, _overwrite_lengths]
)
def test_a_damaged_file_of_videos_costs_its_own_episodes(tmp_path, damage):
    with open_sink(tmp_path / "D", "lance_video") as sink:
        for number in range(3):
            sink.write(make_episode(number, image_size=16))
    table = tmp_path / "D/D_videos.lance"
    fragment = lance.dataset(str(table)).get_fragments()[1]
    damage(table / "data" / fragment.data_files()[0].path)
    with LanceVideoSource(tmp_path / "D") as source:
        assert [source.load(key).length for key in "02"] == [20, 20]
        with pytest.raises(FormatError, match=r"D_videos\.lance: "):
            source.load("1")
