"""Lanes of an episode: which block is which, and how its bytes become an array.

Rules by number: FORMAT.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.meta_reader import META_BLOCKS, Declaration, Description
from wshard.errors import LaneError

if TYPE_CHECKING:
    from wshard.core.container.layout import Buffer
    from wshard.core.types import Array

REWARD: Final = "reward"
DONE: Final = "done"
TICKS: Final = "time/ticks"
TIMESTAMPS: Final = "time/timestamps_ns"
# Lanes that the reference profile has no block for; readers skip the aux/ prefix.
EXACT_REWARD: Final = "aux/reward"
TRUNCATIONS: Final = "aux/truncations"
STEP_TEXTS: Final = "aux/text/"
"""Prefix of lanes with a text per timestep, stored as positions in the list of the same name in the metadata."""

STAMPS: Final = "aux/stamps_ns/"
"""Prefix of lanes with other stamps than those of the clock: of what signal/NAME shows, or of times in messages."""

MAX_GAPS: Final = 0.1
"""Share of the values of a lane that may be no finite numbers and be interpolated for searches."""

_MAX_ELEMENTS: Final = 1 << 59  # numpy counts bytes in 63 bits, also where one axis is 0
_CODEBOOK: Final = "omen/latent_action_codebook/"
_FIXED: Final[dict[str, DType]] = {
    REWARD: DType.FLOAT32,
    DONE: DType.BOOL,
    TIMESTAMPS: DType.INT64,
}


_KNOWN: Final = frozenset((*META_BLOCKS, *_FIXED, TICKS, EXACT_REWARD, TRUNCATIONS))


def known_blocks(description: Description) -> frozenset[str]:
    """Return the names of the blocks that the profile defines or the episode declares."""
    return _KNOWN.union(description.declared)


def declaration_of(block: str, size: int, description: Description) -> Declaration | None:
    """Return dtype and per-step shape of a block of `size` bytes, declared or by the profile's rules.

    None: the block is not a lane, or its dtype is unknown; it is preserved as raw bytes.
    """
    if block in description.declared:
        return description.declared[block]
    if block in _FIXED:
        return Declaration(block, _FIXED[block])
    if block == TICKS:
        return Declaration(block, DType.INT64 if description.length and size == 8 * description.length else DType.INT32)
    if block == TRUNCATIONS and size == description.length:  # of any other size it is another program's block
        return Declaration(block, DType.BOOL)
    if block.startswith(STEP_TEXTS) and description.length and size == description.length * DType.INT32.size:
        return Declaration(block, DType.INT32)
    return _by_name(block, size, description)


def is_residual(block: str) -> bool:
    """Return True for residual/CHANNEL/TYPE: packed bits, whose shape is not stored."""
    return block.startswith("residual/") and block.count("/") > 1


def is_omen(block: str) -> bool:
    """Return True for omen/CHANNEL/MODEL, a prediction."""
    return block.startswith("omen/") and block.count("/") > 1


def _by_name(block: str, size: int, description: Description) -> Declaration | None:
    prefix, _, name = block.partition("/")
    if not description.length or not (prefix in ("action", "uncert") or is_omen(block)):
        return None
    parent = _parent(name, description)
    if parent is not None and parent.step_size * description.length == size:
        return Declaration(block, parent.dtype, parent.shape)
    values, rest = divmod(size, 4 * description.length)
    dtype = DType.INT32 if block.startswith(_CODEBOOK) else DType.FLOAT32
    return None if rest else Declaration(block, dtype, () if values == 1 else (values,))


def _parent(name: str, description: Description) -> Declaration | None:
    """Return the declared channel of an undeclared lane: the one with the longest id that is a prefix."""
    parts = name.split("/")
    ids = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((description.declared[f"signal/{id_}"] for id_ in ids if f"signal/{id_}" in description.declared), None)


def lane_array(declaration: Declaration, data: Buffer, length: int | None, where: str) -> Array:
    """Return the block's bytes as a read-only array [T, *shape], without copying; raises LaneError as lane_shape."""
    return view_typed(data, declaration.dtype, lane_shape(declaration, len(data), length, where))


def lane_shape(declaration: Declaration, size: int, length: int | None, where: str) -> tuple[int, ...]:
    """Return [T, *shape] of a block of `size` bytes.

    Raises LaneError where the bytes do not divide into timesteps, or T differs from the episode's length.
    """
    block, step = declaration.block, declaration.step_size
    if not size and math.prod(max(axis, 1) for axis in (length or 1, *declaration.shape)) >= _MAX_ELEMENTS:
        raise LaneError(f"{where}: block {block!r}: {length} timesteps of {list(declaration.shape)} are no real array")
    if step == 0:
        steps = length or 0
        if size:
            raise LaneError(f"{where}: Cannot reshape block {block!r}: {size} bytes into shape {declaration.shape}")
        if math.prod(max(axis, 1) for axis in (steps, *declaration.shape)) >= _MAX_ELEMENTS:
            raise LaneError(
                f"{where}: block {block!r}: {steps} timesteps of {list(declaration.shape)} are no real array"
            )
    else:
        steps, rest = divmod(size, step)
        if rest:
            raise LaneError(
                f"{where}: Cannot reshape block {block!r}: {size} bytes are not a multiple of the {step} bytes of "
                f"{declaration.dtype.value} {list(declaration.shape)} per timestep"
            )
    if length is not None and steps != length:
        raise LaneError(
            f"{where}: block {block!r}: length mismatch: meta/episode says {length} timesteps, "
            f"{declaration.dtype.value} {list(declaration.shape)} gives {steps}{_suggest_dtype(size, length)}"
        )
    return (steps, *declaration.shape)


def _suggest_dtype(size: int, length: int) -> str:
    values = size / length if length else 0
    fitting_dtypes = [dtype for dtype, width in (("f64", 8), ("f32", 4), ("f16", 2)) if values and values % width == 0]
    return f" (the bytes would fit {fitting_dtypes[0]})" if fitting_dtypes else ""


def view_typed(data: Buffer, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return bytes as a read-only array of that dtype and shape, without a copy if possible."""
    if not len(data):
        array: Array = np.zeros(shape, dtype.numpy_dtype)  # frombuffer takes no empty buffers
    elif dtype is DType.BOOL:
        raw = np.frombuffer(data, np.uint8).reshape(shape)
        array = raw.view(np.bool_) if raw.max(initial=0) <= 1 else raw != 0
    else:
        array = np.frombuffer(data, dtype.numpy_dtype).reshape(shape)
    array.flags.writeable = False
    return array
