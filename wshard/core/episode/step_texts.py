"""A text per timestep, stored as a lane of positions in a list of the metadata; embedders ignore such lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from wshard.core.array_fields import DType
from wshard.core.episode.lanes import STEP_TEXTS
from wshard.core.episode.meta_reader import Declaration
from wshard.errors import EpisodeError, LaneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wshard.core.episode.info import EpisodeInfo
    from wshard.core.types import Array, Episode

TASK: Final = "task"


def declare_texts(name: str) -> Declaration:
    """Return the declaration of the lane whose texts the metadata list under that name."""
    return Declaration(f"{STEP_TEXTS}{name}", DType.INT32)


def list_texts(texts: Sequence[str]) -> str | list[str]:
    """Return the metadata value for the texts of all timesteps: the only text, or a list of the distinct ones."""
    distinct = list(dict.fromkeys(texts)) or [""]
    return distinct if len(distinct) > 1 else distinct[0]


def find_positions(texts: Sequence[str], listed: Sequence[str], where: str) -> Array:
    """Return the position in the list of each text; raises LaneError for one that is not listed."""
    positions = {text: position for position, text in enumerate(listed)}
    try:
        return np.array([positions[text] for text in texts], np.int32)
    except KeyError as error:
        raise LaneError(f"{where}: expected one of {len(listed)} texts, found {error}") from None


def text_lanes(info: EpisodeInfo) -> set[str]:
    """Return the lanes of texts that the metadata of an episode list."""
    lanes = (block for block in info.lanes if block.startswith(STEP_TEXTS))
    return {block for block in lanes if isinstance(info.metadata.get(block.removeprefix(STEP_TEXTS)), list)}


def texts_of(ep: Episode) -> dict[str, list[str]]:
    """Return {name: text of each timestep}; raises EpisodeError for positions outside of the list."""
    texts = {}
    for block, data in ep.blocks.items():
        name = block.removeprefix(STEP_TEXTS)
        listed = ep.metadata.get(name)
        if block.startswith(STEP_TEXTS) and isinstance(listed, list) and len(data) == 4 * ep.length:
            positions = np.frombuffer(data, "<i4")
            if positions.size and not 0 <= positions.min() <= positions.max() < len(listed):
                raise EpisodeError(f"episode {ep.id!r}: {block}: expected positions in a list of {len(listed)} texts")
            texts[name] = [str(listed[position]) for position in positions.tolist()]
    return texts


def add_texts(ep: Episode, name: str, texts: Sequence[str]) -> None:
    """Add the text of each timestep to an episode."""
    ep.metadata[name] = listed = list_texts(texts)
    if isinstance(listed, list):
        ep.blocks[f"{STEP_TEXTS}{name}"] = find_positions(texts, listed, name).astype("<i4").tobytes()


def task_texts(ep: Episode) -> list[str]:
    """Return the task of each timestep, "" where none is stated; raises EpisodeError for positions outside the list."""
    task = ep.metadata.get(TASK, "")
    if isinstance(task, list):
        texts = texts_of(ep)
        matching = [name for name in (TASK, *texts) if name in texts and ep.metadata[name] == task]
        if matching:
            return texts[matching[0]]
        task = task[0] if task else ""
    return [str(task)] * ep.length
