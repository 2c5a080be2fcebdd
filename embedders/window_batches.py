"""Windows of episodes as batches; rows that overlapping windows share are stored and computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from numpy.typing import NDArray

from embedders.base import unit_rows, validate_windows
from embedders.standardise import standardise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from embedders.base import Vectors
    from embedders.numeric import Rows
    from embedders.space import Statistics

    Spans = NDArray[np.int64]

_BATCH_ROWS: Final = 4096  # rows of episodes that are concatenated
_BATCH_WINDOWS: Final = 128  # windows described at once, which fit in the CPU cache


class Cuts(Sequence[NDArray[Any]]):
    """The windows of episodes, in order of episodes, as views without copies: a sequence that any embedder accepts.

    episodes: the rows [T, ...] of each, and [start, stop) of its windows, int64 [N, 2].
    """

    def __init__(self, episodes: Iterable[tuple[NDArray[Any], Spans]]) -> None:
        self.episodes = tuple(episodes)
        self._spans = [(number, *span) for number, (_, spans) in enumerate(self.episodes) for span in spans.tolist()]

    def __len__(self) -> int:
        return len(self._spans)

    @overload
    def __getitem__(self, key: int) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[NDArray[Any]]: ...
    def __getitem__(self, key: int | slice) -> NDArray[Any] | list[NDArray[Any]]:
        if isinstance(key, slice):
            return [self.episodes[number][0][start:stop] for number, start, stop in self._spans[key]]
        number, start, stop = self._spans[key]
        window: NDArray[Any] = self.episodes[number][0][start:stop]
        return window

    def joined(self) -> Iterator[tuple[NDArray[Any], Spans]]:
        """Yield concatenated rows of episodes, a few thousand at a time, and the windows in them."""
        rows: list[NDArray[Any]] = []
        spans: list[Spans] = []
        length = 0
        for number, (values, cut) in enumerate(self.episodes, 1):
            rows.append(values)
            spans.append(cut + length)
            length += len(values)
            if length >= _BATCH_ROWS or number == len(self.episodes):
                yield np.concatenate(rows), np.concatenate(spans)
                rows, spans, length = [], [], 0


def episodes_of(windows: Sequence[NDArray[Any]]) -> Sequence[tuple[NDArray[Any], Spans]]:
    """Return episodes and the windows in each, int64 [N, 2]; without Cuts each window is its own episode.

    Concatenated they are the windows, so per-timestep results are computed only once for overlapping windows.
    """
    if isinstance(windows, Cuts):
        return windows.episodes
    return [(window, np.array([[0, len(window)]])) for window in windows]


def project_cuts(cuts: Cuts, statistics: Statistics, describe: Callable[[Rows, Spans], NDArray[np.float64]]) -> Vectors:
    """Embed one or more windows as `embedders.base.project`, but check and z-score each row of an episode once.

    `describe` gets z-scored rows [R, D], float64, and [start, stop) of a few windows in them.
    """
    parts = []
    for rows, spans in cuts.joined():
        scored = standardise(validate_windows([rows], statistics.mean.size).rows, statistics)
        for first in range(0, len(spans), _BATCH_WINDOWS):
            batch = spans[first : first + _BATCH_WINDOWS]
            start = batch.min()
            parts += [unit_rows(describe(scored[start : batch.max()], batch - start))]
    return np.concatenate(parts)
