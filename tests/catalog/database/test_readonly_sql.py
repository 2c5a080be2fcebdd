"""SQL from people reads, and does nothing else, for a limited time."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from catalog import Catalog
from catalog.testing.contract import make_record
from wshard.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(x) FROM n"


@pytest.fixture(scope="module")
def catalog(shared_location: Path | str) -> Iterator[Catalog]:
    """Give a catalog that is the same after each test."""
    with Catalog.open(shared_location, create=True) as opened:
        opened.episodes.register([make_record(number, metadata={"task": f"pick {number}"}) for number in range(20)])
        yield opened


def test_statements_that_read_are_answered(catalog: Catalog, shared_location: Path | str) -> None:
    answer = catalog.query.sql("SELECT env_id, count(*) AS n FROM episode GROUP BY 1 ORDER BY 1", limit=3)
    assert answer.columns == ("env_id", "n")
    assert answer.rows == (("env-0", 4), ("env-1", 4), ("env-2", 4))
    assert answer.more
    assert not catalog.query.sql("SELECT 1 WHERE 1 = 0").rows
    binary = "BYTEA" if isinstance(shared_location, str) else "BLOB"
    assert catalog.query.sql(f"SELECT CAST('bytes' AS {binary})").rows == ((b"bytes",),)


@pytest.mark.parametrize(
    ("product", "text"),
    [
        ("sqlite", "SELECT rowid FROM document_index WHERE document_index MATCH 'pick AND 7'"),
        ("postgresql", "SELECT episode_row FROM document WHERE lexemes @@ 'pick & 7'"),
    ],
    indirect=["product"],
)
def test_full_text_queries_take_the_syntax_of_the_database(catalog: Catalog, text: str) -> None:
    assert catalog.query.sql(text).rows == ((8,),)


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM tag",
        "UPDATE episode SET env_id = 'x'",
        "INSERT INTO tag VALUES ('x', 1)",
        "DROP TABLE episode",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA user_version = 5",
        "ATTACH '/tmp/x.db' AS x",
        "VACUUM INTO '/tmp/x.db'",
        "COMMIT",
        "SAVEPOINT x",
        "WITH x AS (SELECT 1) DELETE FROM tag",
        "SELECT 1; DELETE FROM tag",
        "SELECT load_extension('x')",
        "SELECT nonsense FROM nowhere",
        "SELECT {nonsense}",
        "SELECT '\ud800'",
        "SELECT '\0'",
        "",
        "--",
        "SELECT 1\0",
    ],
)
def test_whatever_else_is_refused_and_changes_nothing(catalog: Catalog, text: str) -> None:
    catalog.annotations.tag([1], "good")
    with pytest.raises(StatementError, match="expected one read-only statement"):
        catalog.query.sql(text)
    with pytest.raises(StatementError, match=r"episodes(.|\n)*; there are .*episode, "):
        catalog.query.sql("SELECT * FROM episodes")
    # The connection is free again.
    assert catalog.annotations.untag([1], "good") == 1
    assert catalog.query.count() == 20


def test_a_statement_that_was_allowed_before_is_refused_as_sql(catalog: Catalog) -> None:
    text = "DELETE FROM tag WHERE name = 'x'"
    with catalog._session.write() as connection:
        connection.exec_driver_sql(text)
    with pytest.raises(StatementError, match="expected one read-only statement"):
        catalog.query.sql(text)


def test_an_endless_statement_is_stopped(catalog: Catalog) -> None:
    begun = time.monotonic()
    with pytest.raises(StatementError, match=r"longer than 0\.2 s"):
        catalog.query.sql(ENDLESS, seconds=0.2)
    assert time.monotonic() - begun < 5
    assert catalog.query.count() == 20


LONG = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


@pytest.mark.parametrize("product", ["sqlite"], indirect=True)
def test_huge_values_neither_outlast_the_time_limit_nor_fill_the_memory(catalog: Catalog) -> None:
    with pytest.raises(StatementError, match="more than 4,194,304 bytes"):
        catalog.query.sql(f"{LONG} SELECT hex(zeroblob(30000000)) FROM n LIMIT 20", seconds=0.5)
    begun = time.monotonic()
    with pytest.raises(StatementError, match=r"longer than 0\.2 s"):
        catalog.query.sql(f"{LONG} SELECT sum(length(hex(zeroblob(500000)))) FROM n", seconds=0.2)
    assert time.monotonic() - begun < 2
    answer = catalog.query.sql(f"{LONG} SELECT hex(zeroblob(500000)) FROM n", seconds=60, limit=100_000)
    assert answer.more
    assert len(answer.rows) == (64 << 20) // 1_000_000
    # Other statements on the same connection read and write longer values.
    catalog.episodes.register([make_record(20, metadata={"text": "x" * 5_000_000})])
    assert len(catalog.episodes.get(21).metadata["text"]) == 5_000_000
    assert catalog.episodes.remove([21]) == 1


@pytest.mark.parametrize("seconds", ["1", None, float("nan"), float("inf"), True])
def test_a_time_limit_is_a_number(catalog: Catalog, seconds: Any) -> None:
    with pytest.raises(StatementError, match="seconds: expected a finite number, found"):
        catalog.query.sql("SELECT 1", seconds=seconds)


def test_a_limit_below_one_is_refused(catalog: Catalog) -> None:
    with pytest.raises(StatementError, match="limit: expected at least 1, found"):
        catalog.query.sql("SELECT 1", limit=0)


@pytest.mark.parametrize("product", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "text",
    [
        "printf('%.*c', 900000000, 'x')",
        "format('%.*c', '900000000', 'x')",
        "printf('%.*c', 9e8, 'x')",
        "printf('%.900000000c', 'x')",
        "printf('%9000000d', 1)",
        "printf(" + "'" + "%.4000000c" * 300 + "', " + ", ".join("'x'" for _ in range(100)) + ")",
        "printf('%.99999999999999999999999c', 'x')",
    ],
)
def test_no_width_of_a_format_takes_longer_than_the_limit(catalog: Catalog, text: str) -> None:
    started = time.monotonic()
    assert catalog.query.sql(f"SELECT length({text})", seconds=0.5).rows == ((None,),)
    assert time.monotonic() - started < 0.5


@pytest.mark.parametrize("product", ["sqlite"], indirect=True)
def test_formats_are_those_of_sqlite(catalog: Catalog) -> None:
    texts = (
        "printf('%05d|%-6s|%.3f|%c', 7, 'ab', 2.5, 'xyz')",
        "format('%*d', 9, 3)",
        "printf(NULL)",
        "printf('%s', NULL)",
    )
    with closing(sqlite3.connect(":memory:")) as plain:
        for text in texts:
            assert catalog.query.sql(f"SELECT {text}").rows == (plain.execute(f"SELECT {text}").fetchone(),)
