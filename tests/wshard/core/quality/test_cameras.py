"""What cameras show wrong is found, in its place, and nothing where nothing is wrong."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from wshard.core.quality.camera_frames import BURST, BURSTS, spans_to_look_at
from wshard.core.quality.cameras import find_repeats, judge_cameras, measure_camera
from wshard.core.quality.thresholds import CAMERA

LENGTH, FAULTY = 60, 4


@cache
def scene(seed, *, mirrored=False):
    """Return the frames of a camera on which a light square moves, with the noise of a sensor."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:32, :40]
    left = 3 + (np.arange(LENGTH) * 0.4 + 2 * seed)[:, None, None] % 24
    square = (columns > left) & (columns < left + 10) & (rows > 8) & (rows < 20)
    frames = (60 + rows + 30 * (columns // 3 % 2) + 90 * square).astype(np.int16)
    frames = frames[:, ::-1, ::-1] if mirrored else frames
    return np.repeat((frames + rng.integers(-3, 4, frames.shape)).astype(np.uint8)[..., None], 3, axis=3)


def freeze(cameras):
    cameras["a"][30:] = cameras["a"][30]


def darken(cameras):
    cameras["b"][41:45] = 1


def overexpose(cameras):
    cameras["a"][12:15] = 254


def drop(cameras):
    for step in (9, 17, 23, 38, 51):
        cameras["b"][step] = cameras["b"][step - 1]


def reorder(cameras):
    for step in range(5, 55, 6):
        cameras["a"][[step, step + 2]] = cameras["a"][[step + 2, step]]


def blur(cameras):
    soft = cameras["a"].astype(float)
    for axis in (1, 2, 1, 2):
        soft = (np.roll(soft, 1, axis) + soft + np.roll(soft, -1, axis)) / 3
    cameras["a"] = soft.astype(np.uint8)


def swap(cameras):
    cameras["a"], cameras["b"] = cameras["b"], cameras["a"]


FAULTS = {
    "frozen": (freeze, "signal/a: 49% frames of spans in which nothing changes while the robot moves, first at "),
    "dark": (darken, "signal/b: 7% dark frames, first at timestep 41"),
    "bright": (overexpose, "signal/a: 5% overexposed frames, first at timestep 12"),
    "dropped": (drop, "signal/b: 8% frames equal to the one before while the robot moves, first at timestep 9"),
    "reordered": (reorder, "signal/a: "),
    "blurred": (blur, "signal/a: less sharp than usual"),
    "moved": (swap, "signal/b: shows what signal/a usually shows: are the cameras swapped?"),
}


def judged(fault=None):
    episodes = []
    for number in range(10):
        cameras = {"a": scene(number).copy(), "b": scene(number, mirrored=True).copy()}
        if number == FAULTY and fault is not None:
            fault(cameras)
        takes = {name: lambda start, stop, frames=frames: frames[start:stop] for name, frames in cameras.items()}
        episodes.append({f"signal/{name}": measure_camera(take, LENGTH) for name, take in takes.items()})
    return judge_cameras(episodes)


@pytest.mark.parametrize("check", FAULTS)
def test_a_fault_is_found_where_it_is_and_nowhere_else(check):
    fault, reason = FAULTS[check]
    verdicts = judged(fault)
    assert {name for number, one in enumerate(verdicts) if number != FAULTY for name in one.findings} == set()
    said = {found.check: found.reason for found in verdicts[FAULTY].findings}
    assert said[CAMERA + check].startswith(reason), said
    scores = [one.scores[CAMERA + check] for one in verdicts]
    assert np.argmax(scores) == FAULTY


def test_a_robot_that_rests_is_no_frozen_camera():
    frames = scene(0).copy()
    frames[30:] = frames[30]
    still = np.arange(LENGTH - 1) < 29
    (verdict,) = judge_cameras([{"signal/a": measure_camera(lambda a, b: frames[a:b], LENGTH, still)}])
    assert verdict.findings == ()
    assert CAMERA + "moved" not in verdict.scores  # which nobody can know of one episode


def test_a_long_lane_is_sampled_in_spans():
    taken = []

    def take(start, stop):
        taken.append((start, stop))
        return np.full((stop - start, 4, 4), 3, np.uint8)

    (verdict,) = judge_cameras([{"signal/a": measure_camera(take, 100_000)}])
    assert taken == spans_to_look_at(100_000)
    assert (len(taken), {stop - start for start, stop in taken}) == (BURSTS, {BURST})
    assert " 120 of 100000 frames)" in {one.check: one.reason for one in verdict.findings}["camera-dark"]


@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 3), (3, 50, 1), (16, 16, 4)])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_frames_of_any_size_are_measured(shape, length):
    frames = np.random.default_rng(0).integers(0, 256, (length, *shape), np.uint8)
    (verdict,) = judge_cameras([{"signal/a": measure_camera(lambda a, b: frames[a:b], length)}])
    assert all(np.isfinite(score) for score in verdict.scores.values())


def test_frames_of_a_slower_camera_are_repeated_until_the_next_one_is_due():
    times = np.arange(40) * 10
    stamps = (times // 40) * 40 - 3
    due = np.diff(stamps) != 0
    assert np.array_equal(find_repeats(stamps, times), ~due)
    stamps[20:] = stamps[20]  # it stopped
    assert np.array_equal(np.flatnonzero(~find_repeats(stamps, times))[:6], [3, 7, 11, 15, 19, 24])
    assert not find_repeats(stamps, times)[24:].any()
    assert not find_repeats(np.zeros(5, np.int64), np.arange(5)).any()
    assert find_repeats(np.zeros(1, np.int64), np.zeros(1, np.int64)).shape == (0,)
