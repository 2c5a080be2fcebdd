"""Events of an episode: where it is done or truncated, and where the text of its timesteps changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from wshard.core.episode.lanes import DONE, STEP_TEXTS, TRUNCATIONS

if TYPE_CHECKING:
    from wshard.core.episode.protocol import EpisodeReader

MOST_EVENTS: Final = 500
_FLAGS: Final = {DONE: "done", TRUNCATIONS: "truncated"}


@dataclass(frozen=True)
class Event:
    """A change of a lane: its text from this timestep on."""

    lane: str
    step: int
    text: str


def is_event_lane(file: EpisodeReader, name: str) -> bool:
    """Return True for a lane of flags or texts, whose changes are events."""
    return name in _FLAGS or (name.startswith(STEP_TEXTS) and isinstance(_listed(file, name), list))


def read_events(file: EpisodeReader, span: tuple[int, int]) -> list[Event]:
    """Return the events of timesteps [start, stop) in their order, at most 500; a text at the start is one."""
    start, stop = max(0, span[0]), min(file.length, span[1])
    events: list[Event] = []
    for name in file.lanes():
        if not (is_event_lane(file, name) and file.has(name)):
            continue
        values = np.asarray(file.lane_view(name)[start:stop]).reshape(-1).astype(np.int64)
        before = np.concatenate([[0 if name in _FLAGS else -1], values])[:-1]
        steps = np.flatnonzero((values != before) & ((values != 0) | (name not in _FLAGS)))[:MOST_EVENTS]
        events += [Event(name, start + step, _text(file, name, values[step])) for step in steps.tolist()]
    return sorted(events, key=lambda event: event.step)[:MOST_EVENTS]


def _listed(file: EpisodeReader, name: str) -> Any:
    return file.metadata.get(name.removeprefix(STEP_TEXTS))


def _text(file: EpisodeReader, name: str, value: int) -> str:
    if name in _FLAGS:
        return _FLAGS[name]
    listed = _listed(file, name)
    return str(listed[value]) if 0 <= value < len(listed) else f"text {value}, which is not listed"
