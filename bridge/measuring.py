"""From an episode file to the measures that quality checks judge by.

Knows: which lanes are measured, which clock counts, that every byte of a file may be read for it.
Does not know: what is judged, the catalog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bridge.selection import is_vector
from catalog.records import LaneDefinition
from wshard.lanes import REWARD, TICKS, TIMESTAMPS
from wshard.opening import open_episode
from wshard.quality.measure import measure

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from wshard.opening import OpenEpisode
    from wshard.quality.form import Form

_MEASURED: Final = ("signal/", "action/")


@dataclass(frozen=True, eq=False)
class Measured:
    """The measures of one episode: float32 [form.size]."""

    form: Form
    vector: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Examined:
    """An episode file that was read and measured."""

    path: str
    episode_id: str
    env_id: str
    digest: str
    measured: Measured


def measure_file(file: OpenEpisode, lanes: Mapping[str, NDArray[Any]]) -> Measured:
    """Return the measures of an open episode; lanes: those that were read, of which observations and actions count."""
    looked = {name: values for name, values in lanes.items() if is_measured(name)}
    clock, unit_s = (TIMESTAMPS, 1e-9) if file.has(TIMESTAMPS) else (TICKS, 1.0)
    times = file.lane(clock) if file.has(clock) else None
    return Measured(*measure(looked, file.length, times, unit_s))


def examine(path: str, *, every_byte: bool) -> Examined:
    """Read an episode file: what is measured, or every_byte of it.

    Raises FormatError and its subclasses where a block that was read is not what was written, OSError.
    """
    with open_episode(path, hashed=False) as file:
        if every_byte:
            file.verify()
        lanes = [LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in file.lanes().items()]
        looked = [lane.name for lane in lanes if is_vector(lane) and is_measured(lane.name) and file.has(lane.name)]
        measured = measure_file(file, {name: file.lane(name) for name in looked})
        return Examined(path, file.id, file.env_id, file.digest(), measured)


def is_measured(lane: str) -> bool:
    """Say whether a lane counts: observations, actions and the reward do, predictions do not."""
    return lane.startswith(_MEASURED) or lane == REWARD
