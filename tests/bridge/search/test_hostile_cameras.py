"""Cameras that lie: videos that are cut, empty or change in size, images that claim to be huge: none is a wrong hit."""

from __future__ import annotations

import io
import struct
import tracemalloc
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from wshard_files import with_blocks

from bridge.episodes.videos import find_videos
from wshard import Channel, Episode, TrajectoryIngestor, TrajectoryRetriever, open_episode, save_wshard
from wshard.core.types import TimebaseSpec
from wshard.media import ImageFrames, VideoFrames, encode_image

if TYPE_CHECKING:
    from collections.abc import Sequence

STEPS, HEIGHT, WIDTH = 40, 32, 48


def scene(seed, *, height=HEIGHT, width=WIDTH):
    """Return uint8 [40, height, width, 3]: a bar that crosses a wall of its own."""
    wall = np.random.default_rng(seed).integers(0, 200, (height // 8, width // 8, 3))
    frames = np.repeat(wall.repeat(8, axis=0).repeat(8, axis=1)[None], STEPS, axis=0).astype(np.uint8)
    for step, frame in enumerate(frames):
        frame[:, step % width : step % width + 6] = 255
    return frames


def movie(*scenes: np.ndarray, ticks: Sequence[int] = range(2 * STEPS)) -> bytes:
    """Return an MP4 of motion JPEG, of frames of several sizes; ticks: their times in twentieths of a second."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("mjpeg", rate=20)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuvj420p"
        for tick, frame in zip(ticks, (frame for frames in scenes for frame in frames), strict=False):
            packet = av.Packet(encode_image(frame, "jpeg", quality=95))
            packet.stream, packet.time_base, packet.pts, packet.dts = stream, Fraction(1, 20), tick, tick
            container.mux(packet)
    return file.getvalue()


def without_pts(frames: np.ndarray) -> bytes:
    """Return bare H.264, whose packets have no times."""
    file = io.BytesIO()
    with av.open(file, "w", format="h264") as container:
        stream = container.add_stream("libx264", rate=20)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        for frame in (*map(av.VideoFrame.from_ndarray, frames), None):
            container.mux(stream.encode(frame))
    return file.getvalue()


def timed(data, *, count=STEPS, delta=None):
    """Return an MP4 whose table of times has another number of frames, or other steps between them."""
    changed, place = bytearray(data), data.index(b"stts") + 12
    delta = struct.unpack_from(">I", changed, place + 4)[0] if delta is None else delta
    struct.pack_into(">II", changed, place, count, delta)
    return bytes(changed)


def huge(image):
    """Return a JPEG that claims 65,500 x 65,500 pixels."""
    changed = bytearray(image)
    struct.pack_into(">HH", changed, image.index(b"\xff\xc0") + 5, 65_500, 65_500)
    return bytes(changed)


def save(path, number, encoded, **others: Any):
    episode = Episode(f"ep-{number}", "wall", STEPS, timebase=TimebaseSpec(tick_hz=20.0))
    for name, frames in {"cam": encoded, **others}.items():
        episode.observations[name] = Channel.of(name, frames)
    save_wshard(episode, path)


GOOD = movie(scene(0))
VIDEOS = {
    "cut": GOOD[:-2000],
    "without an end": GOOD[: len(GOOD) // 2],
    "empty": b"",
    "no video": b"RIFF" + bytes(2000),
    "of changing size": movie(scene(1)[:20], scene(1, height=64, width=96)[:20]),
    "all at one time": timed(GOOD, delta=0),
    "without pts": without_pts(scene(1)),
    "of too few frames": movie(scene(1)[:9]),
}


@pytest.fixture
def folder(tmp_path):
    """Provide a good episode, and one with each of the videos and images in its place."""
    save(tmp_path / "good.wshard", 0, VideoFrames(GOOD))
    data = (tmp_path / "good.wshard").read_bytes()
    for name, video in VIDEOS.items():
        (tmp_path / f"{name}.wshard").write_bytes(with_blocks(data, {"signal/cam": video}))
    images = [encode_image(frame, "jpeg") for frame in scene(2)]
    images[6] = huge(images[6])
    lane = ImageFrames("jpeg", images, frame_shape=(HEIGHT, WIDTH, 3), frame_dtype=np.dtype(np.uint8))
    save(tmp_path / "claiming to be huge.wshard", 2, lane)
    return tmp_path


def test_what_cannot_be_read_is_named_and_never_a_hit(folder):
    tracemalloc.start()
    with TrajectoryIngestor(folder / "archive", "frames", lanes="cam") as ingestor:
        report = ingestor.ingest(folder, windows="whole")
    with TrajectoryRetriever(folder / "archive", lanes="cam") as retriever:
        for stride in (None, 0):
            hits = retriever.search(None, 20, image=scene(0)[7], stride=stride)
            assert {hit.address.uri.rpartition("/")[2] for hit in hits} == {"good.wshard"}
            assert (hits[0].seen.step, round(hits[0].score, 2)) == (7, 1.0)
            assert "frames that cannot be read" in hits.answered.missed
        spans = retriever.search_moments(top_k=20, image=scene(0)[7])
        assert {span.address.uri.rpartition("/")[2] for span in spans} == {"good.wshard"}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20, "a frame of 65,500 x 65,500 takes 12 GB"
    failed = {failure.path.rpartition("/")[2].removesuffix(".wshard"): failure.error for failure in report.failed}
    assert failed.keys() == VIDEOS.keys() | {"claiming to be huge"}
    assert all("signal/cam" in reason or "video" in reason for reason in failed.values()), failed


@pytest.mark.parametrize("damaged", ["cam", "eye"], ids=["the first", "the last"])
def test_a_camera_that_cannot_be_read_takes_no_other_one_with_it(damaged, tmp_path):
    for number in range(3):
        save(tmp_path / f"{number}.wshard", number, VideoFrames(movie(scene(number))), eye=VideoFrames(movie(scene(9))))
    data = (tmp_path / "1.wshard").read_bytes()
    (tmp_path / "1.wshard").write_bytes(with_blocks(data, {f"signal/{damaged}": VIDEOS["cut"]}))
    other = {"cam": "eye", "eye": "cam"}[damaged]
    with TrajectoryIngestor(tmp_path / "archive") as ingestor:
        ingestor.ingest(tmp_path)
    with TrajectoryRetriever(tmp_path / "archive") as retriever:
        picture = {"cam": scene(1), "eye": scene(9)}[other][7]
        for stride in (None, 0):
            hits = retriever.search(image=picture, stride=stride)
            hit = {one.episode_id: one for one in hits}["ep-1"]
            assert (hit.seen.camera, hit.seen.step, round(hit.score, 2)) == (f"signal/{other}", 7, 1.0)
            assert not hits.exact
            assert "1 episode without a camera that cannot be read" in hits.certainty
            assert not hits.answered.left_out
            assert any("1.wshard" in note for note in hits.answered.notes)
    with open_episode(tmp_path / "1.wshard") as file:
        assert [one.lane for one in find_videos(file)] == [f"signal/{other}"]


def test_players_are_given_no_video_of_irregular_times(tmp_path):
    late = [*range(STEPS // 2), *range(STEPS // 2 + 3, STEPS + 3)]
    save(tmp_path / "a.wshard", 0, VideoFrames(GOOD), eye=VideoFrames(movie(scene(0), ticks=late)))
    with open_episode(tmp_path / "a.wshard") as file:
        assert np.array_equal(file.lane("signal/eye"), file.lane("signal/cam"))
        assert [(one.lane, round(one.rate)) for one in find_videos(file)] == [("signal/cam", 20)]
