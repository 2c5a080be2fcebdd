"""What channels are is found from values and names, and nothing is found where values leave a doubt."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paths import ROOT

from wshard.core.array_fields import DType
from wshard.core.episode.meta_reader import Declaration
from wshard.core.quality.kinds import find_kinds, kinds_of

STEPS = 200


@pytest.fixture(scope="module")
def recorded():
    """Folder with recordings of robots."""
    folder = Path(os.environ.get("WSHARD_FIXTURES", ROOT.parent / "shared" / "fixtures")) / "retrieval"
    if not folder.is_dir():
        pytest.skip(f"no {folder}: set WSHARD_FIXTURES to the folder that has it")
    return folder


def kinds(values, names=()):
    return " ".join(map(str, find_kinds(np.asarray(values), names)))


def walk(rng, channels, scale=0.05):
    return rng.normal(size=(STEPS, channels)).cumsum(0) * scale


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rotations(rng):
    return unit(walk(rng, 4, 0.1) + rng.normal(size=4))


def turns(rng, low):
    angle = np.linspace(0, rng.uniform(20, 30), STEPS) + rng.normal(size=STEPS) * 0.01 + rng.uniform(0, 6)
    return ((angle - low) % (2 * np.pi) + low)[:, None]


def flags(rng, channels):
    return (rng.random((STEPS, channels)) < 0.3) * 1.0


def hot(rng, channels):
    return np.eye(channels)[rng.integers(0, channels, STEPS)]


KINDS = {
    "1:number": lambda rng: walk(rng, 1),
    "4:quaternion": rotations,
    "1:angle": lambda rng: turns(rng, (-np.pi, 0)[rng.integers(2)]),
    "4:one-hot": lambda rng: hot(rng, 4),
    "1:binary": lambda rng: flags(rng, 1) * rng.choice([1, 255]),
    "1:discrete": lambda rng: rng.integers(0, 6, (STEPS, 1)) * 1.0,
    "1:counter": lambda rng: np.arange(STEPS)[:, None] + float(rng.integers(100)),
}
"""Lanes of each kind that noise does not change."""


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), noise=st.sampled_from([0, 1e-4, 1e-3]), narrow=st.booleans())
def test_each_kind_is_found_with_noise_gaps_and_in_any_order_of_lanes(kind, seed, noise, narrow):
    rng = np.random.default_rng(seed)
    values = KINDS[kind](rng) + 0.0
    values += rng.uniform(-noise, noise, values.shape)
    values[rng.random(STEPS) < 0.1] = np.nan
    if narrow and kind != "1:counter":
        values = values.astype(np.float16)
    assert kinds(values) == kind
    numbers = walk(rng, 2) + 0.5
    assert kinds(np.concatenate([numbers, values, numbers[:, :1]], axis=1)) == f"2:number {kind} 1:number".replace(
        "2:number 1:number 1:number", "4:number"
    )


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-4, 1e-2, 1, 30, 1e4]), steps=st.integers(1, 300))
def test_numbers_stay_numbers_at_any_scale_and_length(seed, scale, steps):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(steps, 9)).cumsum(0) * scale
    assert kinds(values) == "9:number"
    assert kinds(np.sin(values[:, :4])) == "4:number"


def test_what_does_not_change_and_what_is_not_there():
    rng = np.random.default_rng(0)
    values = walk(rng, 6)
    values[:, 1], values[:, 2], values[rng.random(STEPS) < 0.7, 3], values[:, 5] = 2.5, 0, np.nan, np.nan
    assert kinds(values) == "1:number 1:constant 1:padding 1:missing 1:number 1:missing"
    assert kinds(values.astype("f2")) == kinds(values)
    assert kinds(np.zeros((STEPS, 2), bool)) == "2:binary"
    assert kinds(np.arange(STEPS)) == "1:counter"
    assert kinds(np.delete(np.arange(STEPS), [7, 90])) == "1:counter"  # two timesteps are left out
    assert kinds(np.zeros((STEPS, 0))) == kinds(np.zeros((0, 0))) == ""
    assert kinds(np.full((STEPS, 1), "text")) == "1:number"


def test_rows_of_zeros_at_the_end_are_not_values():
    rng = np.random.default_rng(1)
    values = np.concatenate([walk(rng, 3), rotations(rng), np.full((STEPS, 1), 2.5)], axis=1)
    padded = np.concatenate([values, np.zeros((50, 8))])
    assert kinds(padded) == kinds(values) == "3:number 4:quaternion 1:constant"
    flag = np.repeat([0.0, 1, 0, 1, 0], 30)
    assert kinds(flag) == kinds(np.stack([flag, flag], axis=1)[:, :1]) == "1:binary"


@pytest.mark.parametrize("steps", [1, 2, 5, 7])
def test_few_timesteps_show_nothing(steps):
    rng = np.random.default_rng(steps)
    for make in KINDS.values():
        assert set(kinds(make(rng)[:steps]).split(":")[1::2]) == {"number"}
    assert kinds(rng.normal(size=(steps, 40))) == "40:number"


def test_four_channels_of_nearly_unit_norm_are_no_quaternion_unless_they_rotate():
    rng = np.random.default_rng(2)
    one, angle = np.ones((STEPS, 1)), walk(rng, 1, 0.1)
    direction, circle = unit(walk(rng, 3, 0.1) + 1), np.concatenate([np.cos(angle), np.sin(angle)], axis=1)
    small = np.sin(walk(rng, 3)) * 0.08
    for lane in [
        [small, one],
        [0.1 * circle, small[:, :1], one],
        [circle, small[:, :2]],
        [circle, np.zeros((STEPS, 2))],
        [direction, np.zeros((STEPS, 1))],
        [direction, small[:, :1]],
        [np.sin(walk(rng, 4))],
        [np.tile(unit(rng.normal(size=(1, 4))), (STEPS, 1))],
    ]:
        assert "quaternion" not in kinds(np.concatenate(lane, axis=1))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("qw", "qx", "qy", "qz"), "quaternion-wxyz"),
        (("tcp.orientation.x", "tcp.orientation.y", "tcp.orientation.z", "tcp.orientation.w"), "quaternion-xyzw"),
        (("quat_0", "quat_1", "quat_2", "quat_3"), "quaternion"),
        (("x", "y", "z", "w"), "quaternion-xyzw"),
        (("a", "b", "c", "d"), ""),
    ],
)
def test_names_tell_the_order_and_values_must_agree(names, kind):
    rng = np.random.default_rng(3)
    assert kinds(rotations(rng), names) == f"4:{kind or 'quaternion'}"
    still = np.tile([0.5, 0.5, -0.5, 0.5], (STEPS, 1))
    assert kinds(still, names) == (f"4:{kind}" if kind else "4:constant")
    assert "quaternion" not in kinds(walk(rng, 4), names)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("yaw", "angle"), ("base/heading", "angle"), ("poleTheta", "angle"), ("cos_theta", "number"),
     ("yaw_rate", "number"), ("kLeftShoulderYaw", "number"), ("joint_angle", "number"), ("", "number")],
)  # fmt: skip
def test_names_tell_angles_within_one_turn(name, kind):
    values = np.sin(walk(np.random.default_rng(4), 1))
    assert kinds(values, (name,)) == f"1:{kind}"
    assert kinds(values * 10, (name,)) == "1:number"


def test_what_a_lane_declares_comes_first():
    values = walk(np.random.default_rng(5), 4)

    def lane(stated):
        return Declaration("signal/state", DType.FLOAT64, (4,), kinds=stated)

    assert [*map(str, kinds_of(lane(("3:number", "1:angle")), values))] == ["3:number", "1:angle"]
    assert [*map(str, kinds_of(lane(()), values))] == ["4:number"]
    assert [*map(str, kinds_of(lane(("3:number",)), values))] == ["4:number"]


@pytest.mark.parametrize("name", ["cheetah", "swimmer", "real/lp4", "real/lp5"])
def test_joints_and_forces_are_numbers(recorded, name):
    data = np.load(recorded / f"{name}.npz")
    ends = np.cumsum(data["lengths"])[:-1]
    episodes = [one for key in {"obs", "act"} & {*data} for one in np.split(data[key], ends)[::6]]
    assert {run.kind for one in episodes for run in find_kinds(one)} <= {"number", "constant"}
