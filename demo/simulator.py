"""What a simulator offers to the recorder.

Knows: one step as it is written, and the four facts plus two verbs that the recorder needs.
Does not know: files, processes, or any particular simulator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from demo.tasks import Job
    from wshard.recording.writer import ChannelDef


@dataclass(frozen=True)
class Step:
    """One step: what was seen before the action, the action exactly as executed, and what came of it."""

    observations: Mapping[str, NDArray[Any]]
    action: NDArray[Any] | np.generic
    reward: float
    done: bool
    truncated: bool


class Simulator(Protocol):
    """An environment of one task together with its controller; used for one episode after the other, then closed."""

    @property
    def observations(self) -> Sequence[ChannelDef]:
        """Lanes of `Step.observations`."""
        ...

    @property
    def action(self) -> ChannelDef:
        """Lane of `Step.action`."""
        ...

    @property
    def tick_hz(self) -> float:
        """Steps per second of simulated time."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """Metadata that all episodes of the task share, as JSON values."""
        ...

    def run(self, job: Job, write: Callable[[Step], None]) -> Mapping[str, Any]:
        """Play one whole episode, hand over every step, and return the outcome as JSON values."""
        ...

    def close(self) -> None:
        """Free the environment."""
        ...
