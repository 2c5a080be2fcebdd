"""Spaces, window plans and statistics as values: round trips, fingerprints, differences in words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedders import LaneSpec, Space, Statistics, WindowPlan, check_same_space
from embedders.windows import SCALES
from wshard.errors import EmbedderError, SpaceMismatchError

finite = st.floats(allow_nan=False, allow_infinity=False)
plans = (
    st.just(WindowPlan())
    | st.integers(1, 400).flatmap(lambda size: st.builds(WindowPlan, size=st.just(size), stride=st.integers(1, size)))
    | st.builds(WindowPlan, scales=st.lists(st.integers(1, 400), min_size=1, max_size=6))
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
lanes = st.builds(LaneSpec, st.text(min_size=1), st.lists(st.integers(1, 4), max_size=2).map(tuple))


@st.composite
def spaces(draw):
    specs = draw(st.lists(lanes, min_size=1, max_size=3).map(tuple))
    channels = sum(lane.channels for lane in specs)
    values = st.lists(finite, min_size=channels, max_size=channels)
    frozen = Statistics(draw(st.integers(1, 2**60)), draw(values), np.abs(draw(values)))
    return Space(
        embedder=draw(st.text(min_size=1)),
        version=draw(st.integers(1, 99)),
        parameters=draw(st.dictionaries(st.text(), json_values, max_size=3)),
        lanes=specs,
        windows=draw(plans),
        dim=draw(st.integers(1, 9999)),
        metric="cosine",
        statistics=draw(st.sampled_from([None, frozen])),
        rates=draw(st.none() | st.tuples(*[st.none() | st.floats(0.01, 1e6)] * len(specs))),
    )


def make_space(**changes: object):
    frozen = Statistics(10, np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 0.0, 0.1]))
    whole = Space(
        embedder="arcdct",
        version=1,
        parameters={"length": 64, "damping": 0.15},
        lanes=(LaneSpec("signal/state", (3,)), LaneSpec("reward", ())),
        windows=WindowPlan(32, 16),
        dim=32,
        metric="cosine",
        statistics=frozen,
    )
    return replace(whole, **changes)


@given(space=spaces())
def test_a_space_survives_its_json_to_the_last_bit(space):
    text = space.to_json()
    again = Space.from_json(text)
    assert again.to_json() == text
    assert (again, again.fingerprint, again.family) == (space, space.fingerprint, space.family)
    assert text.isascii()
    if space.statistics is not None:
        assert again.statistics.mean.tobytes() == space.statistics.mean.tobytes()
        assert again.statistics.std.tobytes() == space.statistics.std.tobytes()


@given(plan=plans, length=st.integers(0, 2000))
def test_windows_cover_every_timestep_and_stay_inside(plan, length):
    spans = plan.spans(length)
    assert spans.dtype == np.int64
    sizes = {length} if plan.whole else {length, *plan.scales} if plan.scales else {min(plan.size, length)}
    covered = {size: np.zeros(length, int) for size in sizes if 0 < size <= length}
    for start, stop in spans.tolist():
        assert 0 <= start < stop <= length
        covered[stop - start][start:stop] += 1
    assert all((times >= 1).all() for times in covered.values())
    order = [(stop - start, start) for start, stop in spans.tolist()]
    assert order == sorted(set(order))
    assert WindowPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("plan", "length", "expected"),
    [
        (WindowPlan(), 7, [[0, 7]]),
        (WindowPlan(10, 5), 7, [[0, 7]]),
        (WindowPlan(10, 5), 10, [[0, 10]]),
        (WindowPlan(10, 5), 20, [[0, 10], [5, 15], [10, 20]]),
        (WindowPlan(10, 5), 22, [[0, 10], [5, 15], [10, 20], [12, 22]]),
        (WindowPlan(1, 1), 3, [[0, 1], [1, 2], [2, 3]]),
        (WindowPlan(3, 3), 4, [[0, 3], [1, 4]]),
        (WindowPlan(scales=(6, 4)), 11, [[0, 4], [4, 8], [7, 11], [0, 6], [4, 10], [5, 11], [0, 11]]),
        (WindowPlan(scales=(4, 6)), 6, [[0, 4], [2, 6], [0, 6]]),
        (WindowPlan(scales=(2,)), 4, [[0, 2], [2, 4], [0, 4]]),
        (WindowPlan(scales=(30, 45)), 7, [[0, 7]]),
        (WindowPlan(scales=(30,)), 0, []),
        (WindowPlan(), 0, []),
        (WindowPlan(3, 3), 0, []),
    ],
)
def test_spans(plan, length, expected):
    assert plan.spans(length).tolist() == expected


@pytest.mark.parametrize(
    ("size", "stride"), [(0, 1), (1, 0), (-3, 1), (4, 5), (None, 3), (3, None), (2.5, 1), (True, True), ("3", 1)]
)
def test_impossible_window_plans_are_refused(size, stride):
    with pytest.raises(EmbedderError, match="window s"):
        WindowPlan(size, stride)


def test_scales_follow_the_rule_literally():
    for length in range(1, 400):
        expected = []
        for size in SCALES:
            if size < length:
                stride = max(4, size // 6)
                starts = [*range(0, length - size + 1, stride)]
                starts += [length - size] * (starts[-1] != length - size)
                expected += [[start, start + size] for start in starts]
        assert WindowPlan(scales=SCALES).spans(length).tolist() == [*expected, [0, length]]


@pytest.mark.parametrize("scales", [(), [], 30, (0,), (30, -1), (2.5,), ("30",), (True,), "30"])
def test_impossible_scales_are_refused(scales):
    with pytest.raises(EmbedderError, match="window s"):
        WindowPlan(scales=scales)
    with pytest.raises(EmbedderError, match="expected none together with scales"):
        WindowPlan(3, 1, scales=(30,))


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("whole", WindowPlan()),
        ("32:16", WindowPlan(32, 16)),
        ("multi", WindowPlan(scales=(30, 45, 68, 102, 153))),
        ("multi:54,24,36,24", WindowPlan(scales=(24, 36, 54))),
    ],
)
def test_plans_have_a_short_notation(text, plan):
    assert WindowPlan.read(text) == plan


@pytest.mark.parametrize(
    "text", ["", "wh", "32", "32:", ":16", "32:16:2", "16:32", "multi:a", "multi:0", "multi:30,", "-1:1"]
)
def test_other_notations_are_refused(text):
    with pytest.raises(EmbedderError, match="expected 'whole', 'SIZE:STRIDE', 'multi'") as caught:
        WindowPlan.read(text)
    assert "invalid literal" not in str(caught.value)


def test_a_plan_without_scales_is_stored_as_before_there_were_any():
    assert WindowPlan(32, 16).to_json() == '{"size":32,"stride":16}'
    assert WindowPlan().to_json() == '{"size":null,"stride":null}'
    assert WindowPlan.from_json('{"size":32,"stride":16}') == WindowPlan(32, 16)
    assert WindowPlan(scales=(9, 4)).to_json() == '{"scales":[4,9],"size":null,"stride":null}'


def test_a_negative_length_is_refused():
    with pytest.raises(EmbedderError, match="found -1"):
        WindowPlan(3, 1).spans(-1)


def test_channels_are_counted_over_all_lanes():
    assert LaneSpec("reward", ()).channels == 1
    assert LaneSpec("camera", (4, 3, 2)).channels == 24
    assert make_space().channels == 4


CHANGES = {
    "embedder": {"embedder": "dct"},
    "version": {"version": 2},
    "parameter damping": {"parameters": {"length": 64, "damping": 0.0}},
    "parameter length": {"parameters": {"length": 64.0, "damping": 0.15}},
    "parameter position": {"parameters": {"length": 64, "damping": 0.15, "position": None}},
    "lanes": {"lanes": (LaneSpec("reward", ()), LaneSpec("signal/state", (3,)))},
    "windows": {"windows": WindowPlan(scales=SCALES)},
    "dim": {"dim": 33},
    "metric": {"metric": "euclidean"},
    "rates": {"rates": (10.0, None)},
    "statistics": {"statistics": None},
}


@pytest.mark.parametrize("part", CHANGES)
def test_every_part_counts_in_the_fingerprint_and_is_named_when_it_differs(part):
    space, other = make_space(), make_space(**CHANGES[part])
    assert space.fingerprint != other.fingerprint
    assert (space.family == other.family) == (part in {"rates", "statistics"})
    for expected, found in ((space, other), (other, space)):
        with pytest.raises(SpaceMismatchError, match=f"compared: {part}: expected .*, found "):
            check_same_space(expected, found)


def test_the_last_bit_of_the_statistics_counts_but_not_in_the_family():
    space = make_space()
    mean = np.nextafter(space.statistics.mean, 9.0)
    other = make_space(statistics=Statistics(10, mean, space.statistics.std))
    assert space != other
    assert space.family == other.family
    with pytest.raises(SpaceMismatchError, match="statistics: expected those of 10 timesteps"):
        check_same_space(space, other)


def test_rates_of_which_none_is_known_are_none():
    assert make_space(rates=(None, None)).to_json() == make_space().to_json()
    assert make_space(rates=(10, None)) == make_space(rates=(10.0, None))


def test_equal_spaces_pass():
    check_same_space(make_space(), make_space())
    assert hash(make_space()) == hash(make_space())
    assert make_space().statistics == make_space().statistics
    assert hash(make_space().statistics) == hash(make_space().statistics)


def test_a_space_cannot_be_changed_through_what_it_was_made_of():
    mean, parameters = np.array([1.0, 2.0, 3.0, 4.0]), {"nested": [1, 2]}
    space = make_space(parameters=parameters, statistics=Statistics(1, mean, np.ones(4)))
    before = space.to_json()
    mean[0] = 99.0
    parameters["nested"].append(3)
    assert space.to_json() == before
    with pytest.raises(ValueError, match="read-only"):
        space.statistics.mean[0] = 99.0


@pytest.mark.parametrize(
    "changes",
    [
        {"embedder": ""},
        {"version": 0},
        {"version": True},
        {"dim": 0},
        {"dim": "8"},
        {"metric": None},
        {"lanes": ()},
        {"lanes": (LaneSpec("reward", ()),)},
        {"parameters": {"fn": print}},
        {"parameters": {"x": float("nan")}},
        {"parameters": {1: 2}},
        {"parameters": 5},
        {"rates": (10.0,)},
        {"rates": (10.0, 0.0)},
        {"rates": (10.0, "30")},
    ],
)
def test_parts_that_do_not_fit_are_refused(changes):
    with pytest.raises(EmbedderError, match="expected"):
        make_space(**changes)


@pytest.mark.parametrize(
    ("count", "mean", "std"),
    [
        (0, [1.0], [1.0]),
        (3, [1.0], [1.0, 2.0]),
        (3, [1.0], [-1.0]),
        (3, [np.nan], [1.0]),
        (3, [1.0], [np.inf]),
        (3, ["1.0"], [1.0]),
        (3, [None], [1.0]),
        (3, 1.0, 1.0),
    ],
)
def test_impossible_statistics_are_refused(count, mean, std):
    with pytest.raises(EmbedderError, match="statistics"):
        Statistics(count, mean, std)


def test_lanes_without_name_or_size_are_refused():
    with pytest.raises(EmbedderError, match="lane name"):
        LaneSpec("", (3,))
    with pytest.raises(EmbedderError, match="shape of lane 'x'"):
        LaneSpec("x", (3, 0))


def broken_texts():
    whole = json.loads(make_space().to_json())
    yield from ["", "{", "[]", "null", "1", '"text"', "[" * 100_000, "NaN", '{"windows": NaN}']
    for name in whole:
        yield json.dumps({key: value for key, value in whole.items() if key != name})
        yield json.dumps({**whole, name: {"unknown": 1} if name != "parameters" else 1})
        yield json.dumps({**whole, name: -1.5})
    yield json.dumps({**whole, "more": 1})
    yield json.dumps(whole).replace("0.15", "1e999")


def test_text_that_is_not_a_space_is_refused():
    for text in broken_texts():
        with pytest.raises(EmbedderError, match="expected the JSON of a Space"):
            Space.from_json(text)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"size":0,"stride":1}', '{"length":3}', "NaN"])
def test_text_that_is_not_a_window_plan_is_refused(text):
    with pytest.raises(EmbedderError, match="expected the JSON of a WindowPlan"):
        WindowPlan.from_json(text)
