"""What searches on a DeepData server ask and answer as long as nothing goes wrong, and where its answer falls short."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from deepdata_bench import Bench, bench, filled
from deepdata_fake import Fake
from deepdata_process import Process
from deepdata_replay import serving

from bridge import Request
from bridge.index.deepdata import search
from bridge.index.deepdata.http import Call, Wire
from bridge.index.deepdata.settings import Settings
from bridge.testing.brute_force import DIM, unit_vectors
from bridge.testing.index_contract import check, top
from catalog import Compare, build_where
from wshard import Catalog

__all__ = ["filled"]


def test_a_search_is_one_request_and_no_scan_of_the_ledger(filled, monkeypatch):
    filled.check()  # looks after the server, reads what is not served: nothing
    filled.fake.requests.clear()
    monkeypatch.setattr(filled.catalog.vectors, "ledger", None)
    monkeypatch.setattr(filled.catalog.index_copies, "entries", None)
    for seed in range(10):
        answer = filled.shelf.index.search(filled.space, unit_vectors(1, seed)[0], top(5))
        assert len(answer.matches) == 5
        assert not answer.exact
    for where in (build_where(env_id="env-1"), build_where(min_length=110), build_where(success=True)):
        assert len(filled.shelf.index.search(filled.space, unit_vectors(1)[0], top(5, where)).matches) == 5
    assert filled.fake.requests == ["POST /v2/search"] * 13


def test_scores_are_the_ledgers_whatever_the_server_says(filled):
    documents = [*filled.collection.documents.values()]
    truth = [document["metadata"]["env_id"] for document in documents]
    for document in documents:
        document["metadata"]["env_id"] = "a lie"
    where = build_where(env_id="env-1")
    check(filled.shelf, filled.space, unit_vectors(1)[0], top(5, where))  # the server finds nothing: the ledger does
    for document, env_id in zip(documents[20:], truth[20:], strict=True):
        document["metadata"]["env_id"] = env_id
    filled.commit(80)  # searched here, and more than five of them pass
    for seed in range(10):
        check(filled.shelf, filled.space, unit_vectors(1, seed)[0], top(5, where))


def test_tight_groups_are_compared_here_and_exactly_where_that_is_faster(tmp_path):
    rng, centres = np.random.default_rng(1), unit_vectors(15, 1)
    with bench(tmp_path, always_ask=False) as made:
        ids = made.shelf.register(300)
        raw = centres[np.arange(300) % 15] + 5e-3 * rng.normal(size=(300, DIM))
        vectors = (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)
        made.shelf.put(made.space, {id_: vectors[at : at + 1] for at, id_ in enumerate(ids)})
        made.collection.documents.clear()  # as if the graph led to none of them
        for at in range(0, 300, 40):
            assert check(made.shelf, made.space, vectors[at], top(10))
            assert made.shelf.index.search(made.space, vectors[at], top(10)).exact


def test_few_vectors_are_answered_from_the_ledger(filled, monkeypatch):
    monkeypatch.setattr(search, "_LOADED_NUMBERS", 0)  # so that the Space is too large to be loaded
    filled.again(always_ask=False)
    filled.check()
    filled.fake.requests.clear()
    where = Compare("episode_id", "in", [f"episode_{number:06d}" for number in range(9)])
    answer = filled.shelf.index.search(filled.space, unit_vectors(1)[0], Request(5, where))
    assert answer.exact
    assert len(answer.matches) == 5
    assert filled.fake.requests == []


@pytest.fixture
def process(tmp_path):
    """Give a server of its own process, and an archive that is open beside it."""
    with (
        Process(tmp_path / "server") as server,
        Catalog.open(tmp_path / "catalog.db", create=True) as catalog,
    ):
        made = Bench(tmp_path, None, f"http://127.0.0.1:{server.port}", catalog)
        yield server, made
        for index in made.opened:
            index.close()


@pytest.mark.long
def test_an_older_state_that_comes_back_gives_no_wrong_hits_to_who_is_searching(process):
    server, made = process
    made.fill(40)
    server.end(signal.SIGTERM)
    server.start()
    made.fill(40)
    made.check()
    server.end(signal.SIGKILL)
    server.start()  # with the first 40
    query = unit_vectors(1, 3)[0]
    check(made.shelf, made.space, query, top(5))
    made.check()
    assert not made.shelf.index.search(made.space, query, top(5)).exact, "the server gets another request"
    made.fill(1)
    assert made.shelf.index.audit(made.space, full=True).state == "ok"


def test_a_server_that_stopped_well_is_repeated_after_one_comparison(process):
    server, made = process
    made.fill(40)
    server.end(signal.SIGTERM)
    server.start()
    query = unit_vectors(1, 3)[0]
    assert made.shelf.index.search(made.space, query, top(5)).exact, "nothing is known yet of the server that came back"
    assert not made.shelf.index.search(made.space, query, top(5)).exact
    made.check()


@pytest.mark.parametrize("closing", [False, True])
def test_connections_that_the_server_announced_to_close_are_not_broken(closing):
    fake = Fake()

    def respond(method, path, headers, body):
        status, headers, body = fake.respond(method, path, headers, body)
        return status, headers | ({"Connection": "close"} if closing else {}), body

    with serving(respond) as server, Wire(Settings(server.url, rpm=0)) as wire:
        for _ in range(5):
            wire.send(Call("GET", "/v2/collections"))
        assert wire.breaks == 0
        fake.faults = ["hang up"]
        wire.send(Call("GET", "/v2/collections"))
        assert wire.breaks == 1
