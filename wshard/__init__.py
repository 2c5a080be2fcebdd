"""Episode files: one file, one episode. Read, write, record and check WShard files."""

from wshard.compress import Codec, CompressionLevel, CompressionType
from wshard.container import ShardReader, ShardWriter
from wshard.episode_file import EpisodeFile, load_wshard, open_wshard, save_wshard
from wshard.errors import FormatError, FormatWarning, WShardError
from wshard.streaming import ChannelDef, WShardStreamWriter, discard, recover
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
    "Channel",
    "ChannelDef",
    "Codec",
    "CompressionLevel",
    "CompressionType",
    "DType",
    "Episode",
    "EpisodeFile",
    "Format",
    "FormatError",
    "FormatWarning",
    "Modality",
    "Residual",
    "ShardReader",
    "ShardWriter",
    "StreamChannelDef",
    "TimebaseSpec",
    "TimebaseType",
    "WShardError",
    "WShardStreamWriter",
    "__version__",
    "discard",
    "load_wshard",
    "open_wshard",
    "recover",
    "save_wshard",
]

__version__ = "0.1.0"
