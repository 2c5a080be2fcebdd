"""Frames: the formulas as slow loops, what does not count in an image, and how much memory it takes."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from embedders import ArcDct, Dct, Frames, Statistics
from embedders.image.frames import is_image, shrink
from embedders.window_batches import Cuts
from wshard.errors import EmbedderError


def scene(steps=30, height=24, width=32, *, speed=1.0, tint=(1.0, 1.0, 1.0), seed=0):
    """Return uint8 [T, H, W, 3]: a bright square that moves over a fixed background."""
    rng = np.random.default_rng(seed)
    background = np.repeat(rng.integers(0, 120, (height // 4, width // 4)), 4, axis=0).repeat(4, axis=1)
    movie = np.repeat(background[None], steps, axis=0)
    for t in range(steps):
        left = int(speed * t) % (width - 8)
        movie[t, 8:16, left : left + 8] = 230
    return np.clip(movie[..., None] * np.array(tint), 0, 255).astype(np.uint8)


def cosine(embedder, first, second):
    one, two = (embedder.embed([window], None)[0].astype(float) for window in (first, second))
    return float(one @ two)


def slow_shrink(plane, side):
    """Average `plane` down to side x side, pixel by pixel."""
    height, width = plane.shape

    def overlap(pixel, cell, size):
        return max(0.0, min(pixel + 1, (cell + 1) * size / side) - max(pixel, cell * size / side)) * side / size

    return [
        [
            math.fsum(
                plane[y, x] * overlap(y, i, height) * overlap(x, j, width) for y in range(height) for x in range(width)
            )
            for j in range(side)
        ]
        for i in range(side)
    ]


def slow_waves(plane, block):
    side = len(plane)
    scale = [math.sqrt((2 - (k == 0)) / side) / math.sqrt(side) for k in range(block)]

    def wave(place, k):
        return math.cos(math.pi * (2 * place + 1) * k / (2 * side))

    return [
        scale[k]
        * scale[m]
        * side
        * math.fsum(plane[y][x] * wave(y, k) * wave(x, m) for y in range(side) for x in range(side))
        / side
        for k in range(block)
        for m in range(block)
    ]


def slow_features(small, block, *, colour):
    """Return the rows of thumbnails [T, 3, side, side]: waves of grey and of both differences of colour, the change."""
    grey = 0.299 * small[:, 0] + 0.587 * small[:, 1] + 0.114 * small[:, 2]
    differences = [2 * (small[:, plane] - grey) for plane in ((0, 2) if colour else ())]
    planes = [(grey, block), *((one, block // 2) for one in differences)]
    rows = []
    for t in range(len(small)):
        row = [wave for plane, count in planes for wave in slow_waves((plane[t] - plane.mean()) / grey.std(), count)]
        rows.append([*row, math.sqrt(((grey[t] - grey[max(t - 1, 0)]) ** 2).mean()) / grey.std()])
    return np.array(rows)


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("in_time", [False, True])
def test_vectors_are_those_of_the_slow_loops(colour, in_time):
    window = scene(7, 12, 16, tint=(1.0, 0.5, 0.8))
    small = np.array([[slow_shrink(frame[..., plane], 6) for plane in range(3)] for frame in window.astype(float)])
    features = slow_features(small, 4, colour=colour)
    none = Statistics(1, np.zeros(features.shape[1]), np.ones(features.shape[1]))
    wide = features / 8  # the outer embedders clip at 5 standard deviations; directions do not depend on scale
    over_time = Dct(16, 5) if in_time else ArcDct(16, 5, 0.0, 1e-4 / 8, None)
    expected = over_time.embed([wide], none)
    embedder = Frames(colour, in_time, side=6, block=4, length=16, coefficients=5)
    np.testing.assert_allclose(embedder.embed([window.astype(float)], None), expected, atol=2e-6)
    found = embedder.embed([window], None)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # averages of bytes are rounded
    stored = embedder.encode_frames(window).astype(np.float16)
    np.testing.assert_allclose(stored, small.reshape(len(window), -1), rtol=1e-3)
    assert np.array_equal(embedder.pool([stored[:, None]]), found)
    assert np.array_equal(
        np.concatenate([embedder.encode_frames(frame[None]) for frame in window]).astype(np.float16), stored
    )


def test_averages_keep_the_mean_and_enlarge_too():
    image = np.random.default_rng(1).normal(size=(30, 45, 3))
    for size in ((16, 16), (30, 45), (7, 50), (64, 64)):
        found = shrink(image, size)
        assert found.shape == (*size, 3)
        np.testing.assert_allclose(found.mean(axis=(0, 1)), image.mean(axis=(0, 1)), atol=1e-12)
    np.testing.assert_allclose(shrink(image, (30, 45)), image, atol=1e-12)


def test_neither_scale_nor_exposure_nor_dtype_counts():
    window = scene()
    for same in (
        window / 255,
        window.astype(np.float32),
        window.astype(np.int64) * 100,
        window * 0.5 + 3,
    ):
        assert cosine(Frames(), window, same) > 0.9999
    assert cosine(Frames(), window, np.concatenate([window, window[..., :1]], axis=-1)) > 0.999999
    grey = window[..., 0]
    assert cosine(Frames(), grey, window) > 0.9999
    assert cosine(Frames(), grey, grey[..., None]) > 0.999999
    assert cosine(Frames(colour=False), grey, window) > 0.9999


def test_size_hardly_counts():
    small, large = scene(20, 32, 32), scene(20, 32, 32).repeat(3, axis=1).repeat(3, axis=2)
    assert cosine(Frames(), small, large) > 0.9999


def test_scene_motion_and_colour_count():
    window = scene()
    assert cosine(Frames(), window, scene(seed=1)) < 0.8
    assert cosine(Frames(), window, window[::-1]) < 0.999
    assert cosine(Frames(in_time=True), window, window[::-1]) < 0.999
    red, green = scene(tint=(1.0, 0.2, 0.2)), scene(tint=(0.2, 1.0, 0.2))
    assert cosine(Frames(), red, green) < cosine(Frames(colour=False), red, green)
    rosy = scene(tint=(1.0, 0.9, 0.9))
    assert cosine(Frames(), window, rosy) > 0.95  # the tint of light hardly counts


def test_a_stall_and_another_speed_count_in_time_only():
    window = scene(40, speed=0.5)
    stalled = np.concatenate([window[:20], np.repeat(window[20:21], 40, axis=0), window[20:]])
    assert cosine(Frames(), window, stalled) > 0.999
    assert cosine(Frames(in_time=True), window, stalled) < cosine(Frames(), window, stalled)


def test_memory_does_not_grow_with_the_size_of_the_frames():
    window = np.zeros((60, 400, 400, 3), np.uint8)  # 29 MB
    window[:, ::3] = np.arange(60, dtype=np.uint8)[:, None, None, None]
    Frames().embed([window[:2]], None)
    tracemalloc.start()
    Frames().embed([window], None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * 400 * 400 * 3 * 8


@pytest.mark.parametrize(
    ("shape", "image"),
    [
        ((8, 9), True),
        ((8, 9, 1), True),
        ((8, 9, 3), True),
        ((8, 9, 4), True),
        ((8, 9, 2), False),
        ((3, 8, 9), False),
        ((8,), False),
        ((), False),
        ((0, 9), False),
        ((2, 8, 9, 3), False),
    ],
)
def test_what_an_image_is(shape, image):
    assert is_image(shape) is image
    window = np.ones((3, *shape))
    if image:
        Frames().embed([window], None)
        return
    with pytest.raises(EmbedderError, match="window 0: expected images"):
        Frames().embed([window], None)


def test_frames_of_two_sizes_are_not_of_one_lane():
    with pytest.raises(EmbedderError, match=r"window 1: expected frames of 72 pixels times channels, found \(9, 9\)"):
        Frames().embed([np.ones((2, 8, 9)), np.ones((2, 9, 9))], None)


@pytest.mark.parametrize("parameters", [{"side": 1}, {"block": 17}, {"colour": 1}, {"in_time": None}, {"length": 4}])
def test_impossible_parameters_are_refused(parameters):
    with pytest.raises(EmbedderError, match="expected"):
        Frames(**parameters)


@pytest.mark.parametrize("embedder", [Frames(), Frames(colour=False, in_time=True)])
def test_windows_cut_from_episodes_have_the_vectors_of_windows_alone(embedder):
    episodes = [(scene(40), np.array([[0, 40], [0, 8], [4, 12], [32, 40]])), (scene(9, seed=2), np.array([[2, 9]]))]
    plain = [frames[start:stop] for frames, spans in episodes for start, stop in spans.tolist()]
    assert np.array_equal(embedder.embed(Cuts(episodes), None), embedder.embed(plain, None))


def test_a_frame_that_cannot_be_taken_is_named_by_its_episode():
    frames = np.ones((9, 16, 16))
    frames[5, 0, 3] = np.inf
    with pytest.raises(EmbedderError, match="episode 1, timestep 5, channel 3: expected a finite number"):
        Frames().embed(Cuts([(np.ones((4, 16, 16)), np.array([[0, 4]])), (frames, np.array([[0, 9]]))]), None)
