"""Pages show every episode exactly once, in order, whatever happens meanwhile."""

from __future__ import annotations

import base64
import json
import math
import re
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import pytest
from databases import SQLITE_FIRST

from catalog import EVERYTHING, ORDERS, Catalog, EpisodeRow, Facts, build_where
from catalog.filters.evaluate import read_field
from catalog.filters.fields import field_of
from catalog.filters.parse import as_where
from catalog.query import sorted_ids
from catalog.testing.contract import AWKWARD, JSON_NUMBERS, LANES, REWARDS, make_record
from catalog.values import comparable_number
from wshard.errors import FilterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NUMBERED = ("demo_2", "demo_10", "demo_02", "demo_1", "demo", "10", "9", "", "demo_99999999999999999999", "/3", ":3")
"""Ids that natural order puts otherwise than code points."""

DIRECTED = [*ORDERS, *(f"-{order}" for order in ORDERS)]


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with filled(location) as opened:
        yield opened


@pytest.fixture(scope="module")
def still(shared_location: Path | str) -> Iterator[Catalog]:
    """Give a catalog that no test changes."""
    with filled(shared_location) as opened:
        opened.annotations.review(opened.query.ids()[::3], "rejected", who="bob")
        opened.annotations.review(opened.query.ids()[::4], "accepted", who="ann")
        yield opened


@pytest.fixture(scope="module")
def known(still: Catalog) -> tuple[dict[int, EpisodeRow], dict[int, Facts]]:
    """Return the rows and the facts of that catalog by id."""
    ids = still.query.ids()
    return still.episodes.rows(ids), still.query.facts(ids)


@contextmanager
def filled(location: Path | str) -> Iterator[Catalog]:
    random = Random(3)
    with Catalog.open(location, create=True) as opened:
        opened.episodes.register([varied(random, number) for number in range(150)])
        yield opened


def natural_parts(name: str) -> list[tuple[str, int]]:
    """Return the characters of a name, and each run of digits as its value."""
    runs = re.findall(r"[0-9]+|[^0-9]", name)
    return [("0", int(run)) if run.isascii() and run.isdecimal() else (run, 0) for run in runs]


def varied(random: Random, number: int):
    return make_record(
        number,
        key=random.choice(AWKWARD),
        episode_id=random.choice((*AWKWARD, *NUMBERED)),
        env_id=random.choice(AWKWARD),
        length=random.choice((1, 2, 3)),
        total_reward=random.choice((None, *REWARDS)),
        success=random.choice((None, True, False)),
        metadata={"mixed": random.choice((None, True, False, "1", [1], *AWKWARD, *JSON_NUMBERS))},
        lanes=LANES[: random.randrange(4)],
    )


def walk(catalog: Catalog, order: str, *, limit: int, between: Callable[[], object] = lambda: None) -> list[EpisodeRow]:
    rows: list[EpisodeRow] = []
    page = catalog.query.select(order=order, limit=limit)
    while True:
        assert len(page.rows) <= limit
        rows += page.rows
        if page.next is None:
            return rows
        between()
        page = catalog.query.select(order=order, limit=limit, after=page.next)


@pytest.mark.parametrize("order", DIRECTED)
def test_every_row_once_and_in_order(still: Catalog, known: tuple, order: str) -> None:
    name, sign = order.removeprefix("-"), order.startswith("-")
    rows = list(known[0].values())
    present = [row for row in rows if getattr(row, name) is not None]
    missing = [row for row in rows if getattr(row, name) is None]
    key = natural_parts if name == "episode_id" else lambda value: value
    expected = sorted(present, key=lambda row: (key(getattr(row, name)), row.id), reverse=sign)
    expected += sorted(missing, key=lambda row: row.id, reverse=sign)
    for limit in (23, 1000):
        assert walk(still, order, limit=limit) == expected


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_pages_of_any_size_have_the_natural_order_of_ids(still: Catalog, known: tuple, limit: int) -> None:
    expected = sorted(known[0].values(), key=lambda row: (natural_parts(row.episode_id), row.id))
    assert walk(still, "episode_id", limit=limit) == expected
    assert walk(still, "-episode_id", limit=limit) == expected[::-1]
    for skip in (0, 3, len(expected) - 2):
        assert [*still.query.select(limit=limit, skip=skip).rows] == expected[skip : skip + limit]


COMPUTED = (
    *("path", "root", "folder", "review", "reviewer", "meta.mixed", "meta.nowhere"),
    *("lane.action/joint.max", "lane.action/joint.mean[1]", "lane.signal/state.count", "lane.signal/camera.shape"),
)


@pytest.mark.parametrize("order", [f"{sign}{name}" for name in COMPUTED for sign in ("", "-")])
def test_any_field_of_one_value_is_an_order(still: Catalog, known: tuple, order: str) -> None:
    rows, facts = known
    kinds = (bool, float, str)  # metadata may be of any

    def place(id_: int) -> tuple | None:
        for found in read_field(field_of(order.removeprefix("-")), rows[id_], facts[id_]):
            number = comparable_number(found)
            if number is not None or type(found) in kinds:
                return (
                    kinds.index(float if number is not None else type(found)),
                    found if number is None else number,
                    id_,
                )
        return None

    there = [id_ for id_ in rows if place(id_) is not None]
    expected = sorted(there, key=place, reverse=order.startswith("-"))
    expected += sorted(set(rows) - set(there), reverse=order.startswith("-"))
    assert [row.id for row in walk(still, order, limit=31)] == expected
    assert [row.id for row in still.query.select("length:2..", order=order, limit=1000).rows] == [
        id_ for id_ in expected if rows[id_].length > 1
    ]


@pytest.mark.parametrize("order", ["id", "-key", "total_reward", "-success"])
def test_rows_that_are_there_all_along_come_once_while_others_come_and_go(catalog: Catalog, order: str) -> None:
    random, numbers = Random(4), iter(range(1000, 2000))
    doomed = catalog.query.ids()[::5]
    stay = set(catalog.query.ids()) - set(doomed)

    def disturb() -> None:
        catalog.episodes.register([varied(random, next(numbers)) for _ in range(3)])
        if doomed:
            catalog.episodes.remove([doomed.pop(random.randrange(len(doomed)))])

    seen = [row.id for row in walk(catalog, order, limit=23, between=disturb)]
    assert len(seen) == len(set(seen))
    assert stay <= set(seen)


def test_a_page_that_ends_with_the_last_row_has_no_next(still: Catalog) -> None:
    assert still.query.select(limit=150).next is None
    assert repr(still.query.select("length:-1")) == "<page of 0 episodes>"
    assert re.fullmatch(r"<page of 5 episodes: ('[^']*', ){3}\.\.\.; more pages>", repr(still.query.select(limit=5)))
    assert still.query.select(limit=149).next is not None
    assert still.query.select(build_where(env_id="absent")).rows == ()


def _cursor(*values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("order", "after"),
    [
        ("length", "not a cursor"),
        ("length", "é"),
        ("length", ""),
        ("length", _cursor("length")),
        ("length", _cursor("env_id", "a", 1)),
        ("length", _cursor("-length", 1, 1)),
        ("length", _cursor("length", "a", 1)),
        ("length", _cursor("length", [1], 1)),
        ("length", _cursor("length", 1, "1")),
        ("length", _cursor("length", 1, 2**64)),
        ("total_reward", _cursor("total_reward", math.nan, 1)),
        ("env_id", _cursor("env_id", "nul\0", 1)),
        ("ingested_at", _cursor("ingested_at", 5, 1)),
        ("id", _cursor("id", None, None)),
        ("tag", None),
        ("text", None),
        ("meta.mixed", _cursor("meta.mixed", [1], 1)),
        ("path", _cursor("path", 1, 1)),
        ("length; DROP TABLE episode", None),
        ("--length", None),
    ],
)
@SQLITE_FIRST
def test_a_foreign_cursor_or_order_is_refused(still: Catalog, order: str, after: str | None) -> None:
    with pytest.raises(FilterError, match=r"expected .* found"):
        still.query.select(order=order, after=after)


@SQLITE_FIRST
def test_a_page_holds_at_least_one_row(still: Catalog) -> None:
    with pytest.raises(FilterError, match="at least 1, found 0"):
        still.query.select(limit=0)


@pytest.mark.parametrize("far", [1, 10_000])
@pytest.mark.parametrize("order", ["id", "env_id", "-total_reward", "success", "meta.mixed", "-meta.mixed", "review"])
@SQLITE_FIRST
def test_a_page_begins_after_as_many_rows_as_are_skipped(still, order, far, monkeypatch):
    monkeypatch.setattr(sorted_ids, "_FAR_ROWS", far)
    whole = still.query.select(order=order, limit=1000).rows
    half = still.query.select(order=order, limit=70)
    for skip in (1, 40, 72, 75, 149, 150, 400):
        page = still.query.select(order=order, skip=skip, limit=7)
        assert page.rows == whole[skip : skip + 7]
        assert still.query.select(order=order, after=half.next, skip=skip, limit=7).rows == whole[70 + skip : 77 + skip]
        if page.next:
            assert still.query.select(order=order, after=page.next, limit=1).rows == whole[skip + 7 : skip + 8]
    with pytest.raises(FilterError, match="skip"):
        still.query.select(skip=-1)


@SQLITE_FIRST
def test_ids_are_those_of_the_present_catalog(catalog):
    where = as_where("collection:short OR tag:new")
    catalog.collections.save_query("short", "length:..20")
    first = catalog.query.id_array(where)
    assert catalog.query.id_array(where) is first
    for change in (
        lambda: catalog.annotations.tag(catalog.query.ids()[-3:], "new"),
        lambda: catalog.episodes.remove(catalog.query.ids()[-1:]),
        lambda: catalog.collections.save_query("short", "length:..200"),
    ):
        change()
        assert catalog.query.id_array(where).tolist() == catalog.query.ids(where)
    assert catalog.query.id_array(EVERYTHING) is None


@SQLITE_FIRST
def test_ids_without_a_few_episodes_are_taken_from_those_with_them(still, monkeypatch):
    rows, sorted_rows = still.query.select(limit=1000).rows, []
    sort = sorted_ids._sort_ids
    monkeypatch.setattr(sorted_ids, "_MAX_IDS", 3 * len(rows))
    monkeypatch.setattr(sorted_ids, "_sort_ids", lambda *of: (sorted_rows.append(ids := sort(*of)), ids)[1])
    for others in ("", "length:..50", "env_id:none", "-(length:..50)", "length:..50 OR uid:x"):
        still.query.id_array(as_where(others) & ~as_where("uid:x"))
        sorted_rows.clear()
        for first in range(0, 30, 3):
            some = [as_where(f"uid:{row.uid}") for row in rows[first : first + 3]]
            two = as_where(f"uid:{rows[first].uid},{rows[first + 1].uid}")
            for left_out in (~some[0], ~two, ~some[1] & ~some[2], ~some[0] & ~as_where("uid:x")):
                where = as_where(others) & left_out
                assert still.query.id_array(where).tolist() == still.query.ids(where)
        assert max(map(len, sorted_rows)) <= 2


@SQLITE_FIRST
def test_far_pages_are_those_of_the_present_catalog(catalog, monkeypatch):
    monkeypatch.setattr(sorted_ids, "_MAX_IDS", 200)
    for order in ("-meta.mixed", "review", "-meta.mixed"):
        before = catalog.query.select(order=order, limit=1000).rows
        assert catalog.query.select(order=order, skip=100, limit=50).rows == before[100:]
        catalog.annotations.review([before[-1].id], "accepted", who="ann")
        catalog.episodes.remove([row.id for row in before[:2]])
        after = catalog.query.select(order=order, skip=100, limit=50).rows
        assert after == catalog.query.select(order=order, limit=1000).rows[100:]
        assert before[0] not in after
        assert sum(len(ids) for _, ids in catalog.query._sorted._cached.values()) <= 200
