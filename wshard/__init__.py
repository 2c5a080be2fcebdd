"""Read, write, record and check robot-learning episodes; entry point to the archive, search and catalog.

The latter are imported on first use: `import wshard` loads only numpy and the codecs.
"""

from typing import TYPE_CHECKING

from wshard.array_fields import DType
from wshard.chunks.manifest import ChunkManifest, validate_chunk_continuity
from wshard.chunks.reader import ChunkedEpisodeReader
from wshard.chunks.writer import ChunkedEpisodeWriter
from wshard.compress import Compressor
from wshard.container.codec import Codec, CompressionLevel, CompressionType
from wshard.container.manifest import open_manifest
from wshard.container.reader import ShardReader
from wshard.container.stream_writer import ShardStreamWriter
from wshard.container.writer import ShardWriter
from wshard.convert import convert, detect_format, load, save  # by that path: the module of this name is no attribute
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
from wshard.episode.protocol import EpisodeAddress, EpisodeReader
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
from wshard.formats.base import open_sink, open_source
from wshard.formats.huggingface import HF_AVAILABLE, HuggingFaceAdapter, download_from_hub, upload_to_hub
from wshard.lazy import importer
from wshard.open import open_episode
from wshard.recording.recover import discard, recover
from wshard.recording.writer import ChannelDef, WShardStreamWriter
from wshard.types import Channel, Episode, Format, Modality, Residual, TimebaseSpec, TimebaseType

if TYPE_CHECKING:
    from bridge import TrajectoryIngestor, TrajectoryRetriever, open_archive
    from catalog import Catalog
    from wshard.container.manifest import write_manifest
    from wshard.episode.memory_reader import MemoryReader
    from wshard.open import list_episodes
    from wshard.quality.thresholds import Thresholds
    from wshard.repair.repair import repair as repair_file
    from wshard.repair.report import RepairReport

StreamChannelDef = ChannelDef

__all__ = [
    "HAS_COWRIE",
    "HF_AVAILABLE",
    "LATENT_ACTION_CHANNEL",
    "LATENT_CODEBOOK_CHANNEL",
    "Catalog",
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
    "EpisodeAddress",
    "EpisodeFile",
    "EpisodeReader",
    "Format",
    "FormatError",
    "FormatWarning",
    "HuggingFaceAdapter",
    "MemoryReader",
    "Modality",
    "RepairReport",
    "Residual",
    "ShardReader",
    "ShardStreamWriter",
    "ShardWriter",
    "StreamChannelDef",
    "Thresholds",
    "TimebaseSpec",
    "TimebaseType",
    "TrajectoryIngestor",
    "TrajectoryRetriever",
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
    "list_episodes",
    "load",
    "load_dreamer",
    "load_wshard",
    "open_archive",
    "open_episode",
    "open_manifest",
    "open_sink",
    "open_source",
    "open_wshard",
    "pack_multidim_residual_bitmask",
    "pack_multidim_residual_bits",
    "pack_residual_bitmask",
    "pack_residual_bits",
    "quantize_delta",
    "reconstruct_from_omen_and_delta",
    "recover",
    "repair_file",
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
    "write_manifest",
]

__version__ = "0.1.0"

__getattr__ = importer(
    "wshard",
    {
        "Catalog": "catalog",
        "MemoryReader": "wshard.episode.memory_reader",
        "RepairReport": "wshard.repair.report",
        "Thresholds": "wshard.quality.thresholds",
        "TrajectoryIngestor": "bridge",
        "TrajectoryRetriever": "bridge",
        "list_episodes": "wshard.open",
        "open_archive": "bridge",
        "repair_file": "wshard.repair.repair:repair",
        "write_manifest": "wshard.container.manifest",
    },
)


def __dir__() -> list[str]:
    """Return the names above, also those that were not used yet."""
    return sorted({*globals(), *__all__})
