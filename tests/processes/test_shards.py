"""Shards as actors of a real Dask cluster: the contract of an index, and what is said of shards that fail.

WSHARD_FILTERS: how many random filters the shards answer (`make shards`: 2,000).
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import sys
import time
from functools import partial

import numpy as np
import pytest
from dask_cluster import running_scheduler, running_worker
from sharded_archives import index_all, make_lab, search_for, space_of

from bridge.index.base import Answer, Matches, Request
from bridge.index.shards.index import open_shards
from bridge.index.shards.merge import check_answer
from bridge.index.shards.naming import Share
from bridge.index.shards.shard import Caller
from bridge.testing.index_contract import IndexContract
from catalog import EVERYTHING, Catalog
from wshard import open_archive
from wshard.errors import IndexUnreachableError, MissingExtraError, UnknownIndexError, VectorIndexError

PATIENT = "timeout=60"
"""For a first search, which also waits until its shards are started."""

_names = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return the address of a cluster of two workers."""
    folder = tmp_path_factory.mktemp("cluster")
    with running_scheduler(folder) as (_, address), running_worker(folder, address, count=2):
        yield f"dask://{address}"


@pytest.mark.long
class TestShards(IndexContract):
    filters = int(os.environ.get("WSHARD_FILTERS", "200"))

    @pytest.fixture(autouse=True)
    def _on_a_cluster(self, cluster):
        self.url, self.opened = f"{cluster}/archive-{next(_names)}?shards=3", []
        yield
        for index in self.opened:
            index.close()

    def open_index(self, catalog, folder):
        self.opened.append(open_shards(self.url, catalog, folder))
        return self.opened[-1]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return the folder of an archive of 30 episodes, which no test changes."""
    return make_lab(tmp_path_factory.mktemp("shared"))


def test_hits_say_how_many_shards_answered_and_equal_those_of_one_index(cluster, lab):
    with open_archive(lab) as alone, open_archive(f"{cluster}/hits?{PATIENT}", archive=lab) as shared:
        query = next(iter(alone))
        expected, found = alone.search(query), shared.search(query)
    assert [(hit.uid, hit.score) for hit in found] == [(hit.uid, hit.score) for hit in expected]
    assert found.certainty == "exact, 2 of 2 shards"
    assert repr(found) == repr(expected)


def test_a_killed_worker_is_said_and_its_shard_is_started_again_elsewhere(cluster, lab):
    with Catalog.open(lab / "catalog.db") as catalog, open_shards(f"{cluster}/lab", catalog, lab) as index:
        space, query = space_of(catalog)
        request = Request(12, EVERYTHING)
        everything = index_all(index, space, query)  # shards that have just been started may be silent at first
        whole = index.search(space, query, request)
        assert (whole.exact, whole.coverage) == (True, "2 of 2 shards")
        os.kill(index._engine._client.submit(os.getpid).result(), signal.SIGKILL)
        without = index.search(space, query, request)
        assert not without.exact
        assert without.coverage.startswith("1 of 2 shards answered; shard ")
        assert without.coverage.endswith("of 2 is silent")
        assert {*without.matches} < {*everything}
        assert index_all(index, space, query) == everything
        assert index.search(space, query, request).matches == whole.matches
        index._engine._client.wait_for_workers(2, timeout=60)  # for other tests, the cluster starts another one


def test_a_scheduler_is_waited_for_no_longer_than_the_url_says(lab):
    with (
        Catalog.open(lab / "catalog.db") as catalog,
        open_shards("dask://127.0.0.1:1/lab?timeout=1", catalog, lab) as index,
    ):
        started = time.monotonic()
        with pytest.raises(IndexUnreachableError, match="expected the scheduler of a Dask cluster"):
            index.count(space_of(catalog)[0])
        assert time.monotonic() - started < 6


@pytest.mark.long
def test_a_stopped_worker_is_silent_until_it_goes_on_and_a_lost_scheduler_is_said(tmp_path, lab):
    with (
        running_scheduler(tmp_path) as (scheduler, address),
        running_worker(tmp_path, address, count=2),
        Catalog.open(lab / "catalog.db") as catalog,
        open_shards(f"dask://{address}/lab?timeout=2", catalog, lab) as index,
        open_shards(f"dask://{address}/twice?replicas=2&timeout=4", catalog, lab) as twice,
    ):
        space, query = space_of(catalog)
        request = Request(12, EVERYTHING)
        matches = index_all(index, space, query)[:12]
        assert list(index_all(twice, space, query)[:12]) == list(matches)
        worker = index._engine._client.submit(os.getpid).result()
        os.kill(worker, signal.SIGSTOP)
        started = time.monotonic()
        without = index.search(space, query, request)
        assert time.monotonic() - started < 4
        whole = twice.search(space, query, request)
        os.kill(worker, signal.SIGCONT)
        assert (whole.exact, whole.coverage, [*whole.matches]) == (True, "2 of 2 shards", [*matches])
        assert not without.exact
        assert without.coverage.endswith("of 2 is silent")
        assert list(index_all(index, space, query)[:12]) == list(matches)
        os.killpg(scheduler.pid, signal.SIGKILL)
        with pytest.raises(IndexUnreachableError, match="the scheduler does not answer any more"):
            search_for(30, index, space, query)


def test_stale_shards_and_those_of_another_archive_or_version_are_named(cluster, lab, tmp_path, monkeypatch):
    older, url = tmp_path / "older.db", f"{cluster}/named?{PATIENT}"
    shutil.copy(lab / "catalog.db", older)
    lab = shutil.copytree(lab, tmp_path / "changed")
    with Catalog.open(older) as catalog, open_shards(url, catalog, lab) as index:
        space, query = space_of(catalog)
        assert index.search(space, query, Request(3, EVERYTHING)).exact
    with Catalog.open(lab / "catalog.db") as catalog, open_shards(url, catalog, lab) as index:
        catalog.episodes.remove([catalog.query.ids()[0]])
        with pytest.raises(IndexUnreachableError, match=r"0 of 2 shards answered; shard 1 of 2 is stale, at \d+ of"):
            index.search(space, query, Request(3, EVERYTHING))
    monkeypatch.setattr("bridge.index.shards.index.Caller", partial(Caller, version="99"))
    with (
        Catalog.open(older) as catalog,
        open_shards(url, catalog, lab) as index,
        pytest.raises(
            VectorIndexError, match=r"shard . of 2: expected to be one of .*version='99'.*: use another name"
        ),
    ):
        index.search(space, query, Request(3, EVERYTHING))
    monkeypatch.undo()
    with Catalog.open(older) as catalog:
        catalog.copy_to(tmp_path / "other.db")
    with (
        Catalog.open(tmp_path / "other.db") as catalog,
        open_shards(url, catalog, lab) as index,
        pytest.raises(VectorIndexError, match=r"shard . of 2: expected to be one of .*: use another name"),
    ):
        index.search(space, query, Request(3, EVERYTHING))
    for options, expected in (
        ("named?shards=5", "named: expected 5 shards, found 2: use another name"),
        ("named?replicas=2", "named: expected 2 replicas, found 1: use another name"),
        ("other?replicas=3", "expected at least 3 workers, as each replica is on another one, found 2"),
    ):
        with (
            Catalog.open(older) as catalog,
            open_shards(f"{cluster}/{options}", catalog, lab) as index,
            pytest.raises((UnknownIndexError, IndexUnreachableError), match=re.escape(expected)),
        ):
            index.search(space, query, Request(3, EVERYTHING))


@pytest.mark.parametrize(
    ("episodes", "scores", "expected"),
    [
        ([1, 4], [0.5, np.nan], "finite scores"),
        ([1, 5], [0.5, 0.4], "episodes of its own"),
        ([1, 4], [0.4, 0.5], "the best first"),
        ([4, 1], [0.5, 0.5], "the best first"),
        ([1, 1], [0.5, 0.5], "each episode once"),
        ([1, 4], [1.5, 0.5], "cosines"),
        ([1, 4, 7], [0.5, 0.4, 0.3], "at most as many"),
    ],
)
def test_an_answer_that_no_shard_gives_is_refused(episodes, scores, expected):
    columns = Matches(np.array(episodes), np.arange(len(episodes)), np.array(scores))
    with pytest.raises(VectorIndexError, match=f"shard 2 of 3: expected {expected}"):
        check_answer(Share(1, 3), Answer(columns, exact=True, scored=9), Request(2, EVERYTHING), "cosine")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("dask://host/lab", "expected dask://HOST.*found 'dask://host/lab'"),
        ("ray://host:1", "expected dask://HOST"),
        ("dask://host:1", "expected dask://HOST"),
        ("dask://h:1/lab?shard=3", "expected options among shards, replicas, timeout in dask://h:1/lab, found shard$"),
        ("dask://h:1/lab?shards=0", "dask://h:1/lab: expected shards as a whole number from 1 to 9999, found '0'"),
        ("ray://h:1/a?replicas=x", "expected replicas as a whole number from 1 to 9, found 'x'"),
        ("dask://h:1/a?timeout=0.0", "expected timeout as a number of seconds above 0, found '0.0'"),
        ("dask://h:1/a?timeout=", "expected timeout as a number of seconds above 0, found ''"),
    ],
)
def test_other_urls_are_refused(url, message, lab):
    with Catalog.open(lab / "catalog.db") as catalog, pytest.raises(UnknownIndexError, match=message):
        open_shards(url, catalog, lab)


@pytest.mark.parametrize(("engine", "library"), [("dask", "distributed"), ("ray", "ray")])
def test_without_the_library_of_an_engine_its_extra_is_named(engine, library, lab, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with (
        Catalog.open(lab / "catalog.db") as catalog,
        open_shards(f"{engine}://host:1/lab", catalog, lab) as index,
        pytest.raises(MissingExtraError, match=rf"pip install 'wshard\[{engine}\]'"),
    ):
        index.search(*space_of(catalog), Request(3, EVERYTHING))
