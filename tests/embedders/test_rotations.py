"""Rotations among channels: one form for what means the same, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import LaneSpec, Space, Statistics, WindowPlan
from embedders.rotations import Rotation, canonical_rows
from wshard.errors import EmbedderError

seeds = st.integers(0, 2**32).map(np.random.default_rng)


def matrices(quaternions):
    """Return the rotation matrices of unit quaternions with the scalar first, by the textbook."""
    w, x, y, z = quaternions.T
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def draw_rows(rng, steps=40):
    rows = rng.normal(size=(steps, 7))
    rows[:, 1:5] /= np.linalg.norm(rows[:, 1:5], axis=1, keepdims=True)
    rows[:, 6] *= 9
    return rows, (Rotation.of(1, rows[:, 1:5]), Rotation.of(6, rows[:, 6:]))


@given(seeds)
def test_signs_and_turns_make_no_difference(rng):
    rows, rotations = draw_rows(rng)
    other = rows.copy()
    other[:, 1:5] *= rng.choice([-1, 1], (len(rows), 1))
    other[:, 6] += 2 * np.pi * rng.integers(-3, 4, len(rows))
    found, expected = canonical_rows(other, rotations), canonical_rows(rows, rotations)
    np.testing.assert_array_equal(found[:, :6], expected[:, :6])
    np.testing.assert_allclose(found[:, 6], expected[:, 6], atol=1e-12)


@given(seeds)
def test_what_is_meant_stays(rng):
    rows, rotations = draw_rows(rng)
    found = canonical_rows(rows, rotations)
    np.testing.assert_array_equal(found[:, [0, 5]], rows[:, [0, 5]])
    np.testing.assert_array_equal(matrices(found[:, 1:5]), matrices(rows[:, 1:5]))
    np.testing.assert_allclose(np.exp(1j * found[:, 6]), np.exp(1j * rows[:, 6]), atol=1e-12)
    assert np.ptp(found[:, 6]) <= 2 * np.pi + 1e-12


@given(seeds, st.integers(0, 39), st.integers(1, 40))
def test_a_window_has_the_rows_of_its_episode(rng, start, size):
    rows, rotations = draw_rows(rng)
    window = canonical_rows(rows[start : start + size], rotations)
    np.testing.assert_array_equal(window, canonical_rows(rows, rotations)[start : start + size])
    np.testing.assert_array_equal(canonical_rows(window, rotations), window)


def test_rows_without_rotations_are_returned_as_they_are():
    rows = np.ones((3, 2), np.float32)
    assert canonical_rows(rows, None) is rows


def make_space(rotations=()):
    frozen = Statistics(9, np.zeros(7), np.ones(7))
    lanes = (LaneSpec("signal/pose", (6,)), LaneSpec("signal/yaw", ()))
    return Space("arcdct", 1, {}, lanes, WindowPlan(), 4, "cosine", frozen, rotations=rotations)


def test_a_space_states_its_rotations_and_nothing_without_any():
    plain, turned = make_space(), make_space((Rotation(6, (0.5,)), Rotation(0, (1.0, 0.0, 0.0, 0.0))))
    assert "rotations" not in plain.to_json()
    assert Space.from_json(turned.to_json()) == turned != plain
    assert [one.channel for one in turned.rotations] == [0, 6]
    assert turned.family == plain.family  # it is found in the archive, as its statistics are


@pytest.mark.parametrize(
    "make",
    [
        lambda: Rotation(0, (1.0, 0.0)),
        lambda: Rotation(-1, (1.0,)),
        lambda: make_space((Rotation(7, (1.0,)),)),
        lambda: make_space((Rotation(0, (1.0, 0.0, 0.0, 0.0)), Rotation(3, (1.0,)))),
    ],
)
def test_impossible_rotations_are_refused(make):
    with pytest.raises(EmbedderError):
        make()
