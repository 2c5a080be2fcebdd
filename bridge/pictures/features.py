"""The features of an episode's camera frames: computed once per encoder, and kept as a copy beside the archive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bridge.episodes.pictures import as_rgb
from bridge.pictures.camera_files import CameraFiles
from bridge.pictures.measured_frames import FrameObserver, MeasureFiles
from embedders.image.frame_encoder import encode_checked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from catalog.records import EpisodeRow
    from embedders.image.frame_encoder import FrameEncoder
    from wshard.core.episode.protocol import EpisodeReader

STRIDE: Final = 0.5
"""Seconds from one frame that is described to the next."""

_LEAST_FRAMES: Final = 16  # of an episode that has as many: short ones are told by few
_BATCH: Final = 64  # frames decoded at a time


@dataclass(frozen=True, eq=False)
class Features:
    """The features [N, D] of the frames at `steps` [N], ascending; timed: the rate, in Hz, is not assumed."""

    steps: NDArray[np.int64]
    rows: NDArray[np.float16]
    rate: float
    timed: bool

    def at(self, steps: NDArray[np.int64]) -> Features | None:
        """Return those of these timesteps, None if one of them is missing."""
        places = np.searchsorted(self.steps, steps).clip(0, max(len(self.steps) - 1, 0))
        if not len(self.steps) or not np.array_equal(self.steps[places], steps):
            return None
        return replace(self, steps=steps, rows=self.rows[places])


def spaced_steps(length: int, rate: float, stride: float) -> NDArray[np.int64]:
    """Return the timesteps to describe: one every `stride` seconds, and at least 16 of an episode that has them."""
    return np.arange(0, length, max(1, min(round(rate * stride), length // _LEAST_FRAMES)), dtype=np.int64)


class FeatureFiles:
    """The features of one encoder, in a folder of the archive, and beside them what camera checks measure."""

    def __init__(self, archive_folder: Path, encoder: FrameEncoder) -> None:
        self._encoder, self._folder = encoder, archive_folder
        self._files = CameraFiles(archive_folder, encoder.fingerprint)

    def read(self, row: EpisodeRow, camera: str) -> Features | None:
        """Return what is stored of a camera of an episode as it was ingested."""
        stored = self._files.read(row.uid, row.digest, camera)
        if stored is None:
            return None
        steps, rows, (rate, timed) = stored
        return Features(steps, rows, float(rate), bool(timed))

    def find(self, row: EpisodeRow, camera: str, wanted: NDArray[np.int64] | float) -> Features | None:
        """Return what is stored of these frames, or of one every so many seconds; None if one of them is missing."""
        if (stored := self.read(row, camera)) is None:
            return None
        return stored.at(wanted if isinstance(wanted, np.ndarray) else spaced_steps(row.length, stored.rate, wanted))

    def write(self, row: EpisodeRow, camera: str, features: Features) -> None:
        """Replace what is stored."""
        arrays: list[NDArray[Any]] = [features.steps, features.rows, np.array([features.rate, features.timed])]
        self._files.write(row.uid, row.digest, camera, arrays)

    def describe(
        self, file: EpisodeReader, row: EpisodeRow, camera: str, wanted: NDArray[np.int64] | float = STRIDE
    ) -> Features:
        """Return the features of these frames of an open episode, or of one every so many seconds.

        Only frames that are not stored are decoded, some at a time. Raises as EpisodeReader.lane_view, EmbedderError.
        """
        rate = file.timebase.tick_hz
        steps = wanted if isinstance(wanted, np.ndarray) else spaced_steps(file.length, rate, wanted)
        stored = self.read(row, camera)
        known = None if stored is None else stored.at(steps)
        if known is not None:
            return known
        lacking = steps if stored is None else np.setdiff1d(steps, stored.steps)
        width = stored.rows.shape[1] if stored is not None and len(stored.rows) else None
        measured = MeasureFiles(self._folder, row.uid, row.digest)
        observer = FrameObserver.of(measured, camera, file.lane_view(camera), lacking)
        made = encode_steps(file, camera, lacking.tolist(), self._encoder, width=width, observer=observer)
        order, rows = lacking, made
        if stored is not None and len(stored.steps):
            joined = np.concatenate([stored.steps, lacking])
            places = np.argsort(joined)
            order, rows = joined[places], np.concatenate([stored.rows, made])[places]
        merged = Features(order, rows, rate, not file.timebase.assumed)
        self.write(row, camera, merged)
        return merged.at(steps) or merged


def encode_steps(
    file: EpisodeReader,
    camera: str,
    steps: Sequence[int],
    encoder: FrameEncoder,
    *,
    width: int | None = None,
    observer: FrameObserver | None = None,
) -> NDArray[np.float16]:
    """Return the features [len(steps), D] of some frames of a camera, which are decoded some at a time.

    width: D, if other frames are described already; observer: measures the frames, too. Raises EmbedderError for
    another D.
    """
    view = file.lane_view(camera)
    shape = view.shape[1:]
    parts: list[NDArray[np.float16]] = []
    for start in range(0, len(steps), _BATCH):
        frames = []
        for step in steps[start : start + _BATCH]:
            frame = view[step]
            frames.append(as_rgb(frame, shape))
            if observer is not None:
                observer.see(step, frame, shape)
        parts.append(encode_checked(encoder, np.stack(frames), width=parts[0].shape[1] if parts else width))
    return np.concatenate(parts) if parts else np.empty((0, width or 0), np.float16)
