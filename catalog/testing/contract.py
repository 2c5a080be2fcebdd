"""Contract tests for database products, as a test class to inherit from; and the episodes and filters of its tests."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hypothesis import given

from catalog.filters.evaluate import matches
from catalog.filters.to_text import where_text
from catalog.filters.url import parse_query, where_query
from catalog.query.pages import ORDERS
from catalog.records import Asset
from catalog.testing.random_filters import FIELD_NAMES, wheres
from catalog.testing.random_records import record_lists
from catalog.testing.records import (
    AWKWARD,
    JSON_NUMBERS,
    KEYS,
    LANES,
    LENGTHS,
    PHRASES,
    REWARDS,
    TAGS,
    make_assets,
    make_record,
)
from catalog.vectors.records import EmbeddingRow
from wshard.errors import StatementError

if TYPE_CHECKING:
    from catalog.catalog import Catalog
    from catalog.episode_record import EpisodeRecord
    from catalog.filters.where import Where

__all__ = [
    "AWKWARD",
    "FIELD_NAMES",
    "JSON_NUMBERS",
    "KEYS",
    "LANES",
    "LENGTHS",
    "PHRASES",
    "REWARDS",
    "TAGS",
    "CatalogContract",
    "make_assets",
    "make_record",
    "record_lists",
    "wheres",
]


class CatalogContract:
    """What a catalog does in every database product. A subclass has a fixture `catalog`: an open, empty catalog."""

    def test_what_goes_in_comes_back(self, catalog: Catalog) -> None:
        written = _crowd(catalog)
        for number, record in written.items():
            row = catalog.episodes.get(number)
            for name in ("path", "key", "episode_id", "env_id", "length", "total_reward", "success", "digest"):
                assert getattr(row, name) == getattr(record, name), name
            assert row.metadata == record.metadata
            state = (record.digest, record.size, record.mtime_ns)
            own = Asset("episode", record.path, *state, record.key, record.address.read_as)
            assert catalog.episodes.assets([number]) == {number: record.assets or (own,)}
        (done,) = catalog.episodes.register([next(iter(written.values()))])
        assert done.outcome == "unchanged"

    def test_filters_mean_what_plain_python_says(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = catalog.episodes.rows(catalog.query.ids())
        facts = catalog.query.facts(rows)

        @given(where=wheres(max_clauses=4))
        def agree(where: Where) -> None:
            wanted = [number for number, row in rows.items() if matches(where, row, facts[number])]
            assert catalog.query.ids(where) == wanted
            assert catalog.query.ids(where_text(where)) == wanted
            assert catalog.query.ids(parse_query(where_query(where))) == wanted
            assert catalog.query.count(where) == len(wanted)

        agree()

    def test_pages_show_every_episode_once_and_in_order(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = list(catalog.episodes.rows(catalog.query.ids()).values())
        for order in (f"{sign}{name}" for name in ORDERS for sign in ("", "-")):
            name, down = order.removeprefix("-"), order.startswith("-")
            there = [row for row in rows if getattr(row, name) is not None]
            missing = [row for row in rows if getattr(row, name) is None]
            expected = sorted(there, key=lambda row: (getattr(row, name), row.id), reverse=down)
            page = catalog.query.select(order=order, limit=7)
            seen = [*page.rows]
            while page.next is not None:
                page = catalog.query.select(order=order, limit=7, after=page.next)
                seen += page.rows
            assert seen == expected + sorted(missing, key=lambda row: row.id, reverse=down), order

    def test_facets_count(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = catalog.episodes.rows(catalog.query.ids()).values()
        for name, found in catalog.query.facets(["env_id", "length", "success"]).items():
            assert dict(found) == Counter(getattr(row, name) for row in rows)
            assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)

    def test_the_ledger_grows_in_the_order_of_commits_and_keeps_tombstones(self, catalog: Catalog) -> None:
        written = _crowd(catalog)
        space = catalog.vectors.add_space("another fingerprint", "another family", "{}").id
        ids = list(written)[:4]
        entries = [
            entry
            for number in ids
            for entry in catalog.vectors.write(space, [EmbeddingRow(number, written[number].digest, 1, b"v")])
        ]
        assert list(catalog.vectors.ledger(space)) == entries
        seen = entries[-1].seq
        assert catalog.clock() >= seen
        catalog.episodes.remove(ids[1:3])
        assert [(entry.episode_id, entry.vectors) for entry in catalog.vectors.ledger(space, since=seen)] == [
            (ids[1], None),
            (ids[2], None),
        ]
        assert catalog.vectors.state(space)[:2] == (2, 2)

    def test_an_episode_of_several_files_has_them_for_itself(self, catalog: Catalog) -> None:
        whole = make_record(0, assets=make_assets(make_record(0).path))
        chunks = [make_record(0, path=part.path, digest=part.digest) for part in whole.assets[1:]]
        ids = [done.id for done in catalog.episodes.register(chunks)]
        other = catalog.episodes.register([make_record(1)])[0].id
        space = catalog.vectors.add_space("fingerprint", "family", "{}").id
        catalog.vectors.write(space, [EmbeddingRow(ids[0], "digest 0", 1, b"v")])
        catalog.annotations.tag([ids[0], other], "good")
        catalog.annotations.tag(ids[1:], "bad")
        catalog.annotations.add_note(ids[:2], "stack of plates", who="ann")
        catalog.annotations.review(ids[:1], "rejected", who="ann")
        catalog.annotations.review(ids[1:2], "accepted", who="bob")
        catalog.annotations.add_lineage(ids, "recorded_by", "robot 7")
        (done,) = catalog.episodes.register([whole])
        assert (done.outcome, sorted(done.superseded)) == ("new", ids)
        assert catalog.query.ids() == catalog.query.ids("asset:* OR episode:episode_000001") == [other, done.id]
        assert catalog.episodes.get(done.id).tags == ("bad", "good")
        facts = catalog.query.facts([done.id])[done.id]
        assert [note.who for note in facts.notes] == ["ann", "ann"]
        assert (facts.review and facts.review.state, [one.source for one in facts.lineage]) == ("accepted", ["robot 7"])
        assert catalog.query.ids("stack of plates") == [done.id]
        assert [(entry.episode_id, entry.vectors) for entry in catalog.vectors.ledger(space)] == [(ids[0], None)]
        (known,) = catalog.episodes.known([whole.path])[whole.path]
        assert [part.path for part in known.assets] == [
            part.path for part in catalog.episodes.assets([done.id])[done.id]
        ]
        (again,) = catalog.episodes.register([whole])
        assert (again.outcome, again.superseded) == ("unchanged", ())

    def test_files_of_an_episode_grow_move_and_go_with_it(self, catalog: Catalog) -> None:
        whole = make_record(0, assets=make_assets(make_record(0).path))
        (done,) = catalog.episodes.register([replace(whole, assets=whole.assets[:2])])
        catalog.annotations.tag([done.id], "good")
        touched = (replace(whole.assets[0], mtime_ns=10), whole.assets[1])
        catalog.episodes.register([replace(whole, assets=touched)])
        assert catalog.episodes.assets([done.id])[done.id] == touched
        catalog.episodes.register([replace(whole, digest="grown", assets=whole.assets)])
        assert catalog.episodes.assets([done.id])[done.id] == whole.assets
        parts = tuple(replace(part, path=part.path.replace("/data/set", "/data/new")) for part in whole.assets)
        moved = replace(whole, path=parts[0].path, digest="grown", assets=parts, moved_from=done.id)
        assert [one.outcome for one in catalog.episodes.register([moved])] == ["moved"]
        assert catalog.episodes.assets([done.id]) == {done.id: parts}
        assert catalog.query.ids("asset:chunk tag:good -asset:other") == [done.id]
        catalog.episodes.register([replace(moved, digest="one file", assets=(), moved_from=None)])
        assert [one.role for one in catalog.episodes.assets([done.id])[done.id]] == ["episode"]
        assert catalog.query.ids("asset:*") == []
        catalog.episodes.register([moved])
        assert catalog.episodes.remove([done.id]) == 1
        assert catalog.episodes.assets([done.id]) == {}
        assert catalog.query.sql("SELECT count(*) FROM asset").rows == ((0,),)

    def test_episodes_that_displace_one_another_keep_what_they_are(self, catalog: Catalog) -> None:
        records = [make_record(number) for number in range(4)]
        done = catalog.episodes.register(records)
        catalog.annotations.tag([done[0].id], "first")
        turned = [
            replace(there, digest=comes.digest, moved_from=mover.id, displaces=occupant.id)
            for there, comes, mover, occupant in zip(
                records, records[-1:] + records[:-1], done[-1:] + done[:-1], done, strict=True
            )
        ]
        assert [(one.id, one.uid, one.outcome) for one in catalog.episodes.register(turned)] == [
            (one.id, one.uid, "moved") for one in done[-1:] + done[:-1]
        ]
        places = [address.uri for _, address in sorted(catalog.episodes.places())]
        assert places == [records[k].path for k in (1, 2, 3, 0)]
        (fresh,) = catalog.episodes.register([replace(records[1], digest="fresh", displaces=done[0].id)])
        assert (fresh.outcome, catalog.episodes.get(fresh.id).path) == ("new", records[1].path)
        assert catalog.episodes.get(done[0].id).path.startswith("/data/set/.replaced/")
        assert catalog.query.ids("tag:first") == [done[0].id]
        assert (
            catalog.episodes.register([replace(records[1], digest="later", displaces=done[0].id)])[0].outcome
            == "changed"
        )
        assert (
            catalog.episodes.register([replace(records[1], digest="later", displaces=fresh.id)])[0].outcome
            == "unchanged"
        )
        back = replace(records[0], path="/data/set/back.mcap", moved_from=done[0].id, format="mcap")
        assert catalog.episodes.register([back])[0].id == done[0].id
        assert catalog.episodes.get(done[0].id).address == back.address  # which says how to read it, too

    def test_a_batch_holds_new_changed_and_unchanged_episodes(self, catalog: Catalog) -> None:
        known = _crowd(catalog)
        fresh = [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(100, 130)]
        changed = [replace(record, digest=f"new {record.digest}") for record in list(known.values())[:5]]
        done = catalog.episodes.register([*fresh, *changed, *list(known.values())[5:]])
        assert Counter(one.outcome for one in done) == {"new": 30, "changed": 5, "unchanged": len(known) - 5}
        assert [row.episode_id for row in catalog.episodes.rows(catalog.query.ids('"stack cube"')).values()] == [
            record.episode_id for record in fresh
        ]
        assert catalog.query.count() == len(known) + 30

    def test_sql_reads_and_does_nothing_else(self, catalog: Catalog) -> None:
        known = _crowd(catalog)
        assert catalog.query.sql("SELECT count(*) AS n FROM episode").rows == ((len(known),),)
        for text in ("DELETE FROM tag", "SELECT 1; DELETE FROM tag", "nonsense", ""):
            try:
                catalog.query.sql(text)
            except StatementError:
                continue
            raise AssertionError(f"expected a StatementError for {text!r}")
        assert catalog.query.count("tag:good") > 0


def _crowd(catalog: Catalog) -> dict[int, EpisodeRecord]:
    """Register forty varied episodes with annotations, and return the records by id."""
    dice = Random(5)  # noqa: S311  (data, no secrets)
    values = (None, True, *JSON_NUMBERS, *AWKWARD, *PHRASES)
    records = [
        make_record(
            number,
            key=dice.choice(AWKWARD),
            episode_id=dice.choice(AWKWARD),
            env_id=dice.choice(AWKWARD),
            length=dice.choice(LENGTHS),
            total_reward=dice.choice((None, *REWARDS)),
            success=dice.choice((None, True, False)),
            metadata={key: dice.choice(values) for key in KEYS},
            lanes=LANES[: dice.randrange(4)],
            assets=make_assets(make_record(number).path) if number % 4 == 0 else (),
        )
        for number in range(40)
    ]
    ids = [done.id for done in catalog.episodes.register(records)]
    for name in TAGS:
        catalog.annotations.tag(dice.sample(ids, 12), name)
    for text in PHRASES:
        catalog.annotations.add_note(dice.sample(ids, 6), text, who="ann")
    catalog.annotations.review(dice.sample(ids, 12), "accepted", who="ann")
    catalog.annotations.set_scores(
        "quality", {number: dice.choice((0.0, 0.5, 1e300)) for number in dice.sample(ids, 12)}
    )
    space = catalog.vectors.add_space("fingerprint", "family", "{}").id
    catalog.vectors.write(space, [EmbeddingRow(ids[number], records[number].digest, 1, b"v") for number in (0, 1)])
    return dict(zip(ids, records, strict=True))
