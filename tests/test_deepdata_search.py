"""What searches on a DeepData server ask and answer as long as nothing goes wrong, and where its answer falls short."""

from __future__ import annotations

from deepdata_bench import filled

from bridge.bruteforce import unit_vectors
from bridge.index.base import Request
from bridge.testing import check, top
from catalog.filters import Compare, build_where

__all__ = ["filled"]


def test_a_search_is_one_request_and_no_scan_of_the_ledger(filled, monkeypatch):
    filled.check()  # looks after the server, reads what is not served: nothing
    filled.fake.requests.clear()
    monkeypatch.setattr(filled.catalog, "ledger", None)
    monkeypatch.setattr(filled.catalog.copies, "entries", None)
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


def test_few_episodes_are_answered_from_the_ledger(filled):
    filled.again(few=64)
    filled.check()
    filled.fake.requests.clear()
    where = Compare("episode_id", "in", [f"episode_{number:06d}" for number in range(9)])
    answer = filled.shelf.index.search(filled.space, unit_vectors(1)[0], Request(5, where))
    assert answer.exact
    assert len(answer.matches) == 5
    assert filled.fake.requests == []
