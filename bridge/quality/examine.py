"""Reads and measures one episode for checks, with its cameras where they are looked at, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bridge.episodes.measure import Measured, check_length, is_measured, numbers_of
from bridge.episodes.pictures import is_camera
from bridge.pictures.measured_frames import MeasureFiles
from bridge.spaces.lanes import is_vector
from catalog.records import LaneDefinition
from wshard.core.episode.lanes import STAMPS, TIMESTAMPS
from wshard.core.quality.cameras import find_motion, find_repeats, summarise_camera
from wshard.core.quality.measure import measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from bridge.episodes.open import OpenLocations
    from bridge.episodes.read import Failure
    from wshard.core.episode.protocol import EpisodeAddress, EpisodeReader
    from wshard.core.quality.cameras import CameraMeasures


@dataclass(frozen=True)
class SeenCameras:
    """The measures of an episode's cameras, by lane; form: their names and sizes.

    is_decoded: whether frames were decoded now; they were measured before otherwise.
    """

    form: tuple[tuple[str, tuple[int, ...]], ...]
    measures: Mapping[str, CameraMeasures]
    is_decoded: bool


@dataclass(frozen=True, eq=False)
class Examined:
    """An episode that was read and measured; damage: what other data of it cannot be read, such as frames."""

    address: EpisodeAddress
    episode_id: str
    env_id: str
    digest: str
    measured: Measured
    cameras: SeenCameras | None = None
    damage: Failure | None = None


def examine(
    address: EpisodeAddress, locations: OpenLocations, *, every_byte: bool, cameras: Path | None, uid: str | None = None
) -> Examined:
    """Read and measure an episode; every_byte: verify all of its data.

    cameras: look at their frames, too, or read what is stored of them in this folder of an archive; uid: of the
    episode, None if it is not catalogued. Raises FormatError and its subclasses for a damaged block, IngestError for an
    empty episode, OSError.
    """
    with locations.open(address) as file:
        if every_byte:
            file.verify()
        check_length(file)
        lanes = [LaneDefinition(name, lane.dtype.value, lane.shape) for name, lane in file.lanes().items()]
        measured_lanes = [
            lane.name for lane in lanes if is_vector(lane) and is_measured(lane.name) and file.has(lane.name)
        ]
        numbers = numbers_of(file, {name: file.lane(name) for name in measured_lanes})
        measured = Measured(numbers.form, measure(numbers.lanes, numbers.length, numbers.times, numbers.unit_s)[1])
        digest = file.digest()
        files = None if cameras is None else MeasureFiles(cameras, uid, digest)
        seen = None if files is None else _see_cameras(file, lanes, numbers.lanes, files)
        return Examined(address, file.id, file.env_id, digest, measured, seen)


def _see_cameras(
    file: EpisodeReader,
    lanes: Sequence[LaneDefinition],
    observed: Mapping[str, NDArray[np.generic]],
    files: MeasureFiles,
) -> SeenCameras:
    """Measure the cameras of an open episode; observed: its vectors, which say when the robot moves."""
    form, measures, is_decoded = [], {}, False
    moves = find_motion([values for name, values in sorted(observed.items()) if name.startswith("signal/")])
    after = max(file.length - 1, 0)
    moving = np.ones(after, bool) if moves is None else np.pad(moves, (0, after - len(moves)))  # padding does not move
    for lane in sorted(lanes, key=lambda lane: lane.name):
        if is_camera(lane) and file.has(lane.name):
            frames, now = files.measure(lane.name, file.lane_view(lane.name))
            measures[lane.name] = summarise_camera(frames, file.length, moving & ~_find_repeats(file, lane.name))
            is_decoded |= now
            form.append((lane.name, tuple(lane.shape)))
    return SeenCameras(tuple(form), measures, is_decoded)


def _find_repeats(file: EpisodeReader, camera: str) -> NDArray[np.bool_]:
    """Return [T - 1] whether a camera has no other frame at the next timestep; False where nothing says when."""
    stamps = camera.replace("signal/", STAMPS, 1)
    if not (file.has(stamps) and file.has(TIMESTAMPS)):
        return np.zeros(max(file.length - 1, 0), bool)
    return find_repeats(file.lane(stamps), file.lane(TIMESTAMPS))
