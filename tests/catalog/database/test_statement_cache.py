"""Statements that are made once: they answer with the values and the rows of now."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from databases import SQLITE_FIRST

from catalog import Catalog, Compare
from catalog.query import statement_cache
from catalog.testing.contract import make_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog import Where

RECORDS = [make_record(number, total_reward=float(number % 7)) for number in range(40)]


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        opened.episodes.register(RECORDS)
        yield opened


def found(catalog: Catalog, where: Where | str, **requested: object) -> list[int]:
    return [row.id for row in catalog.query.select(where, **{"order": "total_reward", "limit": 100, **requested}).rows]  # type: ignore[arg-type]


@SQLITE_FIRST
def test_pages_of_one_filter_begin_at_the_cursor_and_end_at_the_limit(catalog: Catalog) -> None:
    for order in ("total_reward", "-total_reward", "id", "-id"):
        everything = found(catalog, "length:>=0", order=order)
        for limit in (1, 3, 11):
            seen, after = [], None
            while after is not None or not seen:
                page = catalog.query.select("length:>=0", order=order, limit=limit, after=after)
                seen, after = seen + [row.id for row in page.rows], page.next
            assert seen == everything


def test_values_that_python_calls_equal_are_not_taken_for_each_other(catalog: Catalog) -> None:
    said = {"flag": True, "one": 1, "text": "1"}
    for number, (name, value) in enumerate(said.items()):
        catalog.episodes.register([make_record(100 + number, episode_id=name, metadata={"said": value})])
    for name, value in said.items():
        (row,) = catalog.query.select(Compare("meta.said", "eq", value), order="length").rows
        assert row.episode_id == name


def test_values_from_other_tables_are_read_again(catalog: Catalog) -> None:
    new = make_record(100, folder="/elsewhere")
    new = replace(new, lanes=tuple(replace(lane, dtype="f16") for lane in new.lanes))
    filters = ("root:/elsewhere", "path:/elsewhere/*", f"lane.{new.lanes[0].name}.dtype:f16")
    assert [found(catalog, where) for where in filters] == [[], [], []]
    (done,) = catalog.episodes.register([new])
    assert [found(catalog, where) for where in filters] == [[done.id]] * 3


@SQLITE_FIRST
def test_the_cache_is_small_and_has_no_long_lists(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_cache, "_MAX_STATEMENTS", 4)
    monkeypatch.setattr(statement_cache, "_statements", {})
    for length in range(9):
        catalog.query.select(f"length:>={length}", order="length")
        assert 1 <= len(statement_cache._statements) <= 4
    monkeypatch.setattr(statement_cache, "_statements", {})
    assert len(found(catalog, Compare("episode_id", "in", [record.episode_id for record in RECORDS] * 9))) == 40
    few = len(statement_cache._statements)
    assert 1 <= few <= 2, "the walk of an order, and a sort where that finds too few"
    catalog.query.select(Compare("length", "in", list(range(1000))), order="length")
    assert len(statement_cache._statements) == few


@SQLITE_FIRST
def test_threads_share_them(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_cache, "_MAX_STATEMENTS", 2)
    expected = {limit: found(catalog, f"length:>={limit}", limit=limit) for limit in range(1, 9)}
    wrong: list[object] = []

    def ask() -> None:
        for limit in list(expected) * 4:
            try:
                answer = found(catalog, f"length:>={limit}", limit=limit)
            except BaseException as error:  # noqa: BLE001 -- shown by the assertion below
                wrong.append(error)
            else:
                wrong.extend([answer] if answer != expected[limit] else [])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
