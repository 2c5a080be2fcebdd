"""Filters' episodes are remembered until the clock moves, and never too many of them."""

from __future__ import annotations

from bridge.index import filter_cache
from bridge.index.filter_cache import FilterCache
from catalog import EVERYTHING, build_where
from catalog.testing.contract import make_record
from wshard import Catalog


def test_a_filter_is_evaluated_once_per_clock(tmp_path):
    where = build_where(min_length=1)
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(number) for number in range(3)])
        known = FilterCache(catalog)
        assert known.find_episodes(EVERYTHING, catalog.clock()) is None
        first = known.find_episodes(where, catalog.clock())
        assert first.tolist() == catalog.query.ids(where)
        assert known.find_episodes(where, catalog.clock()) is first
        catalog.episodes.register([make_record(number) for number in range(3, 5)])
        assert known.find_episodes(where, catalog.clock()).tolist() == catalog.query.ids(where)
        assert len(catalog.query.ids(where)) == 5


def test_no_more_is_remembered_than_fits(tmp_path, monkeypatch):
    with Catalog.open(tmp_path / "catalog.db", create=True) as catalog:
        catalog.episodes.register([make_record(number) for number in range(10)])
        clock = catalog.clock()
        for limit, value in (("_EPISODES", 20), ("_FILTERS", 2)):
            monkeypatch.setattr(filter_cache, limit, value)
            known = FilterCache(catalog)
            first = known.find_episodes(build_where(min_length=1), clock)
            known.find_episodes(build_where(min_length=2), clock)
            assert known.find_episodes(build_where(min_length=1), clock) is not first
            monkeypatch.undo()
