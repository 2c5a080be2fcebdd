"""Episode files under the import path that the format's documents name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wshard.core.array_fields import DType
from wshard.core.container.layout import HEADER_SIZE as HEADER_SIZE
from wshard.core.container.layout import INDEX_ENTRY_SIZE as INDEX_ENTRY_SIZE
from wshard.core.container.layout import MAGIC as MAGIC
from wshard.core.container.layout import ROLE_WSHARD as ROLE_WSHARD
from wshard.core.container.layout import VERSION as VERSION
from wshard.core.container.layout import checksum
from wshard.core.episode.file import load_wshard as load_wshard
from wshard.core.episode.file import save_wshard as save_wshard
from wshard.core.episode.lanes import lane_array
from wshard.core.episode.meta_reader import Declaration
from wshard.core.episode.naming import LATENT_ACTION_CHANNEL as LATENT_ACTION_CHANNEL
from wshard.core.episode.naming import LATENT_CODEBOOK_CHANNEL as LATENT_CODEBOOK_CHANNEL
from wshard.core.episode.naming import add_multimodal_observation as add_multimodal_observation
from wshard.core.episode.naming import get_latent_actions as get_latent_actions
from wshard.core.episode.naming import get_latent_codebook as get_latent_codebook
from wshard.core.episode.naming import get_multimodal_observations as get_multimodal_observations
from wshard.core.episode.naming import set_latent_actions as set_latent_actions
from wshard.core.episode.residual import decode_residuals as decode_residuals
from wshard.core.types import Channel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wshard.core.container.layout import Buffer


DEFAULT_ALIGNMENT: Final = 32
"""The alignment that the reference package writes; files of any alignment can be read."""

RESIDUAL_ENCODING_RAW: Final = "raw"
RESIDUAL_ENCODING_COWRIE_BITMASK: Final = "cowrie_bitmask"
"""Two names in files for the same bits."""


def compute_crc32(data: Buffer) -> int:
    """Return the CRC32C (Castagnoli) of data."""
    return checksum(data)


def _parse_tensor_block(data: Buffer, ch_def: Mapping[str, Any]) -> Channel:
    """Return the channel [T, *shape] of a block's bytes and its row in meta/channels; raises LaneError."""
    name = str(ch_def.get("id", "unknown"))
    lane = Declaration(name, DType.parse(ch_def.get("dtype", "f32"), name), tuple(ch_def.get("shape", ())))
    return Channel(name, lane.dtype, list(lane.shape), lane_array(lane, data, None, "<bytes>"))
