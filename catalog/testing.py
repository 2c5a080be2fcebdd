"""Episodes and filters for tests, as builders and Hypothesis strategies, and what every database product must do.

Knows: which values are awkward: ties, missing values, infinities, text that looks like SQL or sorts unusually. Does not
know: any database product. Values come from small pools, so that random filters match random episodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.fields import FIELDS, Field, field_of
from catalog.filters import EVERYTHING, NOTHING, Compare, Where
from catalog.form_url import parse_query, where_query
from catalog.matching import matches
from catalog.queries import ORDERS
from catalog.records import Asset, EmbeddingRow, EpisodeRecord, LaneRecord, Spread, Storage
from catalog.writing import where_text
from wshard.errors import StatementError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog.catalog import Catalog

AWKWARD = (
    "",
    "reach-v3",
    "Reach-v3",
    "'; DROP TABLE episode; --",
    '"quoted" \\ % _ * ?',
    "a'' OR 1=1",
    "päivää",
    "𝄞 clef",
    "\uffff",
    "-- comment /* */ :name $1 ?1",
)
"""Text that a careless query would break on."""

JSON_NUMBERS = (0, 1, -1, 0.1, 1e300, 5e-324, 0.30000000000000004, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, 10**25)
"""Numbers that JSON readers round."""

KEYS = ("task", "a.b", "päivä", 'quo"te', "nested")
"""Keys of metadata, plain and awkward."""

WORDS = ("pick", "pick up", "PICK up", "pi*", "up the red", "päivää", "paivaa", "cube 1", "drop table", "u*")

PHRASES = ("Pick up the red cube 1", "pick the cube up", "PÄIVÄÄ pick", "'; DROP TABLE episode; --", "!?")
"""Tasks and notes."""

TAGS = ("good", "bad", "'; DROP TABLE tag; --", "ünïcode %")
LENGTHS = (0, 1, 99, 100, 2**53, 2**62)
REWARDS = (0.0, -0.0, 0.1, 0.30000000000000004, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))

SPREADS = (Spread(-1.0, 1.0, 0.1, 0.5), Spread(0.0, 0.1, 0.05, 5e-324))

LANES = (
    LaneRecord("action/joint", "f32", (4,), 100, b"moments of the action", SPREADS, 50.0, Storage("zstd", 1600, 320)),
    LaneRecord(
        "signal/state", "f32", (39,), 100, b"moments of the state", rate=0.1, storage=Storage("none", 15_600, 15_600)
    ),
    LaneRecord("signal/camera", "u8", (64, 64, 3), 100, None),
)


FIELD_NAMES = (
    *(name for name in FIELDS if name != "collection"),
    "meta.task",
    'meta."a.b"',
    "meta.päivä",
    'meta."quo\\"te".deep',
    "meta.nested.deep",
    "meta.nested",
    "score.quality",
    "score.other",
    "lane.action/joint.max",
    "lane.action/joint.mean[1]",
    "lane.action/joint.std[7]",
    "lane.signal/camera.min",
    "lane.signal/state.count",
    "lane.signal/state.rate",
    "lane.action/joint.codec",
    "lane.action/joint.bytes",
    "lane.signal/state.stored",
    "lane.signal/camera.codec",
    "lineage.converted_from",
)
"""A field of every kind; only collections, which must be there, are left out."""

_POOLS: dict[str, tuple[Any, ...]] = {
    "tag": (*TAGS, "absent"),
    "text": WORDS,
    "flag": ("spike", "integrity", *AWKWARD[1:4]),
    "note": (*PHRASES, "cube", "P"),
    "review": ("accepted", "rejected", "acc"),
    "reviewer": ("ann", "bob", ""),
    "reviewed_at": ("2000", "3000"),
    "ingested_at": ("2000", "3000"),
    "space": ("fingerprint", "other"),
    "asset": ("chunk", "manifest", "chu", *AWKWARD[1:3]),
    "lineage": (*AWKWARD, "file:///old/a.h5"),
    "path": ("/data/set", "/data/set/episode_000001.wshard", "01.wshard", "/", "set/episode"),
    "lane": (-1.0, 0.0, 0.1, 0.5, 1.0, 0.05, 100),
    "codec": ("zstd", "none", "z", "Zstd"),
    "bytes": (1600, 1599, 10**30),
    "stored": (15_600, 320, -1),
}


def make_record(number: int, *, folder: str = "/data/set", **changes: Any) -> EpisodeRecord:
    """Return a plain episode that differs from those of other numbers in path, episode_id and digest."""
    record = EpisodeRecord(
        path=f"{folder}/episode_{number:06d}.wshard",
        key="",
        episode_id=f"episode_{number:06d}",
        env_id=f"env-{number % 5}",
        length=100 + number % 400,
        total_reward=float(number % 97),
        success=number % 3 == 0,
        digest=f"digest-{number:032d}",
        size=10_000 + number,
        mtime_ns=1_700_000_000_000_000_000 + number,
        metadata={"seed": number},
        lanes=LANES,
    )
    return replace(record, **changes)


def records(number: int) -> st.SearchStrategy[EpisodeRecord]:
    """Draw an episode with the path of that number and awkward values everywhere else."""
    text = st.sampled_from(AWKWARD)
    return st.builds(
        make_record,
        st.just(number),
        key=text,
        episode_id=text,
        env_id=text,
        length=st.sampled_from(LENGTHS),
        total_reward=st.none() | st.sampled_from(REWARDS),
        success=st.none() | st.booleans(),
        metadata=metadata(),
    )


def metadata() -> st.SearchStrategy[dict[str, Any]]:
    """Draw an episode's metadata."""
    leaves = st.none() | st.booleans() | st.sampled_from(JSON_NUMBERS) | st.sampled_from((*AWKWARD, *PHRASES))
    deep = st.dictionaries(st.sampled_from(("deep", "other")), leaves, max_size=2)
    return st.dictionaries(st.sampled_from((*KEYS, *AWKWARD)), leaves | deep | st.lists(leaves, max_size=2), max_size=4)


def record_lists(*, max_size: int = 20) -> st.SearchStrategy[list[EpisodeRecord]]:
    """Draw episodes at different places."""
    sizes = st.integers(0, max_size)
    return sizes.flatmap(lambda size: st.tuples(*(records(number) for number in range(size))).map(list))


def wheres(*, max_clauses: int = 3) -> st.SearchStrategy[Where]:
    """Draw a filter of up to max_clauses comparisons over every field and operator, joined by and, or, not."""
    leaves = st.lists(compares(), max_size=max_clauses)
    return leaves.flatmap(_trees)


def compares() -> st.SearchStrategy[Compare]:
    """Draw one comparison."""
    return st.sampled_from(FIELD_NAMES).flatmap(_compares_of)


@st.composite
def _trees(draw: st.DrawFn, parts: list[Compare]) -> Where:
    if not parts:
        return draw(st.sampled_from((EVERYTHING, EVERYTHING, NOTHING)))
    trees: list[Where] = [~part if draw(st.integers(0, 3)) == 0 else part for part in parts]
    while len(trees) > 1:
        left, right = trees.pop(), trees.pop()
        joined = left & right if draw(st.booleans()) else left | right
        trees.append(~joined if draw(st.integers(0, 3)) == 0 else joined)
    return trees[0]


def _compares_of(name: str) -> st.SearchStrategy[Compare]:
    field = field_of(name)
    return st.sampled_from(field.operators).flatmap(lambda op: _compares_with(field, op))


def _compares_with(field: Field, op: str) -> st.SearchStrategy[Compare]:
    if op == "exists":
        return st.just(Compare(field.name, op))
    values = _values(field)
    if op in ("contains", "startswith") or (field.type is None and op not in ("eq", "ne", "in")):
        values = values.filter(lambda value: isinstance(value, str))
    if op == "between":
        values = st.tuples(values, values)
    elif op == "in":
        values = st.lists(values, max_size=4).filter(lambda found: len({type(v) is str for v in found}) < 2)
        if field.type is None:
            values = values.map(lambda found: [value for value in found if not isinstance(value, bool)])
    return st.builds(Compare, st.just(field.name), st.just(op), values)


def _values(field: Field) -> st.SearchStrategy[Any]:
    pool = next((name for name in (*field.parts[1:], field.root) if name in _POOLS), None)
    if pool is not None and (pool != "lane" or field.type is not int):
        return st.sampled_from(_POOLS[pool])
    if field.type is str:
        return st.sampled_from((*AWKWARD, "episode_000001", "zzz"))
    if field.type is bool:
        return st.booleans()
    if field.type is int:
        return st.sampled_from((*LENGTHS, -1, 50, 10**30, -(10**30)))
    if field.type is None:
        return st.sampled_from((*AWKWARD, *JSON_NUMBERS, True, False))
    return st.sampled_from((*REWARDS, 0, 1, 10**400)) | st.floats(allow_nan=False)


class CatalogContract:
    """What a catalog does in every database product. A subclass has a fixture `catalog`: an open, empty catalog."""

    def test_what_goes_in_comes_back(self, catalog: Catalog) -> None:
        written = _crowd(catalog)
        for number, record in written.items():
            row = catalog.get(number)
            for name in ("path", "key", "episode_id", "env_id", "length", "total_reward", "success", "digest"):
                assert getattr(row, name) == getattr(record, name), name
            assert row.metadata == record.metadata
            own = Asset("episode", record.path, record.digest, record.size, record.mtime_ns)
            assert catalog.assets([number]) == {number: record.assets or (own,)}
        (done,) = catalog.register([next(iter(written.values()))])
        assert done.outcome == "unchanged"

    def test_filters_mean_what_plain_python_says(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = catalog.rows(catalog.ids())
        facts = catalog.facts(rows)

        @settings(max_examples=100)
        @given(where=wheres(max_clauses=4))
        def agree(where: Where) -> None:
            wanted = [number for number, row in rows.items() if matches(where, row, facts[number])]
            assert catalog.ids(where) == wanted
            assert catalog.ids(where_text(where)) == wanted
            assert catalog.ids(parse_query(where_query(where))) == wanted
            assert catalog.count(where) == len(wanted)

        agree()

    def test_pages_show_every_episode_once_and_in_order(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = list(catalog.rows(catalog.ids()).values())
        for order in (f"{sign}{name}" for name in ORDERS for sign in ("", "-")):
            name, down = order.removeprefix("-"), order.startswith("-")
            there = [row for row in rows if getattr(row, name) is not None]
            missing = [row for row in rows if getattr(row, name) is None]
            expected = sorted(there, key=lambda row: (getattr(row, name), row.id), reverse=down)
            page = catalog.select(order=order, limit=7)
            seen = [*page.rows]
            while page.next is not None:
                page = catalog.select(order=order, limit=7, after=page.next)
                seen += page.rows
            assert seen == expected + sorted(missing, key=lambda row: row.id, reverse=down), order

    def test_facets_count(self, catalog: Catalog) -> None:
        _crowd(catalog)
        rows = catalog.rows(catalog.ids()).values()
        for name, found in catalog.facets(["env_id", "length", "success"]).items():
            assert dict(found) == Counter(getattr(row, name) for row in rows)
            assert [count for _, count in found] == sorted((count for _, count in found), reverse=True)

    def test_the_ledger_grows_in_the_order_of_commits_and_keeps_tombstones(self, catalog: Catalog) -> None:
        written = _crowd(catalog)
        space = catalog.add_space("another fingerprint", "another family", "{}").id
        ids = list(written)[:4]
        entries = [
            entry
            for number in ids
            for entry in catalog.write_embeddings(space, [EmbeddingRow(number, written[number].digest, 1, b"v")])
        ]
        assert list(catalog.ledger(space)) == entries
        seen = entries[-1].seq
        assert catalog.clock() >= seen
        catalog.remove(ids[1:3])
        assert [(entry.episode_id, entry.vectors) for entry in catalog.ledger(space, since=seen)] == [
            (ids[1], None),
            (ids[2], None),
        ]
        assert catalog.ledger_state(space)[:2] == (2, 2)

    def test_an_episode_of_several_files_has_them_for_itself(self, catalog: Catalog) -> None:
        whole = make_record(0, assets=_parts_of(make_record(0).path))
        chunks = [make_record(0, path=part.path, digest=part.digest) for part in whole.assets[1:]]
        ids = [done.id for done in catalog.register(chunks)]
        other = catalog.register([make_record(1)])[0].id
        space = catalog.add_space("fingerprint", "family", "{}").id
        catalog.write_embeddings(space, [EmbeddingRow(ids[0], "digest 0", 1, b"v")])
        catalog.tag([ids[0], other], "good")
        catalog.tag(ids[1:], "bad")
        catalog.add_note(ids[:2], "stack of plates", who="ann")
        catalog.review(ids[:1], "rejected", who="ann")
        catalog.review(ids[1:2], "accepted", who="bob")
        catalog.add_lineage(ids, "recorded_by", "robot 7")
        (done,) = catalog.register([whole])
        assert (done.outcome, sorted(done.superseded)) == ("new", ids)
        assert catalog.ids() == catalog.ids("asset:* OR episode:episode_000001") == [other, done.id]
        assert catalog.get(done.id).tags == ("bad", "good")
        facts = catalog.facts([done.id])[done.id]
        assert [note.who for note in facts.notes] == ["ann", "ann"]
        assert (facts.review and facts.review.state, [one.source for one in facts.lineage]) == ("accepted", ["robot 7"])
        assert catalog.ids("stack of plates") == [done.id]
        assert [(entry.episode_id, entry.vectors) for entry in catalog.ledger(space)] == [(ids[0], None)]
        (known,) = catalog.known([whole.path])[whole.path]
        assert [part.path for part in known.assets] == [part.path for part in catalog.assets([done.id])[done.id]]
        (again,) = catalog.register([whole])
        assert (again.outcome, again.superseded) == ("unchanged", ())

    def test_files_of_an_episode_grow_move_and_go_with_it(self, catalog: Catalog) -> None:
        whole = make_record(0, assets=_parts_of(make_record(0).path))
        (done,) = catalog.register([replace(whole, assets=whole.assets[:2])])
        catalog.tag([done.id], "good")
        touched = (replace(whole.assets[0], mtime_ns=10), whole.assets[1])
        catalog.register([replace(whole, assets=touched)])
        assert catalog.assets([done.id])[done.id] == touched
        catalog.register([replace(whole, digest="grown", assets=whole.assets)])
        assert catalog.assets([done.id])[done.id] == whole.assets
        parts = tuple(replace(part, path=part.path.replace("/data/set", "/data/new")) for part in whole.assets)
        moved = replace(whole, path=parts[0].path, digest="grown", assets=parts, moved_from=done.id)
        assert [one.outcome for one in catalog.register([moved])] == ["moved"]
        assert catalog.assets([done.id]) == {done.id: parts}
        assert catalog.ids("asset:chunk tag:good -asset:other") == [done.id]
        catalog.register([replace(moved, digest="one file", assets=(), moved_from=None)])
        assert [one.role for one in catalog.assets([done.id])[done.id]] == ["episode"]
        assert catalog.ids("asset:*") == []
        catalog.register([moved])
        assert catalog.remove([done.id]) == 1
        assert catalog.assets([done.id]) == {}
        assert catalog.sql("SELECT count(*) FROM asset").rows == ((0,),)

    def test_loading_is_registering(self, catalog: Catalog) -> None:
        known = _crowd(catalog)
        fresh = [make_record(number, metadata={"task": f"stack cube {number}"}) for number in range(100, 130)]
        changed = [replace(record, digest=f"new {record.digest}") for record in list(known.values())[:5]]
        outcomes = catalog.load([fresh[:20], [*fresh[20:], *changed], list(known.values())[5:]])
        assert outcomes == {"new": 30, "changed": 5, "unchanged": len(known) - 5}
        assert [row.episode_id for row in catalog.rows(catalog.ids('"stack cube"')).values()] == [
            record.episode_id for record in fresh
        ]
        assert catalog.count() == len(known) + 30

    def test_lanes_of_an_older_archive_are_completed_when_an_episode_is_read_again(self, catalog: Catalog) -> None:
        older = tuple(replace(lane, rate=None, storage=None) for lane in LANES)
        (done,) = catalog.register([make_record(1, lanes=older)])
        catalog.tag([done.id], "good")
        asked = "lane.action/joint.codec:zstd lane.action/joint.bytes:>=1600 lane.action/joint.stored:..320"
        assert catalog.ids(asked) == []
        assert catalog.facts([done.id])[done.id].lanes["action/joint"].storage is None
        (again,) = catalog.register([make_record(1, mtime_ns=5)])
        assert (again.id, again.outcome) == (done.id, "unchanged")
        assert catalog.ids(f"{asked} lane.action/joint.rate:50 tag:good -lane.signal/camera.codec:*") == [done.id]
        lanes = catalog.facts([done.id])[done.id].lanes
        assert {name: (lane.rate, lane.storage) for name, lane in lanes.items()} == {
            lane.name: (lane.rate, lane.storage) for lane in LANES
        }
        assert catalog.facets(["lane.action/joint.codec"])["lane.action/joint.codec"] == [("zstd", 1)]

    def test_a_load_that_fails_leaves_nothing(self, catalog: Catalog) -> None:
        known = _crowd(catalog)

        def batches() -> Iterator[list[EpisodeRecord]]:
            yield [make_record(number, metadata={"task": "stack cube"}) for number in range(100, 120)]
            raise KeyboardInterrupt

        try:
            catalog.load(batches())
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("expected the interruption, found none")
        assert catalog.count() == len(known)
        assert catalog.ids("stack") == []
        catalog.add_note(list(known)[:1], "stack of plates")
        assert catalog.ids("stack") == list(known)[:1]

    def test_sql_reads_and_does_nothing_else(self, catalog: Catalog) -> None:
        known = _crowd(catalog)
        assert catalog.sql("SELECT count(*) AS n FROM episode").rows == ((len(known),),)
        for text in ("DELETE FROM tag", "SELECT 1; DELETE FROM tag", "nonsense", ""):
            try:
                catalog.sql(text)
            except StatementError:
                continue
            raise AssertionError(f"expected a StatementError for {text!r}")
        assert catalog.count("tag:good") > 0


def _parts_of(path: str) -> tuple[Asset, ...]:
    """Return the files of an episode at this path as of one that consists of a manifest and chunks."""
    chunks = (Asset("chunk", f"{path}.parts/{part}.wshard", f"digest {part}", 10, part) for part in range(3))
    return Asset("manifest", path, "digest of the manifest", 5, 9), *chunks


def _crowd(catalog: Catalog) -> dict[int, EpisodeRecord]:
    """Register forty varied episodes, say something of them, and return the records by id."""
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
            assets=_parts_of(make_record(number).path) if number % 4 == 0 else (),
        )
        for number in range(40)
    ]
    ids = [done.id for done in catalog.register(records)]
    for name in TAGS:
        catalog.tag(dice.sample(ids, 12), name)
    for text in PHRASES:
        catalog.add_note(dice.sample(ids, 6), text, who="ann")
    catalog.review(dice.sample(ids, 12), "accepted", who="ann")
    catalog.set_scores("quality", {number: dice.choice((0.0, 0.5, 1e300)) for number in dice.sample(ids, 12)})
    space = catalog.add_space("fingerprint", "family", "{}").id
    catalog.write_embeddings(space, [EmbeddingRow(ids[number], records[number].digest, 1, b"v") for number in (0, 1)])
    return dict(zip(ids, records, strict=True))
