"""Packets of every codec are copied: a span has the frames of its file, whatever encodes and decodes them here."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest

from wshard.core.media.open_video import translate_errors
from wshard.core.media.video_copy import copy_video
from wshard.core.media.video_writer import restrain_encoder
from wshard.errors import CodecError, LaneError
from wshard.media import VideoFrames

_SVT = {"crf": "20", "preset": "12", "svtav1-params": "lp=1"}
CODECS = {
    "libx264": ("h264", {"crf": "10", "bf": "2"}),
    "libx265": ("hevc", {"crf": "10", "x265-params": "log-level=none"}),
    "libsvtav1": ("av1", _SVT),
    "libvpx-vp9": ("vp9", {"deadline": "realtime", "cpu-used": "8"}),
}


@pytest.fixture(scope="module", params=CODECS)
def video(request) -> tuple[str, bytes, np.ndarray]:
    """Write 12 frames with a key frame every 4, and decode them one after the other."""
    codec, options = CODECS[request.param]
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream(request.param, rate=10, options={"g": "4"} | options)
        stream.height, stream.width, stream.pix_fmt = 64, 64, "yuv420p"
        with restrain_encoder():
            stream.codec_context.open()
        for step in range(12):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 20 * step, np.uint8), "rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with av.open(io.BytesIO(file.getvalue())) as container:
        truth = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert len(truth) == 12
    return codec, file.getvalue(), truth


@pytest.mark.parametrize(("start", "stop"), [(0, 12), (0, 5), (4, 8), (6, 11)])
def test_a_span_of_every_codec_keeps_its_packets(video, start, stop):
    codec, data, truth = video
    copied, first = copy_video(VideoFrames(data).slice(start, stop))
    with av.open(io.BytesIO(copied)) as container:
        assert container.streams.video[0].codec_context.codec.canonical_name == codec
        found = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert np.array_equal(found[first : first + stop - start], truth[start:stop])
    assert np.array_equal(VideoFrames(copied, first=first, count=stop - start).decode(), truth[start:stop])


@pytest.mark.parametrize("shape", [(32, 64, 3), (64, 32, 1), (64, 64, 4)])
def test_no_packets_are_copied_that_are_not_read_as_the_lane_says(video, shape):
    frames = VideoFrames(video[1], frame_shape=shape, frame_dtype=np.dtype(np.uint8))
    for read in (frames.decode, lambda: copy_video(frames), lambda: copy_video(frames.slice(4, 8))):
        with pytest.raises(LaneError, match=r"expected frames of uint8 \[.*found uint8 \[64, 64, 3\]"):
            read()


def test_a_codec_that_is_not_there_is_a_typed_error():
    with pytest.raises(CodecError, match=r"a\.mp4: .*no-such-codec"), translate_errors("a.mp4"):
        av.Codec("no-such-codec", "r")
