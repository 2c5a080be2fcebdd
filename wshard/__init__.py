"""Episode files: one file, one episode. Read, write, record and check WShard files."""

from wshard.chunks.reader import ChunkedEpisodeReader, ChunkManifest, validate_chunk_continuity
from wshard.chunks.writer import ChunkedEpisodeWriter
from wshard.compress import Compressor
from wshard.container.codec import Codec, CompressionLevel, CompressionType
from wshard.container.manifest import open_manifest
from wshard.container.reader import ShardReader
from wshard.container.stream_writer import ShardStreamWriter
from wshard.container.writer import ShardWriter
from wshard.convert import convert, detect_format, load, save  # the facade: else importing it would hide the function
from wshard.dreamer import load_dreamer, save_dreamer
from wshard.episode.file import EpisodeFile, load_wshard, open_wshard, save_wshard
from wshard.episode.naming import (
    LATENT_ACTION_CHANNEL,
    LATENT_CODEBOOK_CHANNEL,
    add_multimodal_observation,
    get_latent_actions,
    get_latent_codebook,
    get_multimodal_observations,
    set_latent_actions,
)
from wshard.episode.residual import (
    HAS_COWRIE,
    compute_error_residual,
    compute_sign2nd_diff,
    compute_sign2nd_diff_multidim,
    decode_residuals,
    dequantize_delta,
    pack_multidim_residual_bitmask,
    pack_multidim_residual_bits,
    pack_residual_bitmask,
    pack_residual_bits,
    quantize_delta,
    reconstruct_from_omen_and_delta,
    unpack_multidim_residual_bitmask,
    unpack_multidim_residual_bits,
    unpack_residual_bitmask,
    unpack_residual_bits,
)
from wshard.errors import FormatError, FormatWarning, WShardError
from wshard.formats.huggingface import HF_AVAILABLE, HuggingFaceAdapter, download_from_hub, upload_to_hub
from wshard.open import open_episode
from wshard.recording.recover import discard, recover
from wshard.recording.writer import ChannelDef, WShardStreamWriter
from wshard.types import (
    Channel,
    DType,
    Episode,
    Format,
    Modality,
    Residual,
    TimebaseSpec,
    TimebaseType,
)

StreamChannelDef = ChannelDef

__all__ = [
    "HAS_COWRIE",
    "HF_AVAILABLE",
    "LATENT_ACTION_CHANNEL",
    "LATENT_CODEBOOK_CHANNEL",
    "Channel",
    "ChannelDef",
    "ChunkManifest",
    "ChunkedEpisodeReader",
    "ChunkedEpisodeWriter",
    "Codec",
    "CompressionLevel",
    "CompressionType",
    "Compressor",
    "DType",
    "Episode",
    "EpisodeFile",
    "Format",
    "FormatError",
    "FormatWarning",
    "HuggingFaceAdapter",
    "Modality",
    "Residual",
    "ShardReader",
    "ShardStreamWriter",
    "ShardWriter",
    "StreamChannelDef",
    "TimebaseSpec",
    "TimebaseType",
    "WShardError",
    "WShardStreamWriter",
    "__version__",
    "add_multimodal_observation",
    "compute_error_residual",
    "compute_sign2nd_diff",
    "compute_sign2nd_diff_multidim",
    "convert",
    "decode_residuals",
    "dequantize_delta",
    "detect_format",
    "discard",
    "download_from_hub",
    "get_latent_actions",
    "get_latent_codebook",
    "get_multimodal_observations",
    "load",
    "load_dreamer",
    "load_wshard",
    "open_episode",
    "open_manifest",
    "open_wshard",
    "pack_multidim_residual_bitmask",
    "pack_multidim_residual_bits",
    "pack_residual_bitmask",
    "pack_residual_bits",
    "quantize_delta",
    "reconstruct_from_omen_and_delta",
    "recover",
    "save",
    "save_dreamer",
    "save_wshard",
    "set_latent_actions",
    "unpack_multidim_residual_bitmask",
    "unpack_multidim_residual_bits",
    "unpack_residual_bitmask",
    "unpack_residual_bits",
    "upload_to_hub",
    "validate_chunk_continuity",
]

__version__ = "0.1.0"
