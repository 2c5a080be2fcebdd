"""Residuals of an episode: the sign of each timestep and channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bridge.episodes.series import Series
from wshard.core.episode.file import EpisodeFile
from wshard.core.episode.lanes import is_residual
from wshard.core.episode.residual import unpack_runs
from wshard.errors import LaneError

if TYPE_CHECKING:
    from wshard.core.episode.protocol import EpisodeReader

_MAX_CHANNELS: Final = 64


def read_residuals(file: EpisodeReader, span: tuple[int, int], *, points: int) -> list[Series]:
    """Return the signs, -1 or 1, of each residual of a file in timesteps [start, stop), thinned to `points`.

    Residuals whose size does not fit the episode are left out.
    """
    if not isinstance(file, EpisodeFile):
        return []
    start, stop = max(0, span[0]), min(file.length, span[1])
    steps = np.unique(np.linspace(start, max(start, stop - 1), min(points, max(1, stop - start))).astype(np.int64))
    series = []
    for name in filter(is_residual, file.shard.names()):
        try:
            signs = unpack_runs(file.shard.block(name), file.length)
        except LaneError:
            continue
        shown = range(min(_MAX_CHANNELS, signs.shape[1]))
        values: list[list[float | None]] = [[float(sign) for sign in signs[steps, channel]] for channel in shown]
        series.append(Series(name, steps.tolist(), [*shown], values, signs.shape[1]))
    return series
