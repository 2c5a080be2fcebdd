"""The three JSON blocks of an episode, written strictly: equal descriptions give equal bytes.

Rules by number: FORMAT.md.
"""

from __future__ import annotations

import json
import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np

from wshard.core.container.layout import MAX_META_SIZE
from wshard.core.container.metadata import check_keys
from wshard.core.episode.meta_reader import META_CHANNELS, META_EPISODE, META_WSHARD, unicode_text, usable_rate
from wshard.core.types import Modality
from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.episode.meta_reader import Declaration, Description
    from wshard.core.types import Episode


_OPTIONAL = ("sampling_rate_hz", "content_type", "semantics", "frame_steps", "first_frame", "names", "unit", "kinds")


def write_description(description: Description) -> dict[str, bytes]:
    """Return the three meta blocks as deterministic JSON.

    Raises EpisodeError for what JSON cannot hold or read_description would refuse.
    """
    for text in (description.episode_id, description.env_id, *description.declared):
        _check_unicode(text)
    if not description.episode_id:
        raise EpisodeError("episode: expected a non-empty id")
    hz = usable_rate(description.timebase.tick_hz)
    if hz is None:
        raise EpisodeError(f"timebase: expected a finite tick_hz > 0, found {description.timebase.tick_hz}")
    timebase: dict[str, Any] = {"type": description.timebase.type.value, "tick_hz": hz, "dt_ns": round(1e9 / hz)}
    if description.timebase.assumed:
        timebase["assumed"] = True
    if description.timebase.epoch_ns:
        timebase["epoch_ns"] = description.timebase.epoch_ns
    episode: dict[str, Any] = {
        "episode_id": description.episode_id,
        "env_id": description.env_id,
        "length_T": description.length,
        "timebase": timebase,
    }
    if description.chunk_index is not None:
        episode |= {"chunk_index": description.chunk_index, "total_chunks": description.total_chunks}
    if description.timestep_range is not None:
        episode["timestep_range"] = list(description.timestep_range)
    if description.metadata:
        episode["metadata"] = dict(description.metadata)
    if description.synthesized:
        episode["synthesized"] = sorted(description.synthesized)
    file_json = {
        "format": "W-SHARD",
        "version": "0.1",
        "wshard_version": "0.1",
        "endianness": "little",
        "residual_encoding": "raw",
        "residual_edges": "pad",
        "timebase": timebase,
    }
    contents = {META_WSHARD: file_json, META_EPISODE: episode, META_CHANNELS: _channels_json(description)}
    return {name: dump_json(value, name) for name, value in contents.items()}


def _check_unicode(text: object) -> None:
    try:
        unicode_text(text, "episode id, env_id and channel names")
    except LaneError as error:
        raise EpisodeError(str(error)) from None


def check_described(lane: Declaration) -> None:
    """Raise EpisodeError if a lane has properties that could not be read back unchanged."""
    rate, modality = lane.sampling_rate_hz, lane.modality
    if rate and usable_rate(rate.item() if isinstance(rate, np.generic) else rate) is None:
        raise EpisodeError(f"{lane.block}: sampling_rate_hz: expected a finite number > 0, found {reprlib.repr(rate)}")
    if modality is not None and not isinstance(modality, Modality):
        raise EpisodeError(f"{lane.block}: modality: expected a Modality, found {reprlib.repr(modality)}")
    for name in ("semantics", "content_type", "unit"):
        value = getattr(lane, name)
        if value is not None and not isinstance(value, str):
            raise EpisodeError(f"{lane.block}: {name}: expected text, found {reprlib.repr(value)}")


def _channels_json(description: Description) -> dict[str, Any]:
    channels: list[dict[str, Any]] = []
    lanes: list[dict[str, Any]] = []
    groups: dict[str, list[dict[str, str]]] = {}
    for declaration in description.declared.values():
        check_described(declaration)
        row: dict[str, Any] = {"dtype": declaration.dtype.value, "shape": list(declaration.shape)}
        if declaration.encoding:  # other readers see bytes
            row = {"dtype": "u8", "shape": [], "encoding": declaration.encoding}
            row |= {"frame_dtype": declaration.dtype.value, "frame_shape": list(declaration.shape)}
        if declaration.modality is not None:
            row |= {"modality": declaration.modality.value, "content_type_code": declaration.modality.content_type}
        row |= {name: value for name in _OPTIONAL if (value := getattr(declaration, name)) not in (None, "", 0, ())}
        if declaration.block.startswith(("signal/", "action/")):
            channels.append({"id": declaration.id, **row, "signal_block": declaration.block})
        else:
            lanes.append({"block": declaration.block, **row})
        if declaration.modality is not None:
            group = declaration.id.split("/")[0] if "/" in declaration.id else "default"
            groups.setdefault(group, []).append({"channel_id": declaration.id, "modality": declaration.modality.value})
    contents: dict[str, Any] = {"channels": channels}
    if groups:
        contents["modality_groups"] = groups
    if lanes:
        contents["lanes"] = lanes
    return contents


def dump_json(value: dict[str, Any], block: str) -> bytes:
    """Return an object as JSON in UTF-8; raises EpisodeError, which names the block, for other values."""
    try:
        data = json.dumps(value, allow_nan=False, default=_numpy_to_json).encode()
        check_keys(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EpisodeError(f"{block}: expected JSON values: {error}") from error
    if len(data) > MAX_META_SIZE:
        raise EpisodeError(f"{block}: expected at most {MAX_META_SIZE} bytes of JSON, found {len(data)}")
    return data


def encode_note(ep: Episode | EpisodeInfo) -> str:
    """Return metadata, epoch and stated rate of an episode as JSON, for formats without a field for them."""
    note = {"metadata": dict(ep.metadata or {}), "epoch_ns": ep.timebase.epoch_ns}
    note |= {} if ep.timebase.assumed else {"tick_hz": ep.timebase.tick_hz}
    try:
        return json.dumps(note, sort_keys=True, default=_numpy_to_json)
    except (TypeError, ValueError) as error:
        raise EpisodeError(f"episode {ep.id!r}: metadata: expected values of JSON: {error}") from error


def _numpy_to_json(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
