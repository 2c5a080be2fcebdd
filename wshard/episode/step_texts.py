"""Texts of timesteps: a lane of positions in a list of the metadata, which no embedder takes for an observation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.array_fields import DType
from wshard.episode.lanes import STEP_TEXTS
from wshard.episode.meta_reader import Declaration
from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.episode.info import EpisodeInfo
    from wshard.types import Array, Episode

TASK: Final = "task"


def declare_texts(name: str) -> Declaration:
    """Return the lane of the texts that the metadata list by that name."""
    return Declaration(f"{STEP_TEXTS}{name}", DType.INT32)


def list_texts(texts: Sequence[str]) -> str | list[str]:
    """Return the metadata of the texts of all timesteps: the one text, or a list of each once."""
    found = list(dict.fromkeys(texts)) or [""]
    return found if len(found) > 1 else found[0]


def find_positions(texts: Sequence[str], listed: Sequence[str], where: str) -> Array:
    """Return the position in the list of each text; raises LaneError for one that is not listed."""
    places = {text: place for place, text in enumerate(listed)}
    try:
        return np.array([places[text] for text in texts], np.int32)
    except KeyError as error:
        raise LaneError(f"{where}: expected one of {len(listed)} texts, found {error}") from None


def text_lanes(info: EpisodeInfo) -> set[str]:
    """Return the lanes of texts that the metadata of an episode list."""
    lanes = (block for block in info.lanes if block.startswith(STEP_TEXTS))
    return {block for block in lanes if isinstance(info.metadata.get(block.removeprefix(STEP_TEXTS)), list)}


def texts_of(ep: Episode) -> dict[str, list[str]]:
    """Return the text of each timestep by name; raises EpisodeError for positions outside of the list."""
    found = {}
    for block, data in ep.blocks.items():
        name = block.removeprefix(STEP_TEXTS)
        listed = ep.metadata.get(name)
        if block.startswith(STEP_TEXTS) and isinstance(listed, list) and len(data) == 4 * ep.length:
            places = np.frombuffer(data, "<i4")
            if places.size and not 0 <= places.min() <= places.max() < len(listed):
                raise EpisodeError(f"episode {ep.id!r}: {block}: expected positions in a list of {len(listed)} texts")
            found[name] = [str(listed[place]) for place in places.tolist()]
    return found


def add_texts(ep: Episode, name: str, texts: Sequence[str]) -> None:
    """Add the text of each timestep to an episode."""
    ep.metadata[name] = listed = list_texts(texts)
    if isinstance(listed, list):
        ep.blocks[f"{STEP_TEXTS}{name}"] = find_positions(texts, listed, name).astype("<i4").tobytes()


def task_texts(ep: Episode) -> list[str]:
    """Return the task of each timestep, "" where none is stated; raises EpisodeError for other positions."""
    task = ep.metadata.get(TASK, "")
    if isinstance(task, list):
        texts = texts_of(ep)
        same = [name for name in (TASK, *texts) if name in texts and ep.metadata[name] == task]
        if same:
            return texts[same[0]]
        task = task[0] if task else ""
    return [str(task)] * ep.length
