"""The timesteps of windows around their anchors, and which of them are padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from wshard.training.webdataset.options import ShardifyOptions


@dataclass(frozen=True)
class ShardWindows:
    """Windows of `past` timesteps, the anchor and `future` ones, `stride` apart; clipped to the episode."""

    past: int
    future: int
    stride: int

    @staticmethod
    def of(options: ShardifyOptions) -> ShardWindows:
        """Return the windows that the options describe."""
        return ShardWindows(options.past_lowdim_steps, options.future_lowdim_steps, options.stride)

    def steps(self, anchor: int, length: int) -> NDArray[np.int64]:
        """Return the timesteps [T] of the window."""
        steps: NDArray[np.int64] = np.clip(self._unclipped(anchor), 0, length - 1)
        return steps

    def is_padded(self, anchor: int, length: int) -> NDArray[np.bool_]:
        """Return which timesteps of the window [T] repeat the first or last of the episode."""
        steps = self._unclipped(anchor)
        return (steps < 0) | (steps >= length)

    def _unclipped(self, anchor: int) -> NDArray[np.int64]:
        steps: NDArray[np.int64] = anchor + np.arange(-self.past, self.future + 1, dtype=np.int64) * self.stride
        return steps

    def padding(self, anchors: Any, length: int) -> tuple[Any, Any]:
        """Return how many timesteps are missing on the left and on the right of each anchor, in strides."""
        left = np.maximum(0, self.past - np.asarray(anchors) // self.stride)
        right = np.maximum(0, self.future - (length - 1 - np.asarray(anchors)) // self.stride)
        return left, right

    def anchors(self, length: int, *, max_left: int, max_right: int) -> NDArray[np.int64]:
        """Return the anchors of an episode whose windows have at most this padding, in strides."""
        all_steps = np.arange(length, dtype=np.int64)
        left, right = self.padding(all_steps, length)
        anchors: NDArray[np.int64] = all_steps[(left <= max_left) & (right <= max_right)]
        return anchors

    def masks(self, anchor: int, length: int, *, by_padding: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return past_mask and future_mask [T].

        They mark positions before and after the anchor; by_padding: the anchor is future, repeated timesteps neither.
        """
        position = np.arange(-self.past, self.future + 1)
        if not by_padding:
            return position < 0, position > 0
        is_real = ~self.is_padded(anchor, length)
        return (position < 0) & is_real, (position >= 0) & is_real


def find_still(positions: Any, anchors: Any, *, future: int, threshold: float) -> Any:
    """Return for each anchor [n] whether all arms stay closer than `threshold` to it for the next `future` timesteps.

    positions: a list of [timesteps, 3], one per arm. All following timesteps count, also those between strides.
    """
    if not future:
        return np.zeros(len(anchors), np.bool_)
    farthest = np.zeros(len(anchors))
    for arm in positions:
        last = len(arm) - 1
        for step in range(1, future + 1):
            moved = arm[np.minimum(anchors + step, last)] - arm[anchors]
            farthest = np.maximum(farthest, np.linalg.norm(moved, axis=1))
    return farthest < threshold
