"""What camera checks measure of frames: stored beside the features, so that frames are decoded once for both."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.pictures import is_camera, planes_last
from bridge.pictures.camera_files import CameraFiles
from catalog.records import LaneDefinition
from wshard.core.quality.camera_frames import FrameMeasures, look_at, measure_frames, steps_to_look_at

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from wshard.core.episode.lane_view import LazyLane
    from wshard.core.quality.camera_frames import Look

MEASURES: Final = "measures 2"
"""Changes whenever frames would be measured otherwise."""


@dataclass(frozen=True)
class MeasureFiles:
    """The measures of the frames of one episode, by camera.

    uid, digest: of the episode as it was read; uid is None for one that is not catalogued, of which nothing is stored.
    """

    archive_folder: Path
    uid: str | None
    digest: str

    def read(self, camera: str) -> FrameMeasures | None:
        """Return what is stored of a camera, None if nothing is."""
        stored = None if self.uid is None else self._files.read(self.uid, self.digest, camera)
        return None if stored is None else FrameMeasures(*stored)

    def write(self, camera: str, measures: FrameMeasures) -> None:
        """Replace what is stored."""
        if self.uid is not None:
            arrays = [np.asarray(getattr(measures, one.name)) for one in fields(measures)]
            self._files.write(self.uid, self.digest, camera, arrays)

    def measure(self, camera: str, view: LazyLane) -> tuple[FrameMeasures, bool]:
        """Return the measures of a camera, and whether its frames were decoded for them; they are stored then."""
        if (stored := self.read(camera)) is not None:
            return stored, False
        shape = view.shape[1:]
        found = measure_frames(lambda start, stop: planes_last(np.asarray(view[start:stop]), shape), len(view))
        self.write(camera, found)
        return found, True

    @property
    def _files(self) -> CameraFiles:
        return CameraFiles(self.archive_folder, MEASURES)


@dataclass(frozen=True)
class FrameObserver:
    """Measures the frames of a camera while they are decoded for something else.

    wanted: the timesteps that checks look at, ascending; empty if they are measured already, or not all are decoded.
    """

    files: MeasureFiles
    camera: str
    wanted: NDArray[np.int64]
    _looks: list[Look] = field(default_factory=list)

    @classmethod
    def of(cls, files: MeasureFiles, camera: str, view: LazyLane, steps: NDArray[np.int64]) -> FrameObserver:
        """Return one for frames at these timesteps, which are about to be decoded in their order."""
        wanted = steps_to_look_at(len(view))
        lane = LaneDefinition(camera, view.declaration.dtype.value, view.shape[1:])
        is_new = is_camera(lane) and bool(np.isin(wanted, steps).all()) and files.read(camera) is None
        return cls(files, camera, wanted if is_new else wanted[:0])

    def see(self, step: int, frame: NDArray[Any], shape: tuple[int, ...]) -> None:
        """Measure the frame of a timestep of this shape, and store all measures after the last one."""
        if (seen := len(self._looks)) < len(self.wanted) and step == self.wanted[seen]:
            self._looks.append(look_at(planes_last(frame[None], shape)[0]))
            if len(self._looks) == len(self.wanted):
                self.files.write(self.camera, FrameMeasures.of(self.wanted, self._looks))
