"""Chunks that expand beyond what the shape of their array says are refused before they are expanded."""

from __future__ import annotations

import json

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ShardingCodec, ZstdCodec

from wshard import FormatError
from wshard.errors import LimitError
from wshard.formats.zarr.array_layout import read_layout
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


def write_shards(path, codecs, index_location="end"):
    shards = ShardingCodec(chunk_shape=(5, 2), codecs=codecs, index_location=index_location)
    root = zarr.open_group(path, mode="w", zarr_format=3)
    state = root.create_array("data/state", shape=(40, 4), chunks=(20, 4), dtype="f4", serializer=shards,
                              compressors=None)  # fmt: skip
    state[:] = STATE
    root.create_array("meta/episode_ends", shape=(2,), chunks=(2,), dtype="i8")[:] = np.array([20, 40])
    return path


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codec", [BloscCodec(), GzipCodec(), ZstdCodec()], ids=lambda codec: type(codec).__name__)
def test_a_chunk_in_a_shard_that_expands_too_far_is_refused_and_others_are_read(tmp_path, codec, location):
    path = write_shards(tmp_path / "a.zarr", [BytesCodec(), codec], location)
    assert is_read(path)
    bomb = write(tmp_path / "b.zarr", 3, codec)
    zarr.open_group(bomb).create_array("bomb", shape=(BOMB,), chunks=(BOMB,), dtype="u1", compressors=codec)[:] = 1
    data, shard = (bomb / "bomb/c/0").read_bytes(), path / "data/state/c/0/0"
    index = np.full(16, 2**64 - 1, "<u8")  # the other chunks have only the fill value
    index[-2:] = (index.nbytes + 4, len(data)) if location == "start" else (0, len(data))
    stated = index.tobytes() + bytes(4)  # the size is checked before the checksum
    shard.write_bytes(stated + data if location == "start" else data + stated)
    with ReplayBufferSource(path) as source:
        with pytest.raises(LimitError, match=r"data/state/c/0/0: expected a chunk of at most"):
            source.load("0")
        assert np.array_equal(source.load("1").observations["state"].data, STATE[20:])


def test_shards_that_are_compressed_or_in_others_are_refused(tmp_path):
    inner = ShardingCodec(chunk_shape=(5, 1), codecs=[BytesCodec(), GzipCodec()])
    metadata = json.loads((write_shards(tmp_path / "a.zarr", [inner]) / "data/state/zarr.json").read_text())
    with pytest.raises(FormatError, match="expected shards of chunks"):
        read_layout(metadata, "a")
    (codec,) = metadata["codecs"]
    codec["configuration"]["codecs"] = [{"name": "bytes"}]
    assert read_layout(metadata, "a").shards is not None
    metadata["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    with pytest.raises(FormatError, match="expected shards that are not compressed"):
        read_layout(metadata, "a")


def test_a_shard_that_is_cut_short_is_a_typed_error(tmp_path):
    path = write_shards(tmp_path / "a.zarr", [BytesCodec(), GzipCodec()])
    shard = path / "data/state/c/0/0"
    for size in (0, 7, 140):
        shard.write_bytes(shard.read_bytes()[:size])
        with ReplayBufferSource(path) as source, pytest.raises(FormatError, match="cannot be read"):
            source.load("0")
