"""Pictures that users give: every common format reads as it is seen, and hostile ones end early with a message."""

from __future__ import annotations

import io
import struct
import time
import tracemalloc
import zlib

import numpy as np
import pytest
from PIL import Image

from wshard.core.media.read_picture import MAX_SIDE, read_picture
from wshard.errors import CodecError, LimitError


def scene(height=24, width=32):
    rows, columns = np.mgrid[:height, :width]
    return np.stack([rows * 8, columns * 6, np.full_like(rows, 40)], axis=-1).astype(np.uint8)


def stored(image, kind, **options: object):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "BMP", "GIF", "WEBP", "JPEG"])
def test_common_formats_read_as_they_are_seen(kind, tmp_path):
    data = stored(Image.fromarray(scene()), kind)
    (tmp_path / "picture").write_bytes(data)
    for source in (data, tmp_path / "picture", str(tmp_path / "picture")):
        read = read_picture(source)
        assert (read.dtype, read.shape) == (np.uint8, (24, 32, 3))
        assert np.abs(read.astype(int) - scene()).mean() < (0.5 if kind in {"PNG", "BMP"} else 12)


def test_odd_pictures_become_rgb():
    image = Image.fromarray(scene())
    rgba = image.convert("RGBA")
    rgba.putalpha(0)
    assert np.array_equal(read_picture(stored(rgba, "PNG")), scene())
    assert np.abs(read_picture(stored(image.convert("CMYK"), "JPEG", quality=95)).astype(int) - scene()).mean() < 12
    deep = Image.fromarray((np.arange(768).reshape(24, 32) * 80).astype(np.uint16))
    assert (
        np.abs(read_picture(stored(deep, "PNG"))[..., 0].astype(int) - np.arange(768).reshape(24, 32) * 80 / 257).max()
        < 2
    )
    assert read_picture(stored(Image.new("1", (1, 1)), "PNG")).shape == (1, 1, 3)
    frames = [Image.fromarray(scene()), Image.new("RGB", (32, 24))]
    animated = stored(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert np.array_equal(read_picture(animated), scene())


def test_a_turned_photo_is_read_upright():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    data = stored(Image.fromarray(np.rot90(scene())), "PNG", exif=exif)
    assert np.array_equal(read_picture(data), scene())


def test_large_pictures_are_reduced():
    data = stored(Image.fromarray(scene()).resize((4000, 3000)), "JPEG")
    assert max(read_picture(data).shape) <= 2 * MAX_SIDE


def png_header(width, height):
    """Return a PNG of that size whose pixels are a few bytes, which decode to zeros for ever."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("size", [(30_000, 30_000), (10_000, 10_000), (2**31 - 1, 1), (2**31 - 1, 2**31 - 1)])
def test_bombs_cost_neither_memory_nor_time(size):
    tracemalloc.start()
    begun = time.process_time()
    with pytest.raises((LimitError, CodecError)):
        read_picture(png_header(*size))
    assert time.process_time() - begun < 1
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def test_a_jpeg_of_very_many_scans_is_refused():
    data = stored(Image.fromarray(scene()), "JPEG", progressive=True)
    start = data.index(b"\xff\xda")
    with pytest.raises(LimitError, match="500 scans"):
        read_picture(data[:start] + data[start:-2] * 600 + data[-2:])


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"%!PS-Adobe", b"GIF89a"])
def test_what_is_no_picture_is_refused(data):
    with pytest.raises(CodecError, match="expected a picture"):
        read_picture(data)


def test_cut_files_and_other_arrays_are_refused(tmp_path):
    data = stored(Image.fromarray(scene()), "PNG")
    with pytest.raises(CodecError, match="cannot be decoded"):
        read_picture(data[: len(data) // 2])
    with pytest.raises(CodecError, match="no regular file"):
        read_picture(tmp_path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        read_picture(tmp_path / "none.png")
    for array in (
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((4, 4)),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
    ):
        with pytest.raises(CodecError, match="expected"):
            read_picture(array)
    assert np.array_equal(read_picture(scene()[..., 0])[..., 2], scene()[..., 0])
