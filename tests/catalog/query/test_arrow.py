"""Tables for other tools: typed, complete, and equal to what the catalog says row by row."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from databases import SQLITE_FIRST

from catalog import FIELDS, Catalog, CheckFinding, Facts
from catalog.curation.export_list import COLUMNS, encode_list
from catalog.filters.evaluate import parts_of, read_field
from catalog.filters.fields import field_of
from catalog.query.columns import PLAIN
from catalog.testing.contract import make_record
from wshard.errors import FilterError, MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    """Yield a catalog of ten episodes, some with tags, scores, reviews and notes."""
    with Catalog.open(location, create=True) as opened:
        records = [
            make_record(
                number,
                env_id=("reach", "push")[number % 2],
                total_reward=None if number == 3 else number / 4,
                success=(True, False, None)[number % 3],
                metadata={"task": f"task {number}", "seed": number, "odd": ["x", 1][number % 2], "robot": {"arm": "é"}},
            )
            for number in range(10)
        ]
        ids = [done.id for done in opened.episodes.register(records)]
        opened.annotations.tag(ids[:4], "good")
        opened.annotations.tag(ids[2:6], "too long")
        opened.annotations.set_scores("quality", {ids[0]: 0.25, ids[7]: 1.0})
        opened.annotations.set_scores("odd name", {ids[1]: -3.0})
        opened.annotations.review(ids[:2], "accepted", who="ann")
        opened.annotations.add_note(ids[:1], "first")
        opened.annotations.add_note(ids[:1], "second")
        yield opened


NAMED = ("lane.signal/joint.mean", "score.quality", "lineage.converted_from")  # families ask for a name behind the dot


def test_a_field_is_read_alike_from_the_parts_that_it_needs_and_from_all(catalog: Catalog) -> None:
    rows = catalog.episodes.rows(catalog.query.ids())
    catalog.collections.save_snapshot("some", "tag:good")
    catalog.checks.flag([*rows][:2], CheckFinding("integrity", "cut"))
    everything = catalog.query.facts(rows)
    for name in [*(name for name in FIELDS if name != "meta"), *NAMED]:
        field = field_of(name)
        parts = parts_of([field])
        known = catalog.query.facts(rows, parts=parts)
        for id_, row in rows.items():
            assert read_field(field, row, known[id_]) == read_field(field, row, everything[id_]), name


@SQLITE_FIRST
def test_facts_hold_the_parts_that_are_requested(catalog: Catalog) -> None:
    first = catalog.query.ids()[0]
    every, some = catalog.query.facts([first])[first], catalog.query.facts([first], parts={"scores"})[first]
    assert all((every.lanes, every.notes, every.review))
    assert some == Facts(scores={"quality": 0.25})
    with pytest.raises(FilterError, match="found 'score'"):
        catalog.query.facts([first], parts=["score"])


def test_the_table_is_what_the_catalog_says_row_by_row(catalog: Catalog) -> None:
    table = catalog.query.to_arrow()
    assert table.column_names == [*PLAIN, 'score."odd name"', "score.quality"]
    rows = catalog.episodes.rows(catalog.query.ids())
    assert table.column("id").to_pylist() == sorted(rows)
    for found in table.to_pylist():
        row, facts = rows[found["id"]], catalog.query.facts([found["id"]])[found["id"]]
        for name in (
            "uid",
            "path",
            "key",
            "episode_id",
            "env_id",
            "length",
            "total_reward",
            "success",
            "digest",
            "size",
        ):
            assert found[name] == getattr(row, name)
        assert found["tags"] == list(row.tags)
        assert json.loads(found["metadata"]) == row.metadata
        assert found["score.quality"] == facts.scores.get("quality")
        assert found["review"] == (facts.review and facts.review.state)
        assert found["ingested_at"] == datetime.fromisoformat(row.ingested_at).astimezone(UTC)


@SQLITE_FIRST
def test_columns_have_types_also_where_nothing_passes(catalog: Catalog) -> None:
    kinds = {
        "id": pa.int64(),
        "length": pa.int64(),
        "total_reward": pa.float64(),
        "success": pa.bool_(),
        "env_id": pa.string(),
        "ingested_at": pa.timestamp("s", tz="UTC"),
        "score.quality": pa.float64(),
    }
    for where in ("", "env:none"):
        table = catalog.query.to_arrow(where)
        assert {name: table.schema.field(name).type for name in kinds} == kinds
    assert catalog.query.to_arrow().schema.field("tags").type == pa.list_(pa.string())
    assert catalog.query.to_arrow("env:none").num_rows == 0


@SQLITE_FIRST
def test_columns_and_episodes_are_chosen_as_in_filters(catalog: Catalog) -> None:
    names = ["env", "meta.task", "meta.seed", "meta.odd", "meta.robot.arm", "note", "tag", "meta.none", "lane.x.max"]
    table = catalog.query.to_arrow("env:reach tag:good", columns=names)
    assert table.column_names == names
    assert table.to_pylist()[0] == {
        "env": "reach",
        "meta.task": "task 0",
        "meta.seed": 0,
        "meta.odd": "x",
        "meta.robot.arm": "é",
        "note": ["first", "second"],
        "tag": ["good"],
        "meta.none": None,
        "lane.x.max": None,
    }
    assert catalog.query.to_arrow(columns=["meta.odd"]).column(0).to_pylist()[:2] == ['"x"', "1"]
    with pytest.raises(FilterError, match="nonsense"):
        catalog.query.to_arrow(columns=["nonsense"])


def test_integers_of_metadata_stay_exact(tmp_path: Path) -> None:
    values = [{"seed": 2**60 + 1, "big": 2**63}, {"seed": -5, "big": 1}, {"mixed": 0.5}, {"mixed": 2}]
    with Catalog.open(tmp_path / "catalog.db", create=True) as opened:
        opened.episodes.register([make_record(number, metadata=found) for number, found in enumerate(values)])
        table = opened.query.to_arrow(columns=["meta.seed", "meta.big", "meta.mixed"])
    assert table.schema.types == [pa.int64(), pa.float64(), pa.float64()]
    assert table.column(0).to_pylist() == [2**60 + 1, -5, None, None]
    assert table.column(2).to_pylist() == [None, None, 0.5, 2.0]


def test_more_than_one_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catalog.query.arrow._BATCH_SIZE", 7)
    with Catalog.open(tmp_path / "catalog.db", create=True) as opened:
        opened.episodes.register([make_record(number) for number in range(30)])
        assert opened.query.to_arrow(columns=["id"]).column(0).to_pylist() == opened.query.ids()


@SQLITE_FIRST
def test_pandas_gets_the_same(catalog: Catalog) -> None:
    frame = catalog.query.to_pandas("env:push")
    assert list(frame["id"]) == catalog.query.ids("env:push")
    assert list(frame["tags"][0]) == ["good"]
    assert frame["length"].dtype == "int64"
    assert frame.groupby("env_id")["total_reward"].count()["push"] == 4


@pytest.mark.parametrize(("package", "extra"), [("pyarrow", "parquet"), ("pandas", "pandas")])
def test_a_missing_package_is_named(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"wshard\[{extra}\]"):
        catalog.query.to_pandas()


@SQLITE_FIRST
def test_duckdb_reads_the_table_and_the_file(catalog: Catalog, tmp_path: Path) -> None:
    """The recipe of docs/catalog.md."""
    episodes = catalog.query.to_arrow()
    with duckdb.connect() as connection:
        connection.register("episodes", episodes)
        requested = connection.sql(
            "SELECT env_id, count(*), max(CAST(metadata->>'$.seed' AS INTEGER)) FROM episodes "
            "WHERE list_contains(tags, 'good') GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert requested == [("push", 2, 3), ("reach", 2, 2)]
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM episodes")
        pq.write_table(episodes, tmp_path / "episodes.parquet")
        connection.execute(f"CREATE VIEW exported AS SELECT * FROM '{tmp_path / 'episodes.parquet'}'")
        assert connection.sql('SELECT sum("score.quality") FROM exported').fetchall() == [(1.25,)]


@SQLITE_FIRST
def test_a_list_in_parquet_is_what_the_collection_holds(catalog: Catalog) -> None:
    catalog.collections.save_snapshot("good", "tag:good")
    catalog.episodes.remove(catalog.query.ids()[:1])
    picked = catalog.collections.picked("good")
    table = pq.read_table(pa.BufferReader(encode_list(picked, "parquet")))
    assert table.column_names == list(COLUMNS)
    kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    assert {field.name: field.type for field in table.schema} == {name: kinds[kind] for name, kind in COLUMNS.items()}
    rows = table.to_pylist()
    assert len(rows) == 4
    assert [row["path"] for row in rows].count(None) == 1
    for (pick, row), found in zip(picked, rows, strict=True):
        about = (pick.uid, pick.digest, pick.start, pick.stop, pick.weight)
        assert (found["uid"], found["digest"], found["start"], found["stop"], found["weight"]) == about
        assert found["path"] == (row and row.path)


@SQLITE_FIRST
def test_a_column_that_is_named_twice_is_there_once(catalog: Catalog) -> None:
    table = catalog.query.to_arrow(columns=["length", "env", "length"])
    assert (table.column_names, table.num_rows) == (["length", "env"], 10)
