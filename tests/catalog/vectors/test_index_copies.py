"""What the catalog remembers of copies in other indexes: shipments, shared and reused documents, the dead."""

from __future__ import annotations

import pytest
from sqlalchemy import event

from catalog import Catalog, EmbeddingRow
from catalog.testing.contract import make_record
from catalog.vectors.index_copy_records import Landed, Synced


@pytest.fixture
def catalog(location):
    with Catalog.open(location, create=True) as opened:
        yield opened


@pytest.fixture
def stored(catalog):
    """Commit six episodes of two 4-byte vectors each, and begin a shipment of the first four."""
    ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(6)])]
    space = catalog.vectors.add_space("f", "family", "{}").id
    rows = catalog.episodes.rows(ids)
    entries = catalog.vectors.write(
        space, [EmbeddingRow(id_, rows[id_].digest, 2, b"%4d%4d" % (id_, -id_)) for id_ in ids]
    )
    copy = catalog.index_copies.open("http://h/p", space)
    made = [
        Synced(entry.seq, at, f"ref {entry.episode_id} {at}", "about", document=None, served=False, run="run")
        for entry in entries[:4]
        for at in range(2)
    ]
    catalog.index_copies.begin(copy.id, made)
    return copy, entries


def arrive(catalog, copy, entries, first=1):
    refs = [f"ref {entry.episode_id} {at}" for entry in entries for at in range(2)]
    landed = [Landed(ref, number, "about") for number, ref in enumerate(refs, first)]
    return catalog.index_copies.mark_arrived(copy.id, "run", landed)


def test_one_copy_per_place_and_space(catalog, stored):
    copy, _ = stored
    assert (
        catalog.index_copies.open("http://h/p", copy.space_id)
        == catalog.index_copies.find("http://h/p", copy.space_id)
        == copy
    )
    assert catalog.index_copies.find("http://other/p", copy.space_id) is None
    other = catalog.index_copies.open("http://other/p", copy.space_id)
    assert other.generation != copy.generation
    assert [found.id for found in catalog.index_copies.of_place("http://other/p")] == [other.id]


def test_vectors_in_transit_are_neither_pending_nor_stored(catalog, stored):
    copy, entries = stored
    assert [entry.seq for entry in catalog.index_copies.pending(copy)] == [entry.seq for entry in entries[4:]]
    assert catalog.index_copies.count(copy.id) == 0
    waiting = catalog.index_copies.find_in_transit(copy.id, 4)
    assert [(row.seq, row.position) for row, _ in waiting] == [(e.seq, at) for e in entries[:4] for at in range(2)]
    assert [found.vector for _, found in waiting][:2] == [b"   1", b"  -1"]
    assert len(catalog.index_copies.find_unserved(copy.id, 4)) == 8
    assert arrive(catalog, copy, entries[:4]) == 0
    assert catalog.index_copies.find_in_transit(copy.id, 4) == []
    assert catalog.index_copies.find_unserved(copy.id, 4) == []
    assert (catalog.index_copies.count(copy.id), catalog.index_copies.totals(copy.id)) == (8, (8, 8))
    assert [
        (found.document, found.episode_id, found.vector) for found in catalog.index_copies.lookup(copy.id, [2, 99], 4)
    ] == [(2, entries[0].episode_id, b"  -1")]


def test_a_number_that_comes_twice_sends_its_first_holder_on_the_way_again(catalog, stored):
    copy, entries = stored
    assert arrive(catalog, copy, entries[:2]) == 0
    assert arrive(catalog, copy, entries[2:4], first=3) == 2
    again = {row.ref for row, _ in catalog.index_copies.find_in_transit(copy.id, 4)}
    assert again == {f"ref {entries[1].episode_id} {at}" for at in range(2)}
    assert catalog.index_copies.open(copy.place, copy.space_id).version == copy.version + 1


def test_fields_that_differ_are_not_served(catalog, stored):
    copy, entries = stored
    catalog.index_copies.mark_arrived(copy.id, "run", [Landed(f"ref {entries[0].episode_id} 0", 7, "other")])
    (row,) = [found for found in catalog.index_copies.find_unserved(copy.id, 4) if found.document == 7]
    assert row.vector == b"   1"
    assert catalog.index_copies.known(copy.id, [row.ref])[row.ref] == Landed(row.ref, 7, "")


def test_documents_of_the_dead_are_reported_unless_the_living_share_them(catalog, stored):
    copy, entries = stored
    arrive(catalog, copy, entries[:4])
    shared = Synced(entries[4].seq, 0, f"ref {entries[0].episode_id} 0", "x", document=1, served=False, run=None)
    catalog.index_copies.begin(copy.id, [shared])
    catalog.episodes.withdraw([entries[0].episode_id])
    assert sorted(catalog.index_copies.find_stale(copy.id)) == [(entries[0].seq, 0, None), (entries[0].seq, 1, 2)]
    catalog.index_copies.forget(copy.id, [(entries[0].seq, 0), (entries[0].seq, 1)], removed=1)
    assert catalog.index_copies.find_stale(copy.id) == []
    assert catalog.index_copies.open(copy.place, copy.space_id).removed == 1


def test_a_new_generation_holds_nothing(catalog, stored):
    copy, entries = stored
    arrive(catalog, copy, entries[:4])
    catalog.index_copies.mark_damaged(copy.id)
    assert catalog.index_copies.open(copy.place, copy.space_id).damaged
    catalog.index_copies.renew(copy.id)
    renewed = catalog.index_copies.open(copy.place, copy.space_id)
    assert (renewed.damaged, renewed.version, renewed.generation == copy.generation) == (False, 2, False)
    assert len(catalog.index_copies.pending(renewed)) == 6
    catalog.index_copies.close(copy.id)
    assert catalog.index_copies.of_place(copy.place) == []


@pytest.mark.parametrize("product", ["sqlite"], indirect=True)  # how its plans read
def test_what_every_search_asks_is_answered_by_indexes(catalog, stored):
    copy, _ = stored
    seen = []
    engine = catalog._session.database._engine
    event.listen(engine, "before_cursor_execute", lambda *details: seen.append((details[2], details[3])))
    catalog.index_copies.find(copy.place, copy.space_id)
    catalog.index_copies.lookup(copy.id, [1, 2, 3], 4)
    catalog.index_copies.find_unserved(copy.id, 4)
    catalog.index_copies.known(copy.id, ["a", "b"])
    catalog.index_copies.pending(copy)
    with catalog._session.read() as connection:
        plans = [
            row[3]
            for statement, parameters in [found for found in seen if found[0].startswith("SELECT")]
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
        ]
    tables = {line.split()[1] for line in plans if line.startswith("SCAN") and "VIRTUAL TABLE" not in line}
    assert any("SEARCH synced USING" in line for line in plans)
    assert tables <= {"archive"}, plans
