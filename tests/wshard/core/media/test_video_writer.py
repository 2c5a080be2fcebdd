"""Videos of any size, at a constant rate, that PyAV reads back."""

from __future__ import annotations

import io
import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import av
import numpy as np
import pytest

from wshard.errors import EpisodeError
from wshard.media import VideoFrames, encode_video

if TYPE_CHECKING:
    from collections.abc import Iterator


def moving(count: int, *shape: int) -> np.ndarray:
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    return np.stack([np.repeat((rows * 3 + columns * 2 + t)[..., None], shape[2], 2) for t in range(count)]).astype(
        np.uint8
    )


@pytest.mark.parametrize("shape", [(16, 16, 3), (17, 32, 3), (16, 33, 3), (1, 1, 3), (15, 17, 1), (16, 16, 1)])
def test_any_size_stays_as_it_is(shape):
    frames = moving(23, *shape)
    for lossless in (False, True):
        file = io.BytesIO()
        assert encode_video(frames, file, fps=10, lossless=lossless) == 23
        with av.open(io.BytesIO(file.getvalue())) as container:
            stream = container.streams.video[0]
            assert (stream.height, stream.width, stream.frames) == (*shape[:2], 23)
        found = VideoFrames(file.getvalue(), frame_shape=shape).decode()
        error = np.abs(found.astype(int) - frames)
        assert error.max() == 0 if lossless else error.mean() < 3


@pytest.mark.parametrize("fps", [3, 10, 12.5, 29.97, 30000 / 1001])
def test_frames_are_at_their_times(fps):
    file = io.BytesIO()
    encode_video(moving(25, 8, 8, 3), file, fps=fps)
    with av.open(io.BytesIO(file.getvalue())) as container:
        decoded = list(container.decode(video=0))
    assert all(abs(float(frame.pts * frame.time_base) - t / fps) < 1e-4 for t, frame in enumerate(decoded))
    assert [t for t, frame in enumerate(decoded) if frame.key_frame] == [0, 10, 20]


def test_options_are_those_of_the_codec():
    file = io.BytesIO()
    encode_video(moving(12, 64, 64, 3), file, fps=10, codec="libsvtav1", options={"g": "2", "crf": "30"})
    with av.open(io.BytesIO(file.getvalue())) as container:
        assert "av1" in container.streams.video[0].codec_context.name
        assert container.streams.video[0].average_rate == Fraction(10)
    assert VideoFrames(file.getvalue()).decode().shape == (12, 64, 64, 3)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs a system that lists its threads")
def test_no_thread_of_an_encoder_goes_before_other_processes_also_for_root():
    def watched() -> Iterator[np.ndarray]:
        for frame in moving(3, 64, 64, 3):
            yield frame
            policies.append({os.sched_getscheduler(int(thread.name)) for thread in Path("/proc/self/task").iterdir()})

    policies: list[set[int]] = []
    encode_video(watched(), io.BytesIO(), fps=10, codec="libsvtav1")
    assert policies == [{os.SCHED_OTHER}] * 3


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that can restrict cores")
def test_bytes_do_not_depend_on_the_cores_that_may_be_used():
    cores, videos = os.sched_getaffinity(0), []
    for some in ({min(cores)}, cores):
        os.sched_setaffinity(0, some)
        try:
            encode_video(moving(20, 256, 256, 3), file := io.BytesIO(), fps=10)
        finally:
            os.sched_setaffinity(0, cores)
        videos.append(file.getvalue())
    assert videos[0] == videos[1]
    assert b"threads=4" in videos[0]


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    encode_video(moving(5, 8, 8, 3), tmp_path / "a.mp4", fps=10)
    before = (tmp_path / "a.mp4").read_bytes()
    broken = [*moving(3, 8, 8, 3), np.zeros((9, 8, 3), np.uint8)]
    with pytest.raises(EpisodeError, match=r"frame 3: expected \[8, 8, 3\], found \[9, 8, 3\]"):
        encode_video(broken, tmp_path / "a.mp4", fps=10)
    assert (tmp_path / "a.mp4").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        ([], {}, "at least one frame"),
        (moving(2, 8, 8, 2), {}, r"uint8 \[H, W, C\] with C 1 or 3"),
        (moving(2, 8, 8, 3).astype(float), {}, "found float64"),
        (moving(2, 8, 8, 3), {"fps": 0}, "fps > 0"),
        (moving(2, 8, 8, 3), {"fps": "x"}, "finite number"),
        (moving(2, 8, 8, 3), {"codec": "nope"}, "nope cannot encode frames 8x8x3"),
        (moving(2, 8, 8, 3), {"options": {"crf": "zzz"}}, "libx264 cannot encode"),
    ],
)
def test_what_cannot_be_encoded_is_refused(frames, options, message):
    with pytest.raises(EpisodeError, match=message):
        encode_video(frames, io.BytesIO(), **{"fps": 10, **options})
