"""What is compiled lets through all that passes: random filters, random episodes, the server's own way of reading."""

from __future__ import annotations

from deepdata_filters import passes
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.index.deepdata.filters import compile_where, metadata
from catalog import EVERYTHING, Compare, build_where, matches
from catalog.testing.contract import record_lists, wheres
from wshard import Catalog


def single(filters):
    """Say whether every object has one key, and every comparison one operator."""
    if len(filters) != 1:
        return False
    ((key, value),) = filters.items()
    if key in ("$and", "$or"):
        return len(value) > 1 and all(map(single, value))
    return not key.startswith("$") and (not isinstance(value, dict) or len(value) == 1)


@settings(max_examples=12)
@given(record_lists(max_size=8), st.lists(wheres(), min_size=20, max_size=40))
def test_nothing_that_passes_is_left_out_and_every_object_has_one_key(tmp_path_factory, records, filters):
    with Catalog.open(tmp_path_factory.mktemp("filters") / "catalog.db", create=True) as catalog:
        ids = [done.id for done in catalog.episodes.register(records)]
        rows, facts = catalog.episodes.rows(ids).values(), catalog.query.facts(ids)
    for where in filters:
        compiled = compile_where(where)
        assert compiled is None or single(compiled)
        for row in rows:
            carried = {**metadata(row), "live": 1}
            assert all(type(value) in (str, int, float) for value in carried.values())
            if compiled is not None and matches(where, row, facts[row.id]):
                assert passes(compiled, carried), (where, compiled, carried)


def test_what_is_common_is_compiled_and_narrows():
    where = build_where(env_id=["a", "b"], min_length=3, reward_range=(0.5, None), success=True)
    assert compile_where(where) == {
        "$and": [
            {"env_id": {"$in": ["a", "b"]}},
            {"length_T": {"$gte": 3}},
            {"total_reward": {"$gte": 0.5}},
            {"success": 1},
        ]
    }
    assert compile_where(EVERYTHING) is None
    assert compile_where(Compare("tag", "eq", "x")) is None
    assert compile_where(~Compare("env_id", "eq", "x")) is None
