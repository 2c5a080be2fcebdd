"""Frames of images: decoded one by one, on use."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytest
from PIL import Image

from wshard.errors import CodecError, LaneError, LimitError, StepError
from wshard.media import ImageFrames, encode_image

if TYPE_CHECKING:
    from pathlib import Path

RNG = np.random.default_rng(3)


class Files(Sequence):
    """Images that are read on use."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths, self.read = paths, []

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> bytes:
        self.read.append(place)
        return self.paths[place].read_bytes()


def test_frames_of_another_program_are_read_lazily(dataset_fixtures):
    folder = dataset_fixtures / "world_model" / "main_folder" / "pixels"
    files = Files([folder / f"ep_4_step_{step}.jpeg" for step in range(40)])
    frames = ImageFrames("jpeg", files, frame_shape=(64, 64, 3))
    truth = np.stack([np.asarray(Image.open(path)) for path in files.paths])
    assert (frames.length, frames.shape, frames.dtype) == (40, (64, 64, 3), np.uint8)
    assert np.array_equal(frames.decode(10, 14), truth[10:14])
    assert files.read == [10, 11, 12, 13]
    part = frames.slice(5, 30).slice(2, 6)
    assert (len(part), part.nbytes) == (4, sum(len(files[step]) for step in range(7, 11)))
    assert np.array_equal(part.decode(), truth[7:11])
    assert np.array_equal(frames.decode(), truth)


def test_shape_and_dtype_come_from_the_first_image():
    depth = RNG.integers(0, 1 << 16, (3, 5, 6, 1), dtype=np.uint16)
    frames = ImageFrames("png", [encode_image(frame, "png") for frame in depth])
    assert (frames.shape, frames.dtype) == ((5, 6, 1), np.uint16)
    assert np.array_equal(frames.decode(), depth)
    assert np.array_equal(pickle.loads(pickle.dumps(frames)).decode(1), depth[1:])  # noqa: S301  (our own)


def test_steps_that_there_are_not():
    frames = ImageFrames("png", [encode_image(np.zeros((4, 4, 3), np.uint8), "png")] * 3, where="cam")
    assert frames.decode(2, 2).shape == (0, 4, 4, 3)
    for start, stop in ((0, 4), (-1, 2), (2, 1), (0.5, 2)):
        with pytest.raises(StepError, match="cam: expected 0 <= start <= stop <= 3"):
            frames.decode(start, stop)


def test_every_image_is_decoded_by_its_own_header():
    files = []
    for quality, subsampling, progressive in ((95, 2, False), (95, 0, False), (95, 2, True), (20, 2, False)):
        for _ in range(2):
            file = io.BytesIO()
            pixels = Image.fromarray(RNG.integers(0, 256, (24, 40, 3), dtype=np.uint8))
            pixels.save(file, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
            files.append(file.getvalue())
    truth = np.stack([np.asarray(Image.open(io.BytesIO(data))) for data in files])
    assert np.array_equal(ImageFrames("jpeg", files).decode(), truth)
    place = files[1].index(bytes((0xFF, 0xC0))) + 5
    other = files[1][:place] + bytes((0, 25, 0, 40)) + files[1][place + 4 :]  # 25 rows instead of 24
    with pytest.raises(LaneError, match=r"step 1: expected .*24, 40, 3.* found .*25, 40, 3"):
        ImageFrames("jpeg", [files[0], other]).decode()
    frames = ImageFrames("jpeg", [b"torn", files[1], files[0]], frame_shape=(24, 40, 3))
    assert np.array_equal(frames.decode(1), truth[[1, 0]]), "a torn image does not hinder the others"


def test_other_frames_name_their_step():
    small, large = (encode_image(np.zeros((size, size, 3), np.uint8), "png") for size in (4, 6))
    with pytest.raises(LaneError, match=r"cam: step 2: expected png uint8 \[4, 4, 3\], found png uint8 \[6, 6, 3\]"):
        ImageFrames("png", [small, small, large], where="cam").decode()
    with pytest.raises(LaneError, match="cam: step 0: expected jpeg"):
        ImageFrames("jpeg", [small], where="cam").decode()
    with pytest.raises(CodecError, match="cam: step 1: the PNG cannot be decoded"):
        ImageFrames("png", [small, small[:-30]], where="cam").decode()
    with pytest.raises(CodecError, match="cam: expected at least one image"):
        _ = ImageFrames("png", [], where="cam").shape


def test_too_much_at_once_is_refused():
    frames = ImageFrames("png", [b""] * 1000, frame_shape=(8192, 8192, 3), frame_dtype=np.dtype(np.uint8))
    with pytest.raises(LimitError, match="decoded bytes at once"):
        frames.decode()
