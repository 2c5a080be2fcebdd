"""Multi-modal observations: lanes named GROUP/MODALITY, such as "head/rgb".

Knows: the naming rule. Does not know: files; the lanes are saved and loaded as all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wshard.errors import EpisodeError
from wshard.types import Channel, Modality

if TYPE_CHECKING:
    from wshard.types import Array, Episode


def add_multimodal_observation(ep: Episode, group: str, modality: Modality, channel: Channel | Array) -> None:
    """Add a channel or array [T, ...] to an episode as observation "GROUP/MODALITY", replacing one of that name.

    Raises EpisodeError for an empty group, an unknown modality, and what is no array of numbers.
    """
    if not group:
        raise EpisodeError("group: expected a non-empty name such as 'head'")
    kind = Modality.parse(modality)
    name = f"{group}/{kind.value}"
    ep.observations[name] = Channel.of(name, channel, modality=kind)


def get_multimodal_observations(
    ep: Episode, group: str | None = None, modality: Modality | None = None
) -> dict[str, Channel]:
    """Return the observations of a group, of a modality, or of both, by name; without either all of them."""
    return {
        name: channel
        for name, channel in ep.observations.items()
        if (group is None or name == group or name.startswith(f"{group}/"))
        and (modality is None or channel.modality == modality)
    }
