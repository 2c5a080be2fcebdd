"""Shards as actors of a real Ray cluster: the contract of an index, and what is said of shards that fail.

`make engines` runs it; what needs no cluster is tested with Dask.
"""

from __future__ import annotations

import itertools
import os
import signal

import pytest
import ray
from ray_cluster import kill, running_head, started
from sharded_archives import index_all, make_lab, search_for, space_of

from bridge.index.base import Request
from bridge.index.shards.index import open_shards
from bridge.testing.index_contract import IndexContract
from catalog import EVERYTHING, Catalog
from wshard import open_archive
from wshard.errors import IndexUnreachableError, UnknownIndexError

_names = itertools.count()


@pytest.fixture(scope="class")
def cluster():
    """Return the URL of a cluster of one machine."""
    with running_head() as (_, url, _):
        yield url


class TestShards(IndexContract):
    filters = int(os.environ.get("WSHARD_FILTERS", "200"))

    @pytest.fixture(autouse=True)
    def _on_a_cluster(self, cluster):
        self.url, self.opened = f"{cluster}/archive-{next(_names)}?shards=2", []
        yield
        for index in self.opened:
            for actor in itertools.chain(*index._shards.values()):
                ray.kill(index._engine._make(actor))
            index.close()

    def open_index(self, catalog, folder):
        self.opened.append(open_shards(self.url, catalog, folder))
        return self.opened[-1]


def pid_of(index, number):
    """Return the process of a shard."""
    actor = index._shards[list(index._shards)[number]][0]
    return ray.get(index._engine._make(actor).__ray_call__.remote(lambda _: os.getpid()))


# A thread of Ray's notices by an exception that its connection is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_lost_shards_are_named_and_started_again_and_a_lost_head_ends_searches(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "2")
    lab = make_lab(tmp_path)
    with (
        running_head() as (head, url, address),
        started(["--address", address], tmp_path) as machine,
        open_archive(lab) as alone,
        open_archive(f"{url}/hits?shards=3", archive=lab) as shared,
        Catalog.open(lab / "catalog.db") as catalog,
        open_shards(f"{url}/lab?timeout=2", catalog, lab) as index,
        open_shards(f"{url}/twice?replicas=2&timeout=6", catalog, lab) as twice,
    ):
        query = next(iter(alone))
        assert repr(shared.search(query)) == repr(alone.search(query))
        assert shared.search(query).certainty == "exact, 3 of 3 shards"

        space, query = space_of(catalog)
        matches = index_all(index, space, query)
        assert index_all(twice, space, query) == matches
        with (
            open_shards(f"{url}/lab?shards=5", catalog, lab) as other,
            pytest.raises(UnknownIndexError, match="found 2"),
        ):
            other.search(space, query, Request(12, EVERYTHING))
        lost = pid_of(index, 1)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            os.kill(lost, number)
            without = index.search(space, query, Request(1000, EVERYTHING))
            assert (without.exact, without.coverage) == (False, "1 of 2 shards answered; shard 2 of 2 is silent")
            assert {*without.matches} < {*matches}
        assert index_all(index, space, query) == matches
        assert pid_of(index, 1) != lost

        kill(machine)
        assert twice.search(space, query, Request(12, EVERYTHING)).exact
        assert index_all(index, space, query) == matches

        kill(head)
        with pytest.raises(IndexUnreachableError, match="the head of the cluster does not answer any more"):
            search_for(60, index, space, query)
        with pytest.raises(IndexUnreachableError, match="the head of the cluster does not answer any more"):
            index.search(space, query, Request(12, EVERYTHING))
        with (
            open_shards(f"{url}/lab", catalog, lab) as late,
            pytest.raises(IndexUnreachableError, match="client server"),
        ):
            late.search(space, query, Request(12, EVERYTHING))
