"""Frames of videos are those that PyAV decodes one after the other, whichever are read and in which order."""

from __future__ import annotations

import gc
import io
import multiprocessing
import pickle
import random
import struct
import sys
from concurrent.futures import ThreadPoolExecutor

import av
import numpy as np
import pytest

from wshard import FormatError
from wshard.core.media.open_video import OpenVideo
from wshard.core.media.video_pool import POOL, VideoPool
from wshard.errors import (
    CodecError,
    EpisodeError,
    LaneError,
    LimitError,
    MissingExtraError,
    MissingFileError,
    StepError,
)
from wshard.media import VideoFrames, encode_video, open_video

VIDEOS = {
    "h264, key frames near": ("lerobot/lerobot_v3_video_h264/videos/observation.images.top/chunk-000/file-000.mp4", 10),
    "h264, one key frame": ("world_model/main_video/pixels/ep_3.mp4", 25),
    "h264, two key frames": ("world_model/main_video/pixels/ep_4.mp4", 25),
    "av1": ("real/g1_lerobot_v21/videos/chunk-000/observation.images.cam_high/episode_000002.mp4", 30),
}


@pytest.fixture(scope="module", params=VIDEOS)
def video(request, dataset_fixtures):
    """Path, rate, and the first frames as PyAV decodes them one after the other."""
    name, fps = VIDEOS[request.param]
    with av.open(str(dataset_fixtures / name)) as container:
        decoded = container.decode(video=0)
        truth = np.stack([frame.to_ndarray(format="rgb24") for frame, _ in zip(decoded, range(48), strict=False)])
    return dataset_fixtures / name, fps, truth


@pytest.fixture(scope="module")
def small() -> tuple[bytes, np.ndarray]:
    """Write an exact video of 60 frames, with key frames every 10."""
    frames = np.random.default_rng(0).integers(0, 255, (60, 16, 18, 3), dtype=np.uint8)
    file = io.BytesIO()
    encode_video(frames, file, fps=30, lossless=True, options={"sc_threshold": "0"})
    return file.getvalue(), frames


@pytest.mark.parametrize("by", ["number", "time", "bytes"])
def test_any_order_gives_the_frames_of_sequential_decoding(video, by):
    path, fps, truth = video
    source = path.read_bytes() if by == "bytes" else path
    frames = VideoFrames(source, count=len(truth), **({"fps": fps, "from_timestamp": 0.0} if by == "time" else {}))
    assert (frames.encoding, frames.shape, frames.nbytes) == ("mp4", truth.shape[1:], path.stat().st_size)
    assert np.array_equal(frames.decode(), truth)
    order = random.Random(by)
    for _ in range(20):
        start = order.randrange(len(truth))
        stop = min(len(truth), start + order.randrange(1, 5))
        assert np.array_equal(frames.decode(start, stop), truth[start:stop]), (start, stop)


def test_an_episode_is_a_span_of_a_file_of_many(dataset_fixtures):
    name, fps = VIDEOS["h264, key frames near"]
    source = np.load(dataset_fixtures / "lerobot" / "lerobot_source.npz")
    begin = 0
    for episode, steps in enumerate((7, 12, 20)):
        frames = VideoFrames(dataset_fixtures / name, from_timestamp=begin / fps, fps=fps, count=steps)
        true = source[f"episode_{episode}/observation.images.top"]
        assert np.abs(frames.decode().astype(int) - true).mean() < 3
        assert np.array_equal(frames.slice(2, 5).decode(1), frames.decode()[3:5])
        begin += steps


def test_only_what_is_needed_is_decoded(small):
    data, truth = small
    frames = VideoFrames(data, from_timestamp=0.0, fps=30, count=60)
    with POOL.use(data, "video") as video:
        decoded = []
        seek = video._seek

        def count(wanted: int) -> tuple:
            first, packets = seek(wanted)
            return first, (decoded.append(packet.pts) or packet for packet in packets)

        video._seek = count
    assert np.array_equal(frames.decode(47, 50), truth[47:50])
    assert np.array_equal(frames.decode(50, 52), truth[50:52])
    assert len(decoded) == 11, "behind the key frame 40 on to 51, nothing twice"


def test_length_comes_from_the_file(small):
    data, truth = small
    assert (VideoFrames(data).length, VideoFrames(data, first=50).length) == (60, 10)
    assert np.array_equal(VideoFrames(data, first=50).decode(), truth[50:])
    with pytest.raises(StepError):
        VideoFrames(data).decode(0, 61)
    with pytest.raises(CodecError, match="expected frames 50 to 69, found a video of 60"):
        VideoFrames(data, first=50, count=20).decode()


def test_a_frame_at_another_time_is_an_error(small, tmp_path):
    (tmp_path / "a.mp4").write_bytes(small[0])
    frames = VideoFrames(tmp_path / "a.mp4", from_timestamp=0.0005, fps=30, count=10)
    with pytest.raises(CodecError, match=r"a\.mp4: expected a frame within 0.0001 s of 0.000500 s, found one at"):
        frames.decode()
    with pytest.raises(CodecError, match=r"of 2\.000000 s"):
        VideoFrames(tmp_path / "a.mp4", from_timestamp=0.0, fps=30, count=61).decode(58)
    assert VideoFrames(tmp_path / "a.mp4", from_timestamp=0.00009, fps=30, count=10).decode().any()
    late = VideoFrames(tmp_path / "a.mp4", from_timestamp=1e300, fps=30, count=2)
    with pytest.raises(CodecError, match=r"expected the time of a frame, found 1e\+300 s"):
        late.decode()
    for wrong in (
        {"from_timestamp": 0.0},
        {"from_timestamp": 0.0, "count": 3, "fps": 0},
        {"from_timestamp": float("nan"), "count": 3, "fps": 30},
        {"first": -1},
        {"count": 1.5},
    ):
        with pytest.raises(EpisodeError, match="expected"):
            VideoFrames(tmp_path / "a.mp4", **wrong)


def test_a_replaced_file_is_opened_again(small, tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(small[0])
    assert np.array_equal(VideoFrames(path).decode(0, 3), small[1][:3])
    encode_video(small[1][::-1], path, fps=30, lossless=True)
    assert np.array_equal(VideoFrames(path).decode(0, 3), small[1][::-1][:3])


def test_a_function_opens_the_file(small, tmp_path):
    (tmp_path / "a.mp4").write_bytes(small[0])
    opened = []

    def opener() -> io.BufferedReader:
        opened.append((tmp_path / "a.mp4").open("rb"))
        return opened[-1]

    frames = VideoFrames(opener)
    assert np.array_equal(frames.decode(20, 30), small[1][20:30])
    assert np.array_equal(frames.decode(5, 8), small[1][5:8])
    assert len(opened) == 1
    POOL.close()
    assert opened[0].closed


def read_elsewhere(frames: VideoFrames, start: int) -> np.ndarray:
    return frames.decode(start, start + 3)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of a process with threads, from Python 3.12 on
@pytest.mark.filterwarnings("ignore:lance is not fork-safe")  # other tests import it
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_open_the_file_for_themselves(small, tmp_path, method):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"no {method} here")
    (tmp_path / "a.mp4").write_bytes(small[0])
    frames = VideoFrames(tmp_path / "a.mp4")
    frames.decode(0, 3)  # open here: the position of the file is shared with what is forked
    with multiprocessing.get_context(method).Pool(2 if method == "fork" else 1) as pool:
        parts = [pool.apply_async(read_elsewhere, (frames, start)) for start in (40, 3, 21, 50)]
        here = [frames.decode(start, start + 3) for start in (0, 30, 57)]
        assert all(
            np.array_equal(part.get(60), small[1][start : start + 3])
            for part, start in zip(parts, (40, 3, 21, 50), strict=True)
        )
    assert all(np.array_equal(part, small[1][start : start + 3]) for part, start in zip(here, (0, 30, 57), strict=True))


def test_threads_read_the_same_video(small):
    frames = pickle.loads(pickle.dumps(VideoFrames(small[0])))  # noqa: S301  (our own)
    with ThreadPoolExecutor(4) as threads:
        starts = [random.Random(1).randrange(57) for _ in range(40)]
        parts = list(threads.map(lambda start: frames.decode(start, start + 3), starts))
    assert all(np.array_equal(part, small[1][s : s + 3]) for part, s in zip(parts, starts, strict=True))


def test_few_videos_stay_open(small, tmp_path):
    pool = VideoPool(max_open=2)
    paths = [tmp_path / f"{number}.mp4" for number in range(4)]
    for path in paths:
        path.write_bytes(small[0])
    used = []
    for path in [*paths, paths[3], paths[0]]:
        with pool.use(path, "v") as video:
            used.append(video)
    assert used[4] is used[3]
    assert used[5] is not used[0]
    assert len(pool._idle) == 2
    with pytest.raises(KeyError), pool.use(paths[0], "v"):
        raise KeyError
    assert len(pool._idle) == 1, "what failed is closed"
    pool.close()


def test_missing_files(tmp_path):
    frames = VideoFrames(tmp_path / "none.mp4", count=5, frame_shape=(4, 4, 3))
    assert (frames.length, frames.shape) == (5, (4, 4, 3)), "the episode can be shown without its video"
    with pytest.raises(FileNotFoundError, match=r"none\.mp4") as caught:
        frames.decode()
    assert isinstance(caught.value, MissingFileError)
    assert caught.value.filename == str(tmp_path / "none.mp4")


class Counted(io.BytesIO):
    """A file that counts the bytes that are read of it."""

    count = 0

    def read(self, size: int = -1) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def test_only_what_is_needed_is_read():
    pixels = np.random.default_rng(2).integers(0, 255, (100, 48, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    encode_video(pixels, file, fps=20, lossless=True)
    opened = Counted(file.getvalue())
    assert np.array_equal(VideoFrames(lambda: opened).decode(60, 62), pixels[60:62])
    assert 0 < opened.count < len(file.getvalue()) / 3
    POOL.close()


@pytest.mark.parametrize("even", [True, False])
def test_frames_at_uneven_times_are_found_by_number(even):
    """Uneven times of showing, beside even or uneven times of decoding."""
    pixels = np.random.default_rng(2).integers(0, 255, (30, 16, 16, 3), dtype=np.uint8)
    file, packets = io.BytesIO(), []
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264rgb", rate=10, options={"qp": "0", "bf": "0", "g": "7"})
        stream.height, stream.width, stream.pix_fmt = 16, 16, "rgb24"
        for frame in [*pixels, None]:
            packets += stream.encode(None if frame is None else av.VideoFrame.from_ndarray(frame, "rgb24"))
        for number, packet in enumerate(packets):
            packet.time_base = stream.codec_context.time_base / 100
            packet.dts = number * 100 if even else number * 100 + number % 3
            packet.pts = packet.dts + 7 * (number % 4)
            container.mux(packet)
    frames = VideoFrames(file.getvalue())
    for start, stop in ((13, 17), (0, 30), (29, 30), (2, 3)):
        assert np.array_equal(frames.decode(start, stop), pixels[start:stop])


@pytest.mark.parametrize("counts", [{"entries": 0}, {"samples": 3}, {"delta": 0}], ids=["entries", "samples", "delta"])
def test_frames_without_a_time_of_their_own_are_an_error(counts):
    """The table of times of an MP4 has none, those of some frames, or one for all: no frame may stand for another."""
    file = io.BytesIO()
    encode_video(np.repeat(np.arange(0, 240, 10, np.uint8), 32 * 32 * 3).reshape(24, 32, 32, 3), file, fps=10)
    data = bytearray(file.getvalue())
    at = data.index(b"stts") + 8
    table = dict(zip(("entries", "samples", "delta"), struct.unpack_from(">III", data, at), strict=True))
    struct.pack_into(">III", data, at, *(table | counts).values())
    for frames in (VideoFrames(bytes(data)), VideoFrames(bytes(data), from_timestamp=0.0, fps=10, count=24)):
        with pytest.raises(CodecError, match=r"time of its own|within 0\.0001 s|cannot be decoded"):
            frames.decode(0, 10)


def test_one_channel_is_the_luma(small):
    pixels = np.repeat(np.arange(40, 240, dtype=np.uint8).reshape(10, 20, 1), 3, 2)
    file = io.BytesIO()
    encode_video([pixels] * 3, file, fps=10, options={"crf": "1"})
    luma = VideoFrames(file.getvalue(), frame_shape=(10, 20, 1)).decode()
    with av.open(io.BytesIO(file.getvalue())) as container:
        true = next(container.decode(video=0)).to_ndarray(format="yuv420p")[:10, :20]
    assert np.array_equal(luma[0, ..., 0], true)
    gray = VideoFrames(small[0], frame_shape=(16, 18, 1)).decode(0, 1)
    with av.open(io.BytesIO(small[0])) as container:
        true = next(container.decode(video=0)).to_ndarray(format="gray")
    assert np.array_equal(gray[0, ..., 0], true), "RGB has no luma: it is calculated"


def test_gray_of_more_bits_keeps_its_codes():
    codes = np.random.default_rng(1).integers(0, 1 << 12, (6, 14, 22), dtype=np.uint16)
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx265", rate=10, options={"x265-params": "lossless=1:log-level=none"})
        stream.height, stream.width, stream.pix_fmt = 64, 64, "gray12le"
        for plane in np.pad(codes, ((0, 0), (0, 50), (0, 42))):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(plane, "gray12le")))
        container.mux(stream.encode(None))
    frames = VideoFrames(file.getvalue())
    assert (frames.shape, frames.dtype) == ((64, 64, 1), np.uint16)
    assert np.array_equal(frames.decode()[:, :14, :22, 0], codes)


def test_other_shapes(small):
    with pytest.raises(LaneError, match=r"expected frames of uint8 \[8, 8, 3\], found uint8 \[16, 18, 3\]"):
        VideoFrames(small[0], frame_shape=(8, 8, 3)).decode()


def test_cut_and_damaged_files_are_typed_errors(small, tmp_path):
    data = small[0]
    for size in [*range(0, 64, 9), *range(64, len(data) - 1, len(data) // 12)]:
        with pytest.raises(FormatError):
            VideoFrames(data[:size], count=60).decode()
    order = random.Random(0)
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(order.choice((1, 4, 64))):
            damaged[order.randrange(len(data) * 9 // 10, len(data))] = order.randrange(256)  # the tables are there
        try:
            VideoFrames(bytes(damaged), count=60).decode()
        except FormatError:
            continue


def test_invalid_mp4_is_not_opened(tmp_path):
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile /etc/passwd\n")
    (tmp_path / "play.mp4").write_text("#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n")
    for name in ("list.mp4", "play.mp4"):
        with pytest.raises(FormatError):
            VideoFrames(tmp_path / name, count=1).decode()
    with pytest.raises(FileNotFoundError):
        VideoFrames("http://127.0.0.1:9/a.mp4", count=1).decode()


def test_large_frames_are_refused(small, monkeypatch):
    monkeypatch.setattr("wshard.core.media.image_header.MAX_PIXELS", 100)
    with pytest.raises(LimitError, match="at most 100 pixels, found 18 x 16"):
        VideoFrames(bytes(bytearray(small[0]))).decode()


def test_a_video_is_released_after_the_library_is_gone(small, monkeypatch):
    video = OpenVideo(small[0], "a.mp4")
    video.read_into(np.zeros((1, 16, 18, 3), np.uint8), np.zeros(1))  # its decoding is suspended after a frame
    monkeypatch.setitem(sys.modules, "av", None)
    errors = []
    monkeypatch.setattr(sys, "unraisablehook", errors.append)
    del video
    gc.collect()
    assert not errors


def test_without_the_library_the_extra_is_named(small, monkeypatch):
    POOL.close()
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtraError, match=r"wshard\[video\]"):
        VideoFrames(small[0]).decode()
    with pytest.raises(MissingExtraError, match=r"wshard\[video\]"):
        open_video.import_av()
