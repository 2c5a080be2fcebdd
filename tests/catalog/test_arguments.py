"""Arguments of the catalog: numbers of other libraries are numbers, and what is none is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from sqlalchemy import insert

from catalog import Catalog, Pick
from catalog.database import schema
from catalog.testing.contract import make_record
from wshard.errors import CatalogError, CollectionError, FilterError, StatementError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    """Yield a catalog of six episodes."""
    with Catalog.open(location, create=True) as opened:
        opened.register([make_record(number) for number in range(6)])
        yield opened


# ---- numbers of other libraries -------------------------------------------------------------------------------------


def test_ids_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    ids = catalog.ids()
    some = np.array(ids[:2])
    assert list(catalog.rows(some)) == list(catalog.facts(some)) == list(catalog.assets(some)) == ids[:2]
    assert catalog.get(some[0]) == catalog.get(ids[0])
    assert catalog.tag(some, "new") == catalog.untag(some, "new") == 2
    assert [note.episode_id for note in catalog.add_note(some, "first")] == ids[:2]
    catalog.remove_note(np.int64(1))
    assert len(catalog.review(some, "accepted")) == len(catalog.undo_review(some)) == 2
    assert len(catalog.audit(some)) == 4
    assert catalog.add_lineage(some, "recorded_by", "ann") == 2
    assert catalog.findings(some) == {}
    assert catalog.unchecked("1", some) == ids[:2]
    assert catalog.remove(some) == 2
    assert catalog.tag((id_ for id_ in ids), "left") == 4


def test_scores_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    first, second, *_ = catalog.ids()
    assert catalog.set_scores("quality", {np.int64(first): np.float32(0.5), second: np.int16(2)}) == 2
    assert catalog.ids("score.quality:0.5") == [first]
    assert catalog.ids("score.quality:2") == [second]
    assert catalog.drop_scores("quality", np.array([first])) == 1


def test_limits_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    two = np.int64(2)
    assert len(catalog.select(limit=two).rows) == 2
    assert len(catalog.facets(["episode_id"], limit=two)["episode_id"]) == 2
    assert len(catalog.histogram("length", bins=two).counts) == 2
    assert catalog.sql("SELECT id FROM episode", limit=two).more is True


def test_picks_and_splits_take_numbers_of_numpy(catalog: Catalog) -> None:
    row = catalog.get(catalog.ids()[0])
    pick = Pick(row.uid, row.digest, np.int64(1), np.int64(3), np.float32(2))
    assert pick == Pick(row.uid, row.digest, 1, 3, 2.0)
    assert [*map(type, (pick.start, pick.stop, pick.weight))] == [int, int, float]
    catalog.save_snapshot("one", [pick])
    assert catalog.picks("one") == (pick,)
    catalog.save_snapshot("all", "")
    shares = {"train": np.float32(0.5), "test": 0.5}
    parts = catalog.split("all", shares, seed=np.int64(3))
    assert parts[0].snapshot is not None
    assert parts[0].snapshot.origin["seed"] == 3
    again = catalog.split("all", {"train": 0.5, "test": 0.5}, seed=3)
    assert [part.snapshot for part in again] == [part.snapshot for part in parts]


# ---- what is no such argument ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[1.0], [True], ["a"], "abc", 5, None, [np.float64(1)]])
def test_what_is_no_id_is_refused(catalog: Catalog, ids) -> None:
    for ask in (
        *(catalog.rows, catalog.facts, catalog.assets, catalog.remove, catalog.withdraw, catalog.audit),
        *(catalog.undo_review, catalog.findings, lambda some: catalog.unchecked("1", some)),
        *(lambda some: catalog.tag(some, "new"), lambda some: catalog.untag(some, "new")),
        *(lambda some: catalog.add_note(some, "text"), lambda some: catalog.review(some, "accepted")),
        *(lambda some: catalog.drop_scores("q", some), lambda some: catalog.add_lineage(some, "recorded_by", "ann")),
    ):
        with pytest.raises(FilterError, match=r"ids of episodes: expected (a|several) whole number"):
            ask(ids)
    assert len(catalog.ids("-tag:*")) == 6


def test_limits_and_numbers_that_are_none_are_refused(catalog: Catalog) -> None:
    for ask, error, told in (
        (lambda: catalog.select(limit=2.5), FilterError, "limit: expected a whole number, found 2.5"),
        (lambda: catalog.facets(["env"], limit="a"), FilterError, "limit: expected a whole number"),
        (lambda: catalog.histogram("length", bins=2.5), FilterError, "bins: expected a whole number"),
        (lambda: catalog.histogram("length", bins="a"), FilterError, "bins: expected a whole number"),
        (lambda: catalog.sql("SELECT 1", limit=1.5), StatementError, "limit: expected a whole number"),
        (lambda: catalog.set_scores("q", [1]), FilterError, "expected scores 'q' by the ids"),
        (lambda: catalog.set_scores("q", {1: 10**400}), FilterError, "expected a finite number"),
        (lambda: catalog.get(1.5), FilterError, "id of an episode: expected a whole number"),
        (lambda: Pick("uid", "digest", 1.0, 3), CollectionError, "start of a pick of uid: expected a whole number"),
        (lambda: Pick("uid", "digest", True, 3), CollectionError, "start of a pick of uid: expected a whole number"),
        (lambda: Pick("uid", "digest", 1, 3, "2"), CollectionError, "weight of a pick of uid: expected a finite"),
        (lambda: Pick("uid", "digest", 3, 1), CollectionError, "expected a span 0 <= start <= stop, found 3:1"),
        (lambda: catalog.split("all", {"train": "a"}), CollectionError, "fractions, 'train': expected a finite"),
        (lambda: catalog.split("all", [0.5, 0.5]), CollectionError, "expected fractions by the names of parts"),
        (lambda: catalog.split("all", {"a": 1.0}, seed="x"), CollectionError, "seed: expected a whole number"),
    ):
        with pytest.raises(error, match=told):
            ask()


@pytest.mark.parametrize("tag", ["", " ", 5, None, ["a", "b"]])
def test_what_is_no_tag_is_refused(catalog: Catalog, tag) -> None:
    with pytest.raises(FilterError, match="expected a tag"):
        catalog.tag(catalog.ids(), tag)
    if not isinstance(tag, str):
        with pytest.raises(FilterError, match="for tag"):
            catalog.untag(catalog.ids(), tag)
    assert catalog.facets(["tag"])["tag"] == []


def test_an_empty_tag_of_before_can_be_taken_off(catalog: Catalog) -> None:
    with catalog._write() as connection:
        connection.execute(insert(schema.tag), {"name": "", "episode_row": 1})
    assert catalog.untag([1], "") == 1


def test_arguments_of_other_types_are_refused(catalog: Catalog) -> None:
    ids = catalog.ids()
    for ask, error, told in (
        *((lambda ask=ask: ask(5), FilterError, "expected a filter or its text, found 5") for ask in askers(catalog)),
        (lambda: catalog.select(order=5), FilterError, "order: expected text, found 5"),
        (lambda: catalog.explain(order=5), FilterError, "order: expected text, found 5"),
        (lambda: catalog.select(after=5), FilterError, "after: expected text, found 5"),
        (lambda: catalog.relevant(5), FilterError, "text: expected text"),
        (lambda: catalog.relevant("a", limit=1.5), FilterError, "limit: expected a whole number"),
        (lambda: catalog.facets("env"), FilterError, "fields: expected several names, found 'env'"),
        (lambda: catalog.statistics(5), FilterError, "fields: expected several names, found 5"),
        (lambda: catalog.to_arrow(columns=5), FilterError, "columns: expected several names, found 5"),
        (lambda: catalog.to_arrow(columns=[]), FilterError, "columns: expected one name or more, found none"),
        (lambda: catalog.to_pandas(columns=[]), FilterError, "columns: expected one name or more, found none"),
        (lambda: catalog.split("all", {"a": 1.0}, by="env"), FilterError, "by: expected several names"),
        (lambda: catalog.sql(5), StatementError, "statement: expected text"),
        (lambda: catalog.save_snapshot("x", ids), CollectionError, "expected a filter, its text, or several picks"),
        (lambda: catalog.save_snapshot("x", None), CollectionError, "expected a filter, its text, or several picks"),
        (lambda: Catalog.open(5), CatalogError, "expected a path or a database URL, found 5"),
    ):
        with pytest.raises(error, match=told):
            ask()
    picks = [Pick(row.uid, row.digest, 0, 1) for row in catalog.rows(ids).values()]
    catalog.save_snapshot("some", (pick for pick in picks))
    assert set(catalog.picks("some")) == set(picks)


def askers(catalog: Catalog) -> tuple[Callable[[object], object], ...]:
    return (catalog.select, catalog.count, catalog.ids, catalog.layouts, lambda where: catalog.save_query("q", where))
