"""The contract of an index on a real Milvus server, which is killed and loses vectors; `make engines` runs it."""

from __future__ import annotations

import itertools
import os
import re
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from free_ports import find_ports
from milvus_process import Server
from pymilvus import MilvusClient

from bridge.index.milvus.index import open_milvus
from bridge.testing.brute_force import unit_vectors
from bridge.testing.filter_promises import FilterPromises
from bridge.testing.index_contract import IndexContract
from bridge.testing.shelf import Promises, check, top
from wshard.errors import IndexUnreachableError

# The package that has the server leaves sockets open.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")

_prefixes = (f"test{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Run a server."""
    running = Server(tmp_path_factory.mktemp("milvus"), *find_ports(1))
    yield running
    running.kill()


class _OnAServer(Promises):
    exact = False
    filters = int(os.environ.get("WSHARD_FILTERS", "100"))
    always_ask = True

    @pytest.fixture(autouse=True)
    def _on_the_server(self, server):
        self.server, self.prefix, self.opened = server, next(_prefixes), []
        yield
        self.each_collection(lambda client, name: client.drop_collection(name))
        for index in self.opened:
            index.close()

    def open_index(self, catalog, folder):
        index = open_milvus(f"{self.server.url}/{self.prefix}?timeout=20", catalog, folder)
        index._always_ask = self.always_ask
        self.opened.append(index)
        return index

    def damage(self, folder):
        each = partial(partial, self.each_collection)
        return [self.server.restart, each(lose_some), each(add_foreign)]

    def each_collection(self, change):
        """Do something to each collection of this test, as nobody should."""
        client = MilvusClient(self.server.url.removeprefix("milvus+"))
        for name in client.list_collections():
            if name.startswith(f"{self.prefix}_"):
                change(client, name)
        client.close()


def lose_some(client, name):
    """Delete every third vector."""
    rows = client.query(name, filter="id > 0", output_fields=["id"], limit=1000, consistency_level="Strong")
    client.delete(name, ids=[row["id"] for row in rows[::3]] or [0])


def add_foreign(client, name):
    """Add a vector of nobody."""
    client.insert(name, data=[{"ref": "of another archive", "vector": unit_vectors(1, 5)[0].tolist()}])


class TestMilvusIndex(_OnAServer, IndexContract):
    def test_searches_are_answered_by_the_server_and_said_to_be_approximate(self, tmp_path):
        with self.filled(tmp_path) as (shelf, space, _):
            answer = shelf.index.search(space, unit_vectors(1, 3)[0], top(5))
            assert (len(answer.matches), answer.exact) == (5, False)

    def test_a_silent_or_lost_server_is_named_and_has_everything_once_it_is_back(self, tmp_path):
        with self.filled(tmp_path) as (shelf, space, _):
            query = unit_vectors(1, 3)[0]
            check(shelf, space, query, top(5))
            patient = shelf.index._settings
            shelf.index._settings = replace(patient, timeout=3)
            self.server.pause()
            try:
                with pytest.raises(IndexUnreachableError, match=re.escape(self.server.url)):
                    shelf.index.search(space, query, top(5))
            finally:
                self.server.go_on()
            shelf.index._settings = patient
            self.server.kill()
            try:
                with pytest.raises(IndexUnreachableError, match=re.escape(self.server.url)):
                    shelf.index.search(space, query, top(5))
            finally:
                self.server.restart()
            until = time.monotonic() + 120
            while time.monotonic() < until:  # it answers long before it has loaded what it has
                with suppress(IndexUnreachableError):
                    check(shelf, space, query, top(5))
                    break
            assert shelf.index.audit(space).state == "ok"


class TestMilvusIndexThatAnswersNarrowFiltersItself(_OnAServer, FilterPromises):
    always_ask = False
    exact = True  # all of a small Space, too
