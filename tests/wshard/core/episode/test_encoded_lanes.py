"""Camera lanes as JPEG, PNG and MP4: stored as they are, decoded as far as they are read."""

from __future__ import annotations

import copy
import io
import json
import pickle
import struct
from dataclasses import replace
from itertools import pairwise

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wshard import (
    Channel,
    ChunkedEpisodeReader,
    ChunkedEpisodeWriter,
    Episode,
    FormatError,
    ShardReader,
    ShardWriter,
    load_wshard,
    open_wshard,
    save_wshard,
)
from wshard.core.chunks.split import cut, join
from wshard.core.repair.inspect import check_file
from wshard.errors import ClosedError, CodecError, EpisodeError, LaneError
from wshard.media import ImageFrames, VideoFrames, encode_image, encode_video

STEPS = 23
PIXELS = np.random.default_rng(5).integers(0, 256, (STEPS, 12, 16, 3), dtype=np.uint8)
DEPTH = np.random.default_rng(6).integers(0, 1 << 16, (STEPS, 5, 7, 1), dtype=np.uint16)


def encoded_video(frames: np.ndarray = PIXELS, **options: object) -> bytes:
    file = io.BytesIO()
    encode_video(frames, file, fps=10, lossless=True, **options)
    return file.getvalue()


VIDEO = encoded_video(options={"sc_threshold": "0"})
JPEGS = [encode_image(frame, quality=90) for frame in PIXELS]


def an_episode() -> Episode:
    """Return an episode with all encodings; the values of png, depth and video are exact."""
    frames = {
        "jpeg": ImageFrames("jpeg", JPEGS),
        "png": ImageFrames("png", [encode_image(frame, "png") for frame in PIXELS]),
        "depth": ImageFrames("png", [encode_image(frame, "png") for frame in DEPTH]),
        "video": VideoFrames(VIDEO),
    }
    actions = {"ctrl": np.arange(STEPS * 2, dtype=np.float32).reshape(STEPS, 2)}
    return Episode("cameras", observations=frames, actions=actions, rewards=np.arange(STEPS, dtype=np.float32))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("encoded") / "cameras.wshard"
    save_wshard(an_episode(), place)
    return place


def opened(images: list[bytes]) -> np.ndarray:
    return np.stack([np.asarray(Image.open(io.BytesIO(image))) for image in images])


TRUE = {"jpeg": opened(JPEGS), "png": PIXELS, "depth": DEPTH, "video": PIXELS}


# ---- in memory -----------------------------------------------------------------------------------------------------


def test_a_channel_decodes_when_its_data_are_requested():
    channel = Channel.of("png", an_episode().observations["png"])
    assert (channel.length, channel.shape, channel.dtype) == (STEPS, [12, 16, 3], "u8")
    assert "pixels" not in channel.encoded.__dict__
    assert channel.data is channel.data
    assert not channel.data.flags.writeable
    assert np.array_equal(channel.data, PIXELS)
    part = channel.part(3, 9)
    assert (part.length, part.encoded.encoding) == (6, "png")
    assert np.array_equal(part.data, PIXELS[3:9])


def test_other_data_take_the_place_of_encoded_frames():
    channel = an_episode().observations["png"]
    assert replace(channel, name="other").encoded is channel.encoded
    assert replace(channel, data=channel.data + 1).encoded is None
    assert channel.clone() == channel
    channel.data = PIXELS[::-1]
    assert channel.encoded is None
    assert np.array_equal(channel.data, PIXELS[::-1])


def test_episodes_are_equal_by_value():
    ep, raw = an_episode(), an_episode()
    raw.observations = {name: Channel.of(name, TRUE[name]) for name in TRUE}
    assert ep == an_episode()
    assert ep == raw
    assert raw == ep
    assert copy.deepcopy(ep) == ep == ep.clone() == pickle.loads(pickle.dumps(ep))  # noqa: S301  (our own)
    other = ImageFrames("png", [*ep.observations["png"].encoded.images[:-1], encode_image(PIXELS[0], "png")])
    assert replace(ep, observations=ep.observations | {"png": Channel.of("png", other)}) != ep
    assert replace(ep, observations=ep.observations | {"png": ep.observations["depth"]}) != ep
    smaller = ImageFrames("png", [encode_image(frame, "png") for frame in PIXELS[:, ::2]])
    assert Channel.of("png", smaller) != ep.observations["png"]
    assert replace(ep.observations["png"], data=None, semantics="x") != ep.observations["png"]


def test_wrong_frames_are_refused_before_anything_is_decoded():
    ep = an_episode()
    with pytest.raises(EpisodeError, match="length mismatch"):
        replace(ep, length=STEPS - 1, rewards=None).validate()
    ep.observations["png"].shape = [3, 3, 3]
    with pytest.raises(EpisodeError, match="Shape mismatch: declared"):
        ep.validate()


# ---- files ---------------------------------------------------------------------------------------------------------


def test_bytes_are_stored_as_they_are(path):
    """E-40, E-42, E-43: places and images; a video as the bytes of its file."""
    with ShardReader(path) as reader:
        assert reader.read_entry("signal/video") == VIDEO
        block = reader.read_entry("signal/jpeg")
        offsets = struct.unpack_from(f"<{STEPS + 1}Q", block)
        assert offsets[0] == 8 * (STEPS + 1)
        assert [block[a:b] for a, b in pairwise(offsets)] == JPEGS
        rows = {row["id"]: row for row in json.loads(reader.read_entry("meta/channels"))["channels"]}
    assert rows["depth"] == {
        "id": "depth",
        "dtype": "u8",
        "shape": [],
        "encoding": "png",
        "frame_dtype": "u16",
        "frame_shape": [5, 7, 1],
        "signal_block": "signal/depth",
    }


@pytest.mark.parametrize("compression", ["none", "zstd", "lz4"])
def test_saving_again_gives_the_same_bytes(path, compression, tmp_path):
    """E-45."""
    ep = load_wshard(path)
    assert ep == an_episode()
    save_wshard(ep, tmp_path / "again.wshard", compression, frame_steps=4 if compression == "zstd" else None)
    with ShardReader(path) as one, ShardReader(tmp_path / "again.wshard") as other:
        for name in TRUE:
            assert one.read_entry(f"signal/{name}") == other.read_entry(f"signal/{name}")
            assert not other.entry(f"signal/{name}").compressed
    assert load_wshard(tmp_path / "again.wshard") == ep


@pytest.mark.parametrize("name", TRUE)
def test_lanes_decode_what_is_requested(path, name):
    """E-46 for the JPEGs, whose true values are Pillow's."""
    true = TRUE[name]
    with open_wshard(path) as file:
        assert np.array_equal(file.lane(name), true)
        for verify in (False, True):
            view = file.lane_view(name, verify=verify)
            assert (view.shape, view.dtype) == (true.shape, true.dtype)
            assert np.array_equal(view[7:11], true[7:11])
            assert np.array_equal(view[-1], true[-1])
            assert np.array_equal(view[20:2:-5], true[20:2:-5])
            assert np.array_equal(view[3, 2:4], true[3, 2:4])
            assert np.array_equal(np.asarray(view), true)
            assert view[5:5].shape == (0, *true.shape[1:])
        frames = file.encoded(name)
        assert frames.encoding == file.lanes()[f"signal/{name}"].encoding
        assert np.array_equal(frames.slice(4, 9).decode(), true[4:9])
        assert file.encoded("ctrl" if "ctrl" in file else "action/ctrl") is None
        assert file.stored(f"signal/{name}").bytes == true.nbytes
        array, part = file.lane(name), file.slice(5, 15)
    assert np.array_equal(array, true)
    assert part.observations[name].encoded is not None
    assert np.array_equal(part[name], true[5:15])
    for ask in (lambda: file.lane(name), lambda: view[2:4], lambda: file[name][:2]):
        with pytest.raises(ClosedError):
            ask()


def test_slices_read_only_their_frames(path, monkeypatch):
    """E-44."""
    read, stored = [], ShardReader.stored
    with open_wshard(path) as file:
        monkeypatch.setattr(ShardReader, "block", lambda *_, **__: pytest.fail("read whole"))
        monkeypatch.setattr(ShardReader, "stored", lambda *given: read.append(given[1:]) or stored(*given))
        assert np.array_equal(file["jpeg"][7:11], TRUE["jpeg"][7:11])
        sizes = sum(max(stop - start, 0) for _, start, stop in read)
        assert sizes == sum(map(len, JPEGS[7:11])) + 4 * 16
        read.clear()
        assert np.array_equal(file["video"][12:14], PIXELS[12:14])
        assert read


def test_parts_of_a_video_are_copied_and_never_encoded_again(path, tmp_path):
    with open_wshard(path) as file:
        part = file.slice(13, 19)
    save_wshard(part, tmp_path / "part.wshard")
    found = load_wshard(tmp_path / "part.wshard")
    assert found == part
    assert np.array_equal(found["video"], PIXELS[13:19])
    with ShardReader(tmp_path / "part.wshard") as reader:
        data = reader.read_entry("signal/video")
        lanes = json.loads(reader.read_entry("meta/channels"))["channels"]
    assert next(row for row in lanes if row["id"] == "video")["first_frame"] == 3, "behind the key frame 10"
    with av.open(io.BytesIO(data)) as container:
        decoded = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert np.array_equal(decoded, PIXELS[10:19])
    assert len(data) < len(VIDEO)
    again = tmp_path / "again.wshard"
    save_wshard(found, again)
    assert load_wshard(again) == part


def test_spans_of_videos_with_frames_out_of_order(dataset_fixtures, tmp_path):
    video = dataset_fixtures / "world_model" / "main_video" / "pixels" / "ep_4.mp4"
    with av.open(str(video)) as container:
        true = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    for start, stop in ((0, 40), (0, 1), (3, 9), (27, 40), (39, 40), (24, 25), (25, 31)):
        frames = VideoFrames(video, first=start, count=stop - start)
        save_wshard(Episode("e", observations={"rgb": frames}), tmp_path / "e.wshard")
        assert np.array_equal(load_wshard(tmp_path / "e.wshard")["rgb"], true[start:stop]), (start, stop)


def test_an_episode_of_a_file_of_many_becomes_a_separate_file(dataset_fixtures, tmp_path):
    folder = dataset_fixtures / "lerobot" / "lerobot_v3_video_h264" / "videos" / "observation.images.top"
    video = folder / "chunk-000" / "file-000.mp4"
    for begin, steps in ((0, 7), (7, 12), (19, 20)):
        frames = VideoFrames(video, from_timestamp=begin / 10, fps=10, count=steps)
        save_wshard(Episode("e", observations={"rgb": frames}), tmp_path / "e.wshard")
        found = load_wshard(tmp_path / "e.wshard").observations["rgb"]
        assert np.array_equal(found.data, frames.decode())
        assert found.encoded.nbytes < frames.nbytes
    wrong = VideoFrames(video, from_timestamp=0.0, fps=9, count=12, frame_shape=(64, 64, 3))
    ep = Episode("e", observations={"rgb": wrong})
    with pytest.raises(CodecError, match="expected 12 frames at 9 per second"):
        save_wshard(ep, tmp_path / "wrong.wshard")
    assert not (tmp_path / "wrong.wshard").exists()


@pytest.mark.parametrize("lengths", [(10, 13), (1, 22), (7, 7, 9)])
def test_chunks_hold_encoded_lanes(tmp_path, lengths):
    ep = an_episode()
    bounds = np.cumsum([0, *lengths])
    pieces = [cut(ep, int(start), int(stop)) for start, stop in pairwise(bounds)]
    assert join(pieces) == ep
    writer = ChunkedEpisodeWriter(tmp_path, ep.id, chunk_size_t=8)
    writer.write_episode_chunked(ep)
    writer.finalize_manifest()
    reader = ChunkedEpisodeReader(next(tmp_path.glob("*manifest*")))
    assert reader.load() == ep
    with reader.open() as file:
        for name, true in TRUE.items():
            assert np.array_equal(file[name][6:18], true[6:18])
            assert np.array_equal(file.encoded(name).decode(5, 20), true[5:20])
        assert file.encoded("action/ctrl") is None
        assert file.slice(6, 18) == replace(cut(ep, 6, 18), timestep_range=[6, 17])
    whole = reader.load()
    with pytest.raises(EpisodeError, match=r"signal/video: expected images or one video, found several videos"):
        save_wshard(whole, tmp_path / "whole.wshard")
    whole.observations["video"].data = whole["video"].copy()
    save_wshard(whole, tmp_path / "whole.wshard")
    assert load_wshard(tmp_path / "whole.wshard") == ep


# ---- encoding on save ----------------------------------------------------------------------------------------------


def raw_episode() -> Episode:
    observations = {"rgb": PIXELS, "depth": DEPTH, "state": np.zeros((STEPS, 3), np.float32)}
    return Episode("raw", observations=observations, actions={"ctrl": np.zeros((STEPS, 2), np.float32)})


def test_cameras_are_encoded_on_request(tmp_path):
    ep = raw_episode()
    file = tmp_path / "e.wshard"
    for encode, kinds in (
        ("png", {"rgb": "png", "depth": "png"}),
        ("jpeg:80", {"rgb": "jpeg"}),
        ({"signal/rgb": "jpeg", "*": "png"}, {"rgb": "jpeg", "depth": "png"}),
        ({"signal/rgb": "mp4:10"}, {"rgb": "mp4"}),
    ):
        save_wshard(ep, file, encode=encode)
        found = load_wshard(file)
        assert {name: one.encoded.encoding for name, one in found.observations.items() if one.encoded} == kinds
        if kinds["rgb"] == "png":
            assert found == ep
    save_wshard(an_episode(), file, encode="png")
    assert load_wshard(file).observations["jpeg"].encoded.encoding == "jpeg", "never encoded again"
    assert all(channel.encoded is None for channel in ep.observations.values())


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ("gif", "expected such as 'jpeg:90'"),
        ("jpeg:101", "expected such as"),
        ("png:3", "expected such as"),
        ({"signal/rgb": None}, "expected such as"),
        ({"signal/none": "png"}, "found no such lane"),
        ({"signal/state": "png"}, r"found f32 \[3\]"),
        ({"signal/depth": "jpeg"}, r"found u16 \[5, 7, 1\]"),
        ({"action/ctrl": "png"}, "found no such lane"),
    ],
)
def test_what_cannot_be_encoded_is_refused(encode, message):
    with pytest.raises(EpisodeError, match=message):
        save_wshard(raw_episode(), io.BytesIO(), encode=encode)


# ---- wrong files ---------------------------------------------------------------------------------------------------


def with_row(block: bytes, length: int = 4, **row: object) -> bytes:
    """Return a file with one encoded lane, declared as the row says."""
    file = io.BytesIO()
    with ShardWriter(file, role=5) as writer:
        declared = {"id": "x", "dtype": "u8", "shape": [], "encoding": "png", "frame_shape": [2, 2, 3]} | row
        for name, value in {
            "meta/wshard": {},
            "meta/episode": {"episode_id": "e", "length_T": length},
            "meta/channels": {"channels": [declared]},
        }.items():
            writer.write_entry(name, json.dumps(value).encode())
        writer.write_entry(f"signal/{declared['id']}", block)
        writer.write_entry("time/ticks", bytes(4 * length))
    return file.getvalue()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"encoding": "gif"}, "encoding: expected one of jpeg, png, mp4, found 'gif'"),
        ({"encoding": 3}, "found 3"),
        ({"shape": [2]}, r"expected u8 \[\] for an encoded lane, found u8 \[2\]"),
        ({"dtype": "f32"}, "found f32"),
        ({"frame_shape": [2, 2]}, "frame_shape: expected height, width and channels"),
        ({"frame_shape": [2, 2, 0]}, "frame_shape"),
        ({"frame_shape": [60000, 60000, 3]}, "at most 67108864 pixels"),
        ({"frame_shape": [2, 2, 2], "encoding": "jpeg"}, "frame_shape"),
        ({"frame_shape": None}, "frame_shape"),
        ({"frame_dtype": "f32"}, "frame_dtype: expected u8"),
        ({"frame_dtype": "u16"}, "or u16 of gray"),
        ({"first_frame": 1}, "first_frame"),
        ({"first_frame": -1, "encoding": "mp4"}, "first_frame"),
        ({"signal_block": "reward"}, "expected it of a block below signal/"),
    ],
)
def test_wrong_declarations_are_refused(row, message):
    """E-40, E-41."""
    with pytest.raises(LaneError, match=message):
        load_wshard(with_row(b"", **row))


@pytest.mark.parametrize(
    "places",
    [
        [],
        [40, 41, 42, 43],
        [40, 41, 42, 43, 47],
        [40, 41, 42, 43, 49],
        [32, 41, 42, 43, 48],
        [40, 43, 42, 44, 48],
        [40, 41, 42, 49, 48],
        [40, 1 << 63, 42, 43, 48],
        [40, 41, 42, 43, (1 << 64) - 1],
    ],
)
def test_wrong_places_are_refused(places):
    """E-42."""
    block = struct.pack(f"<{len(places)}Q", *places).ljust(48, b"\1")
    data = with_row(block)
    with pytest.raises(LaneError, match="places of"):
        load_wshard(data)
    with open_wshard(data) as file, pytest.raises(FormatError):
        file["x"][1:4]


def test_wrong_images_are_found_when_they_are_read(tmp_path):
    good, other = encode_image(PIXELS[0, :2, :2], "png"), encode_image(PIXELS[0, :3, :2], "png")
    ends = np.cumsum([24, len(good), len(other)]).astype("<u8").tobytes()
    (tmp_path / "e.wshard").write_bytes(with_row(ends + good + other, 2))
    with open_wshard(tmp_path / "e.wshard") as file:
        assert np.array_equal(file["x"][0], PIXELS[0, :2, :2])
        with pytest.raises(LaneError, match=r"e.wshard: block 'signal/x': step 1: expected png uint8 \[2, 2, 3\]"):
            file["x"][1]
    assert check_file(tmp_path / "e.wshard")[1] == {}, "frames are not decoded to verify"


def test_a_damaged_lane_is_noticed_by_its_checksum(path, tmp_path):
    data = bytearray(path.read_bytes())
    with ShardReader(path) as reader:
        places = {name: reader.entry(f"signal/{name}") for name in TRUE}
    for name, entry in places.items():
        damaged = bytearray(data)
        damaged[entry.data_offset + entry.disk_size // 2] ^= 1
        (tmp_path / "e.wshard").write_bytes(damaged)
        with open_wshard(tmp_path / "e.wshard") as file:
            for read in (file.load, lambda f=file, n=name: f.lane(n), lambda f=file, n=name: f.frames(f"signal/{n}")):
                with pytest.raises(FormatError, match="Checksum mismatch"):
                    read()
        assert list(check_file(tmp_path / "e.wshard")[1]) == [f"signal/{name}"]


@given(st.binary(max_size=120), st.sampled_from(["jpeg", "png", "mp4"]))
def test_any_bytes_are_frames_or_refused(data, encoding):
    try:
        load_wshard(with_row(data, encoding=encoding))["x"]
    except FormatError:
        return
