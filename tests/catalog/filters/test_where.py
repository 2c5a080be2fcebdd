"""Filters mean the same in plain Python and in SQL."""

from __future__ import annotations

import math
import struct
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given

from catalog import (
    EVERYTHING,
    AllOf,
    Catalog,
    CheckFinding,
    Compare,
    EmbeddingRow,
    EpisodeRow,
    Facts,
    Where,
    build_where,
    matches,
)
from catalog.filters.evaluate import read_field
from catalog.filters.fields import field_of
from catalog.testing.contract import (
    AWKWARD,
    FIELD_NAMES,
    JSON_NUMBERS,
    KEYS,
    LANES,
    LENGTHS,
    PHRASES,
    REWARDS,
    TAGS,
    make_assets,
    make_record,
    wheres,
)
from catalog.testing.records import SPREADS, pack
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROW = EpisodeRow(
    id=1,
    uid="u",
    root="/",
    path="/a",
    key="",
    format="wshard",
    lane_map="",
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


EMPTY = {"lane.signal/camera.codec", "score.other", "lane.action/joint.std[7]", "lane.signal/camera.min"}
"""Fields that no episode here has."""


BLANK = replace(LANES[0], spread=pack(SPREADS[0]) + struct.pack("<4d", *[math.nan] * 4))
"""A lane whose second channel has no numbers: no comparison holds for it."""


class Filled(NamedTuple):
    catalog: Catalog
    rows: list[EpisodeRow]
    facts: dict[int, Facts]

    def __repr__(self) -> str:
        return "Filled"


def some_metadata(random: Random) -> dict:
    values = (None, True, False, *JSON_NUMBERS, *AWKWARD, *PHRASES, [1, "a"], {"deep": random.choice(JSON_NUMBERS)})
    found = {key: random.choice(values) for key in KEYS if random.random() < 0.6}
    return found | ({"task": random.choice(PHRASES)} if random.random() < 0.5 else {})


@pytest.fixture(scope="module")
def everywhere(server, tmp_path_factory) -> Iterator[tuple[Filled, Filled]]:
    """Return the same episodes in both database products."""
    with (
        server.catalog() as url,
        filling(tmp_path_factory.mktemp("archive") / "catalog.db") as here,
        filling(url) as there,
    ):
        yield here, there


@pytest.fixture(scope="module")
def filled(product, everywhere) -> Filled:
    return everywhere[product == "postgresql"]


@contextmanager
def filling(location: Path | str) -> Iterator[Filled]:
    """Return a catalog of 200 episodes with awkward values everywhere, the rows and the facts."""
    random = Random(1)
    with Catalog.open(location, create=True) as catalog:
        done = catalog.episodes.register(
            [
                make_record(
                    number,
                    key=random.choice(AWKWARD),
                    episode_id=random.choice((*AWKWARD, "episode_000001")),
                    env_id=random.choice(AWKWARD),
                    length=random.choice(LENGTHS),
                    total_reward=random.choice((None, *REWARDS)),
                    success=random.choice((None, True, False)),
                    metadata=some_metadata(random),
                    lanes=((BLANK if number % 7 == 0 else LANES[0]), *LANES[1:])[: random.randrange(4)],
                    assets=make_assets(make_record(number).path) if number % 5 == 0 else (),
                )
                for number in range(200)
            ]
        )
        ids = [registered.id for registered in done]

        def some() -> list[int]:
            return [id_ for id_ in ids if random.random() < 0.4]

        for name in TAGS:
            catalog.annotations.tag(some(), name)
        for text in PHRASES:
            catalog.annotations.add_note(some(), text, who="ann")
        for note in catalog.annotations.add_note(some(), "PICK the wrong one"):
            catalog.annotations.remove_note(note.id)
        for state, who in (("accepted", "ann"), ("rejected", "bob"), ("accepted", "bob")):
            catalog.annotations.review(some(), state, who=who)
        catalog.annotations.undo_review(some(), who="ann")
        catalog.annotations.set_scores("quality", {id_: random.choice((0.0, 0.5, -1.5, 1e300)) for id_ in some()})
        for name in ("spike", "integrity", *AWKWARD[1:4]):
            catalog.checks.flag(some(), CheckFinding(name, "because"))
        catalog.annotations.add_lineage(some(), "converted_from", "file:///old/a.h5")
        space = catalog.vectors.add_space("fingerprint", "family", "{}")
        rows = catalog.episodes.rows(ids)
        catalog.vectors.write(space.id, [EmbeddingRow(id_, rows[id_].digest, 1, b"v") for id_ in some()])
        yield Filled(catalog, list(rows.values()), catalog.query.facts(ids))


@given(where=wheres(max_clauses=4))
def test_sql_and_plain_python_agree(where, everywhere) -> None:
    (_, rows, facts), _ = everywhere
    wanted = [row.id for row in rows if matches(where, row, facts[row.id])]
    assert [made.catalog.query.ids(where) for made in everywhere] == [wanted, wanted]


def test_both_products_hold_the_same(everywhere) -> None:
    here, there = ([row._replace(uid="", ingested_at="") for row in made.rows] for made in everywhere)
    assert here == there


def test_every_field_is_there_in_some_episodes(filled) -> None:
    catalog, rows, facts = filled
    for name in FIELD_NAMES:
        has = [row.id for row in rows if read_field(field_of(name), row, facts[row.id])]
        assert bool(has) != (name in EMPTY), name
        if name != "text":
            assert catalog.query.ids(Compare(name, "exists")) == has, name


@given(where=wheres())
def test_counts_and_pages_are_those_of_the_filter(where, filled) -> None:
    catalog, rows, facts = filled
    wanted = [row for row in rows if matches(where, row, facts[row.id])]
    assert catalog.query.count(where) == len(wanted)
    assert catalog.query.select(where, order="id", limit=1000).rows == tuple(wanted)


def test_in_takes_more_values_than_a_database_takes_parameters(filled) -> None:
    catalog, rows, _ = filled
    many = [f"absent {number}" for number in range(70_000)]
    assert catalog.query.ids(Compare("env_id", "in", [*many, "reach-v3"])) == [
        row.id for row in rows if row.env_id == "reach-v3"
    ]
    floats = [number / 7 for number in range(1, 40_000)]
    assert catalog.query.ids(Compare("total_reward", "in", [*floats, 0.1])) == [
        row.id for row in rows if row.total_reward == 0.1
    ]
    everything = [row.id for row in rows]
    assert list(catalog.episodes.rows([*range(-40_000, 40_000), 2**80])) == everything


def test_an_integer_beyond_all_floats_is_beyond_all_rewards(filled) -> None:
    catalog, rows, _ = filled
    finite = [row.id for row in rows if row.total_reward is not None and math.isfinite(row.total_reward)]
    for_all = (Compare("total_reward", "lt", 10**400), Compare("total_reward", "gt", -(10**400)))
    assert catalog.query.ids(AllOf(for_all)) == finite


def test_every_float_is_found_by_itself(location) -> None:
    random = Random(2)
    values = [math.ldexp(random.random(), random.randrange(-1000, 1000)) for _ in range(500)]
    with Catalog.open(location, create=True) as catalog:
        catalog.episodes.register([make_record(number, total_reward=value) for number, value in enumerate(values)])
        assert catalog.query.count(Compare("total_reward", "in", values)) == len(values)
        neighbours = [math.nextafter(value, math.inf) for value in values]
        assert catalog.query.count(Compare("total_reward", "in", neighbours)) == 0


def test_not_is_plain_negation_and_a_comparison_with_nothing_never_holds(filled) -> None:
    catalog, rows, _ = filled
    missing = {row.id for row in rows if row.success is None}
    assert missing
    assert not missing & {
        *catalog.query.ids("success:true"),
        *catalog.query.ids("success:!=true"),
        *catalog.query.ids("success:*"),
    }
    assert missing < set(catalog.query.ids("-success:true"))
    assert missing == set(catalog.query.ids("-success:true -success:false"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (EVERYTHING, True),
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
        (~Compare("tag", "eq", "good"), False),
        (~Compare("tag", "eq", "bad"), True),
        (Compare("length", "lt", 10**40), True),
        (build_where(env_id="reach") & build_where(min_length=101), False),
        (build_where(env_id="reach") & build_where(min_length=100), True),
    ],
)
def test_what_filters_mean(where: Where, *, expected: bool) -> None:
    assert matches(where, ROW) is expected


@pytest.mark.parametrize("op", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_missing_reward_or_success_matches_nothing(op: str) -> None:
    missing = ROW._replace(total_reward=None, success=None)
    assert not matches(Compare("total_reward", op, 0.0), missing)
    assert not matches(Compare("total_reward", "in", (0.0,)), missing)
    if op in ("eq", "ne"):
        assert not matches(Compare("success", op, False), missing)


@pytest.mark.parametrize(
    ("field", "op", "value"),
    [
        ("path", "eq", 1),
        ("id", "eq", "1"),
        ("tag", "ne", "good"),
        ("text", "contains", "?!"),
        ("meta", "eq", 1),
        ("meta.x", "in", [1, "a"]),
        ("meta.x", "in", [1, True]),
        ("meta.x", "lt", True),
        ("meta.x", "eq", math.inf),
        ("lane.state", "gt", 1),
        ("lane.state.median", "gt", 1),
        ("lane.state.count[1]", "gt", 1),
        ("env_id.x", "eq", "a"),
        ("length", "between", (1, 2, 3)),
        ("length", "contains", "1"),
        ("success", "exists", True),
        ("length; DROP TABLE episode", "eq", 1),
        ("length", "like", 1),
        ("length", "__class__", 1),
        ("success", "lt", True),
        ("tag", "ne", "a"),
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
    assert hash(Compare("total_reward", "ge", 1)) == hash(build_where(reward_range=(1.0, None)))
