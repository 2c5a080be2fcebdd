"""Data sets that lerobot wrote are read with the values that went into them."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from wshard import Channel, Episode, Modality, TimebaseSpec, detect_format, open_episode
from wshard.errors import MissingFileError
from wshard.formats.contract import SourceContract
from wshard.formats.lerobot.source import LeRobotSource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TASKS = ("reach the block", "push the T", "reach the block")
SETS = ("lerobot_v21_image", "lerobot_v3_video_h264")


REAL = {
    "signal/observation.state": ("f32", [26]),
    "action/action": ("f32", [26]),
    "signal/observation.images.cam_high": ("u8", [480, 640, 3]),
}


def expected_episodes(folder: Path) -> dict[str, Episode]:
    """Return the episodes by key, frames as they were before they were encoded."""
    source = np.load(folder / "lerobot_source.npz")
    found = {}
    for number, task in enumerate(TASKS):
        rows: dict[str, Any] = {
            name.partition("/")[2]: source[name] for name in source if name.startswith(f"episode_{number}/")
        }
        rewards, dones, action = rows.pop("next.reward"), rows.pop("next.done"), rows.pop("action")
        about = {"observation.state": {"names": ("t", "ep", "a", "b")}}
        about |= {name: {"modality": Modality.RGB} for name in rows if "images" in name}
        found[str(number)] = Episode(
            f"episode_{number:06d}",
            "toy",
            len(action),
            timebase=TimebaseSpec(tick_hz=10.0),
            observations={name: Channel.of(name, data, **about.get(name, {})) for name, data in rows.items()},
            actions={"action": Channel.of("action", action, names=("x", "y"))},
            rewards=rewards[:, 0],
            terminations=dones[:, 0],
            metadata={"task": task},
        )
    return found


class TestLeRobotV21Source(SourceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, dataset_fixtures):
        self.folder = dataset_fixtures / "lerobot"

    def make(self, tmp_path: Path) -> tuple[LeRobotSource, Mapping[str, Episode]]:
        return LeRobotSource(self.folder / "lerobot_v21_image"), expected_episodes(self.folder)


@pytest.mark.parametrize("name", SETS)
def test_the_folder_is_detected(dataset_fixtures, name):
    folder = dataset_fixtures / "lerobot" / name
    assert detect_format(folder) == "lerobot"
    assert detect_format(folder / "meta") == ""
    assert detect_format(folder.parent) == ""


def test_every_value_of_the_video_set_is_exact_and_frames_are_near(dataset_fixtures):
    expected = expected_episodes(dataset_fixtures / "lerobot")
    with LeRobotSource(dataset_fixtures / "lerobot" / "lerobot_v3_video_h264") as source:
        for key, wanted in expected.items():
            episode = source.load(key)
            for block, lane in wanted.lanes().items():
                found = episode.lanes()[block]
                assert (found.dtype, found.shape, found.names) == (lane.dtype, lane.shape, lane.names)
                error = np.abs(found.data.astype(np.int64) - lane.data).mean() if "images" in block else None
                if error is None:
                    assert np.array_equal(found.data, lane.data)
                else:
                    assert 1.5 < error < 2.6
            assert np.array_equal(episode.rewards, wanted.rewards)
            assert np.array_equal(episode.terminations, wanted.terminations)
            assert episode.metadata == wanted.metadata


@pytest.mark.parametrize("name", SETS)
def test_spans_are_those_of_the_whole(dataset_fixtures, name):
    with LeRobotSource(dataset_fixtures / "lerobot" / name) as source:
        info = source.info("2")
        assert {block: lane.encoding for block, lane in info.lanes.items() if lane.encoding} == dict.fromkeys(
            ("signal/observation.images.top", "signal/observation.images.wrist"), "png" if "image" in name else "mp4"
        )
        for block in info.lanes:
            whole = source.lane("2", block)
            for start, stop in ((0, 1), (3, 9), (19, 20), (5, 5)):
                assert np.array_equal(source.lane("2", block, start, stop), whole[start:stop])


def test_a_real_recording_is_read_where_its_videos_are_missing(dataset_fixtures):
    folder = dataset_fixtures / "real" / "g1_lerobot_v21"
    with LeRobotSource(folder) as source:
        keys = list(source.keys())
        assert len(keys) == 100
        infos = [source.info(key) for key in keys]
        assert sum(info.length for info in infos) == 35_965
        assert {info.metadata["task"] for info in infos} == {"Pick up the yellow bottle on the table."}
        assert {info.timebase.tick_hz for info in infos} == {30.0}
        assert {info.env_id for info in infos} == {"Unitree_G1_Inspire"}
        for info in infos:
            found = {block: (lane.dtype.value, [*lane.shape]) for block, lane in info.lanes.items() if block in REAL}
            assert found == REAL
        for key in keys:
            if key not in ("2", "4"):  # whose videos are there
                with pytest.raises(MissingFileError, match=rf"episode_{int(key):06d}\.mp4"):
                    source.lane(key, "signal/observation.images.cam_high", 0, 1)
        loaded = source.load("17")
        with pytest.raises(MissingFileError, match=r"episode_000017\.mp4"):
            loaded["observation.images.cam_high"]
    with open_episode(f"{folder}#17") as episode:
        assert episode.lane("observation.state").shape == (infos[17].length, 26)
        with pytest.raises(FileNotFoundError, match=r"episode_000017\.mp4"):
            episode["observation.images.cam_high"][3:5]


@pytest.mark.parametrize(("key", "at"), [("2", 0), ("2", 341), ("4", 200)])
def test_frames_of_a_real_recording_are_those_at_their_time(dataset_fixtures, key, at):
    av = pytest.importorskip("av")
    folder = dataset_fixtures / "real" / "g1_lerobot_v21"
    path = folder / "videos" / "chunk-000" / "observation.images.cam_high" / f"episode_00000{key}.mp4"
    frames = {}
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        container.seek(int(max(at - 2, 0) / 30 / video.time_base), stream=video)
        for frame in container.decode(video=0):
            frames[round(frame.time * 30)] = frame.to_ndarray(format="rgb24")
            if frame.time * 30 > at + 1:
                break
    with LeRobotSource(folder) as source:
        found = source.lane(key, "signal/observation.images.cam_high", at, at + 2)
    assert np.array_equal(found, np.stack([frames[at], frames[at + 1]]))


@pytest.mark.long
def test_footers_of_closed_files_are_freed_at_once(dataset_fixtures):
    def load(key: str) -> None:
        with LeRobotSource(dataset_fixtures / "lerobot" / "lerobot_v21_image") as source:
            assert source.load(key).length

    load("0")  # the library keeps one that it needs to start
    gc.collect()
    gc.disable()
    try:
        before = _count_footers()
        for key in ("0", "1", "2"):
            load(key)
        assert _count_footers() - before <= 2  # which the next Source need not read
    finally:
        gc.enable()


def _count_footers() -> int:
    return sum(type(one).__name__ == "FileMetaData" for one in gc.get_objects())
