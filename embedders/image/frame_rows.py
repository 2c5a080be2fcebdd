"""Described frames of an episode, and its windows over time: normalised without a copy of what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from embedders.trajectory.resample import arc_places, even_places, spectral_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from embedders.numeric import Rows

    Spans = NDArray[np.int64]

_EPSILON: Final = 1e-4  # of every step of a path: frames that do not change are read evenly
_CONSTANT: Final = 1e-6  # windows that vary less, relative to their largest value, vary by rounding only


class DescribedFrames(NamedTuple):
    """The frames of an episode before windows are normalised.

    rows: [T, D], the last column is the change from the frame before; means: which columns are means, grey first;
    squares: [T] mean square of grey; peaks: [T] largest value of grey; steps: [T] square of the distance to the next
    row, without the change.
    """

    rows: Rows
    means: list[int]
    squares: Rows
    peaks: Rows
    steps: Rows

    def over_time(self, spans: Spans, basis: NDArray[np.float64], *, in_time: bool) -> NDArray[np.float64]:
        """Return [N, K * D]: `basis` [K, L] times L places of each window, evenly in time or along its path.

        A window is normalised to mean 0 and a standard deviation of 1 of grey, and is 0 where nothing varies.
        """
        windows, length = self._normalise(spans), basis.shape[1]
        if in_time:
            places = even_places(windows.spans, length)
        else:
            places = arc_places(windows.paces + _EPSILON, windows.spans, length)
        weights = spectral_weights(places, int((spans[:, 1] - spans[:, 0]).max()), basis)
        pairs = zip(weights, spans.tolist(), strict=True)
        found = np.empty((len(spans), len(basis), self.rows.shape[1]))
        for one, (weight, (start, stop)) in zip(found, pairs, strict=True):
            np.matmul(weight[:, : stop - start], self.rows[start:stop], out=one)
        found[..., self.means] -= windows.means[:, None] * basis.sum(axis=1)[:, None]
        found[..., -1] -= weights[..., 0] * self.rows[spans[:, :1], -1]  # nothing precedes the first frame
        found *= windows.scales[:, None, None]
        return found.reshape(len(spans), -1)

    def _normalise(self, spans: Spans) -> _WindowScales:
        sizes = spans[:, 1] - spans[:, 0]
        stops = np.cumsum(sizes)
        starts = stops - sizes
        at = np.arange(stops[-1]) + np.repeat(spans[:, 0] - starts, sizes)
        means = np.add.reduceat(self.rows[:, self.means][at], starts) / sizes[:, None]
        spreads = np.sqrt(np.maximum(np.add.reduceat(self.squares[at], starts) / sizes - means[:, 0] ** 2, 0.0))
        varies = spreads > _CONSTANT * np.maximum.reduceat(self.peaks[at], starts)
        scales = np.where(varies, 1 / np.where(varies, spreads, 1.0), 0.0)
        change = self.rows[at, -1]
        change[starts] = 0.0
        lengths = np.sqrt(self.steps[at] + np.diff(change, append=0.0) ** 2)
        return _WindowScales(means, scales, lengths * np.repeat(scales, sizes), np.stack([starts, stops], axis=1))


class _WindowScales(NamedTuple):
    """What normalises N windows: means [N, M], scales [N], and their paths.

    paces: the length of the step from each row of each window to the next; spans: where each window lies in them.
    """

    means: Rows
    scales: Rows
    paces: Rows
    spans: Spans
