"""Residual arithmetic: import path of the reference package."""

from __future__ import annotations

from wshard.episode.residual import (
    HAS_COWRIE,
    compute_error_residual,
    compute_sign2nd_diff,
    compute_sign2nd_diff_multidim,
    dequantize_delta,
    pack_bool_mask,
    pack_multidim_residual_bitmask,
    pack_multidim_residual_bits,
    pack_residual_bitmask,
    pack_residual_bits,
    quantize_delta,
    reconstruct_from_omen_and_delta,
    sign2nd_diff,
    unpack_bool_mask,
    unpack_multidim_residual_bitmask,
    unpack_multidim_residual_bits,
    unpack_residual_bitmask,
    unpack_residual_bits,
)

__all__ = [
    "HAS_COWRIE",
    "compute_error_residual",
    "compute_sign2nd_diff",
    "compute_sign2nd_diff_multidim",
    "dequantize_delta",
    "pack_bool_mask",
    "pack_multidim_residual_bitmask",
    "pack_multidim_residual_bits",
    "pack_residual_bitmask",
    "pack_residual_bits",
    "quantize_delta",
    "reconstruct_from_omen_and_delta",
    "sign2nd_diff",
    "unpack_bool_mask",
    "unpack_multidim_residual_bitmask",
    "unpack_multidim_residual_bits",
    "unpack_residual_bitmask",
    "unpack_residual_bits",
]
