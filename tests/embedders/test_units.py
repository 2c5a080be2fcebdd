"""Units among episodes: rows of another unit become those of most, whole or cut."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from embedders import LaneSpec, Space, Statistics, WindowPlan
from embedders.statistics import Moments, merge_spreads
from embedders.units import SourceScale, Unit, share_spread
from wshard.errors import EmbedderError

ROWS = np.random.default_rng(1).normal([0.5, 2, 0], size=(30, 3))
MILLIMETRES = Unit((0, 1), (30.0, 60.0), 1000.0)  # most are in m
METRES = Unit((0, 1), (30.0, 60.0), 0.001)
ROBOT = SourceScale(
    (0, 2), (0.5, 0.0), (1.0, 1.0), (0.0, 0.0, 1.0, 1.0), -1.0, (2.0, -1.0), (3.0, 4.0)
)  # of spreads alone


NAMED = replace(ROBOT, field="meta.robot", labels=("b",), usual_labels=("a",))


@pytest.mark.parametrize("part", [slice(None), slice(3, 9), slice(20, 21)])
def test_rows_get_the_unit_of_most(part):
    rows, large = ROWS[part], ROWS[part] * [1000, 1000, 1]
    assert MILLIMETRES.to_shared(rows) is rows
    np.testing.assert_allclose(MILLIMETRES.to_shared(large), rows, rtol=1e-15)
    assert METRES.to_shared(large) is large
    np.testing.assert_allclose(METRES.to_shared(rows), large, rtol=1e-15)


def test_rows_of_zeros_have_any_unit():
    rows = np.zeros((4, 3))
    assert METRES.to_shared(rows) is rows
    assert MILLIMETRES.to_shared(rows) is rows


def test_spreads_are_those_of_shared_rows():
    def spread_of(rows):
        return len(rows), np.stack([rows.min(0), rows.max(0), rows.mean(0), rows.std(0)], axis=1).ravel().tolist()

    parts = [ROWS[:10], ROWS[10:18] * [1000, 1000, 1], ROWS[18:]]
    found = merge_spreads((count, share_spread([MILLIMETRES], one, {})) for count, one in map(spread_of, parts))
    expected = Moments.of(ROWS)
    np.testing.assert_allclose(found.table, expected.table, rtol=1e-12)


def test_values_of_another_source_are_converted():
    large = ROWS * [3, 1, 4] + [2, 0, -1]
    assert ROBOT.to_shared(ROWS) is ROWS
    np.testing.assert_allclose(ROBOT.to_shared(large), ROWS, atol=1e-14)
    spread = np.stack([large.min(0), large.max(0), large.mean(0), large.std(0)], axis=1).ravel().tolist()
    shared = share_spread([ROBOT], spread, {})
    np.testing.assert_allclose(merge_spreads([(30, shared)]).table, Moments.of(ROWS).table, atol=1e-12)


def test_a_known_label_tells_the_source_and_values_do_where_it_is_unknown():
    large = ROWS * [3, 1, 4] + [2, 0, -1]
    for rows in (ROWS, large):
        assert NAMED.to_shared(rows, {"meta.robot": "a"}) is rows
        assert NAMED.to_shared(rows, {"meta.robot": "b"}) is not rows
        np.testing.assert_array_equal(NAMED.to_shared(rows, {"meta.robot": "c"}), ROBOT.to_shared(rows))
        np.testing.assert_array_equal(NAMED.to_shared(rows, {"env": "b"}), ROBOT.to_shared(rows))
    space = make_space((NAMED, replace(NAMED, labels=("c",), usual_labels=("a", "b"), bias=99.0)))
    np.testing.assert_allclose(space.canonical(large), ROWS, atol=1e-14)  # by one of both alone
    assert str(NAMED) == "2 of them from two sources: x 3.5 (meta.robot b)"


def test_a_source_is_like_the_one_that_was_found_before():
    turned = replace(ROBOT, ratios=(1 / 3, 1 / 4))
    assert ROBOT.is_like(turned)
    assert not ROBOT.is_like(replace(ROBOT, ratios=(3.0, 5.0)))
    assert not ROBOT.is_like(NAMED)
    assert NAMED.is_like(replace(NAMED, ratios=(3.0, 4.5), usual_labels=("a", "new")))
    assert NAMED.is_like(replace(turned, field="meta.robot", labels=("a",), usual_labels=("b",)))
    assert not NAMED.is_like(replace(NAMED, labels=("b", "c")))
    assert not NAMED.is_like(replace(NAMED, field="folder"))


def make_space(units):
    frozen = Statistics(9, np.zeros(3), np.ones(3))
    lanes = (LaneSpec("signal/tip", (2,)), LaneSpec("signal/grip", ()))
    return Space("arcdct", 1, {}, lanes, WindowPlan(), 4, "cosine", frozen, units=units)


def test_a_space_states_its_units_and_nothing_without_any():
    plain = make_space(None)
    assert "units" not in plain.to_json() == make_space(()).to_json()
    for scale in (MILLIMETRES, ROBOT, NAMED):
        mixed = make_space((scale,))
        assert Space.from_json(mixed.to_json()) == mixed != plain
        assert Space.from_json(mixed.to_json()).units == (scale,)
        assert mixed.family == plain.family


@pytest.mark.parametrize(
    "make",
    [
        lambda: Unit((0, 1), (1.0,), 1000.0),
        lambda: Unit((), (), 1000.0),
        lambda: Unit((0,), (0.0,), 1000.0),
        lambda: Unit((0,), (1.0,), 1.0),
        lambda: make_space((Unit((3,), (1.0,), 1000.0),)),
        lambda: make_space((MILLIMETRES, METRES)),
        lambda: make_space((NAMED, NAMED)),
        lambda: make_space((NAMED, replace(NAMED, channels=(1, 2), labels=("c",)))),
        lambda: replace(NAMED, labels=(3,)),
        lambda: SourceScale((0,), (0.0,), (1.0,), (1.0,), 0.0, (0.0,), (3.0,)),
        lambda: SourceScale((0,), (0.0,), (1.0,), (1.0, 1.0), 0.0, (0.0,), (-3.0,)),
    ],
)
def test_impossible_units_are_refused(make):
    with pytest.raises(EmbedderError):
        make()
