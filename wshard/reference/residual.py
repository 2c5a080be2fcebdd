"""Residual arithmetic: import path of the reference package."""

from __future__ import annotations

from wshard.core.episode.residual import HAS_COWRIE as HAS_COWRIE
from wshard.core.episode.residual import compute_error_residual as compute_error_residual
from wshard.core.episode.residual import compute_sign2nd_diff as compute_sign2nd_diff
from wshard.core.episode.residual import compute_sign2nd_diff_multidim as compute_sign2nd_diff_multidim
from wshard.core.episode.residual import dequantize_delta as dequantize_delta
from wshard.core.episode.residual import pack_bool_mask as pack_bool_mask
from wshard.core.episode.residual import pack_multidim_residual_bitmask as pack_multidim_residual_bitmask
from wshard.core.episode.residual import pack_multidim_residual_bits as pack_multidim_residual_bits
from wshard.core.episode.residual import pack_residual_bitmask as pack_residual_bitmask
from wshard.core.episode.residual import pack_residual_bits as pack_residual_bits
from wshard.core.episode.residual import quantize_delta as quantize_delta
from wshard.core.episode.residual import reconstruct_from_omen_and_delta as reconstruct_from_omen_and_delta
from wshard.core.episode.residual import sign2nd_diff as sign2nd_diff
from wshard.core.episode.residual import unpack_bool_mask as unpack_bool_mask
from wshard.core.episode.residual import unpack_multidim_residual_bitmask as unpack_multidim_residual_bitmask
from wshard.core.episode.residual import unpack_multidim_residual_bits as unpack_multidim_residual_bits
from wshard.core.episode.residual import unpack_residual_bitmask as unpack_residual_bitmask
from wshard.core.episode.residual import unpack_residual_bits as unpack_residual_bits
