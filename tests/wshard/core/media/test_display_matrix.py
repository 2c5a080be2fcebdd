"""Frames of videos with a display matrix are turned as players turn them."""

from __future__ import annotations

import io
import struct

import av
import numpy as np
import pytest

from wshard.core.media.video_copy import copy_video
from wshard.errors import CodecError
from wshard.media import VideoFrames


def write(angle):
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=10, options={"g": "4", "crf": "10"})
        stream.height, stream.width, stream.pix_fmt = 32, 64, "yuv420p"
        stream.set_display_rotation(angle)
        for step in range(8):
            pixels = np.zeros((32, 64, 3), np.uint8)
            pixels[:16, :16], pixels[16:, 32:] = 255, 20 * step
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        container.mux(stream.encode(None))
    return file.getvalue()


def shown(data):
    """Return the frames as the library stores them, each turned by the angle that it states."""
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(video=0))
    return np.stack([np.rot90(frame.to_ndarray(format="rgb24"), frame.rotation // 90) for frame in frames])


@pytest.mark.parametrize("angle", [0, 90, 180, 270])
def test_frames_are_turned_as_players_turn_them(tmp_path, angle):
    data = write(angle)
    (tmp_path / "a.mp4").write_bytes(data)
    truth = shown(data)
    for source in (data, tmp_path / "a.mp4", lambda: io.BytesIO(data)):
        frames = VideoFrames(source)
        assert frames.shape == truth.shape[1:]
        assert np.array_equal(frames.decode(), truth)
    with av.open(io.BytesIO(data)) as container:
        planes = np.stack([frame.to_ndarray()[:32] for frame in container.decode(video=0)])  # luma comes first
    luma = VideoFrames(data, frame_shape=(*truth.shape[1:3], 1)).decode()
    assert np.array_equal(luma[..., 0], np.rot90(planes, angle // 90, axes=(1, 2)))
    copied, first = copy_video(VideoFrames(data).slice(5, 7))
    assert np.array_equal(VideoFrames(copied).decode()[first:], truth[5:7])


def test_lanes_of_the_stored_shape_stay_readable():
    data = write(90)
    stored = np.rot90(shown(data), -1, axes=(1, 2))
    assert np.array_equal(VideoFrames(data, frame_shape=(32, 64, 3)).decode(), stored)


def test_a_mirrored_video_is_mirrored_and_another_angle_is_refused():
    data = write(0)
    identity = struct.pack(">9i", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)
    place = data.index(identity, data.index(b"tkhd"))
    mirrored = struct.pack(">9i", -1 << 16, 0, 0, 0, 1 << 16, 0, 64 << 16, 0, 1 << 30)
    changed = data[:place] + mirrored + data[place + len(mirrored) :]
    assert np.array_equal(VideoFrames(changed).decode(), shown(data)[:, :, ::-1])
    with pytest.raises(CodecError, match="expected frames shown at a multiple of 90 degrees"):
        VideoFrames(write(45)).decode()
