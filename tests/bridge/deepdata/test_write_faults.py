"""The traps S-7 to S-13 of the real server, one by one, on the fake that behaves like it."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from deepdata_bench import Bench, Deaf, filled, spy
from deepdata_fake import Fake
from deepdata_replay import serving

from bridge.maintenance import indexes
from bridge.testing.brute_force import unit_vectors
from bridge.testing.index_contract import check, top
from catalog import Among, build_where
from catalog.location import place_of
from catalog.testing.contract import make_record
from embedders import Statistics
from wshard import Archive, Catalog
from wshard.errors import (
    IndexDamagedError,
    IndexUnreachableError,
)

__all__ = ["filled"]


# ---- S-7 to S-9 -----------------------------------------------------------------------------------------------------


def test_s7_s9_ghosts_are_not_hits_and_their_places_are_filled(filled):
    for seed in range(6):
        filled.collection.nodes.append((1000 + seed, unit_vectors(1, seed)[0].tolist()))
    filled.collection.matrix = None
    filled.check()
    assert {document["metadata"]["live"] for document in filled.collection.documents.values()} == {1}
    assert len(filled.collection.schema["fields"]) == 1


def test_s7_import_is_never_used(filled):
    filled.fill(100)
    filled.shelf.index.rebuild(filled.space)
    assert not [line for line in filled.fake.requests if "import" in line]


@pytest.mark.parametrize(
    ("arrived", "again"),
    [
        pytest.param(0, "killed", marks=pytest.mark.long),
        (1, "same process"),
        (13, "killed"),
        pytest.param(20, "same process", marks=pytest.mark.long),
    ],
)
def test_s8_an_interrupted_batch_is_compared_before_anything_is_sent_again(filled, arrived, again):
    filled.commit(50)
    filled.fake.faults = [f"batch breaks:{arrived}"]
    with pytest.raises(IndexUnreachableError):
        filled.shelf.index.upsert(filled.space, [])
    assert len(filled.collection.documents) == 40 + arrived
    filled.check()
    if again == "killed":
        filled.again()
    searches = spy(filled)
    filled.shelf.index.upsert(filled.space, [])
    assert [search["filters"] for search in searches if "ref" in search.get("filters", {})]
    filled.healed()


def test_s8_a_server_that_answers_for_a_part_of_the_batch(filled):
    filled.commit(50)
    filled.fake.faults = ["batch stops:4", "batch stops:0", "batch stops:19"]
    filled.shelf.index.upsert(filled.space, [])
    filled.healed()


def test_s8_a_document_that_is_there_twice_is_removed_once(filled):
    filled.commit(5)
    filled.fake.faults = ["batch breaks:5"]
    with pytest.raises(IndexUnreachableError):
        filled.shelf.index.upsert(filled.space, [])
    twin = dict(filled.collection.documents[43])
    filled.collection.add({"embedding": twin["vector"]}, twin["metadata"])
    filled.shelf.index.upsert(filled.space, [])
    filled.healed()


def test_s8_what_was_on_its_way_when_it_became_unwanted_is_removed(filled):
    made = filled.commit(10)
    filled.fake.faults = ["batch breaks:6"]
    with pytest.raises(IndexUnreachableError):
        filled.shelf.index.upsert(filled.space, [])
    filled.again()
    filled.shelf.bury(made[:9], filled.space)
    filled.healed()
    assert len(filled.collection.documents) == 41


# ---- S-10 to S-13 ---------------------------------------------------------------------------------------------------


def test_s10_an_episode_that_changed_is_a_new_document_with_new_fields(filled):
    (changed,) = filled.catalog.episodes.register([make_record(0, env_id="another", digest="other")])
    filled.shelf.put(filled.space, {changed.id: unit_vectors(1, 4321)})
    filled.shelf.index.upsert(filled.space, [])
    filled.healed()
    for name, count in (("another", 1), ("env-0", 7)):
        assert len(check(filled.shelf, filled.space, unit_vectors(1)[0], top(100, build_where(env_id=name)))) == count


def test_s10_equal_vectors_of_an_episode_that_changed_are_filtered_by_what_it_is_now(filled):
    (changed,) = filled.catalog.episodes.register([make_record(0, env_id="another", digest="other")])
    filled.shelf.put(filled.space, {changed.id: unit_vectors(1, 10_000 + changed.id)})
    for name in ("another", "env-0"):
        check(filled.shelf, filled.space, unit_vectors(1)[0], top(100, build_where(env_id=name)))
    assert len(filled.collection.documents) == 40


def test_s11_a_collection_that_vanishes_is_reported_by_the_servers_words_not_by_its_status(filled):
    filled.fake.collections.clear()
    filled.check()
    filled.fill(3)
    filled.healed()


def test_s11_a_lost_answer_to_a_search_is_requested_again_and_a_refusal_is_not(filled):
    filled.check()
    filled.fake.faults = ["hang up", "hang up"]
    filled.fake.requests.clear()
    filled.shelf.index.search(filled.space, unit_vectors(1)[0], top(3))
    assert filled.requested("/v2/search") == 3
    filled.fake.faults = ["hang up"] * 3
    with pytest.raises(IndexUnreachableError, match=filled.url):
        filled.shelf.index.search(filled.space, unit_vectors(1)[0], top(3))


@pytest.mark.long
def test_s12_searches_while_batches_come_in_are_right(filled):
    more = filled.commit(200)
    done = threading.Event()

    def send():
        filled.open(batch=5).upsert(filled.space, [])
        done.set()

    sender = threading.Thread(target=send)
    sender.start()
    while not done.is_set():
        filled.check()
        time.sleep(0.01)
    sender.join()
    filled.healed()
    assert len(more) == 200


def test_s12_two_senders_send_each_vector_once(filled):
    filled.commit(200)
    senders = [threading.Thread(target=filled.open(batch=7).upsert, args=(filled.space, [])) for _ in range(3)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    filled.healed()


@pytest.mark.parametrize("change", [{"archive": "x"}, {"space": "x"}, {"generation": "x"}, None], ids=str)
def test_s13_a_collection_that_is_not_this_copy_is_neither_believed_nor_touched(filled, change):
    metadata = filled.collection.schema["metadata"]
    filled.collection.schema["metadata"] = None if change is None else {**metadata, **change}
    filled.again()
    with pytest.raises(IndexDamagedError, match="was not created by this archive"):
        filled.shelf.index.search(filled.space, unit_vectors(1)[0], top(3))
    with pytest.raises(IndexDamagedError, match="was not created by this archive"):
        filled.shelf.index.upsert(filled.space, [])
    assert filled.shelf.index.audit(filled.space).state == "foreign"
    assert len(filled.collection.documents) == 40
    if change is not None and "archive" not in change:
        filled.shelf.index.rebuild(filled.space)  # an older copy of this archive, say: on request only
        filled.healed()
    else:
        with pytest.raises(IndexDamagedError, match="drop it by hand, or choose another prefix"):
            filled.shelf.index.rebuild(filled.space)


def test_s13_a_collection_of_another_size_is_refused(filled):
    filled.collection.schema["fields"][0]["dim"] = 7
    with pytest.raises(IndexDamagedError, match="with dim 6, found 7"):
        filled.again().upsert(filled.space, [])


# ---- more -----------------------------------------------------------------------------------------------------------


def test_a_space_that_was_replaced_leaves_no_collection_after(filled):
    among = Among(tuple(layout.id for layout in filled.catalog.query.layouts()))
    assert filled.catalog.vectors.activate(filled.catalog.vectors.spaces()[0].id, among)
    new = replace(filled.space, statistics=Statistics(1, np.zeros(6), np.ones(6)))
    filled.shelf.put(new, {id_: unit_vectors(1, 300 + id_) for id_ in filled.ids})
    assert len(filled.fake.collections) == 2
    assert filled.catalog.vectors.activate(filled.catalog.vectors.spaces("building")[0].id, among)
    filled.shelf.index.upsert(new, [])
    filled.space = new
    filled.healed()


def test_a_space_that_is_dropped_takes_its_collection_along(filled):
    archive = Archive(place_of(filled.folder), filled.catalog, filled.shelf.index)
    indexes.drop(archive, filled.space)
    assert filled.fake.collections == {}
    assert filled.catalog.index_copies.of_place(filled.url + "/wshard") == []
    filled.shelf.put(filled.space, {id_: unit_vectors(1, 10_000 + id_) for id_ in filled.ids})
    filled.healed()


def test_a_space_that_was_dropped_not_sent_to_the_server_is_swept_later(filled):
    indexes.drop(Archive(place_of(filled.folder), filled.catalog, Deaf()), filled.space)
    assert len(filled.fake.collections) == 1
    new = replace(filled.space, embedder="another")
    filled.shelf.put(new, {id_: unit_vectors(1, 300 + id_) for id_ in filled.ids})
    filled.shelf.index.upsert(new, [])
    filled.space = new
    filled.healed()


def test_an_ingest_finishes_behind_a_proxy_with_faults(tmp_path):
    """One in six answers is a page, nothing, a list, or lost after the server has read the request."""
    rng, fake = random.Random(4), Fake(tmp_path)
    faults = [(502, {"Content-Type": "text/html"}, b"<html>Bad gateway</html>"), (200, {}, b"[]"), (None, {}, b"")]

    def respond(method, path, headers, body):
        request = (method, path, headers, body)
        if rng.random() >= 1 / 6:
            return fake.respond(*request)
        if rng.random() < 1 / 4:
            fake.respond(*request)
        return rng.choice(faults)

    with Catalog.open(tmp_path / "c.db", create=True) as catalog, serving(respond) as server:
        made = Bench(tmp_path, fake, server.url, catalog)
        made.again(attempts=50)
        for _ in range(6):
            made.commit(30)
            made.shelf.index.upsert(made.space, [])
        assert len(made.collection.documents) == 180
        for index in made.opened:
            index.close()
