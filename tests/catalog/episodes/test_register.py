"""What registering does with new, changed, unchanged, moved and removed episodes."""

from __future__ import annotations

import math
import shutil
from dataclasses import fields, replace
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import Asset, Catalog, EmbeddingRow, LaneRecord, Spread, build_where
from catalog.testing.contract import AWKWARD, LANES, make_record, record_lists
from catalog.testing.records import SPREADS, pack
from wshard import EpisodeAddress
from wshard.errors import EntryNotFoundError, FilterError, IngestError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def catalog(location: Path | str) -> Iterator[Catalog]:
    with Catalog.open(location, create=True) as opened:
        yield opened


def test_a_new_episode_comes_back_as_it_went_in(catalog: Catalog) -> None:
    record = make_record(7, key="episode 7", metadata={"a": [1, 2.5, None], "ü": {"b": True}})
    (done,) = catalog.episodes.register([record])
    row = catalog.episodes.get(done.uid)
    assert done.outcome == "new"
    assert row == catalog.episodes.get(done.id)
    for name in ("path", "key", "episode_id", "env_id", "length", "total_reward", "success", "digest", "size"):
        assert getattr(row, name) == getattr(record, name), name
    assert row.mtime_ns == record.mtime_ns
    assert row.metadata == record.metadata
    assert row.ingested_at.endswith("+00:00")
    assert row.tags == ()
    (layout,) = catalog.query.layouts()
    assert (layout.id, layout.episodes) == (row.layout_id, 1)
    assert [(lane.name, lane.dtype, lane.shape) for lane in layout.lanes] == sorted(
        (lane.name, lane.dtype, lane.shape) for lane in LANES
    )
    assert list(catalog.query.spreads([layout.id], "action/joint")) == [(100, tuple(chain.from_iterable(SPREADS)))]
    assert list(catalog.query.spreads([layout.id], "signal/camera")) == []


@given(records=record_lists(max_size=8))
def test_awkward_values_come_back_as_they_went_in(records, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("awkward")
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        done = catalog.episodes.register(records)
        for record, registered in zip(records, done, strict=True):
            row = catalog.episodes.get(registered.uid)
            assert row.id == registered.id
            elsewhere = {"lanes", "moved_from", "displaces", "metadata", "assets"}
            for name in {field.name for field in fields(record) if field.init} - elsewhere:
                assert getattr(row, name) == getattr(record, name), name
            assert row.metadata == record.metadata
    shutil.rmtree(folder)


def test_registering_again_changes_nothing(catalog: Catalog) -> None:
    records = [make_record(number) for number in range(20)]
    first = catalog.episodes.register(records)
    before, clock = catalog.episodes.rows([done.id for done in first]), catalog.clock()
    again = catalog.episodes.register(records)
    assert [(done.id, done.uid) for done in again] == [(done.id, done.uid) for done in first]
    assert {done.outcome for done in again} == {"unchanged"}
    assert catalog.episodes.rows([done.id for done in first]) == before
    assert catalog.clock() == clock


def test_an_equal_digest_refreshes_only_what_says_when_to_look_again(catalog: Catalog) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    before = catalog.episodes.get(first.id)
    catalog.episodes.register([make_record(1, size=5, mtime_ns=6, env_id="other")])
    assert catalog.episodes.get(first.id) == before._replace(size=5, mtime_ns=6)


def test_another_digest_replaces_the_episode_and_keeps_its_identity(catalog: Catalog) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    catalog.annotations.tag([first.id], "good")
    other = (Spread(0.0, 2.0, 1.0, 0.5), Spread(-1.0, 0.0, -0.25, 0.125))
    lanes = (LaneRecord("signal/state", "f64", (2,), 7, spread=pack(*other)),)
    changed = make_record(1, digest="other", env_id="env-new", length=7, total_reward=None, lanes=lanes)
    assert catalog.episodes.register([changed]) == [replace(first, outcome="changed")]
    row = catalog.episodes.get(first.id)
    assert (row.uid, row.tags, row.env_id, row.length, row.total_reward) == (first.uid, ("good",), "env-new", 7, None)
    (layout,) = catalog.query.layouts()
    assert (layout.id, layout.episodes) == (row.layout_id, 1)
    assert list(catalog.query.spreads([layout.id], "signal/state")) == [(7, (*other[0], *other[1]))]


def test_of_two_records_for_one_place_the_later_wins(catalog: Catalog) -> None:
    one, two = make_record(1, digest="one"), make_record(1, digest="two")
    done = catalog.episodes.register([one, make_record(2), two])
    assert [registered.outcome for registered in done] == ["new", "new", "changed"]
    assert done[0].id == done[2].id
    assert catalog.episodes.get(done[0].id).digest == "two"


def test_a_moved_episode_keeps_identity_tags_and_vectors(catalog: Catalog) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    catalog.annotations.tag([first.id], "good")
    space = catalog.vectors.add_space("fingerprint", "family", "{}")
    (entry,) = catalog.vectors.write(space.id, [EmbeddingRow(first.id, make_record(1).digest, 1, b"vector")])
    moved = make_record(1, folder="/elsewhere", moved_from=first.id)
    assert catalog.episodes.register([moved]) == [replace(first, outcome="moved")]
    row = catalog.episodes.get(first.uid)
    assert (row.path, row.tags) == (moved.path, ("good",))
    assert list(catalog.vectors.ledger(space.id)) == [entry]
    assert catalog.episodes.known([make_record(1).path]) == {}


def test_a_new_file_at_the_place_of_a_moved_one_gets_its_own_uid(catalog: Catalog) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    catalog.episodes.register([make_record(1, folder="/elsewhere", moved_from=first.id)])
    (second,) = catalog.episodes.register([make_record(1, digest="second")])
    catalog.episodes.register([make_record(1, folder="/third", digest="second", moved_from=second.id)])
    (third,) = catalog.episodes.register([make_record(1, digest="third")])
    assert second.outcome == third.outcome == "new"
    assert len({first.uid, second.uid, third.uid}) == 3


def test_the_uid_depends_on_the_place_alone(catalog: Catalog, tmp_path: Path) -> None:
    with Catalog.open(tmp_path / "other.db", create=True) as other:
        other.episodes.add_root("/data/set")
        assert other.episodes.register([make_record(1)])[0].uid == catalog.episodes.register([make_record(1)])[0].uid


def test_a_move_and_a_new_file_at_the_old_place_in_one_batch(catalog: Catalog) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    moved = make_record(1, folder="/elsewhere", moved_from=first.id)
    done = catalog.episodes.register([moved, make_record(1, digest="fresh")])
    assert [registered.outcome for registered in done] == ["moved", "new"]
    assert done[0].id == first.id
    assert [catalog.episodes.get(registered.id).digest for registered in done] == [moved.digest, "fresh"]


def test_two_swapped_files_are_two_changed_episodes(catalog: Catalog) -> None:
    one, two = make_record(1), make_record(2)
    first, second = catalog.episodes.register([one, two])
    swapped = [
        replace(one, digest=two.digest, moved_from=second.id),
        replace(two, digest=one.digest, moved_from=first.id),
    ]
    assert [done.outcome for done in catalog.episodes.register(swapped)] == ["changed", "changed"]
    assert catalog.episodes.get(first.id).digest == two.digest


@pytest.mark.parametrize("reason", ["other digest", "unknown id", "still there", "claimed twice"])
def test_a_move_that_cannot_be_is_a_new_episode(catalog: Catalog, reason: str) -> None:
    (first,) = catalog.episodes.register([make_record(1)])
    moved = make_record(1, folder="/elsewhere", moved_from=first.id)
    before = {
        "other digest": [replace(moved, digest="other")],
        "unknown id": [replace(moved, moved_from=10**6)],
        "still there": [make_record(1), moved],
        "claimed twice": [make_record(1, folder="/winner", moved_from=first.id), moved],
    }[reason]
    assert catalog.episodes.register(before)[-1].outcome == "new"


def test_removing_takes_rows_lanes_and_tags_and_never_reuses_an_id(catalog: Catalog) -> None:
    done = catalog.episodes.register([make_record(number) for number in range(3)])
    catalog.annotations.tag([registered.id for registered in done], "good")
    assert catalog.episodes.remove([done[2].id, done[1].id, 10**6, 2**70]) == 2
    assert [row.id for row in catalog.query.select().rows] == [done[0].id]
    for table in ("lane", "tag"):
        assert catalog.query.sql(f"SELECT DISTINCT episode_row FROM {table}").rows == ((done[0].id,),)
    assert catalog.episodes.register([make_record(9)])[0].id > done[2].id
    with pytest.raises(EntryNotFoundError, match="expected the id"):
        catalog.episodes.get(done[1].id)


def test_the_clock_advances_with_every_change_and_only_then(catalog: Catalog) -> None:
    changes = [
        lambda: catalog.episodes.register([make_record(1)]),
        lambda: catalog.episodes.register([make_record(1, digest="other")]),
        lambda: catalog.episodes.register([make_record(1, digest="other", size=5)]),
        lambda: catalog.annotations.tag([1], "good"),
        lambda: catalog.annotations.untag([1], "good"),
        lambda: catalog.episodes.remove([1]),
    ]
    for change in changes:
        before = catalog.clock()
        change()
        assert catalog.clock() > before
        before = catalog.clock()
        if change is not changes[0]:
            change()
            assert catalog.clock() == before


def test_tags_can_be_set_searched_and_taken_off(catalog: Catalog) -> None:
    ids = [done.id for done in catalog.episodes.register([make_record(number) for number in range(4)])]
    assert catalog.annotations.tag([*ids[:2], 10**6], "good") == 2
    assert catalog.annotations.tag(ids[:3], "good") == 1
    catalog.annotations.tag(ids[:1], "a")
    assert catalog.episodes.get(ids[0]).tags == ("a", "good")
    assert catalog.query.ids(build_where(tag="good")) == ids[:3]
    assert catalog.annotations.untag(ids, "good") == 3
    assert catalog.query.ids(build_where(tag=["good", "a"])) == ids[:1]
    with pytest.raises(FilterError, match="expected a tag: text in UTF-8 without NUL, not empty"):
        catalog.annotations.tag(ids, "nul\0")


def test_equal_digests_are_found(catalog: Catalog) -> None:
    catalog.episodes.register([make_record(1), make_record(2, digest="twin"), make_record(3, digest="twin")])
    assert [row.episode_id for row in catalog.episodes.by_digest(["twin", "absent", "\ud800"])] == [
        "episode_000002",
        "episode_000003",
    ]


def test_known_lists_the_episodes_of_a_file_by_key(catalog: Catalog) -> None:
    path = make_record(1).path
    records = [make_record(1, key=key, digest=f"digest of {key}") for key in ("b", "a")]
    done = catalog.episodes.register([*records, make_record(2)])
    found = catalog.episodes.known([path, "/absent", "relative", "\ud800", "/", f"{path}\udcff", f"{path}\0"])
    assert list(found) == [path]
    assert [(known.id, known.key, known.digest) for known in found[path]] == [
        (done[1].id, "a", "digest of a"),
        (done[0].id, "b", "digest of b"),
    ]
    assert len(catalog.episodes.known([make_record(number).path for number in range(5_000)])) == 2


@pytest.mark.parametrize("folder", ["/data/\udcff", "/data/\0"])
def test_a_root_that_no_database_can_hold_is_refused(catalog: Catalog, folder: str) -> None:
    with pytest.raises(IngestError, match="in UTF-8"):
        catalog.episodes.add_root(folder)


def test_a_root_added_later_does_not_hide_known_episodes(catalog: Catalog) -> None:
    deep = make_record(1, folder="/data/set/deep/er")
    (first,) = catalog.episodes.register([deep])
    for folder in ("/data", "/", "/data/set/deep/", "/data/set/deep/er/../er"):
        root = catalog.episodes.add_root(folder)
        assert catalog.episodes.add_root(folder) == root
        assert catalog.episodes.register([deep]) == [replace(first, outcome="unchanged")]
        assert catalog.episodes.get(first.id).path == deep.path


def test_places_lists_a_folder_and_nothing_beside_it(catalog: Catalog) -> None:
    folders = ("/data/set", "/data/set-2", "/data/set/sub", "/data/set0", "/data/set.d", "/data/SET", "/data/s%t", "/x")
    catalog.episodes.add_root("/data")
    done = catalog.episodes.register([make_record(1, folder=folder) for folder in folders])
    everything = {
        (registered.id, EpisodeAddress(f"{folder}/episode_000001.wshard"))
        for registered, folder in zip(done, folders, strict=True)
    }
    assert set(catalog.episodes.places()) == everything
    for prefix in (*folders, "/data", "/", "/absent", "/data/set/episode_000001.wshard", "/data/s", "/\ud800"):
        below = {
            place for place in everything if place[1].uri == prefix or place[1].uri.startswith(prefix.rstrip("/") + "/")
        }
        assert set(catalog.episodes.places(prefix)) == below, prefix


def test_places_crosses_chunks(catalog: Catalog) -> None:
    records = [make_record(number // 2, key=str(number % 2), digest=str(number)) for number in range(2300)]
    done = catalog.episodes.register(records)
    assert sorted(catalog.episodes.places("/data")) == [(d.id, r.address) for d, r in zip(done, records, strict=True)]


def test_an_archive_folder_can_be_moved_as_a_whole(tmp_path: Path) -> None:
    old, new = tmp_path / "old place", tmp_path / "new"
    inside, outside = make_record(1, folder=f"{old}/episodes"), make_record(2)
    beside = make_record(3, folder=str(old))
    with Catalog.open(old / "catalog.db", create=True) as catalog:
        catalog.episodes.add_root(f"{old}/episodes")
        done = catalog.episodes.register([inside, outside, beside])
    old.rename(new)
    with Catalog.open(new / "catalog.db") as catalog:
        there = f"{new}/episodes/episode_000001.wshard"
        assert catalog.episodes.get(done[0].uid).path == there
        assert catalog.episodes.get(done[1].id).path == outside.path
        assert catalog.episodes.get(done[2].id).path == f"{new}/episode_000003.wshard"
        assert [known.id for known in catalog.episodes.known([there])[there]] == [done[0].id]
        assert catalog.episodes.register([replace(inside, path=there)]) == [replace(done[0], outcome="unchanged")]
        assert (done[0].id, EpisodeAddress(there)) in set(catalog.episodes.places(str(new)))


def test_two_roots_that_a_move_made_the_same_folder_give_one_answer(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    with Catalog.open(old / "catalog.db", create=True) as catalog:
        catalog.episodes.add_root(f"{old}/episodes")
        catalog.episodes.add_root(f"{new}/episodes")
        first, second = catalog.episodes.register([make_record(1, folder=f"{place}/episodes") for place in (old, new)])
    old.rename(new)
    with Catalog.open(new / "catalog.db") as catalog:
        path = f"{new}/episodes/episode_000001.wshard"
        assert catalog.episodes.get(first.id).path == catalog.episodes.get(second.id).path == path
        assert [known.id for known in catalog.episodes.known([path])[path]] == [first.id]
        record = make_record(1, folder=f"{new}/episodes")
        assert catalog.episodes.register([record]) == [replace(first, outcome="unchanged")]


@pytest.mark.parametrize(
    "changes",
    [
        {"path": "relative"},
        {"path": "/a/../b"},
        {"path": "//a"},
        {"path": "/a\ud800"},
        {"episode_id": "nul\0"},
        {"env_id": "\udc80"},
        {"key": 3},
        {"length": -1},
        {"length": True},
        {"length": 2**63},
        {"size": 1.5},
        {"mtime_ns": -(2**64)},
        {"total_reward": "3"},
        {"total_reward": True},
        {"total_reward": 10**400},
        {"success": 1},
        {"metadata": {"a": {1, 2}}},
        {"lanes": (LANES[0], LANES[0])},
        {"assets": (Asset("chunk", "/elsewhere/a.wshard", "d", 1, 1),)},
        {"assets": (Asset("chunk", "/data/set/../a.wshard", "d", 1, 1),)},
        {"assets": (Asset("chunk", "/data/set/a.wshard", "\0", 1, 1),)},
        {"assets": (Asset("chunk", "/data/set/a.wshard", "d", -1, 1),)},
        {"assets": (Asset("chunk", "/data/set/a.wshard", "d", 1, 1),) * 2},
        {"lanes": (replace(LANES[0], shape=(-1,)),)},
        {"lanes": (replace(LANES[0], name="\0"),)},
    ],
)
def test_what_no_database_can_hold_is_refused_before_it_spoils_a_batch(changes) -> None:
    with pytest.raises(IngestError, match=r"expected|must"):
        make_record(1, **changes)


def test_a_reward_that_is_not_a_number_is_missing() -> None:
    assert make_record(1, total_reward=math.nan).total_reward is None
    assert make_record(1, total_reward=3).total_reward == 3.0


@given(data=st.data())
def test_hostile_text_is_only_text(data, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    text = st.sampled_from(AWKWARD)
    with Catalog.open(folder / "catalog.db", create=True) as catalog:
        names = {name: data.draw(text) for name in ("key", "episode_id", "env_id", "digest")}
        lanes = (LaneRecord(data.draw(text), data.draw(text), (1,), 1, spread=pack(Spread(0.0, 2.0, 1.0, 0.5))),)
        path = f"/{data.draw(text).replace('/', '')}/x"
        (done,) = catalog.episodes.register([make_record(1, path=path.replace("//", "/"), lanes=lanes, **names)])
        row = catalog.episodes.get(done.uid)
        assert {name: getattr(row, name) for name in names} == names
        label = data.draw(text.filter(str.strip))  # a tag is not empty
        assert catalog.annotations.tag([done.id], label) == 1
        assert catalog.query.ids(build_where(tag=label, env_id=names["env_id"])) == [done.id]
        assert [found.id for found in catalog.episodes.by_digest([names["digest"]])] == [done.id]
        assert [known.id for known in catalog.episodes.known([row.path])[row.path]] == [done.id]
        assert list(catalog.query.spreads([row.layout_id], lanes[0].name)) == [(1, (0.0, 2.0, 1.0, 0.5))]
        assert list(catalog.episodes.places(row.path)) == [(done.id, row.address)]
        space = catalog.vectors.add_space(data.draw(text), data.draw(text), data.draw(text))
        assert catalog.vectors.spaces("'; DROP TABLE space; --") == []
        assert catalog.vectors.spaces() == [space]
    shutil.rmtree(folder)
