"""The client against what a real server was recorded to answer. Numbers in comments are lines of wire.jsonl."""

from __future__ import annotations

import json

import numpy as np
import pytest
from deepdata_replay import replaying
from hypothesis import given

from bridge.index.deepdata.api_versions import V2, V3, connect
from bridge.index.deepdata.filters import LIVE, compile_where
from bridge.index.deepdata.http import Call, Wire
from bridge.index.deepdata.messages import Ask, Document, read_ids, schema
from bridge.index.deepdata.settings import Settings
from catalog import Compare, build_where
from catalog.testing.contract import wheres
from wshard.errors import (
    IndexAccessError,
    IndexDamagedError,
    IndexLostError,
    IndexRefusedError,
    IndexUnreachableError,
    SpaceMismatchError,
    VectorIndexError,
)

X = [1, 0, 0, 0]
TINY = {"name": "c", "fields": [{"name": "embedding", "type": "dense", "dim": 4, "index": {"type": "hnsw"}}]}


def settings(url: str, token: str | None = None) -> Settings:
    return Settings(url, token=token, rpm=0)


@pytest.fixture
def open_server(wire):
    with replaying(wire, "open") as (replay, url), Wire(settings(url)) as client:
        yield replay, client


def test_an_open_server_speaks_v2(open_server):
    replay, client = open_server
    assert isinstance(connect(client, settings(client.base)), V2)  # 6
    assert replay.answered == ["collection.list.empty"]


def test_a_collection_is_made_with_the_schema_that_the_server_knows(open_server):
    replay, client = open_server
    v2 = V2(client)
    v2.create(schema("episodes", 4, "episode vectors", {"embedder": "mean-v1"}))  # 7
    v2.create({**TINY, "name": "episodes"})  # 9: 400 "already exists" is fine
    found = v2.collection("episodes")  # 30
    assert found is not None
    assert (found.name, found.dim, found.documents, found.metadata) == ("episodes", 4, 0, {"embedder": "mean-v1"})
    assert v2.collection("none") is None  # 31
    v2.drop("none")  # 34: 400, and fine
    assert replay.answered[-1] == "collection.delete.missing"


def test_a_collection_that_is_not_as_ours_reports_no_size(open_server):
    _, client = open_server
    v2 = V2(client)
    v2.create({"name": "sdk", "fields": [{"name": "embedding", "type": "dense", "dim": 4, "index_type": "flat"}]})  # 12
    found = v2.collection("sdk")  # 13: the key was ignored, so it is hnsw after all
    assert found is not None
    assert (found.dim, found.metadata) == (4, {})
    v2.drop("sdk")  # 14


@pytest.mark.parametrize("name", ["a/b", "", "x" * 65, "ü", "a b", "a\n"])
def test_names_that_the_server_could_never_read_again_are_not_sent(open_server, name):
    replay, client = open_server
    for call in (V2(client).collection, V2(client).drop):
        with pytest.raises(VectorIndexError, match="expected a name"):  # 26, 27, 28
            call(name)
    with pytest.raises(VectorIndexError, match="expected a name"):
        V2(client).create({**TINY, "name": name})
    assert replay.answered == []


REFUSED = [  # (line, method, path, body where it is worth reading, words)
    (
        10,
        "POST",
        "/v2/collections",
        {"name": "traj_episodes", "dimension": 4, "index_type": "hnsw"},
        "at least one vec",
    ),
    (16, "POST", "/v2/collections", {"name": "z", "fields": [{**TINY["fields"][0], "dim": 0}]}, "must be positive"),
    (20, "POST", "/v2/collections", None, "m must be in"),
    (29, "PUT", "/v2/collections", {}, "method not allowed"),
    (35, "POST", "/v2/collections/episodes/insert", None, "unknown operation"),
    (43, "POST", "/v2/insert", None, "missing required vector field"),
    (44, "POST", "/v2/insert", None, "unknown vector field"),
    (45, "POST", "/v2/insert", None, "at least one vector required"),
    (46, "POST", "/v2/insert", None, "collection name required"),
    (62, "POST", "/v2/collections/episodes/get", None, "at least one id required"),
    (63, "POST", "/v2/collections/episodes/get", None, "cannot unmarshal string"),
    (70, "POST", "/v2/search", None, "offset must be >= 0"),
    (71, "POST", "/v2/search", None, "top_k must be positive"),
    (76, "POST", "/v2/search", None, "field not found: x"),
    (97, "POST", "/v2/search", None, "cannot unmarshal array"),
    (98, "POST", "/v2/search", None, "invalid filter format"),
    (108, "POST", "/v2/insert/batch", None, "no documents provided"),
    (127, "POST", "/v2/delete", None, "doc_id required"),
]


@pytest.mark.parametrize("refused", REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_every_refusal_reports_what_the_server_stated(open_server, wire, refused):
    line, method, path, body, words = refused
    replay, client = open_server
    recorded = json.loads(wire.read_text().splitlines()[line - 1])
    assert body is None or body == recorded["request_body"]
    with pytest.raises(IndexRefusedError, match=words) as caught:
        client.send(Call(method, path, recorded["request_body"]))
    assert caught.value.status == recorded["status"]
    assert caught.value.text == recorded["response_raw"].strip()
    assert f"{method} {path}" in str(caught.value)
    assert len(replay.answered) == 1, "a refused request is not repeated, 500 or not"


@pytest.mark.parametrize("line", [31, 33, 34, 47, 64, 77, 128, 147])
def test_a_missing_collection_is_distinguished_by_its_words(open_server, wire, line):
    _, client = open_server
    recorded = json.loads(wire.read_text().splitlines()[line - 1])
    with pytest.raises(IndexLostError):
        client.send(Call(recorded["method"], recorded["path"], recorded["request_body"]))


@pytest.mark.parametrize("line", [42, 75])
def test_vectors_of_another_size_are_a_mismatch_of_spaces(open_server, wire, line):
    _, client = open_server
    recorded = json.loads(wire.read_text().splitlines()[line - 1])
    with pytest.raises(SpaceMismatchError, match="dimension mismatch: expected 4"):
        client.send(Call(recorded["method"], recorded["path"], recorded["request_body"]))


def test_the_poisoned_answer_with_an_empty_body_is_damage(open_server):
    replay, client = open_server
    v2 = V2(client)
    v2.create({**TINY, "name": "poison"})  # 54
    client.send(Call("POST", "/v2/insert", {"collection": "poison", "vectors": {"embedding": [1e39, 0, 0, 0]}}))  # 55
    with pytest.raises(IndexDamagedError, match="empty answer"):  # 56
        v2.fetch("poison", {1: "r"}, 4)
    with pytest.raises(IndexDamagedError, match="empty answer"):  # 57
        v2.search("poison", Ask(X, 3))
    v2.drop("poison")  # 58
    assert replay.answered[-1] == "poison.drop"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_json_never_leave(open_server, value):
    replay, client = open_server
    with pytest.raises(ValueError, match="not JSON compliant"):  # 48
        V2(client).insert("episodes", [Document([value, 0, 0, 0], {"ref": "r"})])
    assert replay.answered == []


def test_documents_are_read_by_id_unknown_ones_left_out(open_server):
    _, client = open_server
    v2 = V2(client)
    one, two = v2.fetch("episodes", {1: "ep-1", 2: "ep-2"}, 4)  # 59
    assert (one.id, one.ref, two.id, two.ref) == (1, "ep-1", 2, "ep-2")
    assert one.vector is not None
    assert np.array_equal(one.vector, np.array(X, np.float32))
    assert [found.id for found in v2.fetch("episodes", {999: "?", 3: "ep-3"}, 4)] == [3]  # 60
    assert v2.fetch("episodes", {999: "?"}, 4) == []  # 61
    assert v2.fetch("episodes", {}, 4) == []  # no request: 62 would refuse it


def test_a_search_gives_distances_and_leaves_out_what_has_no_ref(open_server):
    _, client = open_server
    v2 = V2(client)
    found = v2.search("episodes", Ask(X, 3))  # 65
    assert [(hit.id, hit.ref) for hit in found.documents] == [(1, "ep-1"), (2, "ep-2")]
    assert found.returned == 3  # the third has no metadata
    assert [round(1 - hit.distance, 6) for hit in found.documents] == [1.0, 0.993884]
    with_vectors = v2.search("episodes", Ask(X, 1, include_vectors=True))  # 66
    assert np.array_equal(with_vectors.documents[0].vector, np.array(X, np.float32))


def test_pages_by_offset(open_server):
    _, client = open_server
    v2 = V2(client)
    page = v2.search("episodes", Ask(X, 2, offset=1))  # 68
    assert ([hit.ref for hit in page.documents], page.returned) == (["ep-2"], 2)
    past = v2.search("episodes", Ask(X, 2, offset=99))  # 69
    assert (past.documents, past.returned, past.examined) == ((), 0, 5)


def test_more_than_there_is_and_the_width_of_a_search(open_server):
    _, client = open_server
    found = V2(client).search("episodes", Ask(X, 100, ef_search=50))  # 73
    assert found.returned == 5
    assert [hit.ref for hit in found.documents] == ["ep-1", "ep-2", "ep-3", "ep-4"]


@pytest.mark.parametrize(
    "ask", [Ask(X, 0), Ask(X, 10_001), Ask(X, 10_000, offset=1), Ask(X, 5, ef_search=2**31), Ask(X, 5, ef_search=0)]
)
def test_searches_that_could_kill_the_server_are_not_sent(open_server, ask):
    replay, client = open_server
    for dialect in (V2(client), V3(client, "t1")):
        with pytest.raises(VectorIndexError, match=r"expected (a search|no offset)"):
            dialect.search("c", ask)
    assert replay.answered == []


FILTERS = [
    (80, Compare("env_id", "eq", "walker"), ["ep-1", "ep-2"]),
    (82, build_where(min_length=150, max_length=350), ["ep-2", "ep-4", "ep-3"]),
    (83, Compare("env_id", "eq", "hopper") | Compare("env_id", "eq", "ant"), ["ep-3", "ep-4"]),
    (85, Compare("env_id", "in", ["walker", "ant"]), ["ep-1", "ep-2", "ep-4"]),
]


@pytest.mark.parametrize(("line", "where", "refs"), FILTERS, ids=["eq", "gte-lte", "or", "in"])
def test_every_operator_that_is_sent_was_seen_to_work(open_server, line, where, refs):
    replay, client = open_server
    compiled = compile_where(where)
    found = V2(client).search("episodes", Ask(X, 10, compiled))
    assert [hit.ref for hit in found.documents] == refs
    assert replay.exchanges[replay.place - 1]["seq"] == line


def shapes(filters):
    """Return what a filter is made of: "eq", "$in", "$and", ..."""
    if isinstance(filters, list):
        return set().union(*map(shapes, filters))
    found = set()
    for key, value in filters.items():
        if key.startswith("$"):
            found |= {key} | shapes(value)
        else:
            found |= {*value} if isinstance(value, dict) else {"eq"}
    return found


@given(wheres())
def test_no_operator_is_sent_that_was_not_recorded_to_find_something(wire, where):
    answered = set()
    for line in map(json.loads, wire.read_text().splitlines()):
        filters = line["request_body"].get("filters") if isinstance(line["request_body"], dict) else None
        if line["path"] == "/v2/search" and line["status"] == 200 and filters and line["response_body"]["documents"]:
            answered |= shapes(filters)
    assert {"eq", "$in", "$gte", "$lte", "$and", "$or"} <= answered
    compiled = compile_where(where)
    assert compiled is None or shapes(compiled) <= {"eq", "$in", "$gte", "$lte", "$and", "$or"}
    assert shapes(LIVE) == {"eq"}


def test_a_flat_index_that_ignores_filters_would_be_noticed(open_server):
    _, client = open_server
    found = V2(client).search("flat_cos", Ask(X, 10, {"env_id": "hopper"}))  # 100
    assert {hit.metadata["env_id"] for hit in found.documents} == {"walker", "hopper"}  # so hits are checked again


def test_euclidean_distances_are_not_taken_for_cosines(open_server):
    _, client = open_server
    with pytest.raises(IndexDamagedError, match="cosine distances"):  # 102
        V2(client).search("flat_l2", Ask(X, 3))


def test_a_batch_gives_ids_by_position_and_reports_failures(open_server):
    _, client = open_server
    good = Document([1, 2, 3, 4], {"a": 1})
    body = [good.body(), {"vectors": {"embedding": [1, 2]}}, {"vectors": {}}, good.body()]
    call = {"collection": "batch", "docs": body, "continue_on_error": True}
    answer = client.send(Call("POST", "/v2/insert/batch", call, repeatable=False))  # 106
    ids = read_ids(answer, 4, "batch")
    assert ids is not None
    assert (ids[0], ids[3]) == (5, 7)
    assert "dimension mismatch" in str(ids[1])
    assert ids[2] == "at least one vector required"
    assert read_ids(answer, 5, "batch") is None, "the server stopped midway: nobody can tell whose ids these are"


def test_a_batch_into_nothing_says_success_and_stores_nothing(open_server, wire):
    _, client = open_server
    recorded = json.loads(wire.read_text().splitlines()[106])
    answer = client.send(Call("POST", "/v2/insert/batch", recorded["request_body"], repeatable=False))  # 107
    assert answer["status"] == "success"
    assert read_ids(answer, 2, "batch") is None


def test_deleting_twice_or_what_is_not_there_is_fine(open_server):
    replay, client = open_server
    v2 = V2(client)
    v2.delete("episodes", 1)  # 122
    v2.delete("episodes", 1)  # 123
    found = v2.search("episodes", Ask(X, 2))  # 124: the deleted document took a place
    assert [hit.ref for hit in found.documents] == ["ep-2"]
    assert v2.fetch("episodes", {1: "ep-1"}, 4) == []  # 125
    v2.delete("episodes", 999)  # 126: 500 "not found"
    assert replay.answered[-1] == "delete.unknown_id"


def test_a_tenants_collection(open_server):
    replay, client = open_server
    v3 = V3(client, "t1")
    v3.create(TINY)  # 142
    found = v3.collection("c")  # 144
    assert found is not None
    assert (found.dim, found.documents) == (4, 0)
    assert v3.insert("c", [Document([1, 2, 3, 4], {"a": 1})]) == [1]  # 145
    answer = v3.search("c", Ask([1, 2, 3, 4], 2, {"a": 1}))  # 146
    assert (answer.returned, answer.documents) == (1, ())  # no ref: not one of ours
    v3.delete("c", 1)  # 148
    assert v3.collection("none") is None  # 149
    v3.drop("c")  # 152
    assert replay.answered[-1] == "tenant.delete"


def test_naming_a_tenant_takes_admin_away(open_server):
    _, client = open_server
    client.as_tenant("t1")
    with pytest.raises(IndexAccessError, match="admin permission required"):  # 153
        client.send(Call("GET", "/v2/collections"))


def test_a_missing_or_wrong_token_is_an_access_error(wire):
    search = {"collection": "c", "queries": {"embedding": X}, "top_k": 3}
    with replaying(wire, "api_token") as (_, url):
        for token in (None, "nope"):  # 155, 156
            with Wire(settings(url, token)) as client, pytest.raises(IndexAccessError, match="401: unauthorized"):
                client.send(Call("POST", "/v2/search", search))


def test_a_plain_token_is_not_an_admin_but_may_make_a_tenants_collection(wire):
    with replaying(wire, "api_token") as (_, url), Wire(settings(url, "test-token")) as client:
        with pytest.raises(IndexAccessError, match="403: forbidden"):  # 157
            V2(client).create(TINY)
        with pytest.raises(IndexLostError):  # 158
            client.send(Call("POST", "/v2/insert", {"collection": "c", "vectors": {"embedding": [1, 2, 3, 4]}}))
        V3(client, "default").create(TINY)  # 159
        with pytest.raises(IndexAccessError, match="cannot access tenant"):  # 160
            client.send(Call("GET", "/v3/tenants/t1"))
        client.as_tenant("t1")
        assert client.send(Call("GET", "/v3/tenants/t1"))["tenant_id"] == "t1"  # 161


def test_jwts(wire):
    with replaying(wire, "jwt") as (_, url):
        with Wire(settings(url)) as client, pytest.raises(IndexAccessError, match="missing authentication"):  # 165
            connect(client, settings(url))
        with Wire(settings(url, "<JWT expired>")) as client, pytest.raises(IndexAccessError, match="invalid token"):
            connect(client, settings(url))  # 166
        with Wire(settings(url, "<JWT permissions=read,write>")) as client, pytest.raises(IndexAccessError):  # 167
            V2(client).create(TINY)
        with Wire(settings(url, "<JWT permissions=admin>")) as client:
            V2(client).create(TINY)  # 168
        with Wire(settings(url, "<JWT permissions=read,write>")) as client:
            with pytest.raises(IndexAccessError, match="admin permission"):  # 170
                V2(client).fetch("c", {1: "r"}, 4)
            assert V2(client).search("c", Ask(X, 3)).returned == 1  # 171
            with pytest.raises(IndexAccessError, match="acme"):  # 172
                client.send(Call("GET", "/v3/tenants/zzz"))


class _Impatient:
    """A throttle that counts the waits for the server's next minute instead of waiting."""

    def __init__(self) -> None:
        self.waited = 0

    def wait(self, most: float | None = None) -> bool:
        """Let everything through."""
        return most is None

    def refused(self, most: float | None = None) -> bool:
        self.waited += 1
        return most is None


def test_a_rate_limit_is_waited_for_a_few_times(wire):
    body = {"collection": "c", "queries": {"embedding": X}, "top_k": 3}
    with replaying(wire, "limits") as (replay, url):
        limited = next(found for found in replay.exchanges if found["name"] == "limit.rate_limited")  # 176
        replay.exchanges[:] = [limited] * 4
        throttle = _Impatient()
        wire_of = Wire(settings(url), throttle=throttle)
        with wire_of as client, pytest.raises(IndexUnreachableError, match="429: rate limited"):
            client.send(Call("POST", "/v2/search", body))
        assert throttle.waited == 3


def test_a_request_refused_for_its_rate_is_sent_again_even_if_it_inserts(wire):
    body = {"collection": "c", "queries": {"embedding": X}, "top_k": 3}
    with replaying(wire, "limits") as (replay, url):
        limited = next(found for found in replay.exchanges if found["name"] == "limit.rate_limited")
        passed = {**limited, "status": 200, "response_raw": '{"status":"success"}'}  # what a search answers, shortened
        replay.exchanges[:] = [limited, passed]
        throttle = _Impatient()
        with Wire(settings(url), throttle=throttle) as client:
            assert client.send(Call("POST", "/v2/search", body, repeatable=False)) == {"status": "success"}
        assert throttle.waited == 1


def test_a_batch_above_the_servers_limit_says_how_to_raise_it(wire):
    with replaying(wire, "limits") as (_, url), Wire(settings(url)) as client:
        V2(client).create(TINY)  # 173
        recorded = json.loads(wire.read_text().splitlines()[173])
        with pytest.raises(IndexRefusedError, match="LIMIT_MAX_BATCH_SIZE"):  # 174
            client.send(Call("POST", "/v2/insert/batch", recorded["request_body"], repeatable=False))


def _ask_nonsense(wire):
    with replaying(wire, "open") as (_, url), Wire(settings(url)) as client, pytest.raises(IndexRefusedError):
        client.send(Call("GET", "/v2/nonsense"))


def test_the_replay_refuses_what_was_not_recorded(wire):
    with pytest.raises(AssertionError, match="/v2/nonsense"):
        _ask_nonsense(wire)
