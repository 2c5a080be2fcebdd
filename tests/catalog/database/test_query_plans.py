"""Every shipped query uses an index, and every statement is one that PostgreSQL understands too."""

from __future__ import annotations

import shutil
from copy import copy
from typing import TYPE_CHECKING

import pytest
from catalog_calls import BIG, CALLS, Watch
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from catalog import Catalog
from catalog.database import migrations, schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Watch, Path]:
    """Give what a watch knows of the catalog in a file, which is closed."""
    file = tmp_path_factory.mktemp("archive") / "catalog.db"
    with Catalog.open(file, create=True) as catalog:
        return Watch(catalog), file


@pytest.fixture
def watch(filled: tuple[Watch, Path], tmp_path: Path) -> Iterator[Watch]:
    made, file = filled
    with Catalog.open(shutil.copy(file, tmp_path / "catalog.db")) as catalog:
        own = copy(made)
        own.catalog = catalog
        yield own


WALKED = {
    # A page in the order of an index walks the index, and stops after the page.
    "get by uid": {"SCAN episode USING COVERING INDEX episode_sort_key"},
    "score order": {"SCAN episode"},
    # Before what passes is sorted, the order is walked, not far.
    "name": {"SCAN episode USING COVERING INDEX episode_sort_key"},
    "length": {"SCAN episode USING COVERING INDEX episode_length"},
    "lane's type": {"SCAN layout"},
    # Counting everything reads an index from end to end, never the rows.
    "facet of everything": {
        *(
            f"SCAN episode USING COVERING INDEX episode_{name}"
            for name in ("env_reward_length", "env_length", "success", "length")
        ),
        "SCAN tag USING COVERING INDEX sqlite_autoindex_tag_1",
    },
    "facet of flags": {"SCAN finding USING COVERING INDEX finding_name"},
    "all_unchecked": {
        f"SCAN episode USING COVERING INDEX episode_{name}" for name in ("layout", "success", "length", "format")
    },
}
ABOUT_VECTORS = ("pending", "pending ids", "pending of some", "pending with words", "embedded", "ledger state")


@pytest.mark.parametrize("call", CALLS)
def test_no_query_reads_whole_tables(watch: Watch, call: str) -> None:
    plans = watch.plans(lambda: CALLS[call](watch))
    scanned = {line for line in plans if line.startswith("SCAN") and line.split()[1] in BIG}
    assert scanned - WALKED.get(call, set()) == set(), plans


@pytest.mark.parametrize("call", [*ABOUT_VECTORS, "count", "ids", "longest"])
def test_frequent_queries_are_answered_by_indexes_alone(watch: Watch, call: str) -> None:
    searched = [line for line in watch.plans(lambda: CALLS[call](watch)) if line.startswith(("SEARCH", "SCAN"))]
    about = "embedding" if call in ABOUT_VECTORS else "episode"
    lines = [line for line in searched if line.split()[1] == about or "episode_layout" in line]
    assert lines
    assert all("COVERING INDEX" in line for line in lines), searched


@pytest.mark.parametrize("order", ["length", "episode_id", "env_id", "total_reward", "-total_reward", "uid", "id"])
def test_pages_of_the_common_orders_come_sorted_from_an_index(watch: Watch, order: str) -> None:
    after = watch.catalog.query.select(order=order, limit=10).next
    plans = watch.plans(lambda: watch.catalog.query.select(order=order, limit=10, after=after))
    assert not [line for line in plans if line == "USE TEMP B-TREE FOR ORDER BY"], plans


@pytest.mark.parametrize("order", ["score.quality", "-score.quality"])
def test_pages_in_the_order_of_a_score_come_sorted_from_an_index(watch: Watch, order: str) -> None:
    after = watch.catalog.query.select(order=order, limit=10).next
    plans = watch.plans(lambda: watch.catalog.query.select(order=order, limit=10, after=after))
    assert "SEARCH score USING COVERING INDEX score_name_value" in "\n".join(plans)
    assert not [line for line in plans if line == "USE TEMP B-TREE FOR ORDER BY"], plans


def test_explain_shows_the_statements_and_their_plans(watch: Watch) -> None:
    with_value, without = watch.catalog.query.explain("env:env-1 reward:5..", order="total_reward")
    assert "SELECT" in with_value.sql
    assert "env-1" not in with_value.sql
    assert "env-1" in with_value.parameters.values()
    assert any(
        "USING COVERING INDEX episode_env_reward_length (env_id=? AND total_reward>?)" in p for p in with_value.plan
    )
    assert without.plan
    (only,) = watch.catalog.query.explain("meta.seed:3", order="length")
    assert only.plan[0] == "SCAN episode USING INDEX episode_length"


def test_a_scan_would_be_noticed(watch: Watch) -> None:
    plans = watch.plans(lambda: watch.catalog.query.count("meta.seed:3"))
    assert [line for line in plans if line.startswith("SCAN episode")]


def test_indexes_of_some_rows_are_those_in_both_products() -> None:
    for driver in ("sqlite", "postgresql"):
        made = [
            line for line in migrations.table_statements(driver) if line.startswith("CREATE INDEX") and "WHERE" in line
        ]
        assert {line.split()[2] for line in made} == {"checked_family", "synced_unserved", "synced_run"}


def test_the_tables_can_be_made_in_postgresql() -> None:
    dialect = postgresql.dialect()
    for table in schema.metadata.sorted_tables:
        assert f"CREATE TABLE {table.name}" in str(CreateTable(table).compile(dialect=dialect))
        for index in table.indexes:
            assert f"INDEX {index.name} ON {table.name}" in str(CreateIndex(index).compile(dialect=dialect))
    assert 'TEXT COLLATE "C"' in str(CreateTable(schema.episode).compile(dialect=dialect))
    assert "BIGINT" in str(CreateTable(schema.embedding).compile(dialect=dialect))
