"""Events for benchmark RB-V: planted in half of the episodes, and to be found by a picture of another episode's event.

A frame in the middle of an event asks for moments in an archive of all the episodes, without its own. The first hit is
right if it shows another episode's event: its frame is at most a second from the middle of it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from rb_v_search import write_episodes

import wshard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rb_v_record import Rendered, Take

    Event = tuple[int, int]  # episode, and the timestep in its middle

RATE: Final = 10.0
"""Frames a second, as if."""

LENGTH: Final = 10
"""Timesteps of an event."""

_LAMP: Final = 20  # pixels
_OPEN: Final = 0.8  # the state of a gripper that is open
_SHUT: Final = 0.2  # of what it opened, less than this much of it later
_GRIPPER: Final = 3  # the column of states


@dataclass(frozen=True)
class EventFound:
    """How events of a kind are found: the share of first hits that are right, of all, and of a frame at random."""

    event: str
    way: str
    questions: int
    first: float
    chance: float


def plant_objects(data: Rendered, part: Rendered, take: Take) -> tuple[Rendered, list[Event]]:
    """Return the episodes, of which every second shows an object for a second, and the events."""
    frames, events = data.cameras["this camera"].copy(), []
    for episode in range(0, len(frames), 2):
        start = take.start(str(data.tasks[episode]), episode % take.episodes)
        frames[episode, start : start + LENGTH] = part.scenes["object"][episode]
        events.append((episode, start + LENGTH // 2))
    return data._replace(cameras={"this camera": frames}), events


def plant_lamps(data: Rendered, take: Take) -> tuple[Rendered, list[Event]]:
    """Return the same, where a patch in a corner is lit for a second."""
    frames, events = data.cameras["this camera"].copy(), []
    for episode in range(0, len(frames), 2):
        start = take.start(str(data.tasks[episode]), episode % take.episodes)
        frames[episode, start : start + LENGTH, -_LAMP:, :_LAMP] = (250, 170, 20)
        events.append((episode, start + LENGTH // 2))
    return data._replace(cameras={"this camera": frames}), events


def find_grasps(data: Rendered) -> list[Event]:
    """Return where grippers close, and stay closed, in the episodes where they do."""
    events = []
    for episode, states in enumerate(data.states):
        opening = states[:, _GRIPPER]
        highest = int(opening.argmax())
        after = opening[highest:]
        lowest = float(after.min())
        if opening[highest] >= _OPEN and opening[highest] - lowest >= _SHUT:
            half = (opening[highest] + lowest) / 2
            events.append((episode, highest + int(np.flatnonzero(after <= half)[0])))
    return events


def measure_events(
    data: Rendered, events: Sequence[Event], embedders: dict[str, Any], rng: np.random.Generator, *, kind: str
) -> list[EventFound]:
    """Return how the events that the first camera saw are found by each way to describe frames."""
    frames, middles = data.cameras["this camera"], dict(events)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        episodes = write_episodes(Path(folder), frames, data.states, rate=RATE)
        for way, embedder in embedders.items():
            archive = Path(folder, f"archive-{len(found)}")
            with wshard.open_archive(archive, create=True) as lab:
                lab.ingest(episodes, embedder=embedder, lanes=["camera"], windows="whole")
                right = []
                for episode, middle in events:
                    question = f"{episode:04d}#camera@{middle}"
                    (hit,) = lab.moments(question, 1, embedder=embedder, exclude_self=True)
                    if hit.seen is None:
                        raise RuntimeError(f"{question}: expected a frame, found none")
                    right.append(_is_near(middles, int(hit.episode_id), hit.seen.step))
            guesses = zip(rng.integers(0, len(frames), 10_000), rng.integers(0, frames.shape[1], 10_000), strict=True)
            chance = np.mean([_is_near(middles, int(one), int(step)) for one, step in guesses])
            found.append(EventFound(kind, way, len(events), float(np.mean(right)), float(chance)))
            print(f"  {kind}, by {way}: {np.mean(right):.3f}, by chance {chance:.3f}", flush=True)
    return found


def _is_near(middles: dict[int, int], episode: int, step: int) -> bool:
    return episode in middles and abs(step - middles[episode]) <= RATE
