"""Collections: snapshots never change and are named by content, queries are run anew, splits do not leak."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from databases import SQLITE_FIRST
from hypothesis import given
from hypothesis import strategies as st

from catalog import Catalog, F, Pick
from catalog.curation import selection as algebra
from catalog.curation.export_list import COLUMNS, encode_list
from catalog.testing.contract import make_record
from wshard.errors import CollectionError, EntryNotFoundError, FilterError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        opened.episodes.register([make_record(number) for number in range(40)])
        yield opened


def uids(catalog: Catalog, ref: str) -> set[str]:
    return {pick.uid for pick in catalog.collections.picks(ref)}


def of(catalog: Catalog, where: str) -> set[str]:
    return {row.uid for row in catalog.episodes.rows(catalog.query.ids(where)).values()}


# ---- queries and snapshots -----------------------------------------------------------------------------------------


def test_a_saved_query_lives_and_a_snapshot_does_not_change(catalog: Catalog) -> None:
    live = catalog.collections.save_query("live", F.env_id == "env-1", who="ann")
    saved = catalog.collections.save_snapshot("chosen", F.env_id == "env-1", who="ann")
    assert (live.query, live.snapshot, live.who) == ("env:env-1", None, "ann")
    assert saved.snapshot is not None
    assert saved.snapshot.picks == 8
    assert saved.snapshot.origin == {"made": "query", "where": "env:env-1"}
    before = catalog.collections.picks("chosen")
    assert before == catalog.collections.picks("live") == catalog.collections.picks(saved.snapshot.hash)
    later = 4 * 10**18  # nanoseconds, in 2096
    altered = [
        make_record(1, env_id="env-1", digest="new", mtime_ns=later),
        make_record(11, env_id="env-1", digest="o"),
    ]
    catalog.episodes.register([make_record(50, env_id="env-1"), *altered])
    catalog.episodes.remove([7])
    assert catalog.collections.picks("chosen") == before
    assert uids(catalog, "live") == of(catalog, "env:env-1")
    assert len(catalog.collections.picks("live")) == 8
    gone = [pick for pick, row in catalog.collections.picked("chosen") if row is None]
    assert len(gone) == 3  # removed, and twice holding other data
    assert catalog.collections.gone() == {"chosen": 3}
    text = catalog.collections.explain_gone("chosen")
    assert text.startswith("collection 'chosen': 3 of its 8 picks are of episodes that are not as they were: ")
    assert "1 removed (" in text
    assert "1 changed (episode_000001)" in text
    assert "1 changed before the snapshot, or read otherwise than then, by --map or --layout (episode_000011)" in text
    assert text.endswith("`wshard collection save chosen --where env:env-1` saves it anew")
    assert catalog.collections.explain_gone("live") == ""
    assert [found.name for found in catalog.collections.all()] == ["chosen", "live"]


def test_filters_name_collections(catalog: Catalog) -> None:
    saved = catalog.collections.save_snapshot("chosen", "length:..110").snapshot
    assert saved is not None
    catalog.collections.save_query("live", "env:env-1")
    catalog.collections.save_query("both", "collection:live collection:chosen")
    for where, same in (
        ("collection:chosen", "length:..110"),
        (f"collection:{saved.hash}", "length:..110"),
        ("collection:live", "env:env-1"),
        ("collection:chosen,live", "length:..110 OR env:env-1"),
        ("collection:both", "length:..110 env:env-1"),
        ("-collection:live -collection:chosen", "-(length:..110 OR env:env-1)"),
        ("collection:*", "length:..110 OR env:env-1"),
        ("collection:()", "-()"),
    ):
        assert catalog.query.ids(where) == catalog.query.ids(same), where
        assert catalog.query.count(where) == len(catalog.query.ids(same))
    assert catalog.query.facts([1])[1].collections == tuple(sorted(("chosen", saved.hash)))
    assert catalog.query.facets(["env_id"], "collection:live") == {"env_id": [("env-1", 8)]}
    with pytest.raises(FilterError, match="expected a collection's name or a snapshot's hash, found 'nobody'"):
        catalog.query.count("collection:nobody")


def test_a_member_of_any_collection_is_one_of_a_named_one(catalog: Catalog) -> None:
    assert catalog.query.count("collection:*") == 0
    saved = catalog.collections.save_snapshot("chosen", "length:..110").snapshot
    catalog.collections.save_query("live", "env:env-1")
    catalog.collections.save_query("loose", "-collection:*")
    catalog.collections.save_query("of loose", "collection:loose length:..150")
    members = catalog.query.ids("length:..110 OR env:env-1")
    assert catalog.query.ids("collection:*") == members
    assert (
        catalog.query.ids("-collection:*")
        == catalog.query.ids("collection:loose")
        == catalog.query.ids("-(length:..110 OR env:env-1)")
    )
    assert catalog.query.ids('collection:"of loose"') == catalog.query.ids("length:..150 -(length:..110 OR env:env-1)")
    catalog.collections.drop("chosen")
    assert saved is not None
    assert catalog.query.ids(f"collection:{saved.hash}") == catalog.query.ids("length:..110")
    assert catalog.query.ids("collection:*") == catalog.query.ids("env:env-1")
    catalog.collections.save_query("of live", "collection:live")
    catalog.collections.drop("live")  # from here on that fails
    assert catalog.query.ids("collection:*") == []


def test_queries_in_a_circle_are_refused_and_change_nothing(catalog: Catalog) -> None:
    catalog.collections.save_query("a", "env:env-1")
    catalog.collections.save_query("b", "collection:a")
    for where in ("collection:b", "collection:a", "collection:nobody", "env:"):
        with pytest.raises(FilterError, match="expected"):
            catalog.collections.save_query("a", where)
    assert catalog.query.ids("collection:b") == catalog.query.ids("env:env-1")


def test_equal_picks_have_one_hash_in_every_archive_and_order(catalog: Catalog, tmp_path: Path) -> None:
    first = catalog.collections.save_snapshot("one", "length:..120").snapshot
    again = catalog.collections.save_snapshot("two", list(reversed(catalog.collections.picks("one")))).snapshot
    assert first == again
    with Catalog.open(tmp_path / "other.db", create=True) as other:
        other.episodes.register([make_record(number) for number in reversed(range(60))])
        same = other.collections.save_snapshot("three", "length:..120").snapshot
    assert same is not None
    assert first is not None
    assert same.hash == first.hash
    assert catalog.collections.save_snapshot("less", catalog.collections.picks("one")[1:]).snapshot != first


def test_picks_of_spans_with_weights(catalog: Catalog) -> None:
    row = catalog.episodes.get(5)
    picks = [Pick(row.uid, row.digest, 10, 20, 2.0), Pick(row.uid, row.digest, 0, 10), Pick(row.uid, row.digest, 5, 15)]
    named = catalog.collections.save_snapshot("spans", picks)
    assert named.snapshot is not None
    assert named.snapshot.origin == {"made": "picks"}
    assert catalog.collections.picks("spans") == (picks[1], picks[2], picks[0])
    assert catalog.query.ids("collection:spans") == [5]
    for wrong in (
        [Pick(row.uid, row.digest, 0, row.length + 1)],
        [Pick("nobody", row.digest, 0, 1)],
        [Pick(row.uid, "other data", 0, 1)],
        [picks[0], replace(picks[0], weight=3.0)],
    ):
        with pytest.raises(CollectionError, match="expected"):
            catalog.collections.save_snapshot("wrong", wrong)
    assert [found.name for found in catalog.collections.all()] == ["spans"]


@pytest.mark.parametrize(
    ("start", "stop", "weight"),
    [(-1, 5, 1.0), (5, 4, 1.0), (0, 2**70, 1.0), (0.0, 5, 1.0), (True, 5, 1.0), (0, 5, -1.0), (0, 5, float("nan"))],
)
def test_a_pick_that_cannot_be_is_refused(start, stop, weight) -> None:
    with pytest.raises(CollectionError, match="expected a"):
        Pick("u", "d", start, stop, weight)


def test_names_are_taken_over_and_dropped(catalog: Catalog) -> None:
    saved = catalog.collections.save_snapshot("name", "env:env-1").snapshot
    assert saved is not None
    queried = catalog.collections.save_query("name", "env:env-2")
    assert queried.replaced is not None
    assert queried.replaced.snapshot == saved
    assert uids(catalog, "name") == of(catalog, "env:env-2")
    assert catalog.collections.save_query("name", "env:env-2").replaced is None  # the same again
    assert catalog.collections.drop("name").query == "env:env-2"
    assert len(catalog.collections.picks(saved.hash)) == 8
    for ask in (
        catalog.collections.picks,
        catalog.collections.snapshot,
        catalog.collections.ancestors,
        catalog.collections.drop,
        catalog.collections.picked,
    ):
        with pytest.raises(EntryNotFoundError, match=r"found 'name' \(`wshard collection ls` lists them"):
            ask("name")
    for name in (saved.hash, ".", ".."):  # browsers take dots out of the address of a collection
        with pytest.raises(CollectionError, match="expected a name other than"):
            catalog.collections.save_query(name, "env:env-1")
    with pytest.raises(FilterError, match="expected a collection's name"):
        catalog.collections.save_query(" ", "env:env-1")


# ---- algebra -------------------------------------------------------------------------------------------------------

some_picks = st.lists(
    st.builds(
        Pick,
        st.sampled_from("abc"),
        st.sampled_from("de"),
        st.integers(0, 2),
        st.integers(2, 4),
        st.sampled_from((0.0, 1.0, 2.0)),
    ),
    unique_by=lambda pick: pick.key,
    max_size=12,
)


@given(left=some_picks, right=some_picks)
def test_set_algebra_is_that_of_sets(left: list[Pick], right: list[Pick]) -> None:
    def keys(picks) -> set:
        return {pick.key for pick in picks}

    union, common, rest = (f(left, right) for f in (algebra.union, algebra.intersection, algebra.without))
    assert keys(union) == keys(left) | keys(right)
    assert keys(common) == keys(left) & keys(right)
    assert keys(rest) == keys(left) - keys(right)
    assert set(common) | set(rest) == set(left) <= set(union)
    found = algebra.difference(left, right)
    patched = [pick for pick in left if pick not in found.removed and pick.key not in keys(found.reweighted)]
    assert set(patched) | set(found.added) | set(found.reweighted) == set(right)
    assert algebra.hash_of(algebra.ordered(left)) == algebra.hash_of(algebra.ordered(reversed(left)))
    same = algebra.hash_of(algebra.ordered(left)) == algebra.hash_of(algebra.ordered(right))
    assert same == (set(left) == set(right))


def test_combined_collections_know_what_they_were_made_from(catalog: Catalog) -> None:
    catalog.collections.save_snapshot("one", "env:env-1")
    catalog.collections.save_query("short", "length:..120")
    both = catalog.collections.combine("both", "intersection", "one", "short")
    either = catalog.collections.combine("either", "union", "both", "short")
    rest = catalog.collections.combine("rest", "without", "one", "either")
    assert uids(catalog, "both") == of(catalog, "env:env-1 length:..120")
    assert uids(catalog, "either") == of(catalog, "length:..120")
    assert uids(catalog, "rest") == of(catalog, "env:env-1 length:>120")
    assert [found.origin["made"] for found in catalog.collections.ancestors("rest")] == ["without", "query", "query"]
    assert both.snapshot is not None
    assert either.snapshot is not None
    assert rest.snapshot is not None
    # The union is what the saved query answered: the same picks are the same snapshot.
    assert (
        either.snapshot.hash
        == catalog.collections.snapshot("short").hash
        == catalog.collections.ancestors("rest")[2].hash
    )
    assert catalog.collections.ancestors("short") == []
    assert len(catalog.collections.compare("one", "both").removed) == len(catalog.collections.picks("rest"))
    with pytest.raises(CollectionError, match="expected an operation among union"):
        catalog.collections.combine("x", "sum", "one", "both")  # type: ignore[arg-type]


# ---- splits --------------------------------------------------------------------------------------------------------

SHARES = {"train": 0.8, "val": 0.1, "test": 0.1}


@given(
    groups=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), min_size=1, max_size=60), seed=st.integers(0, 9)
)
def test_no_group_and_no_copy_is_on_two_sides(groups: list[tuple[int, int]], seed: int) -> None:
    picks = [Pick(f"uid {n}", f"digest {digest}", 0, 5) for n, (digest, _) in enumerate(groups)]
    named = {f"uid {n}": [("scene", scene)] for n, (_, scene) in enumerate(groups)}
    parts = algebra.split(picks, named, fractions=SHARES, seed=seed)
    assert sorted(pick.uid for part in parts.values() for pick in part) == sorted(pick.uid for pick in picks)
    for what in (lambda pick: pick.digest, lambda pick: named[pick.uid][0]):
        seen = [{what(pick) for pick in part} for part in parts.values()]
        assert sum(map(len, seen)) == len(set().union(*seen))
    assert parts == algebra.split(list(reversed(picks)), named, fractions=SHARES, seed=seed)


def test_parts_have_the_requested_sizes_and_another_seed_is_another_split() -> None:
    picks = [Pick(f"uid {number}", f"digest {number}", 0, 5) for number in range(1000)]
    parts = algebra.split(picks, {}, fractions=SHARES)
    assert {name: len(part) for name, part in parts.items()} == {"train": 800, "val": 100, "test": 100}
    assert parts != algebra.split(picks, {}, fractions=SHARES, seed=1)
    random = Random(1)
    tasks = {pick.uid: [random.randrange(50)] for pick in picks}
    for name, part in algebra.split(picks, tasks, fractions=SHARES).items():
        assert abs(len(part) / 1000 - SHARES[name]) < 0.03
    assert algebra.split(picks, {}, fractions={"all": 1, "none": 0})["none"] == ()
    three = algebra.split(picks, {pick.uid: [int(pick.uid[4:]) % 3] for pick in picks}, fractions=SHARES)
    assert sorted(map(len, three.values())) == [333, 333, 334]


@pytest.mark.parametrize("fractions", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": float("nan")}])
def test_fractions_that_are_none_are_refused(fractions) -> None:
    with pytest.raises(CollectionError, match="fractions"):
        algebra.split([], {}, fractions=fractions)


@pytest.mark.parametrize("by", [(), ("env_id",), ("meta.scene",), ("tag",), ("env_id", "tag")])
@SQLITE_FIRST
def test_a_collection_is_split_by_any_field(catalog: Catalog, by: tuple[str, ...]) -> None:
    catalog.episodes.register([make_record(n, metadata={"scene": n % 9}) for n in range(40, 80)])
    catalog.episodes.register([make_record(n, digest=make_record(n - 40).digest) for n in range(80, 90)])
    catalog.annotations.tag(catalog.query.ids("length:<130"), "short")
    catalog.annotations.tag(catalog.query.ids("length:120..150"), "middle")
    catalog.collections.save_query("all", "")
    named = catalog.collections.split("all", {"train": 0.5, "test": 0.5}, by=by, seed=3)
    assert [found.name for found in named] == ["all/train", "all/test"]
    sides = [catalog.collections.picks(found.name) for found in named]
    assert len(sides[0]) + len(sides[1]) == 90
    rows = {row.uid: row for row in catalog.episodes.rows(catalog.query.ids()).values()}
    values = {
        "env_id": lambda row: {row.env_id},
        "meta.scene": lambda row: {row.metadata.get("scene")},
        "tag": lambda row: set(row.tags) or {None},
    }
    for what in (lambda row: {row.digest}, *(values[name] for name in by)):
        left, right = (set().union(*(what(rows[pick.uid]) for pick in side)) for side in sides)
        assert not left & right


@SQLITE_FIRST
def test_a_split_by_what_no_episode_has_is_refused(catalog: Catalog) -> None:
    catalog.collections.save_query("all", "")
    with pytest.raises(CollectionError, match=r"found 'meta\.scen'"):
        catalog.collections.split("all", {"train": 0.5, "test": 0.5}, by=["env_id", "meta.scen"])
    assert [named.name for named in catalog.collections.all()] == ["all"]


@SQLITE_FIRST
def test_a_part_knows_how_it_was_split_off(catalog: Catalog) -> None:
    catalog.collections.save_query("all", "")
    train, test = catalog.collections.split("all", {"train": 0.5, "test": 0.5}, by=["env_id"], seed=3)
    assert train.snapshot is not None
    assert train.snapshot.origin == {
        "made": "split",
        "of": [catalog.collections.snapshot("all").hash],
        "part": "train",
        "by": ["env_id"],
        "seed": 3,
        "fractions": {"train": 0.5, "test": 0.5},
    }
    assert [found.origin["made"] for found in catalog.collections.ancestors(test.name)] == ["split", "query"]


# ---- lists ---------------------------------------------------------------------------------------------------------


@SQLITE_FIRST
def test_a_collection_is_written_as_json_and_csv(catalog: Catalog) -> None:
    odd = 'env "with", commas\nand lines é'
    catalog.episodes.register([make_record(50, env_id=odd)])
    catalog.collections.save_snapshot("some", F.env_id.one_of([odd, "env-1"]))
    catalog.episodes.remove([2])
    picked = catalog.collections.picked("some")
    found = json.loads(encode_list(picked, "json"))
    assert found["hash"] == catalog.collections.snapshot("some").hash
    assert [row["uid"] for row in found["picks"]] == [pick.uid for pick in catalog.collections.picks("some")]
    assert all(list(row) == list(COLUMNS) for row in found["picks"])
    lines = list(csv.DictReader(io.StringIO(encode_list(picked, "csv").decode())))
    assert [line["env_id"] for line in lines] == [row["env_id"] or "" for row in found["picks"]]
    assert {line["env_id"] for line in lines} == {odd, "env-1", ""}
    assert {line["path"] for line in lines} >= {"", "/data/set/episode_000050.wshard"}
    assert {line["key"] for line in lines} == {""}
    assert all(float(line["weight"]) == 1.0 for line in lines)
    with pytest.raises(CollectionError, match="expected a format among json, csv, parquet"):
        encode_list(picked, "xlsx")


def test_parquet_without_pyarrow_says_what_to_install(catalog: Catalog, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wshard\[parquet\]'"):
        encode_list([], "parquet")
