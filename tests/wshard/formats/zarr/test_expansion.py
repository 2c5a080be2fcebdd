"""Chunks that expand beyond what the shape of their array says are refused before they are expanded."""

from __future__ import annotations

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

from wshard.errors import FormatError, LimitError
from wshard.formats.zarr.source import ReplayBufferSource

STATE = np.arange(160, dtype=np.float32).reshape(40, 4)
CODECS = [numcodecs.Zlib(1), numcodecs.GZip(1), numcodecs.BZ2(1), numcodecs.LZMA(preset=0), numcodecs.Zstd(1),
          numcodecs.Blosc(), numcodecs.LZ4()]  # fmt: skip
BOMB = 1 << 22


def write(path, version, compressors, filters=None):
    root = zarr.open_group(path, mode="w", zarr_format=version)
    options = {"compressors": compressors, "filters": filters} if filters else {"compressors": compressors}
    root.create_array("data/state", shape=(40, 4), chunks=(20, 2), dtype="f4", **options)[:] = STATE
    root.create_array("meta/episode_ends", shape=(2,), chunks=(2,), dtype="i8")[:] = np.array([20, 40])
    return path


def is_read(path):
    with ReplayBufferSource(path) as source:
        return all(
            np.array_equal(source.load(str(n)).observations["state"].data, STATE[20 * n : 20 * n + 20]) for n in (0, 1)
        )


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.codec_id)
def test_a_chunk_that_expands_too_far_is_refused_and_others_are_read(tmp_path, codec):
    path = write(tmp_path / "a.zarr", 2, codec)
    assert is_read(path)
    (path / "data/state/0.1").write_bytes(codec.encode(bytes(BOMB)))
    with ReplayBufferSource(path) as source:
        with pytest.raises(LimitError, match=r"data/state/0\.1: expected a chunk of at most"):
            source.load("0")
        assert np.array_equal(source.load("1").observations["state"].data, STATE[20:])


@pytest.mark.parametrize("codec", [BloscCodec(), GzipCodec(), ZstdCodec()], ids=lambda codec: type(codec).__name__)
def test_buffers_of_version_3_are_read(tmp_path, codec):
    assert is_read(write(tmp_path / "a.zarr", 3, codec))


def test_a_filter_that_stores_wider_numbers_is_read(tmp_path):
    filters = [numcodecs.AsType(encode_dtype="f8", decode_dtype="f4")]
    assert is_read(write(tmp_path / "a.zarr", 2, numcodecs.Zlib(1), filters))


def test_a_compressor_in_another_is_refused(tmp_path):
    path = write(tmp_path / "a.zarr", 2, numcodecs.Zlib(1), [numcodecs.GZip(1)])
    with ReplayBufferSource(path) as source, pytest.raises(FormatError, match="compressed once, found"):
        source.load("0")
