"""Pairs of camera frames: of which episode and which part of it the second one is, and what does not repel."""

from __future__ import annotations

import numpy as np

from embedders.neural.frame_pairs import FramePairs

SIDE = 40
PARTS = 4


def an_episode(colour, moments):
    """Return frames of one colour, in which a bright line goes down from part to part."""
    seen = np.zeros((1, moments, SIDE, SIDE, 3), np.uint8)
    for moment in range(moments):
        seen[0, moment, 10 * (moment * PARTS // moments) + 5, :, colour] = 200
    return seen


def test_second_frames_are_also_of_the_same_part_of_episodes_that_went_alike():
    pairs = FramePairs([an_episode(0, 20), an_episode(1, 40), an_episode(2, 30)])
    rng = np.random.default_rng(0)
    pairs.neighbours = [np.array([1]), np.array([0]), np.array([], np.int64)]
    frames, is_ignored = pairs.draw(300, rng)
    colours = frames.sum(axis=(1, 2)).argmax(axis=1).reshape(2, -1)
    parts = (frames.sum(axis=(2, 3)).argmax(axis=1) // 10).reshape(2, -1)
    crossed = colours[0] != colours[1]
    assert 0.65 < crossed[colours[0] < 2].mean() < 0.95
    assert not crossed[colours[0] == 2].any()
    assert 1 <= np.abs(parts[0] - parts[1])[crossed].max() <= 2  # up to .3 of an episode, of four parts
    assert is_ignored[colours[0] == 0][:, colours[0] == 1].all()
    assert not is_ignored[colours[0] == 2][:, colours[0] < 2].any()
