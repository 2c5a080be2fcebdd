"""RLDS data sets that are written are read by other programs, and come back whole or not at all."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_lanes import lane_rows, make_lane
from rlds_sets import decode, read_tfrecord

from wshard import DType, Episode, TimebaseSpec, load_wshard, open_episode, open_sink, save_wshard
from wshard.core.episode.info import EpisodeInfo
from wshard.errors import CodecError, EpisodeError
from wshard.formats.rlds.source import RLDSSource
from wshard.media import ImageFrames, encode_image
from wshard.testing import make_episode

STORED = [kind for kind in DType if kind is not DType.BFLOAT16]


def write(folder, episodes, mode="append"):
    with open_sink(folder, "rlds", mode=mode) as sink:
        return [sink.write(one) for one in episodes]


def plain(seed, length=7):
    rng = np.random.default_rng(seed)
    return Episode(
        f"one-{seed}",
        "arm",
        length,
        timebase=TimebaseSpec(tick_hz=12.5),
        observations={
            "state": rng.standard_normal((length, 3)),
            "rgb": rng.integers(0, 255, (length, 4, 6, 3), np.uint8),
        },
        actions={"action": rng.standard_normal((length, 2)).astype(np.float32)},
        rewards=rng.standard_normal(length).astype(np.float32),
        terminations=np.arange(length) == length - 1,
        metadata={"task": "stack", "operator": {"name": "x"}},
    )


def same(found, expected):
    assert found.lanes().keys() == expected.lanes().keys()
    for block, lane in expected.lanes().items():
        other = found.lanes()[block]
        assert (other.dtype, other.shape) == (lane.dtype, lane.shape)
        assert np.array_equal(other.data, lane.data, equal_nan=lane.dtype.value.startswith("f"))
    for name in ("rewards", "terminations", "timestamps_ns"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        assert one is None or (np.asarray(one).dtype == np.asarray(other).dtype and np.array_equal(one, other))
    assert (found.id, found.env_id, found.timebase) == (expected.id, expected.env_id, expected.timebase)
    assert expected.metadata.items() <= found.metadata.items()


def test_another_reader_finds_steps_as_tfds_writes_them(tmp_path):
    place = tmp_path / "stack" / "2.0.0"
    place.parent.mkdir()
    assert write(place, [plain(0), plain(1)]) == ["train/0", "train/1"]
    info = json.loads((place / "dataset_info.json").read_text())
    assert (info["name"], info["version"], info["fileFormat"]) == ("stack", "2.0.0", "tfrecord")
    (split,) = info["splits"]
    assert (split["name"], split["shardLengths"]) == ("train", ["2"])
    (shard,) = place.glob("stack-train.tfrecord-00000-of-00001")
    assert split["numBytes"] == str(shard.stat().st_size)
    records = [decode(record) for record in read_tfrecord(shard)]
    for seed, record in enumerate(records):
        ep = plain(seed)
        assert record["steps/is_first"] == [1, 0, 0, 0, 0, 0, 0]
        assert record["steps/is_last"] == record["steps/is_terminal"] == [0, 0, 0, 0, 0, 0, 1]
        assert record["steps/language_instruction"] == [b"stack"] * 7
        assert np.array_equal(np.float32(record["steps/action"]).reshape(7, 2), ep["action/action"])
        assert np.frombuffer(b"".join(record["steps/observation/state"])).tolist() == ep["state"].ravel().tolist()
        assert [bytes(one[:4]) for one in record["steps/observation/rgb"]] == [b"\x89PNG"] * 7
    tree = json.loads((place / "features.json").read_text())["featuresDict"]["features"]
    assert set(tree) == {"steps", "episode_metadata"}
    members = tree["steps"]["sequence"]["feature"]["featuresDict"]["features"]
    assert members["action"]["tensor"] == {"shape": {"dimensions": ["2"]}, "dtype": "float32", "encoding": "none"}
    rgb = members["observation"]["featuresDict"]["features"]["rgb"]["image"]
    assert rgb == {"shape": {"dimensions": ["4", "6", "3"]}, "dtype": "uint8", "encodingFormat": "png"}


def test_episodes_are_added_and_shards_stay_as_they_are(tmp_path):
    place = tmp_path / "set"
    assert write(place, [plain(0)]) == ["train/0"]
    (place / "note.txt").write_text("own")
    before = RLDSSource(place).fingerprint("train/0")
    assert write(place, [plain(1), plain(2)]) == ["train/1", "train/2"]
    with RLDSSource(place) as source:
        assert list(source.keys()) == ["train/0", "train/1", "train/2"]
        assert source.fingerprint("train/0") == before
        for number in range(3):
            same(source.load(f"train/{number}"), plain(number))
    with open_sink(place, "rlds") as sink:
        assert sink.has("one-1")
        with pytest.raises(EpisodeError, match="there yet"):
            sink.write(plain(1))
        with pytest.raises(EpisodeError, match="expected the first one's features"):
            sink.write(replace(plain(5), rewards=None))
    with pytest.raises(FileExistsError):
        write(place, [plain(3)], mode="error")
    assert write(place, [plain(4)], mode="overwrite") == ["train/0"]
    assert {path.name for path in place.iterdir()} == {
        *("note.txt", "features.json", "dataset_info.json"),
        "set-train.tfrecord-00000-of-00001",
    }


def test_texts_that_change_are_written_as_texts(tmp_path):
    about = {"task": ["push", "lift"], "say": ["a", "b"]}
    texts = {"aux/text/task": [0, 0, 1, 1, 0, 1, 1], "aux/text/say": [0, 1, 1, 1, 1, 1, 1]}
    blocks = {name: np.array(places, "<i4").tobytes() for name, places in texts.items()}
    ep = replace(plain(0), metadata=about, blocks=blocks)
    with open_sink(tmp_path / "set", "rlds") as sink:
        sink.write(ep)
    (shard,) = (tmp_path / "set").glob("*.tfrecord*")
    record = decode(next(iter(read_tfrecord(shard))))
    assert record["steps/language_instruction"] == [about["task"][place].encode() for place in texts["aux/text/task"]]
    with RLDSSource(tmp_path / "set") as source:
        found = source.load("train/0")
    assert found.blocks["aux/text/say"] == blocks["aux/text/say"]
    assert found.blocks["aux/text/language_instruction"] == blocks["aux/text/task"]
    same(found, ep)


def test_compression_of_episode_files_is_refused(tmp_path):
    with pytest.raises(CodecError, match="compression"):
        open_sink(tmp_path / "set", "rlds", compression="zstd")


def test_encoded_frames_pass_unchanged_and_losses_are_stated(tmp_path):
    images = [encode_image(np.full((8, 8, 3), n, np.uint8)) for n in range(5)]
    ep = Episode(
        "a", "", 5, observations={"cam": ImageFrames("jpeg", images)}, actions={"ctrl": np.zeros((5, 1), np.float32)}
    )
    write(tmp_path / "set", [ep])
    with open_episode(f"{tmp_path / 'set'}#train/0") as episode:
        frames = episode.encoded("cam")
        assert [bytes(frames.image(n)) for n in range(5)] == images
        assert episode.timebase.assumed
    save_wshard(make_episode(), tmp_path / "b.wshard")
    with open_episode(tmp_path / "b.wshard") as episode, open_sink(tmp_path / "none", "rlds") as sink:
        losses = sink.losses(EpisodeInfo.of(episode))
    assert any(text.startswith("time/ticks: no feature") for text in losses) or not episode.has("time/ticks")


LANES = lane_rows(
    ["state", "observation.pose", "a/b", "discount", "action"], STORED, [(), (1,), (3,), (2, 3), (300,), (4, 4, 3)]
)


@settings(max_examples=12)
@given(LANES, LANES, st.tuples(st.integers(1, 9), st.sampled_from([None, np.float32, np.float64]), st.booleans()))
def test_lanes_survive_the_way_to_a_data_set_and_back(tmp_path_factory, seen, done, about):
    length, reward, ends = about
    folder = tmp_path_factory.mktemp("set")
    episode = Episode(
        "one",
        "arm",
        length,
        timebase=TimebaseSpec(tick_hz=12.3),
        observations={name: make_lane(name, length, row) for name, row in seen.items()},
        actions={name: make_lane(name, length, row) for name, row in done.items()},
        rewards=None if reward is None else np.arange(length, dtype=reward) / 3,
        terminations=np.arange(length) % 2 == 1 if ends else None,
        timestamps_ns=np.arange(length) * 10**17 if ends else None,
        metadata={"task": "stack", "n": 1},
    )
    save_wshard(episode, folder / "a.wshard")
    write(folder / "set", [load_wshard(folder / "a.wshard")])
    with RLDSSource(folder / "set") as source:
        found = source.load("train/0")
    save_wshard(found, folder / "b.wshard")
    same(load_wshard(folder / "b.wshard"), episode)
