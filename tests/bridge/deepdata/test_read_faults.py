"""The traps S-1 to S-6 of the real server, one by one, on the fake that behaves like it."""

# ruff: noqa: S106 -- invented tokens

from __future__ import annotations

import base64
import json

import httpx
import numpy as np
import pytest
from deepdata_bench import Deaf, bench, filled, spy

from bridge.index.deepdata.rate_limit import Throttle
from bridge.testing.brute_force import unit_vectors
from bridge.testing.index_contract import check, top
from catalog import EVERYTHING, build_where
from wshard.errors import (
    IndexAccessError,
    IndexUnreachableError,
    VectorIndexError,
)

__all__ = ["filled"]


# ---- S-1 ------------------------------------------------------------------------------------------------------------


def test_s1_after_a_kill_searches_are_right_and_the_next_ingest_fills_the_server_again(filled):
    filled.fake.restart(graceful=False)
    filled.again()
    filled.check()
    assert filled.fake.collections == {}, "searching only looks"
    filled.shelf.index.upsert(filled.space, [])
    filled.healed()


def test_s1_the_loss_is_noticed_by_a_process_that_is_running(filled):
    filled.fake.restart(graceful=False)
    filled.check()
    filled.fill(5)
    filled.healed()


@pytest.mark.parametrize("fresh", [False, True])
def test_s1_an_older_state_with_ids_that_are_given_out_again(filled, fresh):
    filled.fake.restart(graceful=True)
    filled.fill(20)
    filled.shelf.bury(filled.ids[:3], filled.space)
    filled.fake.restart(graceful=False)  # the 20 are gone, the 3 are back
    assert len(filled.collection.documents) == 40
    if fresh:
        filled.again()
        filled.check()
    filled.fill(10)  # gets the numbers 41 to 50 for the second time
    filled.check()
    living = {row.uid for row in filled.catalog.episodes.rows(filled.shelf.stored[filled.space.fingerprint]).values()}
    found = [document["metadata"]["uid"] for document in filled.collection.documents.values()]
    assert living <= set(found)
    assert len(found) == len(set(found)) == len(living) + 3, "the three that came back take places and are no hits"
    assert "more than it was given" in filled.shelf.index.audit(filled.space).reason
    filled.shelf.index.rebuild(filled.space)
    filled.healed()


def test_s1_after_a_good_stop_nothing_is_sent_again(filled):
    filled.fake.restart(graceful=True)
    filled.again().upsert(filled.space, [])
    filled.healed()
    assert filled.requested("/batch") == 0


def test_s1_a_snapshot_that_does_not_parse_is_an_empty_server(filled):
    filled.fake.stop()
    filled.fake.file.write_text("{")
    filled.fake.restart(graceful=False)
    filled.again().upsert(filled.space, [])
    filled.healed()


def test_s1_a_server_that_is_killed_again_while_it_is_filled_again(filled):
    filled.fake.restart(graceful=False)
    filled.fake.faults = ["batch breaks:7"]
    with pytest.raises(IndexUnreachableError):
        filled.again().upsert(filled.space, [])
    filled.fake.restart(graceful=False)
    filled.again().upsert(filled.space, [])
    filled.healed()


# ---- S-2 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 0.0, 3.0], ids=str)
def test_s2_what_would_poison_the_server_is_never_sent_and_holds_nothing_up(filled, bad):
    index, filled.shelf.index = filled.shelf.index, Deaf()
    wrong = filled.shelf.register(42)[40:]
    vectors = np.full((1, 6), 0, np.float32) + np.float32(bad)
    filled.shelf.put(filled.space, {wrong[0]: vectors, wrong[1]: unit_vectors(1, 777)})
    filled.shelf.index = index
    with pytest.raises(VectorIndexError, match=f"found 1 that must not be sent: .* in episode {wrong[0]}"):
        index.upsert(filled.space, [])
    assert not filled.collection.poisoned
    assert len(filled.collection.documents) == 41
    assert index.search(filled.space, unit_vectors(1, 777)[0], top(1)).matches[0].episode == wrong[1]


def poison(made):
    """Do what another client of the server may do: recorded as line 55."""
    name = made.collection.schema["name"]
    body = {"collection": name, "vectors": {"embedding": [1e39, 0, 0, 0, 0, 0]}, "metadata": {"ref": "x"}}
    assert httpx.post(f"{made.url}/v2/insert", json=body, trust_env=False).status_code == 200


def test_s2_a_poisoned_collection_is_noticed_answered_for_and_made_again(filled):
    poison(filled)
    filled.check()
    assert filled.shelf.index.audit(filled.space).state == "damaged"
    before = filled.collection.schema["metadata"]["generation"]
    filled.shelf.index.upsert(filled.space, [])
    assert filled.collection.schema["metadata"]["generation"] != before
    assert not filled.collection.poisoned
    filled.healed()


# ---- S-3 to S-5 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [10_001, 2**31, 2**62])
def test_s3_no_search_requests_more_than_the_server_survives(filled, count):
    searches = spy(filled)
    check(filled.shelf, filled.space, unit_vectors(1)[0], top(count))
    check(filled.shelf, filled.space, unit_vectors(1)[0], top(count, build_where(env_id="env-1")))
    assert searches
    assert max(search["top_k"] for search in searches) <= 10_000
    assert max(search["ef_search"] for search in searches) <= 10_000
    assert min(search["ef_search"] for search in searches) >= 200


@pytest.mark.long
def test_s4_equal_vectors_are_one_document_and_all_of_them_are_hits(tmp_path):
    with bench(tmp_path) as made:
        ids = made.shelf.register(200)
        same = unit_vectors(1, 5)
        negative = same.copy()
        negative[same == 0] = -0.0
        made.shelf.put(made.space, {id_: same if id_ % 2 else unit_vectors(1, id_) for id_ in ids[:150]})
        made.shelf.put(made.space, {id_: negative if id_ % 2 else unit_vectors(1, id_) for id_ in ids[150:]})
        assert len(made.collection.documents) == 101
        with made.shelf.still():
            for id_ in ids[::9]:
                query = made.shelf.stored[made.space.fingerprint][id_][0]
                for where in (EVERYTHING, build_where(env_id="env-3"), build_where(min_length=150)):
                    check(made.shelf, made.space, query, top(7, where))
                    check(made.shelf, made.space, query, top(150, where))
        made.shelf.bury(ids[:120], made.space)  # with the one whose fields the document has
        check(made.shelf, made.space, same[0], top(50, build_where(env_id="env-1")))
        made.shelf.bury([id_ for id_ in ids if id_ % 2], made.space)
        assert len(made.collection.documents) == 40
        made.check()


def test_s5_deleted_documents_take_no_places(filled):
    query = unit_vectors(1, 3)[0]
    best = [match.episode for match in check(filled.shelf, filled.space, query, top(4))]
    filled.shelf.bury(best[:4], filled.space)
    assert len(filled.collection.deleted) == 4
    searches = spy(filled)
    found = check(filled.shelf, filled.space, query, top(4))
    assert len(found) == 4
    assert [search.get("filters") for search in searches] == [None, {"live": 1}]
    filled.check()
    assert filled.catalog.index_copies.of_place(filled.url + "/wshard")[0].removed == 4


def test_s5_deleted_documents_take_no_places_of_hits_where_vectors_that_were_not_sent_fill_them(filled):
    query = unit_vectors(1, 3)[0]
    filled.shelf.bury([match.episode for match in check(filled.shelf, filled.space, query, top(4))], filled.space)
    index, filled.shelf.index = filled.shelf.index, Deaf()
    far = filled.shelf.register(70)[40:]  # searched here: enough to fill every place
    filled.shelf.put(filled.space, dict.fromkeys(far, -unit_vectors(1, 3)))
    filled.shelf.index = index
    searches = spy(filled)
    check(filled.shelf, filled.space, query, top(6))
    check(filled.shelf, filled.space, query, top(6, distinct=False))
    assert [search.get("filters") for search in searches] == [None, {"live": 1}] * 2
    for seed in range(20):
        check(filled.shelf, filled.space, unit_vectors(1, seed)[0], top(8))


# ---- S-6 ------------------------------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("own", "refusals"), [(10, 0), (0, 1)], ids=["throttled", "refused and patient"])
def test_s6_the_rate_limit_is_respected(tmp_path, own, refusals):
    with bench(tmp_path, rpm=10) as made:
        clock = Clock()
        made.fake.clock = clock
        made.again(throttle=Throttle(own, clock=clock, sleep=clock.sleep))
        refused = []
        limit = made.fake._limit

        def count(headers):
            try:
                limit(headers)
            except Exception:
                refused.append(clock.now)
                raise

        made.fake._limit = count
        made.fill(40)
        for seed in range(40):
            check(made.shelf, made.space, unit_vectors(1, seed)[0], top(3))
        assert bool(refused) == bool(refusals)
        assert 200 < clock.now < 400, "some 45 requests at 10 per minute"


def jwt(claims):
    parts = [{"alg": "HS256"}, {"iss": "vectordb", **claims}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*coded, "signature"])


def test_s6_an_admin_jwt_speaks_v2_and_any_other_its_tenants_v3(tmp_path):
    with bench(tmp_path, auth="jwt") as made:
        made.again(token=jwt({"tenant_id": "acme", "permissions": ["admin"]}))
        made.fill(10)
        made.check()
        assert set(made.fake.tenants) == {""}
        made.again(token=jwt({"tenant_id": "acme", "permissions": ["read", "write"]})).upsert(made.space, [])
        made.check()
        assert set(made.fake.tenants) == {"", "acme"}
        assert made.requested("/docs") == 10, "a tenant has no batches"
        with pytest.raises(IndexAccessError, match="401"):
            made.again(token="nonsense").upsert(made.space, [])


def test_s6_a_plain_token_uses_a_tenant_and_heals_there_too(tmp_path):
    with bench(tmp_path, auth="token:T") as made:
        made.again(token="T")
        made.fill(10)
        (collection,) = made.fake.tenants["default"].values()
        del collection.documents[3]
        collection.nodes = [node for node in collection.nodes if node[0] != 3]
        made.again(token="T").upsert(made.space, [])
        assert len(collection.documents) == 10
        made.check()
        made.shelf.bury(made.ids[:2], made.space)
        assert len(collection.documents) == 8
        made.check()
        with pytest.raises(IndexAccessError, match="401"):
            made.again(token="another").upsert(made.space, [])
