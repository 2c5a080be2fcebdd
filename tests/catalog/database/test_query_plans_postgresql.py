"""Every shipped query uses an index in PostgreSQL too."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from catalog_calls import BIG, CALLS, COMBINED, Watch
from sqlalchemy import event

from catalog import Catalog
from catalog.database import schema
from catalog.testing.contract import make_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from databases import Server
    from sqlalchemy import Connection

Node = dict[str, Any]

CROWD = (
    "INSERT INTO note (episode_row, text, who, at) SELECT id, 'text', '', '' FROM episode WHERE id > 50",
    "INSERT INTO review (episode_row, state, who, at) SELECT id, 'other', '', '' FROM episode WHERE id > 50",
    "INSERT INTO document (episode_row, words) SELECT id, 'word ' || id FROM episode WHERE id > 50",
    "INSERT INTO tag (name, episode_row) SELECT 'common', id FROM episode WHERE id > 50",
    "INSERT INTO checked SELECT id, 'x', 'f' || id, '' FROM episode WHERE id > 50",
    "INSERT INTO finding (episode_row, name, reason) SELECT id, 'flag' || id, '' FROM episode WHERE id > 50",
    "INSERT INTO lineage (episode_row, relation, source) SELECT id, 'other', '' FROM episode WHERE id > 50",
    "INSERT INTO layout (definition) SELECT '[]' || repeat(' ', n) FROM generate_series(1, 3000) AS n",
    "INSERT INTO snapshot (hash, origin, picks, made_at) SELECT n, '{}', 1, '' FROM generate_series(1, 3000) AS n",
    "INSERT INTO pick SELECT id, 0, id, uid, '', 0, 1, 1 FROM episode WHERE id > 50",
)
"""So many rows that an index is worth its while."""

WALKED = {
    # A page in the order of an index walks the index, and stops after the page.
    "get by uid": {"index episode_sort_key"},
    # Counting everything reads an index from end to end.
    "facet of everything": {f"index {index.name}" for index in (*schema.episode.indexes, *schema.tag.indexes)}
    | {"index tag_pkey", "index episode_pkey"},
    "all_unchecked": {f"index {index.name}" for index in schema.episode.indexes}
    | {"index episode_pkey", "index checked_pkey", "table episode", "table checked"},
    "facet of flags": {"index finding_name", "index finding_pkey", "index episode_pkey"},
    # All layouts are searched for those with the lane.
    "lane's type": {"table layout"},
    # All episodes have one of these layouts.
    **{call: {"index episode_pkey"} for call in ("pending", "pending ids", "pending with words")},
}

INDEXED = ("Index Scan", "Index Only Scan", "Bitmap Index Scan")


@pytest.fixture(scope="module")
def watch(server: Server) -> Iterator[Watch]:
    """Return a catalog whose every transaction is taken back, so that all calls see the same.

    Its database is a new one: what other tests left of an index, nobody having vacuumed it, would make it dear.
    """
    with Catalog.open(server.empty(), create=True) as catalog:
        watch = Watch(catalog)
        catalog.annotations.tag(watch.ids[:5], "good")
        catalog.episodes.register([make_record(number) for number in range(100, 3000)])
        with catalog._session.write() as connection:
            for statement in (*CROWD, "ANALYZE"):
                connection.exec_driver_sql(statement)
        database = catalog._session.database
        whole = database.transaction

        @contextmanager
        def taken_back(mode: str) -> Iterator[Connection]:
            with whole(mode) as connection:
                yield connection
                connection.rollback()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(database, "transaction", taken_back)
            yield watch


def plans(watch: Watch, call: Callable[[], object]) -> list[Node]:
    """Return every node of the plans of the statements of a call; whole tables are read only where nothing else is."""
    found: list[Node] = []
    asking = False

    def ask(connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        nonlocal asking
        if asking or not statement.lstrip().startswith(("SELECT", "DELETE", "UPDATE")) or "set_config" in statement:
            return
        asking = True
        one = parameters[0] if isinstance(parameters, list) else parameters
        for way in ("seqscan", "hashjoin", "mergejoin"):  # what is right for tables as small as those here
            connection.exec_driver_sql(f"SET LOCAL enable_{way} = off")
        for (plan,) in connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", one).all():
            found.extend(nodes((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"]))
        asking = False

    engine = watch.catalog._session.database._engine
    event.listen(engine, "before_cursor_execute", ask)
    try:
        call()
    finally:
        event.remove(engine, "before_cursor_execute", ask)
    assert found
    return found


def nodes(plan: Node) -> Iterator[Node]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


def walked(found: list[Node]) -> set[str]:
    """Return what is read from end to end: tables, and indexes without a condition."""
    tables = {f"table {node['Relation Name']}" for node in found if node["Node Type"] == "Seq Scan"}
    indexes = {
        f"index {node['Index Name']}" for node in found if node["Node Type"] in INDEXED and "Index Cond" not in node
    }
    return {name for name in tables | indexes if any(name.split()[1].startswith(big) for big in BIG)}


@pytest.mark.parametrize("call", CALLS)
def test_no_query_reads_whole_tables(watch: Watch, call: str) -> None:
    found = plans(watch, lambda: CALLS[call](watch))
    assert walked(found) - WALKED.get(call, set()) == set(), found


@pytest.mark.parametrize("order", ["length", "episode_id", "total_reward", "-total_reward", "uid", "id"])
def test_pages_of_the_common_orders_come_sorted_from_an_index(watch: Watch, order: str) -> None:
    after = watch.catalog.query.select(order=order, limit=10).next
    found = plans(watch, lambda: watch.catalog.query.select(order=order, limit=10, after=after))
    assert not [node for node in found if node["Node Type"] == "Sort"], found


def test_a_page_within_an_environment_comes_sorted_from_an_index(watch: Watch) -> None:
    found = plans(watch, lambda: watch.catalog.query.select(COMBINED, order="total_reward", limit=10))
    used = {node.get("Index Name"): node for node in found}
    assert "length" in used["episode_env_reward_length"]["Index Cond"]
    assert not [node for node in found if node["Node Type"] == "Sort"], found


@pytest.mark.parametrize("order", ["score.quality", "-score.quality"])
def test_pages_in_the_order_of_a_score_come_sorted_from_an_index(watch: Watch, order: str) -> None:
    found = plans(watch, lambda: watch.catalog.query.select(order=order, limit=5))
    assert "score_name_value" in {node.get("Index Name") for node in found}
    assert not [node for node in found if node["Node Type"] == "Sort"], found


def test_words_are_found_in_their_index(watch: Watch) -> None:
    found = plans(watch, lambda: watch.catalog.query.count('"word 99"'))
    assert "document_index" in {node.get("Index Name") for node in found}


def test_a_walk_would_be_noticed(watch: Watch) -> None:
    assert walked(plans(watch, lambda: watch.catalog.query.count("meta.seed:3")))


def test_explain_shows_the_statements_and_their_plans(watch: Watch) -> None:
    explained = watch.catalog.query.explain("env:env-1 reward:5..", order="total_reward")
    assert "env-1" not in explained[0].sql
    assert "env-1" in explained[0].parameters.values()
    assert any("Scan" in line for line in explained[0].plan)
