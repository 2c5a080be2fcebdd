"""Arguments of the catalog: numbers of other libraries are numbers, and what is none is refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from databases import SQLITE_FIRST
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
        opened.episodes.register([make_record(number) for number in range(6)])
        yield opened


@pytest.fixture(scope="module")
def still(shared_location: Path | str) -> Iterator[Catalog]:
    """Give such a catalog that refuses all that tests ask of it, so that it stays as it is."""
    with Catalog.open(shared_location, create=True) as opened:
        opened.episodes.register([make_record(number) for number in range(6)])
        yield opened


# ---- numbers of other libraries -------------------------------------------------------------------------------------


def test_ids_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    ids = catalog.query.ids()
    some = np.array(ids[:2])
    assert (
        list(catalog.episodes.rows(some))
        == list(catalog.query.facts(some))
        == list(catalog.episodes.assets(some))
        == ids[:2]
    )
    assert catalog.episodes.get(some[0]) == catalog.episodes.get(ids[0])
    assert catalog.annotations.tag(some, "new") == catalog.annotations.untag(some, "new") == 2
    assert [note.episode_id for note in catalog.annotations.add_note(some, "first")] == ids[:2]
    catalog.annotations.remove_note(np.int64(1))
    assert len(catalog.annotations.review(some, "accepted")) == len(catalog.annotations.undo_review(some)) == 2
    assert len(catalog.annotations.audit(some)) == 4
    assert catalog.annotations.add_lineage(some, "recorded_by", "ann") == 2
    assert catalog.checks.findings(some) == {}
    assert catalog.checks.unchecked("1", some) == ids[:2]
    assert catalog.episodes.remove(some) == 2
    assert catalog.annotations.tag((id_ for id_ in ids), "left") == 4


def test_scores_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    first, second, *_ = catalog.query.ids()
    assert catalog.annotations.set_scores("quality", {np.int64(first): np.float32(0.5), second: np.int16(2)}) == 2
    assert catalog.query.ids("score.quality:0.5") == [first]
    assert catalog.query.ids("score.quality:2") == [second]
    assert catalog.annotations.drop_scores("quality", np.array([first])) == 1


@SQLITE_FIRST
def test_limits_may_be_numbers_of_numpy(catalog: Catalog) -> None:
    two = np.int64(2)
    assert len(catalog.query.select(limit=two).rows) == 2
    assert len(catalog.query.facets(["episode_id"], limit=two)["episode_id"]) == 2
    assert len(catalog.query.histogram("length", bins=two).counts) == 2
    assert catalog.query.sql("SELECT id FROM episode", limit=two).more is True


@SQLITE_FIRST
def test_picks_and_splits_take_numbers_of_numpy(catalog: Catalog) -> None:
    row = catalog.episodes.get(catalog.query.ids()[0])
    pick = Pick(row.uid, row.digest, np.int64(1), np.int64(3), np.float32(2))
    assert pick == Pick(row.uid, row.digest, 1, 3, 2.0)
    assert [*map(type, (pick.start, pick.stop, pick.weight))] == [int, int, float]
    catalog.collections.save_snapshot("one", [pick])
    assert catalog.collections.picks("one") == (pick,)
    catalog.collections.save_snapshot("all", "")
    shares = {"train": np.float32(0.5), "test": 0.5}
    parts = catalog.collections.split("all", shares, seed=np.int64(3))
    assert parts[0].snapshot is not None
    assert parts[0].snapshot.origin["seed"] == 3
    again = catalog.collections.split("all", {"train": 0.5, "test": 0.5}, seed=3)
    assert [part.snapshot for part in again] == [part.snapshot for part in parts]


# ---- what is no such argument ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ids", [[1.0], [True], ["a"], "abc", 5, None, [np.float64(1)]])
@SQLITE_FIRST
def test_invalid_id_is_refused(still: Catalog, ids) -> None:
    for ask in (
        *(
            still.episodes.rows,
            still.query.facts,
            still.episodes.assets,
            still.episodes.remove,
            still.episodes.withdraw,
            still.annotations.audit,
        ),
        *(still.annotations.undo_review, still.checks.findings, lambda some: still.checks.unchecked("1", some)),
        *(lambda some: still.annotations.tag(some, "new"), lambda some: still.annotations.untag(some, "new")),
        *(
            lambda some: still.annotations.add_note(some, "text"),
            lambda some: still.annotations.review(some, "accepted"),
        ),
        *(
            lambda some: still.annotations.drop_scores("q", some),
            lambda some: still.annotations.add_lineage(some, "recorded_by", "ann"),
        ),
    ):
        with pytest.raises(FilterError, match=r"ids of episodes: expected (a|several) whole number"):
            ask(ids)
    assert len(still.query.ids("-tag:*")) == 6


@SQLITE_FIRST
def test_limits_and_numbers_that_are_none_are_refused(still: Catalog) -> None:
    for ask, error, message in (
        (lambda: still.query.select(limit=2.5), FilterError, "limit: expected a whole number, found 2.5"),
        (lambda: still.query.facets(["env"], limit="a"), FilterError, "limit: expected a whole number"),
        (lambda: still.query.histogram("length", bins=2.5), FilterError, "bins: expected a whole number"),
        (lambda: still.query.histogram("length", bins="a"), FilterError, "bins: expected a whole number"),
        (lambda: still.query.sql("SELECT 1", limit=1.5), StatementError, "limit: expected a whole number"),
        (lambda: still.annotations.set_scores("q", [1]), FilterError, "expected scores 'q' by the ids"),
        (lambda: still.annotations.set_scores("q", {1: 10**400}), FilterError, "expected a finite number"),
        (lambda: still.episodes.get(1.5), FilterError, "id of an episode: expected a whole number"),
        (lambda: Pick("uid", "digest", 1.0, 3), CollectionError, "start of a pick of uid: expected a whole number"),
        (lambda: Pick("uid", "digest", True, 3), CollectionError, "start of a pick of uid: expected a whole number"),
        (lambda: Pick("uid", "digest", 1, 3, "2"), CollectionError, "weight of a pick of uid: expected a finite"),
        (lambda: Pick("uid", "digest", 3, 1), CollectionError, "expected a span 0 <= start <= stop, found 3:1"),
        (
            lambda: still.collections.split("all", {"train": "a"}),
            CollectionError,
            "fractions, 'train': expected a finite",
        ),
        (
            lambda: still.collections.split("all", [0.5, 0.5]),
            CollectionError,
            "expected fractions by the names of parts",
        ),
        (
            lambda: still.collections.split("all", {"a": 1.0}, seed="x"),
            CollectionError,
            "seed: expected a whole number",
        ),
    ):
        with pytest.raises(error, match=message):
            ask()


@pytest.mark.parametrize("tag", ["", " ", 5, None, ["a", "b"]])
@SQLITE_FIRST
def test_invalid_tag_is_refused(still: Catalog, tag) -> None:
    with pytest.raises(FilterError, match="expected a tag"):
        still.annotations.tag(still.query.ids(), tag)
    if not isinstance(tag, str):
        with pytest.raises(FilterError, match="for tag"):
            still.annotations.untag(still.query.ids(), tag)
    assert still.query.facets(["tag"])["tag"] == []


def test_an_empty_tag_of_before_can_be_taken_off(catalog: Catalog) -> None:
    with catalog._session.write() as connection:
        connection.execute(insert(schema.tag), {"name": "", "episode_row": 1})
    assert catalog.annotations.untag([1], "") == 1


@SQLITE_FIRST
def test_arguments_of_other_types_are_refused(still: Catalog) -> None:
    ids = still.query.ids()
    for ask, error, message in (
        *((lambda ask=ask: ask(5), FilterError, "expected a filter or its text, found 5") for ask in askers(still)),
        (lambda: still.query.select(order=5), FilterError, "order: expected text, found 5"),
        (lambda: still.query.explain(order=5), FilterError, "order: expected text, found 5"),
        (lambda: still.query.select(after=5), FilterError, "after: expected text, found 5"),
        (lambda: still.query.relevant(5), FilterError, "text: expected text"),
        (lambda: still.query.relevant("a", limit=1.5), FilterError, "limit: expected a whole number"),
        (lambda: still.query.facets("env"), FilterError, "fields: expected several names, found 'env'"),
        (lambda: still.query.statistics(5), FilterError, "fields: expected several names, found 5"),
        (lambda: still.query.to_arrow(columns=5), FilterError, "columns: expected several names, found 5"),
        (lambda: still.query.to_arrow(columns=[]), FilterError, "columns: expected one name or more, found none"),
        (lambda: still.query.to_pandas(columns=[]), FilterError, "columns: expected one name or more, found none"),
        (lambda: still.collections.split("all", {"a": 1.0}, by="env"), FilterError, "by: expected several names"),
        (lambda: still.query.sql(5), StatementError, "statement: expected text"),
        (
            lambda: still.collections.save_snapshot("x", ids),
            CollectionError,
            "expected a filter, its text, or several picks",
        ),
        (
            lambda: still.collections.save_snapshot("x", None),
            CollectionError,
            "expected a filter, its text, or several picks",
        ),
        (lambda: Catalog.open(5), CatalogError, "expected a path or a database URL, found 5"),
    ):
        with pytest.raises(error, match=message):
            ask()
    picks = [Pick(row.uid, row.digest, 0, 1) for row in still.episodes.rows(ids).values()]
    still.collections.save_snapshot("some", (pick for pick in picks))
    assert set(still.collections.picks("some")) == set(picks)


def askers(catalog: Catalog) -> tuple[Callable[[object], object], ...]:
    return (
        catalog.query.select,
        catalog.query.count,
        catalog.query.ids,
        catalog.query.layouts,
        lambda where: catalog.collections.save_query("q", where),
    )
