"""Images decode to the values that Pillow gives, with and without simplejpeg; hostile ones are refused."""

from __future__ import annotations

import io
import struct
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wshard import FormatError
from wshard.core.media.image_header import MAX_PIXELS, read_image_header
from wshard.errors import CodecError, EpisodeError, LaneError, LimitError, MissingExtraError
from wshard.media import decode_image, encode_image, images

RNG = np.random.default_rng(7)


def picture(height: int, width: int, channels: int) -> np.ndarray:
    coarse = RNG.integers(0, 256, (height // 8 + 2, width // 8 + 2, channels), dtype=np.uint8)
    return np.repeat(np.repeat(coarse, 8, 0), 8, 1)[:height, :width].copy()


def saved(array: np.ndarray, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(file, kind, **options)
    return file.getvalue()


def opened(data: bytes) -> np.ndarray:
    array = np.asarray(Image.open(io.BytesIO(data)))
    return array[..., None] if array.ndim == 2 else array


@pytest.fixture(params=["simplejpeg", "pillow"])
def library(request, monkeypatch) -> str:
    if request.param == "pillow":
        monkeypatch.setattr(images, "find_simplejpeg", lambda: None)
    return request.param


@pytest.mark.parametrize("size", [(16, 16), (1, 1), (7, 130), (63, 61)])
@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_values_are_those_of_pillow(library, size, channels):
    for quality in (30, 75, 95, 100):
        for sampling in (0, 1, 2):
            for progressive in (False, True):
                data = saved(
                    picture(*size, channels), "JPEG", quality=quality, subsampling=sampling, progressive=progressive
                )
                assert np.array_equal(decode_image(data), opened(data))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_is_exact(channels):
    array = picture(33, 20, channels)
    assert np.array_equal(decode_image(saved(array, "PNG")), array)
    assert np.array_equal(decode_image(encode_image(array, "png")), array)


def test_depth_png_is_exact():
    depth = RNG.integers(0, 1 << 16, (9, 12, 1), dtype=np.uint16)
    data = encode_image(depth, "png")
    found = decode_image(data, (9, 12, 1))
    assert found.dtype == np.uint16
    assert np.array_equal(found, depth)
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data)))[..., None], depth)


def test_palettes_and_bits_become_colors_and_gray():
    colors = Image.fromarray(picture(8, 8, 3)).quantize(16)
    file = io.BytesIO()
    colors.save(file, "PNG")
    assert np.array_equal(decode_image(file.getvalue()), np.asarray(colors.convert("RGB")))
    bits = Image.fromarray(picture(8, 8, 1)[..., 0]).convert("1")
    file = io.BytesIO()
    bits.save(file, "PNG")
    assert np.array_equal(decode_image(file.getvalue())[..., 0], np.asarray(bits.convert("L")))


@pytest.mark.parametrize("channels", [1, 3])
def test_what_is_encoded_is_read_by_pillow(library, channels):
    array = picture(48, 31, channels)
    data = encode_image(array, "jpeg", quality=95)
    assert Image.open(io.BytesIO(data)).format == "JPEG"
    assert opened(data).shape == array.shape
    assert np.abs(opened(saved(array, "JPEG", quality=95)).astype(int) - opened(data)).mean() < 1


def test_decodes_into_an_array():
    array = picture(8, 8, 3)
    out = np.zeros((3, 8, 8, 3), np.uint8)
    decode_image(encode_image(array, "png"), out=out[1])
    assert np.array_equal(out[1], array)
    assert not out[[0, 2]].any()


def png_header(width: int, height: int, depth: int = 8, color: int = 2) -> bytes:
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + struct.pack(">I", zlib.crc32(body)) + bytes(40)


def test_large_frames_are_refused_before_decoding():
    with pytest.raises(LimitError, match=f"at most {MAX_PIXELS} pixels, found 60000 x 60000"):
        decode_image(png_header(60000, 60000))
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC0, 17, 8, 60000, 60000, 3) + bytes(9)
    with pytest.raises(LimitError, match="60000 x 60000"):
        decode_image(b"\xff\xd8" + frame)


def test_many_scans_are_refused():
    frame = struct.pack(">BBHBHHB", 0xFF, 0xC2, 17, 8, 600, 600, 3) + bytes(9)
    with pytest.raises(LimitError, match="at most 500 scans, found 1000"):
        decode_image(b"\xff\xd8" + frame + b"\xff\xda\x00\x02" * 1000)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_cut_and_damaged_images_are_typed_errors(library, kind):
    data = saved(picture(24, 24, 3), kind)
    for size in range(0, len(data) - 24, 7):
        with pytest.raises(FormatError):
            decode_image(data[:size], where="cut")
    for place in range(0, len(data), 3):
        damaged = bytearray(data)
        damaged[place] ^= 0xFF
        try:
            decode_image(bytes(damaged), (24, 24, 3))
        except (FormatError, NotImplementedError):
            continue


@given(st.binary(max_size=200))
def test_garbage_is_a_typed_error(data):
    for begin in (b"", b"\xff\xd8", b"\xff\xd8\xff\xc0", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"):
        try:
            decode_image(begin + data)
        except (FormatError, NotImplementedError):
            continue


def test_messages_name_what_and_where():
    with pytest.raises(CodecError, match=r"cam: expected a JPEG or PNG, found 3 bytes"):
        decode_image(b"abc", where="cam")
    with pytest.raises(LaneError, match=r"cam: expected an image of shape \[4, 4, 3\], found \[8, 8, 3\]"):
        decode_image(encode_image(picture(8, 8, 3)), (4, 4, 3), where="cam")
    with pytest.raises(EpisodeError, match="expected uint8"):
        encode_image(picture(8, 8, 4))
    with pytest.raises(LaneError, match=r"cam: expected uint8 \[8, 8, 1\], found uint8 \[8, 8, 3\]"):
        decode_image(encode_image(picture(8, 8, 3)), where="cam", out=np.empty((8, 8, 1), np.uint8))
    for quality in (0, 101, 7.5, "x"):
        with pytest.raises(EpisodeError, match="quality from 1 to 100"):
            encode_image(picture(8, 8, 3), quality=quality)
    with pytest.raises(EpisodeError, match="jpeg, png, found 'webp'"):
        encode_image(picture(8, 8, 3), "webp")


def test_missing_libraries_name_their_extra(monkeypatch):
    data = saved(picture(8, 8, 3), "PNG")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingExtraError, match=r"wshard\[images\]"):
        decode_image(data)
    assert read_image_header(data).shape == (8, 8, 3)
