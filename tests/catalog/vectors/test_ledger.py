"""Spaces and the ledger: what is pending, what was written, and in which order readers see it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import select

from catalog import Among, Catalog, EmbeddingRow, LaneRecord, LedgerEntry, Spread
from catalog.database.schema import embedding
from catalog.filters.parse import as_where
from catalog.testing.contract import make_record
from catalog.testing.records import pack
from wshard.errors import EntryNotFoundError, SpaceMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        yield opened


def fill(catalog: Catalog, count: int) -> list[int]:
    return [done.id for done in catalog.episodes.register([make_record(number) for number in range(count)])]


def vectors(catalog: Catalog, ids: list[int], *, content: bytes = b"vectors") -> list[EmbeddingRow]:
    return [EmbeddingRow(row.id, row.digest, 2, content) for row in catalog.episodes.rows(ids).values()]


def layout_ids(catalog: Catalog) -> list[int]:
    return [layout.id for layout in catalog.query.layouts()]


def everything(catalog: Catalog) -> Among:
    return Among(tuple(layout_ids(catalog)))


def test_what_is_written_is_not_a_longer_pending(catalog: Catalog) -> None:
    ids = fill(catalog, 5)
    space = catalog.vectors.add_space("f", "family", "{}")
    assert [row.id for row in catalog.vectors.pending(space.id, everything(catalog))] == ids
    entries = catalog.vectors.write(space.id, vectors(catalog, ids[1:3]))
    assert [entry.episode_id for entry in entries] == ids[1:3]
    assert [row.id for row in catalog.vectors.pending(space.id, everything(catalog))] == [ids[0], ids[3], ids[4]]
    assert catalog.vectors.pending_ids(space.id, everything(catalog)) == [ids[0], ids[3], ids[4]]
    assert catalog.vectors.pending(space.id, Among(())) == catalog.vectors.pending_ids(space.id, Among(())) == []
    assert list(catalog.vectors.ledger(space.id)) == entries
    assert catalog.vectors.state(space.id)[:3] == (2, 4, entries[-1].seq)


def test_pending_merges_layouts_by_id(catalog: Catalog) -> None:
    lanes = [(LaneRecord(f"signal/{name}", "f32", (1,), 1),) for name in "abc"]
    done = catalog.episodes.register([make_record(number, lanes=lanes[number % 3]) for number in range(30)])
    space = catalog.vectors.add_space("f", "family", "{}")
    wanted = Among(tuple(layout.id for layout in catalog.query.layouts() if layout.lanes[0].name != "signal/b"))
    ids = [registered.id for number, registered in enumerate(done) if number % 3 != 1]
    assert (
        [row.id for row in catalog.vectors.pending(space.id, wanted)]
        == catalog.vectors.pending_ids(space.id, wanted)
        == ids
    )


def test_uncovered_episodes_are_counted_as_by_hand(catalog: Catalog) -> None:
    lanes = [
        (LaneRecord("signal/a", "f32", (1,), 1, spread=None if number % 2 else pack(Spread(0, 1, 0.5, 1))),)
        for number in range(4)
    ] + [(LaneRecord("signal/b", "f32", (1,), 1),)] * 4
    ids = [
        done.id
        for done in catalog.episodes.register([make_record(number, lanes=lanes[number % 8]) for number in range(24)])
    ]
    spaces = [catalog.vectors.add_space(name, name, "{}").id for name in "fgh"]
    inside = [ids[:6], ids[4:12], ids[10:20]]
    for space, those in zip(spaces, inside, strict=True):
        catalog.vectors.write(space, vectors(catalog, those))
    rows = catalog.episodes.rows(ids)
    allowed = set(catalog.query.ids("length:>3"))
    expected: dict[tuple[int, int | None, bool], int] = {}
    for number, id_ in enumerate(ids):
        if id_ in inside[0] or id_ not in allowed:
            continue
        instead = next((space for space, those in zip(spaces[1:], inside[1:], strict=True) if id_ in those), None)
        key = (rows[id_].layout_id, instead, number % 8 in (1, 3))
        expected[key] = expected.get(key, 0) + 1
    counted = catalog.vectors.uncovered(
        spaces[:1], as_where("length:>3"), others=[spaces[1:2], spaces[1:]], lanes=["signal/a"]
    )
    assert {(one.layout_id, one.space_id, one.without_numbers): one.episodes for one in counted} == expected
    assert sum(one.episodes for one in catalog.vectors.uncovered([], as_where(None))) == len(ids)


def test_spreads_come_by_episode_across_layouts_and_chunks(catalog: Catalog) -> None:
    def spreads(number: int) -> list[Spread]:
        return [Spread(number, number + 1.0, number + 0.5, channel) for channel in range(1 + number % 2)]

    both = [(LaneRecord("signal/a", "f32", (size,), 1),) for size in (1, 2)]
    records = [
        make_record(number, lanes=(replace(both[number % 2][0], count=number, spread=pack(*spreads(number))),))
        for number in range(2600)
    ]
    catalog.episodes.register(records)
    expected = [(number, tuple(chain.from_iterable(spreads(number)))) for number in range(2600)]
    assert list(catalog.query.spreads(layout_ids(catalog), "signal/a")) == expected
    assert list(catalog.query.spreads(layout_ids(catalog) * 2, "signal/a")) == expected
    assert list(catalog.query.spreads(layout_ids(catalog), "signal/absent")) == []


def test_rates_are_those_of_a_lane_in_the_layouts_requested(catalog: Catalog) -> None:
    there = [("a", 1, 30.0), ("a", 1, 30.0), ("a", 2, 29.97), ("b", 1, None), ("a", 2, None)]
    lanes = [(LaneRecord(f"signal/{name}", "f32", (size,), 1, rate=rate),) for name, size, rate in there]
    catalog.episodes.register([make_record(number, lanes=stored) for number, stored in enumerate(lanes)])
    scalar = catalog.episodes.get(1).layout_id
    assert catalog.query.rates([scalar], "signal/a") == {30.0}
    assert catalog.query.rates(layout_ids(catalog), "signal/a") == {30.0, 29.97, None}
    assert catalog.query.rates(layout_ids(catalog), "signal/b") == {None}
    assert catalog.query.rates(layout_ids(catalog), "signal/absent") == catalog.query.rates([], "signal/a") == set()


def test_rows_for_data_that_changed_or_vanished_are_left_out(catalog: Catalog) -> None:
    ids = fill(catalog, 4)
    rows = vectors(catalog, ids)
    space = catalog.vectors.add_space("f", "family", "{}")
    catalog.episodes.register([make_record(1, digest="other")])
    catalog.episodes.remove([ids[2]])
    assert [entry.episode_id for entry in catalog.vectors.write(space.id, rows)] == [ids[0], ids[3]]
    clock = catalog.clock()
    assert catalog.vectors.write(space.id, rows[1:3]) == []
    assert catalog.clock() == clock


def test_writing_again_moves_the_row_to_a_new_number(catalog: Catalog) -> None:
    ids = fill(catalog, 2)
    space = catalog.vectors.add_space("f", "family", "{}")
    first = catalog.vectors.write(space.id, vectors(catalog, ids))
    (again,) = catalog.vectors.write(space.id, vectors(catalog, ids[:1], content=b"better"))
    assert again.seq > first[1].seq
    assert list(catalog.vectors.ledger(space.id)) == [first[1], again]
    assert list(catalog.vectors.ledger(space.id, since=first[1].seq)) == [again]
    twice = vectors(catalog, ids[:1], content=b"one") + vectors(catalog, ids[:1], content=b"two")
    assert [entry.vectors for entry in catalog.vectors.write(space.id, twice)] == [b"two"]


@pytest.mark.parametrize("how", ["removed", "changed"])
def test_a_removed_or_changed_episode_leaves_a_tombstone_in_every_space(catalog: Catalog, how: str) -> None:
    ids = fill(catalog, 2)
    spaces = [catalog.vectors.add_space(f"f{number}", f"family {number}", "{}") for number in range(2)]
    last = max(catalog.vectors.write(space.id, vectors(catalog, ids))[-1].seq for space in spaces)
    if how == "removed":
        catalog.episodes.remove(ids[:1])
    else:
        catalog.episodes.register([make_record(0, digest="other")])
    seqs = []
    for space in spaces:
        (tombstone,) = catalog.vectors.ledger(space.id, since=last)
        assert tombstone == LedgerEntry(ids[0], tombstone.seq, 0, None)
        assert catalog.vectors.state(space.id)[:3] == (1, 2, tombstone.seq)
        seqs.append(tombstone.seq)
    assert len(set(seqs)) == 2
    clock = catalog.clock()
    catalog.episodes.remove(ids[:1])
    assert [list(catalog.vectors.ledger(space.id, since=clock)) for space in spaces] == [[], []]


def test_an_episode_without_vectors_is_done_nevertheless(catalog: Catalog) -> None:
    (number,) = fill(catalog, 1)
    space = catalog.vectors.add_space("f", "family", "{}")
    catalog.vectors.write(space.id, [EmbeddingRow(number, make_record(0).digest, 0, b"")])
    assert catalog.vectors.pending(space.id, everything(catalog)) == []
    assert [entry.vectors for entry in catalog.vectors.ledger(space.id)] == [b""]
    assert catalog.vectors.state(space.id)[:2] == (1, 0)


def test_the_ledger_streams_across_chunks(catalog: Catalog) -> None:
    ids = fill(catalog, 300)
    space = catalog.vectors.add_space("f", "family", "{}")
    sizes = {number: (1 << 20 if place % 90 == 0 else 10) for place, number in enumerate(ids)}
    rows = [EmbeddingRow(row.id, row.digest, 1, bytes(sizes[row.id])) for row in catalog.episodes.rows(ids).values()]
    entries = catalog.vectors.write(space.id, rows)
    assert list(catalog.vectors.ledger(space.id)) == entries


def test_an_unfinished_reader_does_not_block_others(catalog: Catalog) -> None:
    ids = fill(catalog, 200)
    space = catalog.vectors.add_space("f", "family", "{}")
    catalog.vectors.write(space.id, vectors(catalog, ids))
    reader = catalog.vectors.ledger(space.id)
    first = next(reader)
    catalog.episodes.remove(ids[150:])
    seen = [first, *reader]
    assert [entry.episode_id for entry in seen if entry.vectors is not None] == ids[:150]
    assert [entry.episode_id for entry in seen if entry.vectors is None] == ids[150:]


def test_two_ingests_agree_on_the_space_to_build(catalog: Catalog) -> None:
    one = catalog.vectors.add_space("one", "family", "definition one")
    assert (one.state, one.checked_seq, one.definition) == ("building", 0, "definition one")
    assert catalog.vectors.add_space("one", "family", "definition one") == one
    assert catalog.vectors.add_space("two", "family", "definition two") == one
    other = catalog.vectors.add_space("three", "other family", "{}")
    assert other.id != one.id
    assert catalog.vectors.spaces() == [one, other]
    assert catalog.vectors.spaces("building") == [one, other]
    assert catalog.vectors.spaces("active") == []


def test_activating_waits_for_all_and_retires_the_one_before(catalog: Catalog) -> None:
    ids = fill(catalog, 3)
    old = catalog.vectors.add_space("old", "family", "{}")
    bystander = catalog.vectors.add_space("bystander", "other family", "{}")
    catalog.vectors.write(bystander.id, vectors(catalog, ids))
    catalog.vectors.write(old.id, vectors(catalog, ids))
    assert catalog.vectors.activate(old.id, everything(catalog))
    new = catalog.vectors.add_space("new", "family", "{}")
    catalog.vectors.write(new.id, vectors(catalog, ids[:2]))
    before = catalog.vectors.spaces()
    assert not catalog.vectors.activate(new.id, everything(catalog))
    assert catalog.vectors.spaces() == before
    catalog.vectors.write(new.id, vectors(catalog, ids[2:]))
    assert catalog.vectors.activate(new.id, everything(catalog))
    clock = catalog.clock()
    assert catalog.vectors.activate(new.id, everything(catalog))
    assert catalog.clock() == clock
    assert {space.id: space.state for space in catalog.vectors.spaces()} == {
        old.id: "retired",
        bystander.id: "building",
        new.id: "active",
    }
    assert catalog.vectors.state(old.id) == (0, 0, 0, 0)
    assert catalog.vectors.state(bystander.id)[0] == catalog.vectors.state(new.id)[0] == 3
    with pytest.raises(SpaceMismatchError, match="expected a building or active space"):
        catalog.vectors.write(old.id, vectors(catalog, ids))
    with pytest.raises(SpaceMismatchError, match="retired"):
        catalog.vectors.activate(old.id, Among(()))


def test_a_retired_space_can_be_built_again(catalog: Catalog) -> None:
    old = catalog.vectors.add_space("old", "family", "{}")
    catalog.vectors.activate(old.id, Among(()))
    catalog.vectors.mark_checked(old.id, 5)
    new = catalog.vectors.add_space("new", "family", "{}")
    assert catalog.vectors.add_space("old", "family", "{}").state == "active"
    catalog.vectors.activate(new.id, Among(()))
    assert catalog.vectors.add_space("old", "family", "{}") == replace(old, state="building", checked_seq=0)
    assert catalog.vectors.add_space("third", "family", "{}").id == old.id


def test_a_space_can_be_meant_for_some_episodes_only(catalog: Catalog) -> None:
    ids = fill(catalog, 6)
    space = catalog.vectors.add_space("f", "family", "{}")
    some = Among(tuple(layout_ids(catalog)), (ids[4], ids[1], 10**6, 2**70))
    assert [row.id for row in catalog.vectors.pending(space.id, some)] == [ids[1], ids[4]]
    assert catalog.vectors.pending_ids(space.id, Among(tuple(layout_ids(catalog)), ())) == []
    assert catalog.vectors.pending_ids(space.id, Among((), (ids[4],))) == []
    assert not catalog.vectors.activate(space.id, some)
    catalog.vectors.write(space.id, vectors(catalog, [ids[1], ids[4], ids[5]]))
    assert [*catalog.vectors.embedded(space.id)] == [ids[1], ids[4], ids[5]]
    assert catalog.vectors.activate(space.id, some)
    assert len(catalog.vectors.pending_ids(space.id, everything(catalog))) == 3


def test_a_space_can_be_meant_for_episodes_with_words_only(catalog: Catalog) -> None:
    said = (None, "open", "", "wave", None)
    ids = [
        done.id
        for done in catalog.episodes.register([make_record(n, metadata={"task": text}) for n, text in enumerate(said)])
    ]
    catalog.annotations.add_note([ids[4]], "wobbles", who="ann")
    space, spoken = catalog.vectors.add_space("f", "family", "{}"), replace(everything(catalog), with_words=True)
    assert [row.id for row in catalog.vectors.pending(space.id, spoken)] == [ids[1], ids[3], ids[4]]
    catalog.vectors.write(space.id, vectors(catalog, ids[1:4]))
    assert catalog.vectors.pending_ids(space.id, spoken) == [ids[4]]
    assert catalog.vectors.pending_ids(space.id, replace(spoken, ids=tuple(ids[:4]))) == []
    assert not catalog.vectors.activate(space.id, spoken)
    assert catalog.vectors.activate(space.id, spoken, ignoring=[ids[4]])


def test_activating_does_not_wait_for_what_cannot_be_embedded(catalog: Catalog) -> None:
    ids = fill(catalog, 5)
    space = catalog.vectors.add_space("f", "family", "{}")
    catalog.vectors.write(space.id, vectors(catalog, ids[:2]))
    assert not catalog.vectors.activate(space.id, everything(catalog), ignoring=[ids[2], ids[4], 10**6])
    assert not catalog.vectors.activate(space.id, everything(catalog), ignoring=ids[2:4])
    assert catalog.vectors.activate(space.id, everything(catalog), ignoring=ids[2:])


def test_withdrawn_episodes_stay_and_are_pending_again(catalog: Catalog) -> None:
    ids = fill(catalog, 3)
    space = catalog.vectors.add_space("f", "family", "{}")
    last = catalog.vectors.write(space.id, vectors(catalog, ids))[-1].seq
    catalog.episodes.withdraw([ids[1], 10**6])
    assert [(entry.episode_id, entry.vectors) for entry in catalog.vectors.ledger(space.id, since=last)] == [
        (ids[1], None)
    ]
    assert [row.id for row in catalog.vectors.pending(space.id, everything(catalog))] == [ids[1]]
    assert [*catalog.vectors.embedded(space.id)] == [ids[0], ids[2]]
    assert catalog.query.count() == 3


def test_the_last_check_never_goes_back(catalog: Catalog) -> None:
    space = catalog.vectors.add_space("f", "family", "{}")
    for seq in (5, 9, 7):
        catalog.vectors.mark_checked(space.id, seq)
    assert catalog.vectors.spaces()[0].checked_seq == 9
    for call in (lambda: catalog.vectors.mark_checked(99, 1), lambda: catalog.vectors.activate(99, Among(()))):
        with pytest.raises(EntryNotFoundError, match="found 99"):
            call()


class Reader(RuleBasedStateMachine):
    """A reader that follows the ledger knows exactly the vectors of the living, whatever happens to the episodes."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = Catalog.open(f"{self.folder.name}/catalog.db", create=True)
        self.space = self.catalog.vectors.add_space("f", "family", "{}").id
        self.model: dict[int, tuple[int, str]] = {}
        self.embedded: dict[int, bytes] = {}
        self.mirror: dict[int, bytes] = {}
        self.seen = 0

    @rule(numbers=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), version=st.integers(0, 2))
    def register(self, numbers: list[int], version: int) -> None:
        records = [make_record(number, digest=f"{number} version {version}") for number in numbers]
        for number, done in zip(numbers, self.catalog.episodes.register(records), strict=True):
            digest = f"{number} version {version}"
            if self.model.get(done.id, (number, digest))[1] != digest:
                self.embedded.pop(done.id, None)
            self.model[done.id] = (number, digest)

    @rule(number=st.integers(0, 9))
    def remove(self, number: int) -> None:
        ids = [key for key, (place, _) in self.model.items() if place == number]
        assert self.catalog.episodes.remove(ids) == len(ids)
        for key in ids:
            del self.model[key]
            self.embedded.pop(key, None)

    @rule(limit=st.integers(1, 5), content=st.binary(max_size=3))
    def embed(self, limit: int, content: bytes) -> None:
        pending = self.catalog.vectors.pending(self.space, everything(self.catalog))
        assert [row.id for row in pending] == sorted(self.model.keys() - self.embedded.keys())
        pending = pending[:limit]
        self.catalog.vectors.write(self.space, [EmbeddingRow(row.id, row.digest, 1, content) for row in pending])
        self.embedded |= {row.id: content for row in pending}

    @rule(number=st.integers(0, 9))
    def withdraw(self, number: int) -> None:
        ids = [key for key, (place, _) in self.model.items() if place == number]
        self.catalog.episodes.withdraw(ids)
        for key in ids:
            self.embedded.pop(key, None)

    @rule()
    def follow(self) -> None:
        for entry in self.catalog.vectors.ledger(self.space, since=self.seen):
            assert entry.seq > self.seen
            self.seen = entry.seq
            if entry.vectors is None:
                self.mirror.pop(entry.episode_id, None)
            else:
                self.mirror[entry.episode_id] = entry.vectors
        assert self.mirror == self.embedded
        assert self.seen <= self.catalog.clock()

    @invariant()
    def totals_are_right(self) -> None:
        assert self.catalog.vectors.state(self.space)[:2] == (len(self.embedded), len(self.embedded))
        assert self.catalog.query.count() == len(self.model)
        with self.catalog._session.read() as connection:
            pairs = connection.execute(select(embedding.c.space_id, embedding.c.episode_row)).all()
        assert len(pairs) == len(set(pairs))

    def teardown(self) -> None:
        if hasattr(self, "catalog"):
            self.follow()
            self.catalog.close()
            self.folder.cleanup()


TestReader = Reader.TestCase
TestReader.settings = settings(stateful_step_count=20)
