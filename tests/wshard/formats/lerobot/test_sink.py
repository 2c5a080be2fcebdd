"""Data sets that are written come back, whole or not at all, also where they are added to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_lanes import lane_rows

from wshard import Channel, DType, Episode, FormatError, TimebaseSpec, load_wshard, open_episode, open_sink, save_wshard
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import EpisodeError, UnsupportedFormatError
from wshard.formats.lerobot.source import LeRobotSource
from wshard.media import encode_video
from wshard.testing import make_episode

if TYPE_CHECKING:
    from pathlib import Path

BOTH = pytest.mark.parametrize("target", ["lerobot", "lerobot_v21"])
STORED = [kind for kind in DType if kind is not DType.BFLOAT16]


def same_lanes(found: Episode, expected: Episode) -> None:
    """Compare what a data set holds: lanes with dtype and shape, rewards, ends, the task, rate and environment."""
    assert list(found.lanes()) == list(expected.lanes())
    for block, lane in expected.lanes().items():
        other = found.lanes()[block]
        assert (other.dtype, other.shape) == (lane.dtype, lane.shape)
        assert np.array_equal(other.data, lane.data, equal_nan=lane.dtype.value.startswith("f"))
    for name in ("rewards", "terminations", "truncations"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        assert one is None or (np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other))
    assert (found.env_id, found.timebase.tick_hz) == (expected.env_id, expected.timebase.tick_hz)
    assert found.metadata.get("task") == expected.metadata.get("task", "")


def write(folder: Path, target: str, episodes: list[Episode], **options: Any) -> list[str]:
    with open_sink(folder, target, **options) as sink:
        return [sink.write(one) for one in episodes]


@BOTH
@pytest.mark.parametrize("name", ["lerobot_v21_image", "lerobot_v3_video_h264"])
def test_a_fixture_comes_back_and_can_be_added_to(dataset_fixtures, tmp_path, name, target):
    with LeRobotSource(dataset_fixtures / "lerobot" / name) as source:
        episodes = [source.load(key) for key in source.keys()]  # noqa: SIM118  (a Source is no mapping)
        videos = ["signal/observation.images.top"] if "video" in name else []
        with open_sink(tmp_path / "new", target) as sink:
            losses = sink.losses(source.info("0"))
        assert [text.partition(":")[0] for text in losses][:1] == (videos if target == "lerobot_v21" else [])
    assert write(tmp_path / "new", target, episodes) == ["0", "1", "2"]
    assert write(tmp_path / "new", target, [replace(episodes[0], id="again", metadata={"n": 1})]) == ["3"]
    with open_sink(tmp_path / "new", target) as sink:
        assert [sink.has(name) for name in ("episode_000000", "again", "episode_000003")] == [True, True, False]
    with LeRobotSource(tmp_path / "new") as source:
        assert list(source.keys()) == ["0", "1", "2", "3"]
        for key, expected in zip(source.keys(), [*episodes, episodes[0]], strict=True):
            found = source.load(key)
            if videos and target == "lerobot_v21":  # encoded again where an episode begins between key frames
                for block in [block for block in expected.lanes() if "images" in block]:
                    error = np.abs(found[block].astype(int) - expected[block]).mean()
                    assert error < 3
                    found.observations[block[7:]] = expected.observations[block[7:]]
            assert found.id == ("again" if key == "3" else expected.id)
            assert found.metadata == ({"n": 1, "task": ""} if key == "3" else expected.metadata)
            same_lanes(replace(found, metadata=expected.metadata), expected)


def test_packets_of_a_video_are_copied(tmp_path):
    frames = np.random.default_rng(0).integers(0, 255, (12, 32, 48, 3), np.uint8)
    encode_video(frames, tmp_path / "a.mp4", fps=10, options={"g": "4"})
    from wshard.media import VideoFrames  # noqa: PLC0415  (lazy)

    lane = VideoFrames(tmp_path / "a.mp4", count=6, first=5, frame_shape=(32, 48, 3))
    episode = Episode("a", "", 6, timebase=TimebaseSpec(tick_hz=10.0), observations={"observation.rgb": lane})
    write(tmp_path / "new", "lerobot", [episode, replace(episode, id="b")])
    with LeRobotSource(tmp_path / "new") as source:
        assert np.array_equal(source.lane("1", "signal/observation.rgb"), lane.decode())
    row = pq.read_table(tmp_path / "new/meta/episodes/chunk-000/file-000.parquet").to_pylist()[1]
    assert 0 < row["videos/observation.rgb/from_timestamp"] < 0.4  # it does not begin at a key frame
    info = json.loads((tmp_path / "new/meta/info.json").read_text())
    assert info["features"]["observation.rgb"]["info"]["video.codec"] == "h264"
    slow = replace(episode, id="c", timebase=TimebaseSpec(tick_hz=5.0))
    write(tmp_path / "slow", "lerobot", [slow])  # other times than those of the packets
    with LeRobotSource(tmp_path / "slow") as source:
        assert np.abs(source.lane("0", "signal/observation.rgb").astype(int) - lane.decode()).mean() < 20


LANES = lane_rows(
    ["state", "observation.pose", "next.success", "a/b", "task_number", "action"],
    STORED,
    [(), (1,), (3,), (2, 3), (1, 2, 2), (4, 4, 3)],
)


def _lane(name: str, length: int, row: tuple[DType, tuple[int, ...], int]) -> Channel:
    dtype, shape, seed = row
    values = np.random.default_rng(seed).integers(0, 2 if dtype is DType.BOOL else 200, (length, *shape))
    return Channel.of(name, values.astype(dtype.numpy_dtype))


@settings(max_examples=12)
@given(LANES, LANES, st.tuples(st.integers(1, 9), st.sampled_from([None, np.float32, np.float64]), st.booleans()))
@BOTH
def test_lanes_survive_the_way_to_a_data_set_and_back(tmp_path_factory, target, seen, done, steps):
    length, reward, ends = steps
    folder = tmp_path_factory.mktemp("set")
    episode = Episode(
        "one",
        "arm",
        length,
        timebase=TimebaseSpec(tick_hz=12.5),
        observations={name: _lane(name, length, row) for name, row in seen.items()},
        actions={name: _lane(name, length, row) for name, row in done.items()},
        rewards=None if reward is None else np.arange(length, dtype=reward) / 3,
        terminations=np.arange(length) == length - 1 if ends else None,
        truncations=np.zeros(length, bool) if ends else None,
        metadata={"task": "stack"},
    )
    save_wshard(episode, folder / "a.wshard")
    write(folder / "set", target, [load_wshard(folder / "a.wshard")])
    with LeRobotSource(folder / "set") as source:
        found = source.load("0")
    save_wshard(found, folder / "b.wshard")
    same_lanes(load_wshard(folder / "b.wshard"), episode)


@BOTH
def test_tasks_and_texts_that_change_come_back(tmp_path, target):
    lanes = {"observation.state": np.arange(4, dtype=np.float32)}
    about = {"task": ["reach", "push"], "phase": ["near", "far"], "observation.words": ["a", "b"]}
    texts = {"aux/text/task": [1, 1, 0, 0], "aux/text/phase": [0, 1, 1, 0], "aux/text/observation.words": [0, 0, 0, 1]}
    blocks = {name: np.array(places, "<i4").tobytes() for name, places in texts.items()}
    episode = Episode("a", "", 4, TimebaseSpec(tick_hz=10.0), observations=lanes, metadata=about, blocks=blocks)
    constant = replace(episode, id="b", metadata=about | {"phase": "near", "task": "lift"})
    save_wshard(episode, tmp_path / "a.wshard")
    with open_episode(tmp_path / "a.wshard") as file, open_sink(tmp_path / "new", target) as sink:
        assert sink.losses(EpisodeInfo.of(file)) == []
    write(tmp_path / "new", target, [load_wshard(tmp_path / "a.wshard"), constant])
    with LeRobotSource(tmp_path / "new") as source:
        found, other = source.load("0"), source.load("1")
        assert {name: source.lane("0", name).tolist() for name in source.info("0").lanes if name in texts} == texts
        assert source.open("0").slice(1, 4).blocks == {name: data[4:] for name, data in blocks.items()}
    assert (found.metadata, found.blocks, list(found.lanes())) == (about, blocks, list(episode.lanes()))
    assert other.metadata == constant.metadata
    assert other.blocks == {"aux/text/observation.words": blocks["aux/text/observation.words"]}


@BOTH
def test_statistics_are_those_of_the_rows(tmp_path, target):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(length, 3)).astype(np.float32) for length in (5, 9)]
    episodes = [Episode(str(number), "", len(rows), observations={"state": rows}) for number, rows in enumerate(arrays)]
    write(tmp_path / "new", target, episodes[:1])
    write(tmp_path / "new", target, episodes[1:])
    if target == "lerobot":
        found = json.loads((tmp_path / "new/meta/stats.json").read_text())["observation.state"]
        wanted = np.concatenate(arrays)
    else:
        lines = (tmp_path / "new/meta/episodes_stats.jsonl").read_text().splitlines()
        found, wanted = json.loads(lines[1])["stats"]["observation.state"], arrays[1]
    for name in ("mean", "std", "min", "max"):
        assert np.allclose(found[name], getattr(wanted, name)(axis=0))
    assert found["count"] == [len(wanted)]


@BOTH
def test_what_does_not_fit_is_refused_and_nothing_stays_of_it(tmp_path, target):
    good, other = make_episode(0), replace(make_episode(1), id="other")
    with open_sink(tmp_path / "new", target) as sink:
        sink.write(good)
        for bad in (
            good,
            replace(other, timebase=TimebaseSpec(tick_hz=7.0)),
            replace(other, observations={"more": np.zeros(other.length)}),
            replace(other, rewards=None),
            replace(other, length=3),
        ):
            with pytest.raises(EpisodeError):
                sink.write(bad)
        sink.write(other)
        assert not (tmp_path / "new").exists()
    with LeRobotSource(tmp_path / "new") as source:
        assert len(source.keys()) == 2
    before = {path: path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    with pytest.raises(EpisodeError):
        write(tmp_path / "new", target, [replace(good, id="third")] * 2)
    assert {path: path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_modes_keep_what_is_of_others(tmp_path):
    write(tmp_path / "new", "lerobot", [make_episode(0), replace(make_episode(1), id="b")])
    (tmp_path / "new" / "README.md").write_text("own")
    with pytest.raises(FileExistsError):
        open_sink(tmp_path / "new", "lerobot", mode="error")
    with pytest.raises(UnsupportedFormatError, match=r"expected a data set of v2\.1 to add to, found v3\.0"):
        open_sink(tmp_path / "new", "lerobot_v21")
    write(tmp_path / "new", "lerobot_v21", [make_episode(2)], mode="overwrite")
    with LeRobotSource(tmp_path / "new") as source:
        assert list(source.keys()) == ["0"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["README.md", "data", "meta"]
    with pytest.raises(FormatError):
        open_sink(tmp_path / "new" / "README.md", "lerobot")


def test_what_is_lost_is_stated(tmp_path):
    ep = make_episode(0)
    lanes = {"half": Channel("half", DType.BFLOAT16, [2], np.zeros((ep.length, 2), np.uint16))}
    save_wshard(replace(ep, observations=ep.observations | lanes), tmp_path / "a.wshard")
    with open_episode(tmp_path / "a.wshard") as file, open_sink(tmp_path / "new", "lerobot") as sink:
        losses = sink.losses(EpisodeInfo.of(file))
    assert "signal/half: bf16 becomes float32" in losses
    assert not (tmp_path / "new").exists()
