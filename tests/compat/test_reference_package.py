"""Programs written for the format's reference package keep working: names, signatures, errors, and the programs."""

from __future__ import annotations

import inspect
import io
import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import wshard
from wshard.compress import CompressionLevel, CompressionType
from wshard.core.array_fields import DType
from wshard.types import Channel, Episode, Format, Modality, Residual, TimebaseSpec, TimebaseType

TOP_LEVEL = """
Format DType Channel Episode Residual TimebaseSpec TimebaseType Modality CompressionType CompressionLevel Compressor
compute_sign2nd_diff compute_sign2nd_diff_multidim compute_error_residual pack_residual_bits unpack_residual_bits
pack_multidim_residual_bits unpack_multidim_residual_bits quantize_delta dequantize_delta
reconstruct_from_omen_and_delta pack_residual_bitmask unpack_residual_bitmask pack_multidim_residual_bitmask
unpack_multidim_residual_bitmask HAS_COWRIE add_multimodal_observation get_multimodal_observations
LATENT_ACTION_CHANNEL LATENT_CODEBOOK_CHANNEL set_latent_actions get_latent_actions get_latent_codebook
ChunkedEpisodeWriter ChunkedEpisodeReader ChunkManifest WShardStreamWriter StreamChannelDef load save convert
detect_format load_dreamer save_dreamer load_wshard save_wshard HuggingFaceAdapter upload_to_hub download_from_hub
HF_AVAILABLE __version__
"""

NONE, ZSTD, DEFAULT = CompressionType.NONE, CompressionType.ZSTD, CompressionLevel.DEFAULT

SIGNATURES = """
wshard.deepdata_bridge:TrajectoryIngestor   deepdata_url, embedder
wshard.deepdata_bridge:TrajectoryRetriever  deepdata_url, embedder
wshard.deepdata_bridge:TrajectoryIngestor.ensure_collection  self, dim, collection='traj_episodes'
wshard.deepdata_bridge:TrajectoryIngestor.ingest_episode     self, path
wshard.deepdata_bridge:TrajectoryIngestor.ingest_timesteps   self, path, window_size=32, stride=16
wshard.deepdata_bridge:TrajectoryRetriever.search_similar_episodes   self, query_obs, top_k=10, env_id=None, min_length=None, reward_range=None
wshard.deepdata_bridge:TrajectoryRetriever.search_similar_timesteps  self, query_obs, top_k=10, env_id=None
wshard.types:Channel                       name, dtype, shape, data, semantics='', modality=None, sampling_rate_hz=None, content_type=None
wshard.types:Channel.clone                 self
wshard.types:Residual                      channel_id, type, data, scales=None, mask=None
wshard.types:TimebaseSpec                  type=TimebaseType.TICKS, tick_hz=30.0, epoch_ns=0
wshard.types:Episode.validate              self
wshard.types:Episode.clone                 self
wshard.types:DType.from_numpy              dtype
wshard.wshard:load_wshard                  path_or_file, channels=None
wshard.wshard:save_wshard                  ep, path_or_file, compression=NONE, compression_level=DEFAULT
wshard.wshard:compute_crc32                data
wshard.wshard:decode_residuals             ep
wshard.wshard:add_multimodal_observation   ep, group, modality, channel
wshard.wshard:get_multimodal_observations  ep, group=None, modality=None
wshard.wshard:set_latent_actions           ep, model_id, embeddings, codebook_indices=None
wshard.wshard:get_latent_actions           ep, model_id
wshard.wshard:get_latent_codebook          ep, model_id
wshard.wshard:_parse_tensor_block          data, ch_def
wshard.compress:compress                   data, compression_type=NONE, level=DEFAULT
wshard.compress:decompress                 data, orig_size, compression_type
wshard.compress:should_compress            block_name, data
wshard.compress:Compressor                 compression_type=NONE, level=DEFAULT
wshard.compress:Compressor.compress        self, data
wshard.compress:Compressor.decompress      self, data, orig_size
wshard.compress:compression_byte           ct
wshard.compress:compression_from_byte      b
wshard.streaming:WShardStreamWriter        path, episode_id, channel_defs, max_timesteps=100000, compression=NONE, compression_level=DEFAULT, flush_interval=64
wshard.streaming:ChannelDef                name, dtype, shape, modality=None
wshard.streaming:WShardStreamWriter.write_timestep  self, t, observations, actions, reward, done
wshard.streaming:WShardStreamWriter.begin_episode   self, env_id='', timebase=None
wshard.streaming:WShardStreamWriter.end_episode     self
wshard.chunked:ChunkManifest               episode_id, env_id=''
wshard.chunked:ChunkManifest.add_chunk     self, chunk_index, uri, sha256, timestep_range, length_t
wshard.chunked:ChunkManifest.to_json       self
wshard.chunked:ChunkManifest.from_json     data
wshard.chunked:ChunkedEpisodeWriter        base_path, episode_id, chunk_size_t=10000, env_id='', compression=NONE, compression_level=DEFAULT
wshard.chunked:ChunkedEpisodeWriter.write_chunk             self, ep, chunk_index=None
wshard.chunked:ChunkedEpisodeWriter.write_episode_chunked   self, ep
wshard.chunked:ChunkedEpisodeWriter.finalize_manifest       self
wshard.chunked:ChunkedEpisodeReader        manifest_path
wshard.chunked:ChunkedEpisodeReader.load_manifest           self
wshard.chunked:ChunkedEpisodeReader.iter_chunks             self
wshard.chunked:ChunkedEpisodeReader.load_chunk              self, chunk_index
wshard.chunked:validate_chunk_continuity   manifest
wshard.residual:sign2nd_diff               prev, curr, next_val
wshard.residual:compute_sign2nd_diff       signal, edge_rule='pad'
wshard.residual:compute_sign2nd_diff_multidim  signal, edge_rule='pad'
wshard.residual:compute_error_residual     signal, omen, edge_rule='pad'
wshard.residual:pack_residual_bits         residuals
wshard.residual:unpack_residual_bits       packed, T
wshard.residual:pack_multidim_residual_bits    residuals
wshard.residual:unpack_multidim_residual_bits  packed, T, D
wshard.residual:quantize_delta             signal, omen, window_size=256
wshard.residual:dequantize_delta           quantized, scales, window_size=256
wshard.residual:reconstruct_from_omen_and_delta  omen, quantized, scales, window_size=256
wshard.residual:pack_bool_mask             mask
wshard.residual:unpack_bool_mask           packed, T
wshard.residual:pack_residual_bitmask      residuals
wshard.residual:unpack_residual_bitmask    data, T
wshard.residual:pack_multidim_residual_bitmask    residuals
wshard.residual:unpack_multidim_residual_bitmask  data, T, D
wshard.convert:detect_format               path
wshard.convert:detect_format_bytes         data
wshard.convert:load                        path_or_file, format=None
wshard.convert:save                        ep, path_or_file, format=None
wshard.convert:convert                     input_path, output_path, input_format=None, output_format=None
wshard.dreamer:load_dreamer                path_or_file, uuid=None
wshard.dreamer:save_dreamer                ep, path_or_file
wshard.huggingface:HuggingFaceAdapter      token=None, cache_dir=None
wshard.huggingface:HuggingFaceAdapter.upload_episodes  self, episodes, repo_id, env_id=None, split='train', compression=ZSTD, private=False, commit_message=None, batch_size=100, progress_callback=None
wshard.huggingface:HuggingFaceAdapter.upload_episode   self, episode, repo_id, split='train', compression=ZSTD, commit_message=None
wshard.huggingface:HuggingFaceAdapter.download_episodes  self, repo_id, split='train', episode_ids=None, max_episodes=None, progress_callback=None
wshard.huggingface:HuggingFaceAdapter.download_episode   self, repo_id, episode_id, split='train'
wshard.huggingface:HuggingFaceAdapter.list_episodes      self, repo_id, split='train'
wshard.huggingface:HuggingFaceAdapter.get_metadata       self, repo_id, split='train'
wshard.huggingface:HuggingFaceAdapter.to_hf_dataset      self, episodes, flatten=True
wshard.huggingface:HuggingFaceAdapter.from_hf_dataset    self, dataset, episode_column='episode_id', flatten=True
wshard.huggingface:upload_to_hub           episodes, repo_id, token=None, **kw
wshard.huggingface:download_from_hub       repo_id, token=None, **kw
""".strip().splitlines()  # noqa: E501  (one row per signature)

EPISODE_FIELDS = {
    "id": inspect.Parameter.empty, "env_id": "", "length": 0, "timebase": TimebaseSpec(), "observations": {},
    "actions": {}, "rewards": None, "terminations": None, "truncations": None, "omens": {}, "residuals": {},
    "metadata": {}, "source_format": Format.UNKNOWN, "chunk_index": None, "total_chunks": None, "timestep_range": None,
}  # fmt: skip

CONSTANTS = {
    "wshard:LATENT_ACTION_CHANNEL": "latent_action",
    "wshard:LATENT_CODEBOOK_CHANNEL": "latent_action_codebook",
    "wshard.wshard:MAGIC": b"SHRD",
    "wshard.wshard:VERSION": 2,
    "wshard.wshard:ROLE_WSHARD": 5,
    "wshard.wshard:HEADER_SIZE": 64,
    "wshard.wshard:INDEX_ENTRY_SIZE": 48,
    "wshard.wshard:DEFAULT_ALIGNMENT": 32,
    "wshard.wshard:RESIDUAL_ENCODING_RAW": "raw",
    "wshard.wshard:RESIDUAL_ENCODING_COWRIE_BITMASK": "cowrie_bitmask",
    "wshard.streaming:DEFAULT_FLUSH_INTERVAL": 64,
    "wshard.streaming:FLAG_STREAMING": 0x40,
    "wshard.compress:BLOCK_FLAG_COMPRESSED": 1,
    "wshard.compress:BLOCK_FLAG_ZSTD": 2,
    "wshard.compress:BLOCK_FLAG_LZ4": 4,
    "wshard.compress:LZ4_MAX_DECOMPRESS_SIZE": 1 << 30,  # 256 MiB there, which files of the container cores exceed
    "wshard.deepdata_bridge:COLLECTION_EPISODES": "traj_episodes",
    "wshard.deepdata_bridge:COLLECTION_TIMESTEPS": "traj_timesteps",
    "wshard.chunked:ROLE_MANIFEST": 4,
}

ENUMS = {
    Format: "UNKNOWN= WSHARD=wshard DREAMER_V3=dreamerv3 TDMPC2=tdmpc2 MINARI=minari D4RL=d4rl "
    "ROBOMIMIC=robomimic HDF5=hdf5",  # the last two are ours
    DType: "FLOAT64=f64 FLOAT32=f32 FLOAT16=f16 BFLOAT16=bf16 INT64=i64 INT32=i32 INT16=i16 INT8=i8 "
    "UINT64=u64 UINT32=u32 UINT16=u16 UINT8=u8 BOOL=bool",
    Modality: "RGB=rgb DEPTH=depth LANGUAGE=language PROPRIOCEPTION=proprioception AUDIO=audio VIDEO=video "
    "POINTCLOUD=pointcloud",
    TimebaseType: "TICKS=ticks TIMESTAMPS_NS=timestamps_ns TIMESTAMPS_US=timestamps_us",
    CompressionType: "NONE=none ZSTD=zstd LZ4=lz4",
}


def found(place: str):
    module, _, path = place.partition(":")
    value = import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    return value


def test_every_name_of_the_top_level_is_there():
    names = TOP_LEVEL.split()
    assert [name for name in names if not hasattr(wshard, name)] == []
    assert wshard.StreamChannelDef is wshard.ChannelDef
    assert wshard.__version__.startswith("0.1.")


@pytest.mark.parametrize("row", SIGNATURES, ids=lambda row: row.split()[0])
def test_signatures_take_the_same_calls(row):
    place, _, text = row.partition(" ")
    expected = inspect.signature(eval(f"lambda {text}: None", globals()))  # noqa: S307  (of the table above)
    signature = inspect.signature(found(place))
    positional = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    wanted = [p.name for p in expected.parameters.values() if p.kind is not p.VAR_KEYWORD]
    assert [p.name for p in positional if p.kind is not p.VAR_KEYWORD][: len(wanted)] == wanted
    for parameter in expected.parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.default is not parameter.empty:
            assert signature.parameters[parameter.name].default == parameter.default, parameter.name
    added = [p for p in signature.parameters.values() if p.name not in expected.parameters]
    assert all(p.default is not p.empty for p in added if p.kind is not p.VAR_KEYWORD)


def test_episodes_have_the_same_fields_in_the_same_order():
    parameters = list(inspect.signature(Episode).parameters)
    assert parameters[: len(EPISODE_FIELDS)] == list(EPISODE_FIELDS)
    ep = Episode("e")
    assert {name: getattr(ep, name) for name in EPISODE_FIELDS if name != "id"} == {
        name: value for name, value in EPISODE_FIELDS.items() if name != "id"
    }
    assert not ep.is_chunked


@pytest.mark.parametrize(("place", "value"), CONSTANTS.items())
def test_constants_have_their_values(place, value):
    assert found(place) == value


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_enums_have_their_values(enum):
    assert {member.name: member.value for member in enum} == dict(pair.split("=") for pair in ENUMS[enum].split())
    assert issubclass(enum, str)


def test_levels_are_numbers():
    assert [int(level) for level in CompressionLevel] == [1, 3, 9]


def test_checksum_and_tensor_blocks():
    from wshard.wshard import _parse_tensor_block, compute_crc32  # noqa: PLC0415  (as a program would)

    assert compute_crc32(b"hello") == 0x9A71BB4C
    assert compute_crc32(b"") == 0
    data = np.arange(12, dtype=np.float32).tobytes()
    assert _parse_tensor_block(data, {"id": "ok", "dtype": "f32", "shape": [3]}).data.shape == (4, 3)
    with pytest.raises(ValueError, match="Cannot reshape"):
        _parse_tensor_block(data[:40], {"id": "bad", "dtype": "f32", "shape": [3]})


# ---- errors ---------------------------------------------------------------------------------------------------------


def bits(size: int) -> bytes:
    return bytes(size)


ERRORS = {
    "validate_total": (lambda: Episode("e", length=1, chunk_index=0).validate(), ValueError, "total_chunks required"),
    "validate_range": (
        lambda: Episode("e", length=1, chunk_index=5, total_chunks=3).validate(), ValueError, "out of range"),
    "load_unknown": (lambda: wshard.load("/nowhere/x.bin"), ValueError, "Unknown format"),
    "load_tdmpc2": (lambda: wshard.load("/nowhere/x.pt"), FileNotFoundError, "nowhere"),
    "load_minari": (lambda: wshard.load("/nowhere/x.h5"), FileNotFoundError, "nowhere"),
    "load_d4rl": (lambda: wshard.load("/nowhere/x", Format.D4RL), FileNotFoundError, "nowhere"),
    "load_dreamer": (lambda: wshard.load_dreamer(io.BytesIO(b"PK")), ValueError, "numpy"),
    "load_missing": (lambda: wshard.load("/nowhere/x.npz"), FileNotFoundError, "nowhere"),
    "manifest": (lambda: wshard.ChunkManifest.from_json(b"{}"), ValueError, "episode_id"),
    "reader": (lambda: wshard.ChunkedEpisodeReader("/nowhere/m").load_manifest(), FileNotFoundError, "nowhere"),
    "unpack": (lambda: wshard.unpack_residual_bits(b"", 9), ValueError, "multiple of 2 bytes"),
    "unpack_multidim": (lambda: wshard.unpack_multidim_residual_bits(bits(4), 9, 3), ValueError, "3 runs"),
    "no_save": (lambda: wshard.save(Episode(""), io.BytesIO()), ValueError, "non-empty id"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_are_the_builtins_that_programs_catch(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert isinstance(caught.value, (wshard.WShardError, OSError))


def edited(place: int, value: int) -> io.BytesIO:
    """Return a saved episode with another byte at a place; 80 bytes before its end the lane begins."""
    file = io.BytesIO()
    wshard.save_wshard(Episode("e", length=4, observations={"x": Channel.of("x", np.zeros((4, 3), "<f4"))}), file)
    data = bytearray(file.getvalue())
    data[place] = value
    return io.BytesIO(bytes(data))


def chunks(*rows: tuple[int, int, int], total: int) -> wshard.ChunkManifest:
    manifest = wshard.ChunkManifest("e")
    for index, first, last in rows:
        manifest.add_chunk(index, f"{index}.wshard", "", [first, last], last - first + 1)
    manifest.total_timesteps = total
    return manifest


def recorded(step: np.ndarray, *, begun: bool, path: Path) -> None:
    with wshard.WShardStreamWriter(path, "e", [wshard.ChannelDef("x", DType.FLOAT32, [3])]) as writer:
        if begun:
            writer.begin_episode()
        writer.write_timestep(0, {"x": step}, {}, 0.0, done=False)


WORDS = {
    "magic": (lambda _: wshard.load_wshard(edited(0, 0)), ValueError),
    "[Vv]ersion": (lambda _: wshard.load_wshard(edited(4, 0x99)), ValueError),
    "[Cc]hecksum": (lambda _: wshard.load_wshard(edited(-80, 7)), ValueError),
    "length mismatch": (
        lambda _: Episode("e", length=3, observations={"x": Channel.of("x", np.zeros(4))}).validate(), ValueError),
    "gaps or duplicates": (
        lambda _: wshard.validate_chunk_continuity(chunks((0, 0, 4), (2, 5, 9), total=10)), ValueError),
    "Timestep gap": (lambda _: wshard.validate_chunk_continuity(chunks((0, 0, 4), (1, 6, 9), total=9)), ValueError),
    "total_timesteps": (lambda _: wshard.validate_chunk_continuity(chunks((0, 0, 4), total=6)), ValueError),
    "Shape mismatch": (lambda path: recorded(np.zeros(2, "<f4"), begun=True, path=path), ValueError),
    "begin_episode": (lambda path: recorded(np.zeros(3, "<f4"), begun=False, path=path), RuntimeError),
}  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_messages_have_the_words_that_programs_match(words, tmp_path):
    call, error = WORDS[words]
    with pytest.raises(error, match=words):
        call(tmp_path / "a.wshard")


def test_lz4_sizes_out_of_bounds_are_refused():
    from wshard.compress import LZ4_MAX_DECOMPRESS_SIZE, Compressor, decompress  # noqa: PLC0415  (as a program would)

    packed = Compressor("lz4").compress(bytes(1000))
    for size in (0, -1, LZ4_MAX_DECOMPRESS_SIZE + 1):
        with pytest.raises(ValueError, match=r"orig_size.*out of bounds"):
            decompress(packed, size, CompressionType.LZ4)
        with pytest.raises(ValueError, match=r"orig_size.*out of bounds"):
            Compressor(CompressionType.LZ4).decompress(packed, size)


# ---- programs -------------------------------------------------------------------------------------------------------


def test_a_program_that_writes_chunks(tmp_path):
    from wshard import ChunkedEpisodeReader, ChunkedEpisodeWriter  # noqa: PLC0415  (as a program would)
    from wshard.chunked import validate_chunk_continuity  # noqa: PLC0415

    writer = ChunkedEpisodeWriter(str(tmp_path), "ep_001", chunk_size_t=100, env_id="Long-v0")
    for part in range(3):
        chunk = Episode(id="ep_001", length=100)
        state = np.full((100, 2), part, dtype=np.float32)
        chunk.observations["state"] = Channel(name="state", dtype=DType.FLOAT32, shape=[2], data=state)
        writer.write_chunk(chunk)
    manifest = writer.finalize_manifest()
    validate_chunk_continuity(manifest)
    assert isinstance(manifest, Path)

    reader = ChunkedEpisodeReader(str(manifest))
    assert (reader.num_chunks, reader.total_timesteps) == (3, 300)
    assert [int(ep.observations["state"].data.mean()) for ep in reader.iter_chunks()] == [0, 1, 2]
    assert reader.load_chunk(2).chunk_index == 2
    assert reader.manifest is not None
    assert reader.manifest.env_id == "Long-v0"
    with pytest.raises(ValueError, match="no chunk 9"):
        reader.load_chunk(9)


def test_a_program_that_records(tmp_path):
    from wshard.streaming import ChannelDef, WShardStreamWriter  # noqa: PLC0415  (as a program would)

    path = tmp_path / "stream.wshard"
    defs = [ChannelDef("state", DType.FLOAT32, [4]), ChannelDef("speed", DType.FLOAT32, [])]
    with WShardStreamWriter(path, "stream-1", defs, flush_interval=16) as writer:
        writer.begin_episode(env_id="Stream-v0", timebase=TimebaseSpec(tick_hz=60.0))
        assert Path(f"{path}.partial").exists()
        for t in range(100):
            writer.write_timestep(
                t=t,
                observations={"state": np.full(4, t, np.float32), "speed": np.float32(t)},
                actions={"state": np.full(4, -t, np.float32)},
                reward=float(t),
                done=t == 99,
            )
    ep = wshard.load(path)
    assert ep.observations["state"].data[:, 0].tolist() == list(range(100))
    assert ep.actions["state"].data.shape == (100, 4)
    assert ep.timebase.tick_hz == 60.0


def test_a_program_that_converts(tmp_path):
    ep = Episode(id="convert-test", length=30)
    rng = np.random.default_rng(0)
    obs, act = rng.normal(size=(30, 4)).astype(np.float32), rng.normal(size=(30, 2)).astype(np.float32)
    ep.observations["obs"] = Channel(name="obs", dtype=DType.FLOAT32, shape=[4], data=obs)
    ep.actions["action"] = Channel(name="action", dtype=DType.FLOAT32, shape=[2], data=act)
    wshard.save(ep, tmp_path / "episode.npz")
    wshard.convert(tmp_path / "episode.npz", tmp_path / "episode.wshard")
    loaded = wshard.load(tmp_path / "episode.wshard")
    assert loaded.source_format == Format.WSHARD
    assert np.array_equal(loaded.observations["obs"].data, obs)
    assert np.array_equal(loaded.actions["action"].data, act)
    assert wshard.load_dreamer(tmp_path / "episode.npz").source_format == Format.DREAMER_V3


def test_a_program_with_modalities_latents_and_residuals(tmp_path):
    ep = Episode(id="mm", length=20)
    signal = np.sin(np.arange(20, dtype=np.float32))
    for modality in (Modality.RGB, Modality.LANGUAGE):
        lane = Channel(name="x", dtype=DType.FLOAT32, shape=[3], data=np.ones((20, 3), np.float32))
        wshard.add_multimodal_observation(ep, "obs", modality, lane)
    ep.observations["x"] = Channel(name="x", dtype=DType.FLOAT32, shape=[], data=signal)
    codes = Channel(name="codes", dtype=DType.INT32, shape=[], data=np.arange(20, dtype=np.int32))
    vectors = Channel(name="vectors", dtype=DType.FLOAT32, shape=[16], data=np.ones((20, 16), np.float32))
    wshard.set_latent_actions(ep, "genie", vectors, codes)
    packed = wshard.pack_residual_bits(wshard.compute_sign2nd_diff(signal))
    ep.residuals["x"] = Residual("x", "sign2nddiff", np.frombuffer(packed, np.uint8))
    wshard.save_wshard(ep, tmp_path / "mm.wshard")

    loaded = wshard.load_wshard(tmp_path / "mm.wshard")
    wshard.decode_residuals(loaded)
    signs = np.frombuffer(loaded.residuals["x"].mask, dtype=np.int8)
    assert (signs[1:-1] == np.where(2 * signal[1:-1] - signal[:-2] - signal[2:] > 0, 1, -1)).all()
    assert list(wshard.get_multimodal_observations(loaded, group="obs")) == ["obs/rgb", "obs/language"]
    assert list(wshard.get_multimodal_observations(loaded, modality=Modality.RGB)) == ["obs/rgb"]
    assert np.array_equal(wshard.get_latent_codebook(loaded, "genie").data, codes.data)
    assert wshard.get_latent_actions(loaded, "genie").data.shape == (20, 16)
    assert wshard.get_latent_actions(loaded, "other") is None


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("level", [*CompressionLevel, 5])
def test_a_program_that_compresses_by_itself(codec, level):
    from wshard import compress  # noqa: PLC0415  (as a program would)

    data = bytes(range(64)) * 100
    packed = compress.compress(data, codec, level)
    assert compress.decompress(packed, len(data), codec) == data
    worker = compress.Compressor(codec, level)
    assert (worker.type, worker.level) == (codec, level)
    assert worker.compress(data) == packed
    assert worker.decompress(packed, len(data)) == data
    assert (len(packed) < len(data)) == (codec is not CompressionType.NONE)
    assert worker.compress(b"") == compress.compress(b"", codec) == b""
    noise = np.random.default_rng(0).bytes(100)
    assert compress.decompress(compress.compress(noise, codec, level), 100, codec) == noise
    assert compress.compression_from_byte(compress.compression_byte(codec)) is codec
    assert compress.compression_from_byte(77) is CompressionType.NONE
    assert [compress.should_compress("reward", bytes(size)) for size in (0, 63, 64)] == [False, False, True]
    with pytest.raises(ValueError, match="compression: expected"):
        compress.compress(data, "gzip")


def test_the_best_level_is_the_one_of_the_reference_package():
    import zstandard  # noqa: PLC0415  (the independent oracle)

    from wshard.compress import compress  # noqa: PLC0415  (as a program would)

    data = np.random.default_rng(0).integers(0, 4, 20_000, np.uint8).tobytes()
    for level, number in ((CompressionLevel.FASTEST, 1), (CompressionLevel.DEFAULT, 3), (CompressionLevel.BEST, 19)):
        assert compress(data, "zstd", level) == zstandard.ZstdCompressor(level=number).compress(data)


def test_a_program_whose_steps_are_channels(tmp_path):
    """There rewards, terminations and truncations are channels, and loaded ones have their values in .data."""
    ep = Episode(id="steps", length=5)
    ep.observations["x"] = Channel(name="x", dtype=DType.FLOAT32, shape=[], data=np.arange(5, dtype=np.float32))
    ep.rewards = Channel(name="reward", dtype=DType.FLOAT32, shape=[], data=np.arange(5, dtype=np.float32))
    ep.terminations = Channel(name="done", dtype=DType.UINT8, shape=[], data=np.array([0, 0, 0, 0, 1], np.uint8))
    ep.truncations = Channel(name="cut", dtype=DType.BOOL, shape=[], data=np.array([False] * 4 + [True]))
    ep.validate()
    wshard.save_wshard(ep, tmp_path / "a.wshard")
    wshard.save_dreamer(ep, tmp_path / "a.npz")
    ep.clone().validate()
    for loaded in (ep, wshard.load(tmp_path / "a.wshard"), wshard.load(tmp_path / "a.npz")):
        assert loaded.rewards.length == 5
        assert type(loaded.rewards.data) is np.ndarray
        assert loaded.rewards.data.astype(np.float64).sum() == 10
        assert loaded.terminations.data.astype(np.bool_).tolist() == [False] * 4 + [True]
        assert loaded.truncations.data[-1]
    ep.rewards = Channel(name="reward", dtype=DType.FLOAT32, shape=[], data=np.zeros(4, np.float32))
    with pytest.raises(ValueError, match="rewards: length mismatch"):
        ep.validate()


def test_steps_take_lists_and_share_arrays():
    ep = Episode("e", length=2, rewards=[1, 2], terminations=(False, True))
    assert ep.rewards.tolist() == [1, 2]
    assert ep.terminations.data.dtype == np.bool_
    values = np.zeros(2)
    ep.rewards = values
    values[0] = 3
    assert ep.rewards.data[0] == 3
    ep.rewards += 1
    assert values.tolist() == [4, 1]
    ep.rewards = None
    assert ep.rewards is None


def test_what_is_calculated_from_steps_is_plain():
    """Numbers and arrays like those of any numpy array: JSON, databases and other libraries take them."""
    steps = Episode("e", length=3, rewards=np.arange(3.0)).rewards
    for number in (steps.sum(), np.sum(steps), steps.mean(), steps.max(), steps @ steps, steps[0], np.median(steps)):
        assert type(number) is np.float64
    for array in (steps + 1, steps > 1, steps.cumsum(), np.concatenate([steps, steps]), np.diff(steps), steps.data):
        assert type(array) is np.ndarray
    assert type((steps > 1).any()) is np.bool_
    assert steps[1:].data.tolist() == [1, 2]
    assert pickle.loads(pickle.dumps(steps)).data.tolist() == [0, 1, 2]  # noqa: S301  (our own)


def test_a_program_that_writes_one_chunk_and_bits(tmp_path):
    ep = Episode(id="chunk-rt", length=20, chunk_index=2, total_chunks=10, timestep_range=[40, 59])
    ep.observations["s"] = Channel(
        name="s", dtype=DType.FLOAT32, shape=[], data=np.sin(np.arange(20, dtype=np.float32))
    )
    packed = wshard.pack_residual_bits(wshard.compute_sign2nd_diff(ep.observations["s"].data))
    ep.residuals["s"] = Residual(channel_id="s", type="sign2nddiff", data=packed)
    wshard.save_wshard(ep, path_or_file=tmp_path / "c.wshard")
    loaded = wshard.load_wshard(path_or_file=tmp_path / "c.wshard")
    assert (loaded.chunk_index, loaded.total_chunks) == (2, 10)
    assert loaded.timestep_range == [40, 59]
    assert bytes(loaded.residuals["s"].data) == packed
    assert wshard.unpack_residual_bits(loaded.residuals["s"].data, 20).shape == (20,)
    assert Episode("e", length=2, timestep_range=(3, 4)).timestep_range == [3, 4]


@pytest.mark.parametrize("bounds", [[], [1], [1, 2, 3], [5, 4], ["a", "b"], [0.5, 2]])
def test_ranges_that_no_reader_would_take_are_not_saved(bounds):
    with pytest.raises(ValueError, match="timestep_range"):
        wshard.save_wshard(Episode("e", length=2, timestep_range=bounds), io.BytesIO())


def test_a_recording_stops_at_the_limit_of_the_reference_but_is_not_lost(tmp_path):
    from wshard.streaming import ChannelDef, WShardStreamWriter  # noqa: PLC0415  (as a program would)

    def record(path: Path, limit: int | None) -> None:
        defs = [ChannelDef("x", DType.FLOAT32, [])]
        with WShardStreamWriter(path, "e", defs, limit) as writer:
            writer.begin_episode()
            for t in range(10):
                writer.write_timestep(t, {"x": np.float32(t)}, {}, 0.0, done=False)

    with pytest.raises(RuntimeError, match="max_timesteps of 7"):
        record(tmp_path / "a.wshard", 7)
    assert wshard.load(wshard.recover(tmp_path / "a.wshard.partial")).length == 7
    record(tmp_path / "b.wshard", None)
    assert wshard.load(tmp_path / "b.wshard").length == 10


@pytest.mark.parametrize("block", ["done", "reward", "time/ticks", "meta/channels", "meta/wshard", "signal/obs"])
def test_one_wrong_bit_anywhere_is_refused(block):
    """Also in lanes that were not recorded and are there for other readers only."""
    file = io.BytesIO()
    wshard.save_wshard(Episode("e", length=4, observations={"obs": Channel.of("obs", np.ones((4, 3), "<f4"))}), file)
    data = bytearray(file.getvalue())
    entry = wshard.ShardReader(bytes(data)).entry(block)
    data[entry.data_offset + entry.disk_size // 2] ^= 1
    with pytest.raises(ValueError, match="Checksum mismatch"):
        wshard.load_wshard(io.BytesIO(bytes(data)))


def test_the_command_runs_from_python_and_as_a_module(monkeypatch, capsys):
    from wshard.cli import main  # noqa: PLC0415  (as a program would)

    monkeypatch.setattr(sys, "argv", ["program", "of", "theirs"])
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("wshard 0.1.")
    output = subprocess.run(
        [sys.executable, "-m", "wshard.cli", "inspect", "nowhere"], capture_output=True, check=False
    )
    assert (output.returncode, output.stderr) == (1, b"error: nowhere: No such file or directory\n")
