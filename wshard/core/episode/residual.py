"""Residual lanes: the curvature sign of a signal in one bit per value, and quantised differences to a prediction.

T = timesteps, D = dimensions; bits are LSB first, each dimension starts a new byte. A bit means "above the line between
its neighbours": zeros are stored as 0 and read as -1.
"""

# ruff: noqa: N803  (T and D are what the format's documents and the reference package call them)
from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer
    from wshard.core.types import Array, Episode

Signs = NDArray[np.int8]

SIGN2NDDIFF: Final = "sign2nddiff"
HAS_COWRIE: Final = False
"""The bitmask functions below need no other package: the bits are the same with and without it."""

_EDGE_RULES: Final = ("pad", "overlap")  # "overlap" is an older name that writers accepted and treated as "pad"
_INT8_MAX: Final = 127
_SEGMENT: Final = struct.Struct("<I")


# ---- curvature sign ------------------------------------------------------------------------------------------------


def sign2nd_diff(prev: float, curr: float, next_val: float) -> int:
    """Return +1 if curr is above the line between its neighbours, -1 if below, 0 if on it or for NaN."""
    return int(_curvature_signs(np.array([prev, curr, next_val]))[0])


def compute_sign2nd_diff(signal: Array, edge_rule: str = "pad") -> Signs:
    """Return sign(2 x[t] - x[t-1] - x[t+1]) of a signal [T] as int8 [T]; 0 at both ends and for NaN.

    Raises EpisodeError for another shape, a non-numeric dtype, or an unknown edge rule.
    """
    return _signs(signal, edge_rule, 1)


def compute_sign2nd_diff_multidim(signal: Array, edge_rule: str = "pad") -> Signs:
    """Return compute_sign2nd_diff of each column of a signal [T, D] as int8 [T, D]."""
    return _signs(signal, edge_rule, 2)


def compute_error_residual(signal: Array, omen: Array, edge_rule: str = "pad") -> Signs:
    """Return the curvature signs of signal - omen, both [T] or [T, D], as int8 of that shape."""
    error = _difference(signal, omen)
    return _signs(error, edge_rule, 1 if error.ndim == 1 else 2)


def _signs(signal: Array, edge_rule: str, axes: int) -> Signs:
    if edge_rule not in _EDGE_RULES:
        raise EpisodeError(f"edge_rule: expected one of {', '.join(_EDGE_RULES)}, found {edge_rule!r}")
    values = _numbers(signal, "signal", axes)
    signs = np.zeros(values.shape, np.int8)
    if len(values) > 2:
        signs[1:-1] = _curvature_signs(values)
    return signs


def _curvature_signs(values: Array) -> Signs:
    if values.dtype.kind in "iu":
        return _integer_curvature_signs(values)
    wide = values if values.dtype.itemsize >= 4 else values.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        bend = 2 * wide[1:-1] - wide[:-2] - wide[2:]
    signs: Signs = (bend > 0).astype(np.int8) - (bend < 0).astype(np.int8)
    return signs


def _integer_curvature_signs(values: Array) -> Signs:
    """Compute in two halves of 32 bits, so that no integer dtype wraps around."""
    high = (values >> 32 if values.dtype.itemsize == 8 else np.zeros_like(values)).astype(np.int64)
    low = (values & 0xFFFFFFFF if values.dtype.itemsize == 8 else values).astype(np.int64)
    low_bend = 2 * low[1:-1] - low[:-2] - low[2:]
    bend = 2 * high[1:-1] - high[:-2] - high[2:] + (low_bend >> 32)
    return np.where(bend == 0, np.sign(low_bend & 0xFFFFFFFF), np.sign(bend)).astype(np.int8)


def _numbers(values: Array, name: str, axes: int) -> Array:
    array = np.asarray(values)
    if array.ndim != axes or array.dtype.kind not in "fiub":
        shape = "[T]" if axes == 1 else "[T, D]"
        raise EpisodeError(f"{name}: expected numbers {shape}, found {array.dtype} {list(array.shape)}")
    return array.astype(np.uint8) if array.dtype.kind == "b" else array


def _difference(signal: Array, omen: Array) -> Array:
    """Return signal - omen as floats; unsigned integers would wrap around."""
    left, right = np.asarray(signal), np.asarray(omen)
    if left.shape != right.shape or left.ndim not in (1, 2):
        raise EpisodeError(
            f"signal and omen: Shape mismatch: expected the same [T] or [T, D], "
            f"found {list(left.shape)} and {list(right.shape)}"
        )
    left, right = (_numbers(array, name, left.ndim) for array, name in ((left, "signal"), (right, "omen")))
    common = np.result_type(left, right)
    wide = common if common.kind == "f" and common.itemsize >= 4 else np.dtype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        difference: Array = left.astype(wide) - right.astype(wide)
    return difference


# ---- packed bits ---------------------------------------------------------------------------------------------------


def pack_residual_bits(residuals: Array) -> bytes:
    """Pack signs [T] into ceil(T/8) bytes: +1 becomes 1, everything else 0."""
    return np.packbits(_numbers(residuals, "residuals", 1) > 0, bitorder="little").tobytes()


def unpack_residual_bits(packed: Buffer, T: int) -> Signs:
    """Return the signs int8 [T] of packed bits, +1 or -1; of a block with several dimensions, those of the first.

    Raises LaneError unless `packed` consists of whole dimensions.
    """
    return np.ascontiguousarray(_unpack_bits(packed, T)[:, 0])


def pack_multidim_residual_bits(residuals: Array) -> bytes:
    """Pack signs [T, D] into D runs of ceil(T/8) bytes."""
    bits = _numbers(residuals, "residuals", 2) > 0
    return np.packbits(bits.T, axis=1, bitorder="little").tobytes()


def unpack_multidim_residual_bits(packed: Buffer, T: int, D: int) -> Signs:
    """Return the signs int8 [T, D] of packed bits, +1 or -1; raises LaneError unless they are exactly D runs."""
    signs = _unpack_bits(packed, T, D)
    if signs.shape[1] != D:
        raise LaneError(f"residual bits: expected {D} runs of {-(-T // 8)} bytes for T = {T}, found {signs.shape[1]}")
    return signs


def unpack_runs(packed: Buffer, T: int) -> Signs:
    """Return the signs int8 [T, runs] of a residual block, whose number of dimensions is not stored.

    Raises LaneError unless `packed` has at least one whole run of ceil(T/8) bytes.
    """
    return _unpack_bits(packed, T)


def _unpack_bits(packed: Buffer, steps: int, runs: int | None = None) -> Signs:
    data, size = np.frombuffer(packed, np.uint8), -(-steps // 8)
    if steps == 0 and not data.size:
        return np.zeros((0, 1 if runs is None else runs), np.int8)
    if size <= 0 or data.size % size or (runs is None and not data.size):
        raise LaneError(f"residual bits: expected a multiple of {size} bytes for T = {steps}, found {data.size}")
    bits = np.unpackbits(data.reshape(-1, size), axis=1, count=steps, bitorder="little")
    return np.ascontiguousarray((bits.astype(np.int8) * 2 - 1).T)


def pack_bool_mask(mask: Array) -> bytes:
    """Pack booleans [T] into ceil(T/8) bytes."""
    return pack_residual_bits(np.asarray(mask).astype(np.bool_))


def unpack_bool_mask(packed: Buffer, T: int) -> NDArray[np.bool_]:
    """Return the booleans [T] of packed bits; raises LaneError as unpack_residual_bits does."""
    return unpack_residual_bits(packed, T) > 0


def pack_residual_bitmask(residuals: Array) -> bytes:
    """Pack signs [T] as a bitmask: the bytes of pack_residual_bits."""
    return pack_residual_bits(residuals)


def unpack_residual_bitmask(data: Buffer, T: int) -> Signs:
    """Return the signs int8 [T] of a bitmask."""
    return unpack_residual_bits(data, T)


def pack_multidim_residual_bitmask(residuals: Array) -> bytes:
    """Pack signs [T, D] as D bitmasks, each after its size as u32 little-endian."""
    columns = _numbers(residuals, "residuals", 2).T
    masks = [pack_residual_bits(column) for column in columns]
    return b"".join(_SEGMENT.pack(len(mask)) + mask for mask in masks)


def unpack_multidim_residual_bitmask(data: Buffer, T: int, D: int) -> Signs:
    """Return the signs int8 [T, D] of D bitmasks with their sizes; raises LaneError if a size is wrong."""
    size = -(-T // 8)
    if len(data) != D * (_SEGMENT.size + size):
        raise LaneError(f"bitmask: expected {D} times 4 + {size} bytes for T = {T}, found {len(data)}")
    signs = np.empty((T, D), np.int8)
    for column in range(D):
        start = column * (_SEGMENT.size + size)
        (stated,) = _SEGMENT.unpack_from(data, start)
        if stated != size:
            raise LaneError(f"bitmask {column}: expected a size of {size} bytes for T = {T}, found {stated}")
        begin = start + _SEGMENT.size
        signs[:, column] = unpack_residual_bits(data[begin : begin + size], T)
    return signs


def decode_residuals(ep: Episode) -> None:
    """Set the mask of every sign2nddiff residual of an episode: int8 +1 or -1, [T], or [T, runs] of several dimensions.

    Raises LaneError unless a residual consists of whole runs of T bits.
    """
    for residual in ep.residuals.values():
        if residual.type == SIGN2NDDIFF:
            signs = unpack_runs(bytes(residual.data), ep.length)
            residual.mask = signs[:, 0].copy() if signs.shape[1] == 1 else signs


# ---- quantised difference ------------------------------------------------------------------------------------------


def quantize_delta(signal: Array, omen: Array, window_size: int = 256) -> tuple[Signs, NDArray[np.float32]]:
    """Quantise signal - omen, both [T], to int8 [T] with one float32 scale per window of window_size timesteps.

    scale = max|difference| / 127, or 1 if there is none; halves are rounded to even. NaN and infinite differences
    become 0. Raises EpisodeError for other shapes, or differences beyond float32.
    """
    delta = _difference(signal, omen)
    if delta.ndim != 1:
        raise EpisodeError(f"signal and omen: expected [T], found {list(delta.shape)}")
    windows = _windows(np.where(np.isfinite(delta), delta, 0), window_size)
    largest = np.abs(windows).max(axis=1, initial=0) / _INT8_MAX
    if (largest > np.finfo(np.float32).max).any():
        raise EpisodeError(f"signal - omen: float32 cannot hold a scale of {largest.max()}")
    with np.errstate(under="ignore"):
        scales = largest.astype(np.float32)
    scales[scales == 0] = 1
    quantised = np.clip(np.round(windows / scales[:, None]), -_INT8_MAX, _INT8_MAX)
    return quantised.astype(np.int8).reshape(-1)[: len(delta)], scales


def dequantize_delta(quantized: Array, scales: Array, window_size: int = 256) -> NDArray[np.float32]:
    """Return the differences float32 [T] of quantize_delta; raises EpisodeError unless each window has a scale."""
    steps = _numbers(quantized, "quantized", 1)
    windows = _windows(steps.astype(np.float32), window_size)
    factors = _numbers(scales, "scales", 1).astype(np.float32)
    if len(factors) != len(windows):
        raise EpisodeError(
            f"scales: expected {len(windows)} for {len(steps)} timesteps in windows of {window_size}, "
            f"found {len(factors)}"
        )
    delta: NDArray[np.float32] = (windows * factors[:, None]).reshape(-1)[: len(steps)]
    return delta


def reconstruct_from_omen_and_delta(omen: Array, quantized: Array, scales: Array, window_size: int = 256) -> Array:
    """Return omen + dequantised difference, [T]; float32, or float64 for a prediction in float64 or integers."""
    prediction, delta = _numbers(omen, "omen", 1), dequantize_delta(quantized, scales, window_size)
    if prediction.shape != delta.shape:
        raise EpisodeError(f"omen: Shape mismatch: expected {list(delta.shape)}, found {list(prediction.shape)}")
    total: Array = prediction + delta
    return total


def _windows(values: NDArray[Any], size: int) -> NDArray[Any]:
    if size < 1:
        raise EpisodeError(f"window_size: expected at least 1 timestep, found {size}")
    return np.pad(values, (0, -len(values) % size)).reshape(-1, size)
