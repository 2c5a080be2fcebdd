"""Train the embedder `learnedframes` on the camera frames of an archive."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.archive import archive_of
from bridge.episodes.open import OpenLocations
from bridge.episodes.pictures import as_rgb
from bridge.episodes.read import Failure, attempt
from bridge.pictures.cameras import find_cameras
from bridge.pictures.features import STRIDE, spaced_steps
from bridge.support.progress import Silent
from bridge.training.train_encoder import Lesson
from embedders.neural.frame_network import FrameShape, read_cells
from embedders.neural.frame_training import FrameTraining, train_frames
from embedders.neural.network import save_network
from embedders.shard_arrays import holds_arrays
from wshard.core.container.atomic_write import check_replaceable
from wshard.core.plugins import import_library

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bridge.archive import Archive
    from bridge.support.progress import Progress
    from catalog.records import EpisodeRow

MOST_FRAMES: Final = 20_000
"""Frames that are shown to the training at most, of episodes chosen at random: they are in memory, 3 kB each."""

_MOST_MOMENTS: Final = 64  # of an episode: those of longer ones are thinned evenly


@dataclass(frozen=True)
class FramesReport:
    """The result: the numbers of episodes and frames, the final loss, and the episodes that could not be read.

    cameras: how many an episode had, at most. Trained on one, features do not survive a camera that is moved.
    """

    episodes: int
    frames: int
    cameras: int
    loss: float
    left_out: tuple[Failure, ...]


def train_frame_embedder(
    target: str | os.PathLike[str] | Archive,
    out: str | os.PathLike[str],
    lesson: Lesson | None = None,
    *,
    training: FrameTraining | None = None,
    progress: Progress | None = None,
) -> FramesReport:
    """Train a network on camera frames of the archive and write it to the file `out`, for "learnedframes:OUT".

    No labels are used. The lanes of the lesson are cameras, by default all; its windows do not matter. Raises
    QueryError if no episode has a camera, EmbedderError for one episode and for too few frames, FileExistsError where
    `out` is another file, MissingExtraError without torch, CatalogNotFoundError, OSError.
    """
    check_replaceable(out, "a trained embedder", holds_arrays)
    import_library("torch", "torch")  # before frames are read
    lesson, training, watch = lesson or Lesson(), training or FrameTraining(), progress or Silent()
    archive, close = archive_of(target)
    try:
        episodes, left_out = _read(archive, lesson, np.random.default_rng(training.seed), watch)
    finally:
        close()
    most = max((len(seen) for seen in episodes), default=1)
    watch.stage("training", training.steps)
    losses: list[float] = []

    def follow(_: int, loss: float) -> None:
        losses.append(loss)
        watch.advance(1)

    network = train_frames(episodes, FrameShape(cameras=most), training, follow)
    save_network(network, out)
    frames = sum(seen.shape[0] * seen.shape[1] for seen in episodes)
    return FramesReport(len(episodes), frames, most, losses[-1], tuple(left_out))


def _read(
    archive: Archive, lesson: Lesson, rng: np.random.Generator, watch: Progress
) -> tuple[list[NDArray[np.uint8]], list[Failure]]:
    """Return episodes [cameras, moments, side, side, 3] in random order, and those that could not be read."""
    of_layout = find_cameras(archive.catalog, lesson.where, lesson.lanes)
    rows = archive.catalog.episodes.rows(archive.catalog.query.ids(lesson.where))
    fitting = [row for row in rows.values() if row.layout_id in of_layout]
    episodes: list[NDArray[np.uint8]] = []
    failed: list[Failure] = []
    frames = 0
    watch.stage("frames", len(fitting))
    with OpenLocations() as locations:
        for place in rng.permutation(len(fitting)).tolist():
            row = fitting[place]
            seen = attempt(partial(_read_episode, row, of_layout[row.layout_id], locations), row.address)
            if isinstance(seen, Failure):
                failed.append(seen)
            elif frames + len(seen) * seen.shape[1] > MOST_FRAMES and episodes:
                break
            else:
                episodes.append(seen)
                frames += len(seen) * seen.shape[1]
            watch.advance(1)
    return episodes, failed


def _read_episode(row: EpisodeRow, cameras: Sequence[str], locations: OpenLocations) -> NDArray[np.uint8]:
    side = FrameShape().side
    with locations.open(row.address) as file:
        steps = spaced_steps(file.length, file.timebase.tick_hz, STRIDE)
        chosen = steps[np.unique(np.linspace(0, len(steps) - 1, _MOST_MOMENTS).round().astype(int))]
        seen = np.empty((len(cameras), len(chosen), side, side, 3), np.uint8)
        for number, camera in enumerate(cameras):
            view = file.lane_view(camera)
            for moment, step in enumerate(chosen.tolist()):
                seen[number, moment] = np.rint(read_cells(as_rgb(view[step], view.shape[1:]), side))
    return seen
