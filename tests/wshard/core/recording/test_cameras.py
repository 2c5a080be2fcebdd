"""Cameras that are encoded while they are recorded: read by other programs' decoders, whole up to a kill."""

from __future__ import annotations

import inspect
import io
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest
from av.video.frame import PictureType
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from wshard import Channel, Episode, TimebaseSpec, WShardStreamWriter, load_wshard, open_wshard, recover, save_wshard
from wshard.core.repair.inspect import check_file
from wshard.errors import EpisodeError, MissingExtraError
from wshard.shard import ShardReader

if TYPE_CHECKING:
    from pathlib import Path

VIDEOS = ("h264", "av1")


def moving(count: int, height: int = 64, width: int = 64, channels: int = 3) -> np.ndarray:
    """Return frames of a bright square that goes to the right over a slope."""
    frames = np.empty((count, height, width, channels), np.uint8)
    frames[:] = np.linspace(20, 120, width, dtype=np.uint8)[:, None]
    for t, frame in enumerate(frames):
        frame[height // 4 : height // 2, 2 * t % width : 2 * t % width + width // 4] = 220
    return frames


def camera(codec: str, **others: object) -> dict[str, object]:
    return {"id": "signal/cam", "codec": codec, **others}


def record(path: Path, frames: np.ndarray, channel: dict, hz: float = 29.97, **options: int) -> WShardStreamWriter:
    """Write all frames; the recording is still open."""
    recording = WShardStreamWriter(path, "e", [channel, {"id": "signal/s"}], **options)
    recording.begin_episode(timebase=TimebaseSpec(tick_hz=hz))
    for t, frame in enumerate(frames):
        recording.write_timestep(3 * t, {"cam": frame, "s": t / 2}, {}, t, t == len(frames) - 1)
    return recording


def error_of(found: np.ndarray, frames: np.ndarray) -> float:
    return float(np.abs(found.astype(float) - frames).mean())


@pytest.mark.parametrize("codec", [*VIDEOS, "h264:18", "mp4", "av1:50"])
def test_a_video_is_an_mp4_that_pyav_reads_frame_by_frame(tmp_path, codec):
    """J-11, J-12."""
    frames, path = moving(23), tmp_path / "a.wshard"
    record(path, frames, camera(codec)).end_episode()
    with av.open(io.BytesIO(ShardReader(path).read_entry("signal/cam"))) as container:
        stream = container.streams.video[0]
        assert stream.frames == 23
        assert abs(float(stream.average_rate) - 29.97) < 1e-6
        decoded = list(container.decode(stream))
    assert [t for t, frame in enumerate(decoded) if frame.key_frame] == [0, 10, 20]
    assert {PictureType(frame.pict_type).name for frame in decoded} <= {"I", "P"}
    assert all(abs(float(frame.pts * frame.time_base) - t / 29.97) < 1e-4 for t, frame in enumerate(decoded))
    pixels = np.stack([frame.to_ndarray(format="rgb24") for frame in decoded])
    assert error_of(pixels, frames) < 4
    episode = load_wshard(path)
    assert episode.observations["cam"].encoded.encoding == "mp4"
    np.testing.assert_array_equal(episode["cam"], pixels)
    np.testing.assert_array_equal(open_wshard(path)["cam"][12:17], pixels[12:17])
    np.testing.assert_array_equal(episode.ticks, 3 * np.arange(23))
    np.testing.assert_array_equal(episode["s"], np.arange(23) / 2)
    assert check_file(path, strict=True)[1] == {}


@pytest.mark.parametrize(
    ("codec", "dtype", "channels"), [("jpeg", "u8", 3), ("jpeg:40", "u8", 1), ("png", "u8", 4), ("png", "u16", 1)]
)
def test_images_are_those_of_a_batch_save_and_pillow_reads_them(tmp_path, codec, dtype, channels):
    """J-7: byte for byte; depth is exact."""
    rng, path = np.random.default_rng(1), tmp_path / "a.wshard"
    frames = moving(13, 15, 17, channels) if dtype == "u8" else rng.integers(0, 65536, (13, 15, 17, 1), np.uint16)
    record(path, frames, camera(codec, dtype=dtype)).end_episode()
    batch = Episode("e", "", 13, TimebaseSpec(tick_hz=29.97), rewards=np.arange(13, dtype="<f4"))
    batch.observations = {"cam": Channel.of("cam", frames), "s": Channel.of("s", np.arange(13, dtype="<f4") / 2)}
    batch.ticks, batch.terminations = 3 * np.arange(13), np.arange(13) == 12
    save_wshard(batch, tmp_path / "b.wshard", encode={"signal/cam": codec})
    assert path.read_bytes() == (tmp_path / "b.wshard").read_bytes()
    encoded = load_wshard(path).observations["cam"].encoded
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(encoded.image(t)))) for t in range(13)])
    np.testing.assert_array_equal(encoded.decode(), pixels.reshape(frames.shape))
    if codec == "png":
        np.testing.assert_array_equal(encoded.decode(), frames)


@settings(max_examples=12)
@given(
    st.sampled_from(["h264", "av1", "jpeg", "png"]),
    st.integers(0, 25),
    st.integers(1, 40),
    st.sampled_from([(64, 66, 3), (70, 64, 3)]),
    st.sampled_from([0.5, 30, 1000 / 3]),
)
def test_there_is_a_frame_for_each_timestep_and_for_each_that_was_flushed(
    tmp_path_factory, codec, steps, interval, shape, hz
):
    """J-4, J-9: a journal that is cut anywhere, or a recording of any length."""
    folder, frames = tmp_path_factory.mktemp("r"), moving(steps, *shape)
    recording = record(folder / "a.wshard", frames, camera(codec), hz, flush_interval=interval)
    shutil.copy(recording.partial, folder / "b.wshard.partial")
    journal = recording.partial.read_bytes()
    (folder / "c.wshard.partial").write_bytes(journal[: len(journal) * 2 // 3])
    recording.end_episode()
    group = min(interval, 10)
    for name, count in (("a", steps), ("b", steps // group * group), ("c", None)):
        path = folder / f"{name}.wshard"
        if name != "a" and b"LANE" in (folder / f"{name}.wshard.partial").read_bytes():
            recover(folder / f"{name}.wshard.partial")
        elif name != "a":
            continue
        episode = load_wshard(path)
        assert episode.length == count or (count is None and episode.length % group == 0)
        assert episode.length == 0 or error_of(episode["cam"], frames[: episode.length]) < 4
        assert check_file(path, strict=True)[1] == {}


VICTIM = f"""
import os, sys
import numpy as np
from wshard import WShardStreamWriter

{inspect.getsource(moving)}

recording = WShardStreamWriter(sys.argv[1], "e", [{{"id": "signal/cam", "codec": sys.argv[2]}}], None)
recording.begin_episode()
for t in range(100000):
    recording.write_timestep({{"cam": moving(t % 40 + 1)[-1]}})
    os.write(1, b".")
"""


@pytest.mark.parametrize("codec", VIDEOS)
def test_a_kill_costs_at_most_the_open_group_of_frames(tmp_path, codec):
    path = tmp_path / "a.wshard"
    command = [sys.executable, "-c", VICTIM, path, codec]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        written = child.stdout.read(33)
        child.send_signal(signal.SIGKILL)
        written += child.stdout.read()
    episode = load_wshard(recover(tmp_path / "a.wshard.partial"))
    assert 30 <= len(written) // 10 * 10 <= episode.length
    frames = np.concatenate([moving(40)] * (episode.length // 40 + 1))[: episode.length]
    assert error_of(episode["cam"], frames) < 4
    assert [file.name for file in tmp_path.iterdir()] == ["a.wshard"]


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (camera("h265"), "codec: expected such as 'jpeg:90'"),
        (camera("jpeg:0"), "jpeg:1 to jpeg:100"),
        (camera("jpeg:101"), "found 'jpeg:101'"),
        (camera("h264:52"), "h264:0 to h264:51"),
        (camera("av1:64"), "av1:0 to av1:63"),
        (camera("png:3"), "found 'png:3'"),
        (camera(90), "found 90"),
        (camera("jpeg", shape=[3]), r"signal/cam: codec jpeg: expected uint8 frames \[H, W, C\].* found u8 \[3\]"),
        (camera("png", dtype="f32"), "found f32"),
        (camera("jpeg", dtype="u16", shape=[4, 4, 1]), r"found u16 \[4, 4, 1\]"),
        (camera("h264", shape=[4, 4, 4]), "C 1 or 3"),
        (camera("av1", shape=[65, 64, 3]), "of even height and width"),
        (camera("jpeg", shape=[0, 4, 3]), "found u8"),
        (camera("jpeg", compression="zstd"), "expected a codec, or compression"),
    ],
)
def test_impossible_codecs_are_refused_before_anything_is_recorded(tmp_path, definition, message):
    with pytest.raises(EpisodeError, match=message):
        WShardStreamWriter(tmp_path / "a.wshard", "e", [definition])


@pytest.mark.parametrize("codec", ["h264", "jpeg"])
def test_wrong_frames_leave_no_trace(tmp_path, codec):
    """J-5: the video goes on where it was; frames of odd sizes keep them."""
    frames, path = moving(12, 15, 17), tmp_path / "a.wshard"
    with WShardStreamWriter(path, "e", [camera(codec)]) as recording:
        recording.begin_episode()
        for wrong in (
            1,
            frames[0, 0],
            frames[0, ..., 0],
            frames[0, :0],
            frames[0] / 255,
            frames[0] + 256.0,
            "cam.jpeg",
        ):
            with pytest.raises(EpisodeError):
                recording.write_timestep({"cam": wrong})
        for frame in frames:
            recording.write_timestep({"cam": frame})
            for wrong in (frame[:8], frame[..., :1], frame.astype(int) - 300):
                with pytest.raises(EpisodeError):
                    recording.write_timestep({"cam": wrong})
    episode = load_wshard(path)
    assert episode["cam"].shape == frames.shape
    assert error_of(episode["cam"], frames) < 4


@pytest.mark.parametrize(
    ("codec", "modules", "extra"),
    [("h264", ["av"], "video"), ("png", ["PIL.Image"], "images"), ("jpeg", ["PIL.Image", "simplejpeg"], "images")],
)
def test_a_library_that_is_not_installed_is_named_at_once(tmp_path, monkeypatch, codec, modules, extra):
    from wshard.core.media.images import find_simplejpeg  # noqa: PLC0415  (its cache)

    find_simplejpeg.cache_clear()
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)
    try:
        with pytest.raises(MissingExtraError, match=rf"wshard\[{extra}\]"):
            WShardStreamWriter(tmp_path / "a.wshard", "e", [camera(codec)])
    finally:
        find_simplejpeg.cache_clear()


def test_encoded_frames_can_be_saved_again_in_part(tmp_path):
    """What a recording wrote is a lane like any other."""
    record(tmp_path / "a.wshard", moving(25), camera("h264")).end_episode()
    whole = load_wshard(tmp_path / "a.wshard")
    part = replace(whole, length=9, observations={"cam": whole.observations["cam"].part(13, 22)}, rewards=None)
    part.terminations = part.ticks = None
    save_wshard(part, tmp_path / "b.wshard")
    np.testing.assert_array_equal(load_wshard(tmp_path / "b.wshard")["cam"], whole["cam"][13:22])
