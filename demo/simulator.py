"""The interface of simulators to the recorder: properties and methods of a simulator, and the steps it produces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from demo.tasks import Job
    from wshard.core.recording.channel_defs import ChannelDef


@dataclass(frozen=True)
class Step:
    """One step: the observations before the action, the action exactly as executed, and its result."""

    observations: Mapping[str, NDArray[Any]]
    action: NDArray[Any] | np.generic
    reward: float
    done: bool
    truncated: bool


class Simulator(Protocol):
    """An environment of one task together with its controller; plays episodes one after the other."""

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
    def metadata(self) -> Mapping[str, Any]:
        """Metadata that all episodes of the task share, as JSON values."""
        ...

    def run(self, job: Job, write: Callable[[Step], None]) -> Mapping[str, Any]:
        """Play one episode, pass every step to `write`, and return metadata of the outcome as JSON values."""
        ...

    def close(self) -> None:
        """Close the environment."""
        ...
