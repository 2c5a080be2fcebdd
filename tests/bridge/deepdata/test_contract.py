"""The contract of every index, run by the DeepData index: on the fake server, and on a live one (DEEPDATA_URL)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from deepdata_fake import Fake
from deepdata_live import LIVE, live, throttle
from deepdata_replay import serving

from bridge.index.deepdata.index import DeepDataIndex
from bridge.index.deepdata.settings import Settings
from bridge.testing.brute_force import unit_vectors
from bridge.testing.filter_promises import FilterPromises
from bridge.testing.index_contract import IndexContract
from bridge.testing.shelf import Promises
from wshard.errors import VectorIndexError


class _OnAServer(Promises):
    exact = False
    filters = 30
    always_ask = True
    batch = 250
    token = None
    throttle = None
    fake = None

    @pytest.fixture(autouse=True)
    def _server(self, tmp_path):
        self.opened = []
        self.fake = Fake(tmp_path, auth=f"token:{self.token}" if self.token else "open")
        with serving(self.fake.respond) as server:
            self.settings = Settings(server.url, token=self.token, rpm=0, batch=self.batch)
            yield
            for index in self.opened:
                index.close()

    def open_index(self, catalog, folder):
        self.opened.append(
            DeepDataIndex(catalog, folder, self.settings, always_ask=self.always_ask, throttle=self.throttle)
        )
        return self.opened[-1]

    def damage(self, folder):
        if self.fake is None:  # a live server is left alone
            return []
        return [self.fake.stop, lambda: self.fake.restart(graceful=False), self.lose_documents, self.add_foreign]

    def lose_documents(self):
        for collection in self.collections():
            lost = {*[*collection.documents][::3]}
            collection.documents = {n: document for n, document in collection.documents.items() if n not in lost}
            collection.nodes = [node for node in collection.nodes if node[0] not in lost]
            collection.matrix = None

    def add_foreign(self):
        for collection in self.collections():
            vector = unit_vectors(1, 1000 + collection.next_id)[0]
            collection.add({"embedding": vector.tolist()}, {"uid": "of another archive"})

    def collections(self):
        return [collection for named in self.fake.tenants.values() for collection in named.values()]


class TestDeepDataIndexOfATenantInSmallBatches(_OnAServer, IndexContract):
    batch = 17
    token = "t"  # noqa: S105  (invented)


class TestDeepDataIndexThatAnswersNarrowFiltersItself(_OnAServer, FilterPromises):
    always_ask = False


@pytest.mark.skipif(not LIVE, reason="no live server: DEEPDATA_URL is not set")
class TestDeepDataIndexLive(_OnAServer, IndexContract):
    @pytest.fixture(autouse=True)
    def _server(self):
        self.opened, self.throttle = [], throttle()
        with live() as self.settings:
            yield
            for index in self.opened:
                index.close()


def test_a_metric_that_the_server_has_not_is_refused_with_advice(tmp_path):
    class Other(_OnAServer, IndexContract):
        metric = "l2"

    with serving(Fake().respond) as server:
        contract = Other()
        contract.opened, contract.settings = [], Settings(server.url, rpm=0)
        with pytest.raises(VectorIndexError, match=r"metric cosine, the only one .* found 'l2': search it without"):
            contract.test_an_empty_index_answers_with_nothing(tmp_path)


@pytest.mark.long
def test_the_live_tests_run_on_the_server_that_is_named_and_leave_nothing_after():
    fake = Fake()
    with serving(fake.respond) as server:
        environment = os.environ | {"DEEPDATA_URL": f"{server.url}?rpm=0"}
        test = f"{__file__}::TestDeepDataIndexLive::test_two_spaces_never_mix"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert "POST /v2/search" in fake.requests
    assert sum(line == "POST /v2/collections" for line in fake.requests) == 2
    assert fake.collections == {}
