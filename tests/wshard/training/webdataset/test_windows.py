"""Windows, relative poses and resizing, against the worked examples and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wshard.errors import DatasetError
from wshard.training.webdataset.options import parse_size
from wshard.training.webdataset.resize import resize_lanczos, resize_nearest
from wshard.training.webdataset.sample import relative_poses
from wshard.training.webdataset.windows import ShardWindows, find_still
from wshard.webdataset import ShardifyOptions

DEFAULT = ShardWindows(past=1, future=19, stride=3)


def anchors_of(length: int) -> list[int]:
    return DEFAULT.anchors(length, max_left=3, max_right=15).tolist()


def test_the_worked_examples():
    """Of an episode of 40 frames, by default options."""
    first = DEFAULT.steps(0, 40).tolist()
    assert first == [0, *range(0, 40, 3), *[39] * 6]
    assert [int(steps) for steps in DEFAULT.padding(0, 40)] == [1, 6]
    assert DEFAULT.steps(2, 40).tolist() == [0, *range(2, 39, 3), *[39] * 7]
    assert [int(steps) for steps in DEFAULT.padding(2, 40)] == [1, 7]
    assert [int(DEFAULT.padding(anchor, 40)[1]) for anchor in (27, 28)] == [15, 16]
    assert anchors_of(40) == list(range(28))
    assert [len(anchors_of(length)) for length in (12, 13, 16, 25, 30)] == [0, 1, 4, 13, 18]


@given(st.integers(1, 60), st.integers(0, 4), st.integers(0, 20), st.integers(1, 5), st.data())
def test_windows_are_those_counted_one_by_one(length, past, future, stride, data):
    windows, anchor = ShardWindows(past, future, stride), data.draw(st.integers(0, length - 1))
    wanted = [anchor + offset * stride for offset in range(-past, future + 1)]
    assert windows.steps(anchor, length).tolist() == [min(max(step, 0), length - 1) for step in wanted]
    left, right = windows.padding(anchor, length)
    assert left == sum(step < 0 for step in wanted)
    assert right == sum(step >= length for step in wanted)
    assert windows.steps(anchor, length)[past] == anchor
    before, behind = windows.masks(anchor, length, by_padding=False)
    assert (before.sum(), behind.sum()) == (past, future)
    before, behind = windows.masks(anchor, length, by_padding=True)
    assert (before.sum(), behind.sum()) == (past - left, future + 1 - right)


def test_relative_poses_of_the_worked_example():
    quarter, straight = np.float32([[0, -1, 0, 1, 0, 0]]), np.float32([[1, 0, 0, 0, 1, 0]])
    anchor = {"anchor_xyz": np.float32([1, 0, 0]), "anchor_rot_6d": quarter[0]}
    xyz, rotation = relative_poses(np.float32([[1, 2, 0]]), straight, **anchor)
    assert np.allclose(xyz, [[2, 0, 0]])
    assert np.allclose(rotation, [[0, 1, 0, -1, 0, 0]])
    xyz, rotation = relative_poses(np.float32([[1, 0, 0]]), quarter, **anchor)
    assert np.allclose(xyz, 0)
    assert np.allclose(rotation, straight)
    assert np.isnan(relative_poses(np.zeros((1, 3), np.float32), np.zeros((1, 6), np.float32), **anchor)[1]).any()


def test_stillness_counts_every_frame_that_follows():
    rng = np.random.default_rng(0)
    path, anchors = np.cumsum(rng.normal(size=(30, 3)), axis=0), np.arange(30)
    found = find_still([path], anchors, future=4, threshold=2.5)
    for anchor in anchors:
        distances = [np.linalg.norm(path[min(anchor + step, 29)] - path[anchor]) for step in range(1, 5)]
        assert found[anchor] == (max(distances) < 2.5)
    assert not find_still([path * 0], anchors, future=0, threshold=1).any()
    assert find_still([], anchors, future=1, threshold=1).all()


def test_resized_maps_have_values_of_the_map():
    depth = np.arange(12, dtype=np.uint16).reshape(3, 4)
    assert resize_nearest(depth, (6, 8))[::2, ::2].tolist() == depth.tolist()
    assert resize_nearest(depth, (1, 2)).tolist() == [[0, 2]]
    image = np.full((5, 7, 3), 200, np.uint8)
    assert (resize_lanczos(image, (11, 3)) == 200).all()
    assert resize_lanczos(image, (5, 7)) is image


def test_sizes_and_options_are_checked():
    assert parse_size("48x64") == (48, 64)
    assert parse_size("None") is parse_size("") is None
    for text in ("384", "384X384", "0x4", "-1x2", "4x4x4"):
        with pytest.raises(DatasetError, match="expected HEIGHTxWIDTH"):
            parse_size(text)
    wrong = {"stride": 0, "past_lowdim_steps": -1, "num_workers": 0, "jpeg_quality": 101, "masks": "none"}
    for name, value in (wrong | {"image_indices": (0, 0), "still_threshold": float("nan"), "seed": 1.5}).items():
        with pytest.raises(DatasetError, match=name):
            ShardifyOptions(**{name: value})
