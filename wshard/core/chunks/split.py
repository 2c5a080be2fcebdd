"""Split an episode into chunks along time, and join chunks to the original episode.

Lanes are split; metadata, environment and timebase are repeated in every chunk, and blocks of other programs, which
cannot be split, are in the first. Residual bits are split as bits, so that the first and last bit of a chunk are still
those of the whole signal; the unused bits of a last byte become 0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.residual import SIGN2NDDIFF, pack_multidim_residual_bits, unpack_runs
from wshard.core.media.chained_frames import chain_frames
from wshard.core.types import Array, Channel, Episode, Residual
from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

STEP_FIELDS: Final = ("rewards", "terminations", "truncations", "ticks", "timestamps_ns")

Lanes = dict[str, Channel]


# ---- cut -----------------------------------------------------------------------------------------------------------


def cut(ep: Episode, start: int, stop: int) -> Episode:
    """Return timesteps [start, stop) of an episode as a new episode; its arrays are views.

    The caller sets the chunk fields. Raises EpisodeError for a residual that does not consist of sign2nddiff bits.
    """

    def lanes(channels: Mapping[str, Channel]) -> Lanes:
        return {name: channel.part(start, stop) for name, channel in channels.items()}

    steps: dict[str, Any] = {
        name: None if (array := getattr(ep, name)) is None else np.asarray(array)[start:stop] for name in STEP_FIELDS
    }
    return replace(
        ep,
        length=stop - start,
        observations=lanes(ep.observations),
        actions=lanes(ep.actions),
        omens={owner: lanes(models) for owner, models in ep.omens.items()},
        uncerts=lanes(ep.uncerts),
        residuals={name: _cut_residual(residual, ep.length, start, stop) for name, residual in ep.residuals.items()},
        blocks=dict(ep.blocks) if start == 0 else {},
        metadata=dict(ep.metadata),
        **steps,
    )


def _cut_residual(residual: Residual, length: int, start: int, stop: int) -> Residual:
    if residual.type != SIGN2NDDIFF or residual.scales is not None:
        raise EpisodeError(
            f"residual {residual.channel_id!r}: expected {SIGN2NDDIFF} bits, which can be cut along time, "
            f"found {residual.type!r}"
        )
    try:
        signs = unpack_runs(bytes(residual.data), length)
    except LaneError as error:
        raise EpisodeError(f"residual {residual.channel_id!r} cannot be cut along time: {error}") from None
    return _residual(residual.channel_id, signs[start:stop])


def _residual(channel: str, signs: Array) -> Residual:
    return Residual(channel, SIGN2NDDIFF, np.frombuffer(pack_multidim_residual_bits(signs), np.uint8))


# ---- join ----------------------------------------------------------------------------------------------------------


def join(chunks: Sequence[Episode]) -> Episode:
    """Join consecutive chunks to an episode; all need the same lanes.

    Metadata of later chunks takes precedence. Chunks without truncations count as not truncated if another chunk has
    some. Raises LaneError with lane and chunk if the chunks are inconsistent.
    """
    if not chunks:
        raise LaneError("expected at least one chunk to join, found none")
    first = chunks[0]
    owners = list(first.omens)
    steps: dict[str, Any] = {name: _join_steps(chunks, name) for name in STEP_FIELDS}
    for number, chunk in enumerate(chunks):
        if set(chunk.omens) != set(owners):
            raise LaneError(f"omens: chunk {number} has them for {sorted(chunk.omens)}, chunk 0 for {sorted(owners)}")
    return replace(
        first,
        length=sum(chunk.length for chunk in chunks),
        observations=_join_lanes(chunks, "signal", lambda chunk: chunk.observations),
        actions=_join_lanes(chunks, "action", lambda chunk: chunk.actions),
        omens={owner: _join_models(chunks, owner) for owner in owners},
        uncerts=_join_lanes(chunks, "uncert", lambda chunk: chunk.uncerts),
        residuals={name: _join_residual(chunks, name) for name in _same_names(chunks, "residual", _residuals_of)},
        blocks=_join_blocks(chunks),
        metadata={key: value for chunk in chunks for key, value in chunk.metadata.items()},
        chunk_index=None,
        total_chunks=None,
        timestep_range=None,
        **steps,
    )


def join_pieces(pieces: Sequence[Array], *, widen: bool = False) -> Array:
    """Return the pieces of one lane concatenated along time; a single one is not copied.

    widen: allow integers of different widths. Raises LaneError where the pieces differ in dtype or shape per step.
    """
    if len(pieces) == 1:
        return pieces[0]
    layouts = {(piece.dtype.kind if widen else piece.dtype, piece.shape[1:]) for piece in pieces}
    if len(layouts) > 1:
        raise LaneError(f"expected the same dtype and shape in every chunk, found {sorted(map(str, layouts))}")
    return np.concatenate(pieces)


def _join_models(chunks: Sequence[Episode], owner: str) -> Lanes:
    return _join_lanes(chunks, f"omen/{owner}", lambda chunk: chunk.omens[owner])


def _join_lanes(chunks: Sequence[Episode], prefix: str, lanes_of: Callable[[Episode], Lanes]) -> Lanes:
    lanes = {}
    for name in _same_names(chunks, prefix, lanes_of):
        channel = lanes_of(chunks[0])[name]
        try:
            parts = [lanes_of(chunk)[name] for chunk in chunks]
            frames = [part.encoded for part in parts if part.encoded is not None]
            if len(frames) == len(parts):
                lanes[name] = replace(channel, data=None, encoded=chain_frames(frames))
            else:
                lanes[name] = replace(channel, data=join_pieces([part.data for part in parts]))
        except LaneError as error:
            raise LaneError(f"{prefix}/{name}: {error}") from None
    return lanes


def _same_names(chunks: Sequence[Episode], prefix: str, names_of: Callable[[Episode], Iterable[str]]) -> list[str]:
    names = list(names_of(chunks[0]))
    for number, chunk in enumerate(chunks):
        different = sorted(set(names_of(chunk)) ^ set(names))
        if different:
            raise LaneError(f"lane {prefix}/{different[0]!r} is in one of chunks 0 and {number}, not in both")
    return names


def _join_steps(chunks: Sequence[Episode], name: str) -> Array | None:
    arrays = [getattr(chunk, name) for chunk in chunks]
    if all(array is None for array in arrays):
        return None
    if name == "truncations":  # recordings leave the lane out where nothing was truncated
        arrays = [np.zeros(c.length, np.bool_) if a is None else a for c, a in zip(chunks, arrays, strict=True)]
    missing = [number for number, array in enumerate(arrays) if array is None]
    if missing:
        raise LaneError(f"{name}: chunk {missing[0]} has none, others do")
    # Ticks are stored in 32 bits where they fit, so that chunks of one lane may differ in width.
    return join_pieces(arrays, widen=name == "ticks")


def _residuals_of(chunk: Episode) -> Iterable[str]:
    return chunk.residuals


def _join_residual(chunks: Sequence[Episode], name: str) -> Residual:
    types = {chunk.residuals[name].type for chunk in chunks}
    if len(chunks) == 1:
        return chunks[0].residuals[name]
    if types != {SIGN2NDDIFF}:
        raise LaneError(f"residual {name!r}: expected {SIGN2NDDIFF} bits in every chunk, found {sorted(types)}")
    try:
        signs = join_pieces([unpack_runs(bytes(chunk.residuals[name].data), chunk.length) for chunk in chunks])
    except LaneError as error:
        raise LaneError(f"residual {name!r}: {error}") from None
    return _residual(chunks[0].residuals[name].channel_id, signs)


def _join_blocks(chunks: Sequence[Episode]) -> dict[str, bytes]:
    blocks: dict[str, bytes] = {}
    for number, chunk in enumerate(chunks):
        for name, data in chunk.blocks.items():
            if blocks.setdefault(name, data) != data:
                raise LaneError(f"block {name!r} differs in chunk {number}: read the chunks one by one")
    return blocks
