"""Encode the camera lanes of an episode as JPEG, PNG or video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from wshard.core.container.codec_plan import first_match, is_pattern
from wshard.core.episode.camera_encoding import CameraEncoding
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from wshard.core.types import Episode

Encode = str | Mapping[str, str]


def encode_cameras(ep: Episode, encode: Encode | None) -> Episode:
    """Return the episode with observations encoded: all that are frames, or {"signal/rgb": "jpeg:90", "*": "png"}.

    Patterns apply to uint8 [H, W, C] only, and lanes that are already encoded do not change. Raises EpisodeError for an
    unknown encoding, and for a named lane that does not exist or cannot be encoded.
    """
    if encode is None:
        return ep
    by_name = encode if isinstance(encode, Mapping) else {"*": encode}
    rules = tuple((pattern, CameraEncoding.parse(text)) for pattern, text in by_name.items())
    lanes = dict(ep.observations)
    for pattern, encoding in rules:
        channel = lanes.get(pattern.removeprefix("signal/")) if pattern.startswith("signal/") else None
        if is_pattern(pattern):
            continue
        if channel is None or not (channel.encoded or encoding.fits(channel.shape, channel.data.dtype)):
            found = "no such lane" if channel is None else f"{channel.dtype.value} {channel.shape}"
            raise EpisodeError(f"encode: {pattern!r}: expected an observation of {encoding.frames}, found {found}")
    for name, channel in lanes.items():
        matched = first_match(rules, f"signal/{name}")
        if matched is not None and channel.encoded is None and matched.fits(channel.shape, channel.data.dtype):
            lanes[name] = replace(channel, data=None, encoded=matched.encode(channel, ep.timebase.tick_hz))
    return replace(ep, observations=lanes)
