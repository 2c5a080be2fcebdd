"""Pairs of camera frames that should be described alike, changed as cameras and light may change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from embedders.neural.frame_network import COLOURS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Seen = NDArray[np.uint8]
    Random = np.random.Generator

_REACH: Final = 0.4  # of an episode, to a neighbour in time, at most
_OTHER_REACH: Final = 0.3  # of an episode, from the same part of another one, at most
_MOST_REACH: Final = 8  # moments
_OTHER_CAMERA: Final = 0.5  # share of the pairs of two cameras, where episodes have several
_OTHER_EPISODE: Final = 0.8  # share of the others whose second frame is of an episode that went alike, if there is one
_SHIFT: Final = 2  # pixels of the network's input, at most
_GAMMA: Final = 0.2  # the exponent of brightness is exp(+-0.2)
_GAIN: Final = 0.15  # of each colour


class FramePairs:
    """Draws pairs from episodes uint8 [cameras, moments, side, side, 3].

    neighbours: the numbers of the episodes that went like each one, mutually; none at first.
    """

    def __init__(self, episodes: Sequence[Seen]) -> None:
        padding = ((0, 0), (0, 0), (_SHIFT, _SHIFT), (_SHIFT, _SHIFT), (0, 0))
        self._episodes = [np.pad(seen, padding, mode="edge") for seen in episodes]
        self.neighbours: Sequence[NDArray[np.int64]] = [np.empty(0, np.int64)] * len(episodes)

    def draw(self, batch: int, rng: Random) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return 2 x batch changed frames [2B, side, side, 3], pair by pair, and which pairs [B, B] do not repel."""
        count = len(self._episodes)
        rounds = [rng.permutation(count) for _ in range(-(-batch // count))]
        numbers = np.concatenate(rounds)[:batch]
        moments = np.array([rng.integers(self._episodes[number].shape[1]) for number in numbers])
        pairs = [self._pair(int(one), int(moment), rng) for one, moment in zip(numbers, moments, strict=True)]
        frames = _change([*(first for first, _ in pairs), *(second for _, second in pairs)], rng)
        is_near = (numbers[:, None] == numbers) & (np.abs(moments[:, None] - moments) <= 2 * _MOST_REACH)
        is_near |= np.stack([np.isin(numbers, self.neighbours[number]) for number in numbers])
        np.fill_diagonal(is_near, val=False)
        return frames, is_near

    def _pair(self, number: int, moment: int, rng: Random) -> tuple[Seen, Seen]:
        """Return a frame, and one that should be like it.

        This is of another camera, of a little earlier or later, or of that part of an episode that went alike.
        """
        seen = self._episodes[number]
        cameras, moments = seen.shape[:2]
        camera = int(rng.integers(cameras))
        if cameras > 1 and rng.random() < _OTHER_CAMERA:
            return seen[camera, moment], seen[(camera + int(rng.integers(1, cameras))) % cameras, moment]
        other, place, share = seen, moment, _REACH
        if len(self.neighbours[number]) and rng.random() < _OTHER_EPISODE:
            other, share = self._episodes[int(rng.choice(self.neighbours[number]))], _OTHER_REACH
            place = round(moment * (other.shape[1] - 1) / max(moments - 1, 1))
        reach = min(round(share * other.shape[1]), _MOST_REACH)
        near = int(np.clip(place + rng.integers(-reach, reach + 1), 0, other.shape[1] - 1))
        return seen[camera, moment], other[camera % len(other), near]


def _change(frames: Sequence[Seen], rng: Random) -> NDArray[np.float32]:
    """Return padded frames, each shifted, in other light and in other colours."""
    count, side = len(frames), len(frames[0]) - 2 * _SHIFT
    corners = rng.integers(0, 2 * _SHIFT + 1, (count, 2)).tolist()
    shifted = [frame[top : top + side, left : left + side] for frame, (top, left) in zip(frames, corners, strict=True)]
    changed: NDArray[np.float32] = np.stack(shifted).astype(np.float32) / np.float32(255)
    exponents = np.exp(rng.uniform(-_GAMMA, _GAMMA, (count, 1, 1, 1))).astype(np.float32)
    np.power(changed, exponents, out=changed)
    changed *= rng.uniform(1 - _GAIN, 1 + _GAIN, (count, 1, 1, COLOURS)).astype(np.float32)
    return changed
