"""Filters mean the same in plain Python and in SQL."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from catalog import FIELDS, Catalog, Compare, EpisodeRow, Where, build_where, matches
from catalog.testing import AWKWARD, LENGTHS, REWARDS, TAGS, make_record, wheres
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROW = EpisodeRow(
    id=1,
    uid="u",
    path="/a",
    key="",
    episode_id="e",
    env_id="reach",
    length=100,
    total_reward=2.5,
    success=True,
    digest="d",
    size=1,
    mtime_ns=1,
    metadata={},
    layout_id=1,
    ingested_at="2024-01-01T00:00:00+00:00",
    tags=("good",),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> Iterator[tuple[Catalog, list[EpisodeRow]]]:
    """Return a catalog of 300 episodes with awkward values, and the rows."""
    random = Random(1)
    with Catalog.open(tmp_path_factory.mktemp("filled") / "catalog.db", create=True) as catalog:
        done = catalog.register(
            [
                make_record(
                    number,
                    key=random.choice(AWKWARD),
                    episode_id=random.choice((*AWKWARD, "episode_000001")),
                    env_id=random.choice(AWKWARD),
                    length=random.choice(LENGTHS),
                    total_reward=random.choice((None, *REWARDS)),
                    success=random.choice((None, True, False)),
                )
                for number in range(300)
            ]
        )
        for name in TAGS:
            catalog.tag([registered.id for registered in done if random.random() < 0.4], name)
        yield catalog, list(catalog.rows(registered.id for registered in done).values())


@settings(max_examples=600, deadline=None)
@given(where=wheres())
def test_sql_and_plain_python_agree(where, filled) -> None:
    catalog, rows = filled
    wanted = [row for row in rows if matches(where, row)]
    assert catalog.ids(where) == [row.id for row in wanted]
    assert catalog.count(where) == len(wanted)
    assert catalog.select(where, order="id", limit=1000).rows == tuple(wanted)


@settings(max_examples=50, deadline=None)
@given(where=wheres(max_clauses=1))
def test_facets_count_the_matching_episodes(where, filled) -> None:
    catalog, rows = filled
    wanted = [row for row in rows if matches(where, row)]
    facets = catalog.facets(list(FIELDS), where)
    assert list(facets) == list(FIELDS)
    for field, found in facets.items():
        values = [tag for row in wanted for tag in row.tags] if field == "tag" else [getattr(r, field) for r in wanted]
        assert dict(found) == {value: values.count(value) for value in values}
        assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)
        assert all(type(value) in (FIELDS[field], type(None)) for value, _ in found)


def test_in_takes_more_values_than_a_database_takes_parameters(filled) -> None:
    catalog, rows = filled
    many = [f"absent {number}" for number in range(300_000)]
    assert catalog.ids(Where((Compare("env_id", "in", [*many, "reach-v3"]),))) == [
        row.id for row in rows if row.env_id == "reach-v3"
    ]
    floats = [number / 7 for number in range(1, 50_000)]
    assert catalog.ids(Where((Compare("total_reward", "in", [*floats, 0.1]),))) == [
        row.id for row in rows if row.total_reward == 0.1
    ]
    everything = [row.id for row in rows]
    assert list(catalog.rows([*range(-300_000, 300_000), 2**80])) == everything


def test_every_float_is_found_by_itself(tmp_path) -> None:
    random = Random(2)
    values = [math.ldexp(random.random(), random.randrange(-1000, 1000)) for _ in range(500)]
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.register([make_record(number, total_reward=value) for number, value in enumerate(values)])
        assert catalog.count(Where((Compare("total_reward", "in", values),))) == len(values)
        neighbours = [math.nextafter(value, math.inf) for value in values]
        assert catalog.count(Where((Compare("total_reward", "in", neighbours),))) == 0


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (Where(), True),
        (build_where(env_id="reach"), True),
        (build_where(env_id="reac"), False),
        (build_where(env_id=["push", "reach"]), True),
        (build_where(env_id=[]), False),
        (build_where(min_length=100, max_length=100), True),
        (build_where(min_length=101), False),
        (build_where(max_length=99), False),
        (build_where(reward_range=(2.5, None)), True),
        (build_where(reward_range=(None, 2.4)), False),
        (build_where(reward_range=(2, 3)), True),
        (build_where(reward_range=(None, None)), True),
        (build_where(success=True), True),
        (build_where(success=False), False),
        (build_where(tag="good"), True),
        (build_where(tag="bad"), False),
        (build_where(tag=("bad", "good")), True),
        (Where((Compare("tag", "ne", "good"),)), False),
        (Where((Compare("tag", "ne", "bad"),)), True),
        (Where((Compare("length", "lt", 10**40),)), True),
        (build_where(env_id="reach") & build_where(min_length=101), False),
        (build_where(env_id="reach") & build_where(min_length=100), True),
    ],
)
def test_what_filters_mean(where: Where, *, expected: bool) -> None:
    assert matches(where, ROW) is expected


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_missing_reward_or_success_matches_nothing(op: str) -> None:
    missing = replace(ROW, total_reward=None, success=None)
    assert not matches(Where((Compare("total_reward", op, 0.0),)), missing)
    assert not matches(Where((Compare("total_reward", "in", (0.0,)),)), missing)
    if op in ("eq", "ne"):
        assert not matches(Where((Compare("success", op, False),)), missing)


@pytest.mark.parametrize(
    ("field", "op", "value"),
    [
        ("path", "eq", "/a"),
        ("id", "eq", 1),
        ("length; DROP TABLE episode", "eq", 1),
        ("length", "like", 1),
        ("length", "__class__", 1),
        ("success", "lt", True),
        ("tag", "ge", "a"),
        ("length", "eq", True),
        ("length", "eq", 1.0),
        ("length", "eq", "1"),
        ("total_reward", "eq", math.nan),
        ("total_reward", "in", [1.0, math.nan]),
        ("total_reward", "eq", False),
        ("total_reward", "eq", "1"),
        ("success", "eq", 1),
        ("env_id", "eq", 1),
        ("env_id", "eq", None),
        ("env_id", "in", "reach"),
        ("env_id", "in", b"reach"),
        ("env_id", "in", 3),
        ("env_id", "in", ["a", None]),
        ("env_id", "eq", ["a"]),
        ("env_id", "eq", "nul\0"),
        ("env_id", "eq", "\ud800"),
    ],
)
def test_a_wrong_filter_says_what_was_expected(field: str, op: str, value) -> None:
    with pytest.raises(FilterError, match=r"expected .* found"):
        Compare(field, op, value)


def test_equal_filters_are_equal_values() -> None:
    assert Compare("env_id", "in", ["a", "b"]) == Compare("env_id", "in", ("a", "b"))
    assert hash(Where((Compare("total_reward", "ge", 1),))) == hash(build_where(reward_range=(1.0, None)))


def test_facets_of_an_unknown_field_are_refused(filled) -> None:
    with pytest.raises(FilterError, match="expected a field among"):
        filled[0].facets(["path"])
