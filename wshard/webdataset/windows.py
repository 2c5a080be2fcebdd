"""Which timesteps a window has around its anchor, and where they are repeated ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.webdataset.options import ShardifyOptions


@dataclass(frozen=True)
class ShardWindows:
    """Windows of `past` timesteps, the anchor and `future` ones, `stride` apart; outside, those of the ends repeat."""

    past: int
    future: int
    stride: int

    @staticmethod
    def of(options: ShardifyOptions) -> ShardWindows:
        """Return the windows that the options describe."""
        return ShardWindows(options.past_lowdim_steps, options.future_lowdim_steps, options.stride)

    def steps(self, anchor: int, length: int) -> NDArray[np.int64]:
        """Return the timesteps [T] of the window."""
        steps: NDArray[np.int64] = np.clip(self._wanted(anchor), 0, length - 1)
        return steps

    def is_padded(self, anchor: int, length: int) -> NDArray[np.bool_]:
        """Say of each timestep of the window [T] whether it repeats that of an end."""
        wanted = self._wanted(anchor)
        return (wanted < 0) | (wanted >= length)

    def _wanted(self, anchor: int) -> NDArray[np.int64]:
        wanted: NDArray[np.int64] = anchor + np.arange(-self.past, self.future + 1, dtype=np.int64) * self.stride
        return wanted

    def padding(self, anchors: Any, length: int) -> tuple[Any, Any]:
        """Return how many timesteps are missing on the left and on the right of each anchor, in strides."""
        left = np.maximum(0, self.past - np.asarray(anchors) // self.stride)
        right = np.maximum(0, self.future - (length - 1 - np.asarray(anchors)) // self.stride)
        return left, right

    def anchors(self, length: int, *, max_left: int, max_right: int) -> NDArray[np.int64]:
        """Return the anchors of an episode whose windows miss no more than that."""
        every = np.arange(length, dtype=np.int64)
        left, right = self.padding(every, length)
        anchors: NDArray[np.int64] = every[(left <= max_left) & (right <= max_right)]
        return anchors

    def masks(self, anchor: int, length: int, *, by_padding: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return past_mask and future_mask [T].

        They tell positions before and behind the anchor; by_padding: the anchor is future, repeated timesteps neither.
        """
        place = np.arange(-self.past, self.future + 1)
        if not by_padding:
            return place < 0, place > 0
        real = ~self.is_padded(anchor, length)
        return (place < 0) & real, (place >= 0) & real


def find_still(positions: Any, anchors: Any, *, future: int, threshold: float) -> Any:
    """Say of each anchor [n] whether nothing moves after it: no distance from it reaches the threshold.

    positions: [timesteps, 3] of each arm, a list; the timesteps that follow are not a stride apart, but neighbors.
    """
    if not future:
        return np.zeros(len(anchors), np.bool_)
    farthest = np.zeros(len(anchors))
    for path in positions:
        last = len(path) - 1
        for step in range(1, future + 1):
            moved = path[np.minimum(anchors + step, last)] - path[anchors]
            farthest = np.maximum(farthest, np.linalg.norm(moved, axis=1))
    return farthest < threshold
