"""SQL from people who mean harm: what is refused to a PostgreSQL server, and what only few rights refuse."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from catalog import Catalog
from catalog.testing.contract import make_record
from wshard.errors import CatalogWriteError, StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from databases import Server


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with server.catalog() as lent:
        with Catalog.open(lent) as catalog:
            catalog.episodes.register([make_record(1)])
        yield lent


@pytest.fixture(scope="module")
def catalog(url: str) -> Iterator[Catalog]:
    with Catalog.open(url) as opened:
        yield opened


@pytest.mark.parametrize(
    "text",
    [
        "COPY episode TO '{file}'",
        "COPY (SELECT 1) TO STDOUT",
        "COPY (SELECT 1) TO PROGRAM 'touch {file}'",
        "SET statement_timeout = 0",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "RESET ROLE",
        "COMMIT",
        "ROLLBACK",
        "BEGIN READ WRITE",
        "LISTEN x",
        "NOTIFY x",
        "LOCK TABLE episode",
        "DO $$ BEGIN END $$",
        "CHECKPOINT",
        "PREPARE x AS SELECT 1",
        "SELECT 1 INTO x",
        "SELECT 1 INTO TEMP x",
        "CREATE TEMP TABLE x AS SELECT 1",
        "SELECT nextval('layout_id_seq')",
        "SELECT setval('layout_id_seq', 99)",
        "SELECT 1; COMMIT",
        "SELECT 1 FOR UPDATE; COMMIT",
        "SELECT 1 FROM episode FOR UPDATE",
        "EXPLAIN ANALYZE DELETE FROM tag",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "WITH gone AS (DELETE FROM episode RETURNING id) SELECT * FROM gone",
        "DELETE FROM episode RETURNING id",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(oid, '{file}') FROM pg_largeobject_metadata",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_reload_conf()",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()",
        "SELECT pg_create_physical_replication_slot('x')",
        "\0",
    ],
)
def test_what_does_more_than_read_is_refused_to_an_administrator_too(
    catalog: Catalog, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "written"
    with pytest.raises(StatementError, match="expected one read-only statement"):
        catalog.query.sql(text.format(file=file))
    assert catalog.query.count() == 1
    assert not file.exists()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT set_config('statement_timeout', '0', true), pg_sleep(60)",
        "SELECT * FROM generate_series(1, 100000000) AS a ORDER BY md5(a::text)",
    ],
)
def test_no_statement_lifts_its_own_time_limit(catalog: Catalog, text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(StatementError, match=r"longer than 0\.2 s"):
        catalog.query.sql(text, seconds=0.2)
    assert time.monotonic() - begun < 20


TWICE = """SELECT 1 FROM (
    SELECT current_setting('statement_timeout') AS now, set_config('statement_timeout', '0', true)
) AS x WHERE CASE now WHEN '0' THEN pg_sleep(60) ELSE pg_sleep(0) END IS NULL"""


def test_a_statement_runs_once_also_where_it_has_no_rows(catalog: Catalog) -> None:
    begun = time.monotonic()
    assert catalog.query.sql(TWICE, seconds=10).rows == ()
    assert time.monotonic() - begun < 50


MANY = "generate_series(1, 10000)"


def test_sql_holds_no_lock_afterwards_and_no_more_rows_than_requested(catalog: Catalog) -> None:
    catalog.query.sql("-- a lock of the session\nSELECT pg_advisory_lock(7)")
    assert catalog.query.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").rows == ((0,),)
    answer = catalog.query.sql(f"SELECT n, 'a%' LIKE 'a%' FROM {MANY} AS n, {MANY} AS m", limit=3, seconds=60)
    assert [flag for _, flag in answer.rows] == [True] * 3
    assert answer.more
    assert catalog.query.sql("SELECT env_id AS ü, 2 FROM episode WHERE id < 0").columns == ("ü", "?column?")
    assert catalog.query.sql("SHOW transaction_read_only").rows == (("on",),)
    assert "Seq Scan" in str(catalog.query.sql("EXPLAIN SELECT count(*) FROM snapshot").rows)


def test_no_one_hears_of_what_a_statement_says(catalog: Catalog, url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as listening:
        listening.execute("LISTEN channel")
        catalog.query.sql("SELECT pg_notify('channel', 'aloud')")
        assert list(listening.notifies(timeout=0.2)) == []


ESCAPE = """SELECT word FROM (SELECT set_config('role', 'none', true) AS role OFFSET 0) AS own,
LATERAL ts_stat('SELECT to_tsvector(''simple'', pg_read_file(''PG_VERSION''))' || left(role, 0))"""


READER = (
    "CREATE ROLE reader LOGIN",
    "GRANT USAGE ON SCHEMA public TO reader",
    "GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader",
)


def test_only_a_role_with_few_rights_cannot_get_more(url: str, catalog: Catalog) -> None:
    """As docs/catalog.md says: an administrator can take the rights back that the statement was given without."""
    assert len(catalog.query.sql(ESCAPE).rows) == 1
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as administrator:
        for statement in READER:
            administrator.execute(statement)
        try:
            with Catalog.open(url.replace("postgres@", "reader@")) as reading:
                assert reading.query.count("env:env-1") == catalog.query.count("env:env-1") == 1
                assert reading.query.sql("SELECT count(*) FROM episode").rows == ((1,),)
                with pytest.raises(StatementError, match="permission denied for function pg_read_file"):
                    reading.query.sql(ESCAPE)
                with pytest.raises(CatalogWriteError, match="or may not"):
                    reading.annotations.tag([1], "good")
        finally:
            administrator.execute("DROP OWNED BY reader")
            administrator.execute("DROP ROLE reader")
