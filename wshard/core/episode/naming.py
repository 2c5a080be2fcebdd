"""Names of multi-modal observations and of latent actions, which are stored among the predictions (omens)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wshard.core.types import Channel, Modality
from wshard.errors import EpisodeError

if TYPE_CHECKING:
    from wshard.core.types import Array, Episode


LATENT_ACTION_CHANNEL: Final = "latent_action"
LATENT_CODEBOOK_CHANNEL: Final = "latent_action_codebook"


def set_latent_actions(
    ep: Episode, model_id: str, embeddings: Channel | Array, codebook_indices: Channel | Array | None = None
) -> None:
    """Set a model's latent actions: embeddings [T, D] and, of a discrete codebook, indices [T], channels or arrays.

    Replaces existing ones, including indices of replaced embeddings. Raises EpisodeError for a model_id that is empty
    or contains "/", and for values that are not numeric arrays.
    """
    if not model_id or "/" in model_id:
        raise EpisodeError(f"model_id: expected a name without '/', found {model_id!r}")
    values_by_owner = {LATENT_ACTION_CHANNEL: embeddings, LATENT_CODEBOOK_CHANNEL: codebook_indices}
    channels = {
        owner: Channel.of(f"{owner}/{model_id}", values)
        for owner, values in values_by_owner.items()
        if values is not None
    }
    for owner in values_by_owner:
        if owner in channels:
            ep.omens.setdefault(owner, {})[model_id] = channels[owner]
        elif owner in ep.omens:
            ep.omens[owner].pop(model_id, None)


def get_latent_actions(ep: Episode, model_id: str) -> Channel | None:
    """Return a model's embeddings [T, D], None if it has none."""
    return ep.omens.get(LATENT_ACTION_CHANNEL, {}).get(model_id)


def get_latent_codebook(ep: Episode, model_id: str) -> Channel | None:
    """Return a model's codebook indices [T], None if it has none."""
    return ep.omens.get(LATENT_CODEBOOK_CHANNEL, {}).get(model_id)


def add_multimodal_observation(ep: Episode, group: str, modality: Modality, channel: Channel | Array) -> None:
    """Add a channel or array [T, ...] as observation "GROUP/MODALITY", replacing an existing one.

    Raises EpisodeError for an empty group, an unknown modality, and for values that are not numeric arrays.
    """
    if not group:
        raise EpisodeError("group: expected a non-empty name such as 'head'")
    parsed = Modality.parse(modality)
    name = f"{group}/{parsed.value}"
    ep.observations[name] = Channel.of(name, channel, modality=parsed)


def get_multimodal_observations(
    ep: Episode, group: str | None = None, modality: Modality | None = None
) -> dict[str, Channel]:
    """Return the observations of a group, of a modality, or of both, by name; all of them by default."""
    return {
        name: channel
        for name, channel in ep.observations.items()
        if (group is None or name == group or name.startswith(f"{group}/"))
        and (modality is None or channel.modality == modality)
    }
